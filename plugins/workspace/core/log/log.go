package log

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Options configure a log.
type Options struct {
	Alg id.Alg
	// From is the start of recovery: the end of a transaction that the caller
	// has already applied.
	From Checkpoint
	// Known is the last transaction that the caller knows to be committed.
	Known uint64
	// Replay is called for every transaction after From, in order.
	Replay func(*Transaction) error
	// Quarantine is the directory for torn tails.
	Quarantine string
	// SegmentSize is for tests; 0 means the constant SegmentSize.
	SegmentSize int64
	// Unsynced skips every fsync, for tests that do not need one.
	Unsynced bool
	Faults   Faults
}

func (o *Options) sync(f *os.File) error {
	if !o.Unsynced {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	o.Faults.synced(f.Name())
	return nil
}

func (o *Options) syncDir(dir string) error {
	if !o.Unsynced {
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	o.Faults.synced(dir)
	return nil
}

// Faults injects failures. The zero value injects none.
type Faults struct {
	// Before is called before an operation; its error replaces the operation. An
	// error of type *Partial makes a write stop early.
	Before func(op string) error
	// After is called after an operation that succeeded.
	After func(op string)
	// Synced is called with the path of a file or a directory of the log after it
	// was made durable.
	Synced func(path string)
}

func (f Faults) synced(path string) {
	if f.Synced != nil {
		f.Synced(path)
	}
}

// The operations that are passed to Faults.Before.
const (
	OpWrite    = "log/write"
	OpSync     = "log/sync"
	OpSyncDir  = "log/sync-dir"
	OpCreate   = "log/create"
	OpTruncate = "log/truncate"
	OpRemove   = "log/remove"
)

// Partial is a fault that makes a write stop after some bytes.
type Partial struct {
	Bytes int
	Err   error
}

func (p *Partial) Error() string { return p.Err.Error() }

// Unwrap returns the error of the write.
func (p *Partial) Unwrap() error { return p.Err }

func (f Faults) do(op string, run func() error) error {
	if f.Before != nil {
		if err := f.Before(op); err != nil {
			return err
		}
	}
	err := run()
	if err == nil && f.After != nil {
		f.After(op)
	}
	return err
}

// Log is an open log.
type Log struct {
	dir  string
	root *os.Root // the directory, nil if the log is only read; writes never follow the path
	o    Options
	end  Checkpoint // of the last committed transaction
	file *os.File   // the last segment
	// failed is the reason why writes are rejected; nil if they are not.
	failed error

	mu    sync.Mutex
	files map[int]*os.File // of segments that were read
}

// Open opens or creates a log and recovers it. If the log is damaged, Open
// returns the log and the damage: the valid transactions were replayed, and the
// log is read-only.
func Open(dir string, o Options) (*Log, *Damage, error) {
	if o.SegmentSize == 0 {
		o.SegmentSize = SegmentSize
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, ioError("recover", dir, err)
	}
	l := &Log{dir: dir, root: root, o: o, files: map[int]*os.File{}}
	r := reader{dir: dir, alg: o.Alg}
	damage, err := r.readAll(o.From, o.Replay)
	if err != nil {
		_ = root.Close()
		return nil, nil, ioError("recover", dir, err)
	}
	l.end = r.last
	if damage == nil && r.last.Seq < o.Known {
		damage = &Damage{File: SegmentName(max(r.last.Segment, 1)), Offset: r.last.Offset, Seq: r.last.Seq, Reason: "committed transactions are missing"}
	} else if damage != nil {
		damage, err = l.classify(&r, damage)
	}
	if err == nil && damage == nil {
		err = l.openLast()
	}
	if b := r.origin.head.base; err == nil && damage == nil && b != nil {
		err = l.tidy(r.origin.older, b.keep)
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	if damage != nil {
		l.failed = damage
	}
	return l, damage, nil
}

// Follow opens the log of another process for reading at known places. It reads
// no file until Read is called.
func Follow(dir string, alg id.Alg) *Log {
	return &Log{dir: dir, o: Options{Alg: alg}, files: map[int]*os.File{}}
}

// classify cuts a torn tail off, and returns other damage.
func (l *Log) classify(r *reader, damage *Damage) (*Damage, error) {
	from := l.o.From
	if r.last.Seq < l.o.Known || from.Segment > 0 && r.last == from && damage.Offset < from.Offset && damage.File == SegmentName(from.Segment) {
		return damage, nil
	}
	cut, err := r.uncommitted(damage)
	if err != nil {
		return nil, ioError("recover", damage.File, err)
	}
	if !cut {
		return damage, nil
	}
	if damage.torn {
		if err := l.cut(); err != nil {
			return nil, ioError("recover", damage.File, err)
		}
		return nil, nil
	}
	if err := l.quarantine(); err != nil {
		return nil, ioError("quarantine", damage.File, err)
	}
	return nil, nil
}

// quarantine copies what follows the last transaction and cuts it off.
func (l *Log) quarantine() error {
	numbers, err := segments(l.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.o.Quarantine, 0o700); err != nil {
		return err
	}
	for _, n := range numbers {
		if n < l.end.Segment {
			continue
		}
		path, keep := filepath.Join(l.dir, SegmentName(n)), int64(0)
		if n == l.end.Segment {
			keep = l.end.Offset
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if int64(len(data)) > keep {
			if err := l.keepCopy(SegmentName(n), data[keep:]); err != nil {
				return err
			}
		}
	}
	return l.cut()
}

// cut removes everything behind the last transaction. The last segment goes
// first, so that an interruption leaves a torn tail again.
func (l *Log) cut() error {
	numbers, err := l.segments()
	if err != nil {
		return err
	}
	for i := len(numbers) - 1; i >= 0 && numbers[i] > l.end.Segment; i-- {
		name := SegmentName(numbers[i])
		if err := l.o.Faults.do(OpRemove, func() error { return l.root.Remove(name) }); err != nil {
			return err
		}
	}
	if l.end.Segment > 0 {
		name := SegmentName(l.end.Segment)
		if err := l.o.Faults.do(OpTruncate, func() error { return l.truncate(name) }); err != nil {
			return err
		}
	}
	return l.o.Faults.do(OpSyncDir, func() error { return l.o.syncDir(l.dir) })
}

func (l *Log) truncate(name string) error {
	f, err := l.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(l.end.Offset), l.o.sync(f), f.Close())
}

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// openLast opens the last segment for writing.
func (l *Log) openLast() (err error) {
	if l.end.Segment == 0 {
		return nil // the first transaction creates it
	}
	l.file, err = l.root.OpenFile(SegmentName(l.end.Segment), os.O_RDWR, 0)
	if err == nil {
		_, err = l.file.Seek(l.end.Offset, 0)
	}
	if err != nil {
		return ioError("open", SegmentName(l.end.Segment), err)
	}
	return nil
}

// End returns the end of the last committed transaction.
func (l *Log) End() Checkpoint { return l.end }

// Failed returns the reason why the log is read-only, nil if it is writable.
func (l *Log) Failed() error { return l.failed }

// Fail makes the log reject writes until it is opened again. err is the reason that Failed returns.
func (l *Log) Fail(err error) { l.failed = err }

// InPlace reports whether the last segment is still the file at its path. If the log was removed or
// replaced, it is not, and a later Open does not find the appended transactions.
func (l *Log) InPlace() bool {
	if l.file == nil {
		return true
	}
	now, err := os.Stat(l.file.Name())
	if err != nil {
		return false
	}
	written, err := l.file.Stat()
	return err == nil && os.SameFile(now, written)
}

// segments returns the numbers of the segments of the log, sorted.
func (l *Log) segments() ([]int, error) {
	dir, err := l.root.Open(".")
	if err != nil {
		return nil, err
	}
	entries, err := dir.ReadDir(-1)
	return segmentsOf(entries), errors.Join(err, dir.Close())
}

// open opens a segment for reading.
func (l *Log) open(name string) (*os.File, error) {
	if l.root == nil {
		return os.Open(filepath.Join(l.dir, name))
	}
	return l.root.Open(name)
}

// Close closes the files.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	l.files = map[int]*os.File{}
	if l.file != nil {
		errs = append(errs, l.file.Close())
		l.file = nil
	}
	if l.root != nil {
		errs = append(errs, l.root.Close())
	}
	return errors.Join(errs...)
}

// Read returns the payload at a place. It does not verify the payload; the
// caller must compare it with its content id.
func (l *Log) Read(p Place) ([]byte, error) {
	l.mu.Lock()
	f := l.files[p.Segment]
	if f == nil {
		var err error
		if f, err = l.open(SegmentName(p.Segment)); err != nil {
			l.mu.Unlock()
			if errors.Is(err, os.ErrNotExist) {
				return nil, contract.Errorf("store/corrupt", "the segment is missing").WithOp("log: read", SegmentName(p.Segment)).
					WithDetail("file", edn.Text(SegmentName(p.Segment)))
			}
			return nil, ioError("read", SegmentName(p.Segment), err)
		}
		l.files[p.Segment] = f
	}
	l.mu.Unlock()
	b := make([]byte, p.Length)
	if _, err := f.ReadAt(b, p.Offset); err != nil {
		return nil, ioError("read", SegmentName(p.Segment), err)
	}
	return b, nil
}

func ioError(op, object string, err error) error {
	return contract.Errorf("store/io", "%w", err).WithOp("log: "+op, object)
}
