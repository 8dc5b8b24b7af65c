package log

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// bundleMagic begins a bundle. The algorithm of its chain follows.
const bundleMagic = "ferment-workspace-bundle 1\n"

// BundleWriter writes records to a stream in the form of a log of its own: each
// record has a chain value that depends on all records before it, and the last
// record counts them, so that a reader can verify that the stream is complete
// and unchanged.
type BundleWriter struct {
	w       io.Writer
	alg     id.Alg
	chain   chain
	records int
	bytes   int64
	buffer  []byte
}

// NewBundle begins a bundle on w. The caller must call Close to end it.
func NewBundle(w io.Writer, alg id.Alg) (*BundleWriter, error) {
	b := &BundleWriter{w: w, alg: alg}
	return b, b.write(kindSegment, append([]byte(bundleMagic), byte(alg)))
}

// Add writes a record.
func (b *BundleWriter) Add(r Record) error {
	b.records++
	return b.write(r.Kind, r.Payload)
}

// Close ends the bundle.
func (b *BundleWriter) Close() error {
	return b.write(kindCommit, Commit{Records: b.records}.payload())
}

// Bytes returns the number of bytes written so far.
func (b *BundleWriter) Bytes() int64 { return b.bytes }

func (b *BundleWriter) write(kind byte, payload []byte) error {
	b.buffer, b.chain = appendRecord(b.buffer[:0], b.alg, b.chain, kind, payload)
	n, err := b.w.Write(b.buffer)
	b.bytes += int64(n)
	return err
}

var (
	errBundle    = errors.New("the data is not a bundle of records, or has a newer version")
	errBundleEnd = errors.New("the bundle is truncated, or has data after its last record")
	errChain     = errors.New("the chain value of a record does not match")
)

// ReadBundle reads a bundle and passes its records to visit. It returns an error
// at the first byte that does not verify, and the first error of visit; visit has
// then received the records before it.
func ReadBundle(r io.Reader, visit func(Record) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	begin, stored, err := readRecord(in)
	if err != nil && !errors.Is(err, errBundle) && !errors.Is(err, errBundleEnd) {
		return err
	}
	if err != nil || begin.Kind != kindSegment || len(begin.Payload) != len(bundleMagic)+1 || !bytes.HasPrefix(begin.Payload, []byte(bundleMagic)) {
		return errBundle
	}
	alg := id.Alg(begin.Payload[len(bundleMagic)])
	if alg != id.BLAKE3 && alg != id.SHA256 {
		return errBundle
	}
	if alg.Chain(chain{}, begin.Kind, begin.Payload) != stored {
		return errChain
	}
	before := stored
	for n := 0; ; n++ {
		record, stored, err := readRecord(in)
		if err != nil {
			return err
		}
		if alg.Chain(before, record.Kind, record.Payload) != stored {
			return errChain
		}
		before = stored
		if record.Kind == kindCommit {
			c, err := parseCommit(record.Payload)
			if _, more := in.ReadByte(); err != nil || c.Records != n || !errors.Is(more, io.EOF) {
				return errBundleEnd
			}
			return nil
		}
		if record.Kind < FirstKind {
			return errBundle
		}
		if err := visit(record); err != nil {
			return err
		}
	}
}

// BeginsBundle reports whether the first bytes of a file can be those of a bundle.
func BeginsBundle(head []byte) bool {
	begin := binary.BigEndian.AppendUint32(nil, uint32(1+len(bundleMagic)+1))
	begin = append(append(begin, kindSegment), bundleMagic...)
	n := min(len(head), len(begin))
	return bytes.Equal(head[:n], begin[:n])
}

// readRecord reads one record. Memory grows with what is there, not with the
// length that it claims.
func readRecord(in *bufio.Reader) (r Record, stored chain, err error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return r, stored, shortRead(err)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n < 1 || n > MaxPayload+1 {
		return r, stored, errBundle
	}
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, in, n-1); err != nil {
		return r, stored, shortRead(err)
	}
	if _, err := io.ReadFull(in, stored[:]); err != nil {
		return r, stored, shortRead(err)
	}
	return Record{Kind: head[4], Payload: payload.Bytes()}, stored, nil
}

func shortRead(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errBundleEnd
	}
	return err
}
