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
	// Postgres names a database of a server in place of the file; nil: the file.
	Postgres *Postgres
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
	opts   Options
	db     database
	shared sharing     // nil: this host alone has the database
	write  *statements // belongs to the writer
	read   *statements
	// What is in files beside the database; nil: it keeps everything itself.
	blobs   *blobs
	reserve *reserve
	memory  *journal.Memory // of live runs
	liveMu  sync.Mutex
	live    map[string]*liveRun
	others  others

	queue  queue
	writer *writer
	full   atomic.Bool
	term   atomic.Int64 // that of the writer

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
	var files *blobs
	if opts.Postgres == nil {
		var err error
		if files, err = openBlobs(opts.Path, opts.Faults); err != nil {
			return nil, fmt.Errorf("store: open %s: %w", opts.Path, err)
		}
	}
	s, err := open(ctx, opts, files)
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	if err = s.verifyUnfinished(ctx); err == nil && s.shared != nil {
		err = s.recount(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: open %s: %w", s.db.name(), err), s.closeFiles(), files.close())
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
	s := &Store{
		blobs:  files,
		opts:   opts,
		memory: journal.NewHeld(),
		live:   map[string]*liveRun{},
		failed: make(chan struct{}),
		stop:   make(chan struct{}),
		upkeep: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			_ = s.closeFiles()
			if corrupt(err) {
				err = &Damage{What: err.Error()}
			}
			err = fmt.Errorf("store: open %s: %w", opts.title(), err)
		}
	}()
	if opts.Postgres == nil {
		err = s.openFiles(ctx)
	} else {
		err = s.openServer(ctx)
	}
	if err != nil {
		return nil, err
	}
	text, err := readStatements(s.db.dialect())
	if err != nil {
		return nil, err
	}
	s.write = &statements{on: s.db.writer(), text: text, admit: s.db.admit}
	s.read = &statements{on: s.db.readers(), text: text, admit: s.db.admit, finds: true}
	m, err := newMigrator(s.db, opts.Now)
	if err != nil {
		return nil, err
	}
	err = s.db.alone(ctx, func() error {
		if found, err := m.version(ctx); err != nil || opts.asIs && found > 0 {
			return err
		}
		return m.up(ctx, !opts.NoMigrate)
	})
	if err != nil {
		return nil, err
	}
	if s.shared != nil {
		if err := s.shared.join(ctx, s.write); err != nil {
			return nil, err
		}
	}
	if s.writer, err = newWriter(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// title names the database in messages before it is open.
func (o Options) title() string {
	if o.Postgres != nil {
		return "the PostgreSQL database"
	}
	return o.Path
}

// openServer connects to the database of a server.
func (s *Store) openServer(ctx context.Context) error {
	db, err := openPostgres(ctx, *s.opts.Postgres, !s.opts.NoSync, s.stop)
	if err != nil {
		return err
	}
	s.db, s.shared = db, db
	return nil
}

// openFiles opens the file of the database and what is beside it.
func (s *Store) openFiles(ctx context.Context) error {
	path, dir := s.opts.Path, filepath.Dir(s.opts.Path)
	if err := s.blobs.checkEmptied(path); err != nil {
		return err
	}
	db, err := openSQLite(ctx, path, !s.opts.NoSync)
	if err != nil {
		return err
	}
	db.faults = s.opts.Faults
	s.db = db
	s.reserve = &reserve{path: filepath.Join(dir, reserveName), size: reserveSize, faults: s.opts.Faults}
	return s.blobs.syncFolder(dir) // the files may be new
}

// Close writes what is queued and closes the database.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.liveMu.Lock() // no reader of another host's run begins meanwhile
		close(s.stop)
		s.liveMu.Unlock()
		s.done.Wait()
		if s.Err() == nil {
			_, _ = s.db.flush(context.Background())
			if s.shared != nil {
				s.shared.leave(context.Background(), s.write)
			}
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
	if s.reserve != nil && s.reserve.held {
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
		s.err = fmt.Errorf("store: write %s: %w", s.db.name(), err)
		close(s.failed)
		s.queue.fail(unwritten(err))
	})
}

// unwritten returns the error of callers for a failed write.
func unwritten(err error) *contract.Error {
	typ := "journal/unavailable"
	if errors.Is(err, ErrFenced) {
		typ = "journal/fenced"
	}
	return contract.Errorf(typ, "journal: append: %w", err)
}

// Full reports whether free space is below the minimum, so that new runs are
// rejected.
func (s *Store) Full() bool { return s.full.Load() }

// checkSpace compares the free space with the minimum. The reserve is released
// when less than its size is left, and taken back when there is room for both.
func (s *Store) checkSpace() {
	if s.reserve == nil {
		return // the disk is that of a server
	}
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

// period is the time between two rounds of keepUp without commits: several renew the
// lease before it lapses.
func (s *Store) period() time.Duration {
	if s.shared != nil {
		return min(spacePeriod, s.shared.leased()/5)
	}
	return spacePeriod
}

// keepUp does the upkeep of the database and watches the free space, beside the
// writer.
func (s *Store) keepUp() {
	defer s.done.Done()
	tick := time.NewTicker(s.period())
	defer tick.Stop()
	for busy := false; ; {
		idle := false
		select {
		case <-s.stop:
			return
		case <-s.failed:
			return
		case <-tick.C:
			if idle, busy = !busy, false; idle && s.shared != nil {
				_ = s.queue.post(&job{do: s.renew, done: make(chan struct{})})
			}
		case <-s.upkeep:
			busy = true
		}
		s.checkSpace()
		if err := s.db.upkeep(context.Background(), idle); err != nil {
			s.fail(err)
		}
	}
}
