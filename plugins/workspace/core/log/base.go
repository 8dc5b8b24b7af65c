package log

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// base is the second record of the first segment of a rewritten log: see Rewrite. It is followed by
// the transactions up to last, with gaps for those that were lost, and by transaction last+1.
type base struct {
	last uint64
	keep bool // the segments before it are kept in quarantine
}

const baseMagic = "ferment-workspace-base 1\n"

func (b base) payload() []byte {
	kept := byte(0)
	if b.keep {
		kept = 1
	}
	return append(binary.AppendUvarint([]byte(baseMagic), b.last), kept)
}

var errBase = errors.New("the record that begins a rewritten log is malformed")

func parseBase(payload []byte) (b base, err error) {
	if len(payload) < len(baseMagic)+2 || string(payload[:len(baseMagic)]) != baseMagic {
		return b, errBase
	}
	last, n := binary.Uvarint(payload[len(baseMagic):])
	if n <= 0 || len(payload) != len(baseMagic)+n+1 {
		return b, errBase
	}
	return base{last: last, keep: payload[len(payload)-1] == 1}, nil
}

// head is the start of a segment.
type head struct {
	before chain // chain value before the segment
	base   *base
	size   int64 // of the records of the log itself
	valid  bool  // the first two records verify
}

// readHead reads the first two records of a segment.
func readHead(dir string, number int, alg id.Alg) (h head, err error) {
	f, err := os.Open(filepath.Join(dir, SegmentName(number)))
	if err != nil {
		return h, err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 512)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return h, err
	}
	b = b[:n]
	_, payload, stored, ok := frame(b)
	if !ok {
		return h, nil
	}
	before, err := parseSegment(payload, number)
	if err != nil || alg.Chain(before, kindSegment, payload) != stored || b[4] != kindSegment {
		return h, nil
	}
	h.before, h.size = before, segmentHeader
	b = b[segmentHeader:]
	kind, payload, second, ok := frame(b)
	if !ok {
		h.valid = len(b) >= 5 && b[4] != kindBase // a record that is larger than what was read
		return h, nil
	}
	if h.valid = alg.Chain(stored, kind, payload) == second; h.valid && kind == kindBase {
		parsed, err := parseBase(payload)
		if h.valid = err == nil; h.valid {
			h.base, h.size = &parsed, h.size+int64(overhead+len(payload))
		}
	}
	return h, nil
}

// origin describes the start of a log.
type origin struct {
	segments []int // those to read
	older    []int // those that a rewritten log replaces
	head     head  // of the first segment
	// unfinished is the segment at which an unfinished rewriting begins, 0 if there
	// is none.
	unfinished int
}

// findOrigin returns the start of the log: the last finished rewriting, else the first segment.
func findOrigin(dir string, alg id.Alg) (o origin, err error) {
	if o.segments, err = segments(dir); err != nil || len(o.segments) == 0 {
		return o, err
	}
	for i := len(o.segments) - 1; i >= 0; i-- {
		h, err := readHead(dir, o.segments[i], alg)
		if err != nil {
			return o, err
		}
		if h.base == nil && i > 0 {
			continue
		}
		if i > 0 { // the segments before it decide nothing if it is finished
			r := reader{dir: dir, alg: alg}
			r.begin(o.segments[i], h)
			if _, err := r.readSegments(o.segments[i:], func(*Transaction) error { return nil }); err != nil {
				return o, err
			}
			if r.last.Seq <= h.base.last {
				o.unfinished, o.segments = o.segments[i], o.segments[:i]
				continue
			}
		}
		o.older, o.segments, o.head = o.segments[:i], o.segments[i:], h
		return o, nil
	}
	return o, nil
}

// First returns the first length bytes of the first record of the caller, and the number of its
// segment. It does not verify them and does not change the log.
func First(dir string, alg id.Alg, length int) (begin []byte, segment int, err error) {
	o, err := findOrigin(dir, alg)
	if err != nil {
		return nil, 0, ioError("read", dir, err)
	}
	for _, n := range o.segments {
		offset := int64(segmentHeader + 5)
		if n == o.segments[0] && o.head.base != nil {
			offset = o.head.size + 5
		}
		if info, err := os.Stat(filepath.Join(dir, SegmentName(n))); err != nil || info.Size() < offset {
			continue // the first record did not fit behind the head
		}
		l := Follow(dir, alg)
		begin, err := l.Read(Place{Segment: n, Offset: offset, Length: length})
		return begin, n, errors.Join(err, l.Close())
	}
	return nil, 0, ioError("read", dir, io.ErrUnexpectedEOF)
}

// begins returns why the first segment cannot be the start of a log, nil if it can.
func (o *origin) begins() *Damage {
	if len(o.segments) == 0 || o.segments[0] == 1 || o.head.base != nil {
		return nil
	}
	if !o.head.valid {
		return &Damage{File: SegmentName(o.segments[0]), Reason: "the log begins with it, and its first records do not verify"}
	}
	return &Damage{File: SegmentName(o.segments[0] - 1), Reason: "the segment is missing"}
}

// tidy removes the segments that a rewritten log replaced, or moves them to the
// quarantine.
func (l *Log) tidy(older []int, keep bool) error {
	for _, n := range slices.Backward(older) {
		path := filepath.Join(l.dir, SegmentName(n))
		err := l.o.Faults.do(OpRemove, func() error {
			if keep {
				return moveAway(path, l.o.Quarantine)
			}
			return l.root.Remove(SegmentName(n))
		})
		if err != nil {
			return ioError("remove", SegmentName(n), err)
		}
	}
	if len(older) == 0 {
		return nil
	}
	if keep { // the copies must be durable before the removal is
		if err := l.o.syncDir(l.o.Quarantine); err != nil {
			return ioError("quarantine", l.o.Quarantine, err)
		}
	}
	if err := l.o.Faults.do(OpSyncDir, func() error { return l.o.syncDir(l.dir) }); err != nil {
		return ioError("remove", l.dir, err)
	}
	return nil
}
