package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Options configure a Store.
type Options struct {
	// Path is the database file. The folder blobs and the file reserve are
	// beside it.
	Path string
	// NoSync gives up durability; for tests and throw-away hosts.
	NoSync bool
	// NoMigrate rejects a database of an older version instead of migrating it.
	NoMigrate bool
	// MinFree is the free space in bytes below which new runs are rejected.
	MinFree uint64
	// Retain says what Retain removes.
	Retain Retention
	// QueueBytes limits the records that wait for the writer, by an estimate of
	// their size; 0: 64 MiB. An append beyond it blocks.
	QueueBytes int
	// Now defaults to time.Now.
	Now func() time.Time
	// Faults are hooks for tests.
	Faults Faults

	asIs bool // read a database of an older version without migrating it
}

const defaultQueue = 64 << 20

// Store is a journal in a database. Create it with Open.
type Store struct {
	opts    Options
	db      *sqliteDB
	write   *statements // belongs to the writer
	read    *statements
	blobs   *blobs
	reserve reserve
	memory  *journal.Memory // of live runs
	liveMu  sync.Mutex
	live    map[string]*liveRun

	queue  queue
	writer *writer
	full   atomic.Bool

	failOnce sync.Once
	failed   chan struct{}
	err      error // set before failed is closed

	closing sync.Once
	stop    chan struct{}
	upkeep  chan struct{} // a commit was made: look at log and space
	done    sync.WaitGroup
}

var (
	_ act.Journal    = (*Store)(nil)
	_ journal.Opener = (*Store)(nil)
	_ journal.Syncer = (*Store)(nil)
)

// Open opens or creates a database, migrates it, and verifies the chains of
// unfinished runs. The errors are *LockedError, *SchemaError, *Damage and those
// of the file system.
func Open(ctx context.Context, opts Options) (*Store, error) {
	files, err := openBlobs(opts.Path, opts.Faults)
	if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", opts.Path, err)
	}
	s, err := open(ctx, opts, files)
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	if err := s.verifyUnfinished(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("store: open %s: %w", opts.Path, err), s.closeFiles(), files.close())
	}
	s.reserve.hold()
	s.checkSpace()
	s.queue.init(s.opts.QueueBytes)
	s.done.Add(2)
	go s.writer.loop()
	go s.keepUp()
	return s, nil
}

// open opens a database without its goroutines, beside the files that hold its
// lock. It verifies nothing.
func open(ctx context.Context, opts Options, files *blobs) (_ *Store, err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.QueueBytes == 0 {
		opts.QueueBytes = defaultQueue
	}
	dir := filepath.Dir(opts.Path)
	s := &Store{
		blobs:   files,
		opts:    opts,
		memory:  journal.NewHeld(),
		live:    map[string]*liveRun{},
		reserve: reserve{path: filepath.Join(dir, reserveName), size: reserveSize, faults: opts.Faults},
		failed:  make(chan struct{}),
		stop:    make(chan struct{}),
		upkeep:  make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			_ = s.closeFiles()
			if isCorrupt(err) {
				err = &Damage{What: err.Error()}
			}
			err = fmt.Errorf("store: open %s: %w", opts.Path, err)
		}
	}()
	if err := files.checkEmptied(opts.Path); err != nil {
		return nil, err
	}
	if s.db, err = openSQLite(ctx, opts.Path, !opts.NoSync); err != nil {
		return nil, err
	}
	if err := s.blobs.syncFolder(dir); err != nil { // the files may be new
		return nil, err
	}
	m, err := newMigrator(s.db, opts.Now)
	if err != nil {
		return nil, err
	}
	if found, err := m.version(ctx); err != nil {
		return nil, err
	} else if !opts.asIs || found == 0 {
		if err := m.up(ctx, !opts.NoMigrate); err != nil {
			return nil, err
		}
	}
	text, err := readStatements("sqlite")
	if err != nil {
		return nil, err
	}
	s.write, s.read = &statements{on: s.db.conn, text: text}, &statements{on: s.db.readers, text: text, finds: true}
	if s.writer, err = newWriter(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Close writes what is queued and closes the database.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.stop)
		s.done.Wait()
		if s.Err() == nil {
			_, _ = s.db.checkpoint(context.Background(), true)
		}
		s.queue.fail(closedError())
		err = errors.Join(s.closeFiles(), s.blobs.close())
	})
	return err
}

func (s *Store) closeFiles() error {
	var errs []error
	for _, st := range []*statements{s.write, s.read} {
		if st != nil {
			st.close()
		}
	}
	if s.db != nil {
		errs = append(errs, s.db.close())
	}
	if s.reserve.held {
		errs = append(errs, s.reserve.release())
	}
	return errors.Join(errs...)
}

func closedError() *contract.Error {
	return contract.Errorf("journal/unavailable", "journal: append: the store is closed")
}

// Failed is closed when a commit, a sync or a file write failed: nothing can be
// recorded any more, and the process must end.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns the failure; nil while the store works.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.err
	default:
		return nil
	}
}

func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.err = fmt.Errorf("store: write %s: %w", s.opts.Path, err)
		close(s.failed)
		s.queue.fail(contract.Errorf("journal/unavailable", "journal: append: %w", err))
	})
}

// Full reports whether free space is below the minimum, so that new runs are
// rejected.
func (s *Store) Full() bool { return s.full.Load() }

// checkSpace compares the free space with the minimum. The reserve is released
// when less than its size is left, and taken back when there is room for both.
func (s *Store) checkSpace() {
	free, err := s.reserve.free()
	if err != nil {
		return // a write on such a disk fails and says why
	}
	s.reserve.mu.Lock()
	defer s.reserve.mu.Unlock()
	low := free < s.opts.MinFree
	s.full.Store(low)
	switch {
	case s.reserve.held && free < reserveSize:
		if err := s.reserve.release(); err != nil {
			s.fail(err)
		}
	case !s.reserve.held && free >= s.opts.MinFree+reserveSize:
		s.reserve.hold()
	}
}

// spacePeriod is the time between two looks at the free space without commits,
// and the time without commits after which the writer is idle.
const spacePeriod = 5 * time.Second

// keepUp copies the write-ahead log and watches the free space, beside the
// writer.
func (s *Store) keepUp() {
	defer s.done.Done()
	tick := time.NewTicker(spacePeriod)
	defer tick.Stop()
	for busy := false; ; {
		idle := false
		select {
		case <-s.stop:
			return
		case <-s.failed:
			return
		case <-tick.C:
			idle, busy = !busy, false
		case <-s.upkeep:
			busy = true
		}
		s.checkSpace()
		if err := s.copyLog(idle); err != nil {
			s.fail(err)
		}
	}
}

// copyLog makes a checkpoint if the write-ahead log is long enough. Emptying the
// file waits for the writer, so it is done only while the writer is idle.
func (s *Store) copyLog(idle bool) error {
	cut := idle && s.db.walSize() >= walCut
	if !cut && s.db.walBehind() < walCopy {
		return nil
	}
	if err := s.opts.Faults.at("checkpoint"); err != nil {
		return err
	}
	_, err := s.db.checkpoint(context.Background(), cut)
	return err
}
