package log

import (
	"errors"
	"os"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Draft is a transaction that is to be appended.
type Draft struct {
	Actor   string
	Time    int64
	Records []Record
}

func (d Draft) commit(seq, batch uint64) Commit {
	return Commit{Seq: seq, Batch: batch, Time: d.Time, Records: len(d.Records), Actor: d.Actor}
}

// Cursor is the position at which Append will write the next record, so that an index
// can be given the places of records in advance.
type Cursor struct {
	segment      int
	offset, size int64
}

// Cursor returns the end of the log.
func (l *Log) Cursor() Cursor { return Cursor{l.end.Segment, l.end.Offset, l.o.SegmentSize} }

// Next returns the place of a record whose payload has n bytes, and moves the cursor
// behind it.
func (c *Cursor) Next(n int) Place {
	if c.full(n) {
		c.segment, c.offset = c.segment+1, segmentHeader
	}
	p := Place{Segment: c.segment, Offset: c.offset + 5, Length: n}
	c.offset += int64(overhead + n)
	return p
}

// full reports whether a record begins another segment.
func (c *Cursor) full(n int) bool {
	return c.segment == 0 || c.offset+int64(overhead+n) > c.size && c.offset > segmentHeader
}

// Commit moves the cursor behind the commit record of a transaction whose records were
// passed to Next. seq is its number, batch that of the first transaction of the same
// call of Append.
func (c *Cursor) Commit(d Draft, seq, batch uint64) { c.Next(len(d.commit(seq, batch).payload())) }

// Append writes transactions and makes them durable with one fsync. It returns them as they would
// be read back. If a write fails, none of them is in the log. If the fsync fails, it is unknown
// which of them are, and the log rejects further writes.
func (l *Log) Append(drafts ...Draft) ([]Transaction, error) {
	if l.failed != nil {
		return nil, contract.Errorf("store/read-only", "the log is read-only after an earlier failure: %w", l.failed)
	}
	w := writer{log: l, at: l.end, file: l.file}
	done := make([]Transaction, 0, len(drafts))
	var err error
	for _, d := range drafts {
		var t Transaction
		if t, err = w.transaction(d, l.end.Seq+1); err != nil {
			break
		}
		done = append(done, t)
	}
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return nil, l.undo(&w, err)
	}
	if err := w.sync(); err != nil {
		w.discard()
		l.failed = err
		return nil, ioError("sync", l.dir, err)
	}
	l.end = w.at
	if w.file != l.file {
		if l.file != nil {
			_ = l.file.Close() // it is durable: sync wrote it
		}
		l.file = w.file
	}
	return done, nil
}

// Revert removes the transactions after end, which an earlier call of End returned. No Rewrite may
// have happened since. If it fails, it is unknown which of them are in the log, and the log rejects
// further writes.
func (l *Log) Revert(end Checkpoint) error {
	if l.failed != nil {
		return l.failed
	}
	err := l.file.Close()
	l.file, l.end = nil, end
	l.mu.Lock()
	for n, f := range l.files {
		if n > end.Segment { // another segment may get the number
			err = errors.Join(err, f.Close())
			delete(l.files, n)
		}
	}
	l.mu.Unlock()
	if err = errors.Join(err, l.cut()); err == nil {
		err = l.openLast()
	}
	l.failed = err
	return err
}

// undo cuts off the bytes of a failed write and returns the error of Append. If that fails, the log
// is read-only from then on.
func (l *Log) undo(w *writer, cause error) error {
	w.discard()
	err := l.cut()
	if err == nil && l.file != nil {
		_, err = l.file.Seek(l.end.Offset, 0)
	}
	if err != nil {
		l.failed = errors.Join(cause, err)
	}
	var typed *contract.Error
	if errors.As(cause, &typed) {
		return typed
	}
	return ioError("append", l.dir, cause)
}

// writer appends one batch.
type writer struct {
	log    *Log
	at     Checkpoint // after the last encoded record
	file   *os.File   // the segment that is written, nil before the first
	full   []*os.File // segments that were filled by this batch and are not durable yet
	dirty  bool       // the directory has a new segment
	buffer []byte
}

// bufferSize is the amount of encoded records that is written at once.
const bufferSize = 1 << 20

func (w *writer) transaction(d Draft, batch uint64) (Transaction, error) {
	c := d.commit(w.at.Seq+1, batch)
	t := Transaction{Commit: c, Records: d.Records, Places: make([]Place, len(d.Records))}
	for i, r := range d.Records {
		var err error
		if t.Places[i], err = w.record(r.Kind, r.Payload); err != nil {
			return t, err
		}
	}
	if _, err := w.record(kindCommit, c.payload()); err != nil {
		return t, err
	}
	w.at.Seq = c.Seq
	t.End = w.at
	return t, nil
}

// record encodes a record, in a new segment if the last one is full.
func (w *writer) record(kind byte, payload []byte) (Place, error) {
	if len(payload) > MaxPayload {
		return Place{}, contract.Errorf("limit/exceeded", "a record has %d bytes, the limit is %d", len(payload), MaxPayload).
			WithHint("write less in one transaction")
	}
	at := Cursor{w.at.Segment, w.at.Offset, w.log.o.SegmentSize}
	if at.full(len(payload)) {
		if err := w.next(); err != nil {
			return Place{}, err
		}
	}
	p := at.Next(len(payload))
	w.put(kind, payload)
	if len(w.buffer) >= bufferSize {
		return p, w.flush()
	}
	return p, nil
}

var segmentHeader = int64(overhead + len(segmentPayload(1, chain{})))

func (w *writer) put(kind byte, payload []byte) {
	w.buffer, w.at.Chain = appendRecord(w.buffer, w.log.o.Alg, w.at.Chain, kind, payload)
	w.at.Offset += int64(overhead + len(payload))
}

// next begins a segment.
func (w *writer) next() error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.file != nil {
		w.full = append(w.full, w.file)
	}
	w.file = nil
	w.at.Segment, w.at.Offset = w.at.Segment+1, 0
	name := SegmentName(w.at.Segment)
	err := w.log.o.Faults.do(OpCreate, func() (err error) {
		w.file, err = w.log.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	w.dirty = true
	w.put(kindSegment, segmentPayload(w.at.Segment, w.at.Chain))
	return nil
}

func (w *writer) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	err := w.log.o.Faults.do(OpWrite, func() error {
		_, err := w.file.Write(w.buffer)
		return err
	})
	var partial *Partial
	if errors.As(err, &partial) {
		_, werr := w.file.Write(w.buffer[:min(partial.Bytes, len(w.buffer))])
		err = errors.Join(err, werr)
	}
	w.buffer = w.buffer[:0]
	return err
}

// sync makes the batch durable: filled segments first, the last one at the end.
func (w *writer) sync() error {
	for _, f := range append(w.full, w.file) {
		if err := w.log.o.Faults.do(OpSync, func() error { return w.log.o.sync(f) }); err != nil {
			return err
		}
		if f != w.file && f != w.log.file {
			_ = f.Close()
		}
	}
	if w.dirty {
		return w.log.o.Faults.do(OpSyncDir, func() error { return w.log.o.syncDir(w.log.dir) })
	}
	return nil
}

// discard closes the segments that this batch created.
func (w *writer) discard() {
	for _, f := range append(w.full, w.file) {
		if f != nil && f != w.log.file {
			_ = f.Close()
		}
	}
}
