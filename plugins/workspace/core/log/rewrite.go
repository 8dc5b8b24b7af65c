package log

import (
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Rewriter writes the transactions of a new log.
type Rewriter struct{ w *writer }

// Add writes a transaction with its number and time and returns the places of
// its records. The number must be greater than that of the transaction before.
func (r *Rewriter) Add(c Commit, records []Record) ([]Place, error) {
	c.Records = len(records)
	places := make([]Place, len(records))
	for i, rec := range records {
		var err error
		if places[i], err = r.w.record(rec.Kind, rec.Payload); err != nil {
			return nil, err
		}
	}
	r.w.at.Seq = c.Seq
	_, err := r.w.record(kindCommit, c.payload())
	return places, err
}

// Rewrite writes a new log into segments after the existing ones: fill adds the transactions, and
// last becomes the final one, with the next number. The new chain begins with the last value of the
// old one. When Rewrite returns, the new segments are the log, and Tidy removes the old ones. If
// the process dies before the new ones are durable, the next Open drops them; if it dies later,
// Open drops the old ones.
//
// A failure leaves the log as it was, unless an fsync failed: the log is then read-only.
func (l *Log) Rewrite(fill func(*Rewriter) error, last Draft) (*Transaction, error) {
	if l.failed != nil {
		return nil, contract.Errorf("store/read-only", "the log is read-only after an earlier failure: %w", l.failed)
	}
	t, w, err := l.rewrite(l.end, base{last: l.end.Seq}, fill, last)
	if err != nil {
		return nil, err
	}
	if l.file != nil {
		_ = l.file.Close() // it is durable
	}
	l.file, l.end = w.file, w.at
	return t, nil
}

// rewrite writes the segments behind a checkpoint.
func (l *Log) rewrite(after Checkpoint, b base, fill func(*Rewriter) error, last Draft) (*Transaction, *writer, error) {
	w := &writer{log: l, at: after}
	t, err := w.rewrite(b, fill, last)
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return nil, nil, l.undo(w, err)
	}
	if err := w.sync(); err != nil {
		w.discard()
		l.failed = err
		return nil, nil, ioError("sync", l.dir, err)
	}
	return t, w, nil
}

func (w *writer) rewrite(b base, fill func(*Rewriter) error, last Draft) (*Transaction, error) {
	if err := w.next(); err != nil {
		return nil, err
	}
	w.put(kindBase, b.payload())
	w.at.Seq = 0
	if err := fill(&Rewriter{w}); err != nil {
		return nil, err
	}
	w.at.Seq = b.last
	t, err := w.transaction(last, b.last+1)
	return &t, err
}

// Tidy removes the segments that a rewritten log replaced. Readers must no
// longer need them.
func (l *Log) Tidy() error {
	o, err := findOrigin(l.dir, l.o.Alg)
	if err != nil {
		return ioError("tidy", l.dir, err)
	}
	l.mu.Lock()
	for _, n := range o.older {
		if f := l.files[n]; f != nil {
			_ = f.Close()
			delete(l.files, n)
		}
	}
	l.mu.Unlock()
	return l.tidy(o.older, o.head.base != nil && o.head.base.keep)
}

// Restart replaces a damaged log. fill writes the salvaged transactions, numbered
// up to last; end becomes transaction last+1. after is the last chain value that
// verifies. The damaged segments move to the quarantine. The log must not be open.
// After a crash either the damaged log is still in place, or the next Open
// completes the move.
func Restart(dir string, o Options, after Checkpoint, last uint64, fill func(*Rewriter) error, end Draft) error {
	if o.SegmentSize == 0 {
		o.SegmentSize = SegmentSize
	}
	numbers, err := segments(dir)
	if err != nil {
		return ioError("restart", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ioError("restart", dir, err)
	}
	defer func() { _ = root.Close() }()
	l := &Log{dir: dir, root: root, o: o, files: map[int]*os.File{}}
	l.end = Checkpoint{Chain: after.Chain}
	if len(numbers) > 0 {
		l.end.Segment = numbers[len(numbers)-1]
		info, err := os.Stat(filepath.Join(dir, SegmentName(l.end.Segment)))
		if err != nil {
			return ioError("restart", dir, err)
		}
		l.end.Offset = info.Size() // a failed write cuts off what is behind it
	}
	_, w, err := l.rewrite(l.end, base{last: last, keep: true}, fill, end)
	if err != nil {
		return err
	}
	w.discard()
	return l.tidy(numbers, true)
}
