package log

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// Kinds of records that the log itself writes. Kinds from FirstKind on belong to
// the caller.
const (
	kindSegment = 1
	kindCommit  = 2
	kindBase    = 3
	FirstKind   = 16
)

// Limits of a log.
const (
	SegmentSize = 64 << 20
	MaxPayload  = 32 << 20
	overhead    = 4 + 1 + id.ChainSize
)

// Record is one entry of a transaction.
type Record struct {
	Kind    byte
	Payload []byte
}

// Commit ends a transaction.
type Commit struct {
	Seq     uint64
	Batch   uint64 // seq of the first transaction that was synchronized together with this one
	Time    int64  // nanoseconds since 1970
	Records int
	Actor   string
}

func (c Commit) payload() []byte {
	b := binary.AppendUvarint(nil, c.Seq)
	b = binary.AppendUvarint(b, c.Batch)
	b = binary.AppendVarint(b, c.Time)
	b = binary.AppendUvarint(b, uint64(c.Records))
	return append(b, c.Actor...)
}

var errCommit = errors.New("the commit record is malformed")

func parseCommit(b []byte) (c Commit, err error) {
	number := func() uint64 {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = errCommit, nil
			return 0
		}
		b = b[n:]
		return x
	}
	c.Seq, c.Batch = number(), number()
	t, n := binary.Varint(b)
	if n <= 0 {
		return c, errCommit
	}
	b = b[n:]
	c.Time, c.Records = t, int(number())
	c.Actor = string(b)
	return c, err
}

// Place is the position of a payload.
type Place struct {
	Segment int
	Offset  int64 // of the payload in the file of the segment
	Length  int
}

type chain = [id.ChainSize]byte

// appendRecord appends the bytes of a record and returns the next chain value.
func appendRecord(b []byte, alg id.Alg, before chain, kind byte, payload []byte) ([]byte, chain) {
	next := alg.Chain(before, kind, payload)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)+1))
	b = append(append(b, kind), payload...)
	return append(b, next[:]...), next
}

const segmentMagic = "ferment-workspace-log 1\n"

func segmentPayload(number int, before chain) []byte {
	b := binary.BigEndian.AppendUint64([]byte(segmentMagic), uint64(number))
	return append(b, before[:]...)
}

// parseSegment returns the chain value before a segment.
func parseSegment(b []byte, number int) (before chain, err error) {
	want := segmentPayload(number, before)
	head := len(want) - len(before)
	if len(b) != len(want) || string(b[:head]) != string(want[:head]) {
		return before, fmt.Errorf("the first record does not belong to segment %d", number)
	}
	copy(before[:], b[head:])
	return before, nil
}

// SegmentSuffix ends the name of every segment.
const SegmentSuffix = ".seg"

// SegmentName returns the name of the file of a segment.
func SegmentName(number int) string { return fmt.Sprintf("%08d"+SegmentSuffix, number) }

func segmentNumber(name string) (int, bool) {
	var n int
	if _, err := fmt.Sscanf(name, "%08d"+SegmentSuffix, &n); err != nil || SegmentName(n) != name || n < 1 {
		return 0, false
	}
	return n, true
}
