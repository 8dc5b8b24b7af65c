package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Options configure a Store.
type Options struct {
	// Path is the database file. The folder blobs and the file reserve are beside it. It is not
	// used with Postgres.
	Path string
	// Postgres, if not nil, selects a PostgreSQL database instead of the file.
	Postgres *Postgres
	// AllowNetworkFS permits a file on a network file system.
	AllowNetworkFS bool
	// Used says that the directory of the file has had a database before.
	Used bool
	// NoSync gives up durability; for tests and throw-away hosts.
	NoSync bool
	// NoMigrate rejects a database of an older version instead of migrating it.
	NoMigrate bool
	Limits    Limits // initial limits; SetLimits changes them
	// QueueBytes is the maximum size of the records that wait for the writer, by an estimate; 0: 64
	// MiB. An append beyond it blocks.
	QueueBytes int
	// Observer, if not nil, is called with each durable record, on the goroutine of the writer.
	Observer journal.Observer
	// Committed, if not nil, is called after each transaction with records. It gets their number,
	// the bytes that were added, and the duration of the transaction.
	Committed func(records, bytes int, took time.Duration)
	// Dropped, if not nil, is called after the values of a finished run are deleted by a purge or
	// by retention of this host, on the goroutine of the writer. Deletions by other hosts are not
	// reported.
	Dropped func(run string)
	// Now defaults to time.Now.
	Now func() time.Time
	// Faults are hooks for tests.
	Faults Faults

	asIs    bool // read a database of an older version without migrating it
	scratch bool // a new file of a repair
	still   bool // only read the file, which nothing else writes

	period time.Duration // interval of the upkeep; 0: spacePeriod
}

// Limits are the settings of a store that may change while it is open.
type Limits struct {
	// MinFree is the free space in bytes below which new runs are rejected.
	MinFree uint64
	// Retain configures what the method Retain removes.
	Retain Retention
}

const defaultQueue = 64 << 20

// Store is a journal in a database. Create it with Open.
type Store struct {
	opts   Options
	limits atomic.Pointer[Limits]
	db     database
	shared sharing     // nil: no other host uses the database
	write  *statements // used only by the writer
	read   *statements
	// Values in files beside the database; nil: all values are in rows.
	blobs   *blobs
	reserve *reserve
	memory  *journal.Memory // of live runs
	liveMu  sync.Mutex
	live    map[string]*liveRun
	others  others

	hostMu   sync.Mutex
	hostMore chan struct{} // closed at the next host record; nil unless a reader waits

	queue   queue
	writer  *writer
	orphans atomic.Bool               // there may be content that no conversation uses
	full    atomic.Pointer[time.Time] // since when free space is below the minimum; nil: it is not
	term    atomic.Int64              // current term of the reservations, for readers

	failOnce sync.Once
	failed   chan struct{}
	err      error     // set before failed is closed
	failedAt time.Time // set before failed is closed

	closing sync.Once
	stop    chan struct{}
	batches atomic.Int64  // number of batches that the writer has taken
	upkeep  chan struct{} // wakes keepUp after enough was committed
	done    sync.WaitGroup
}

var (
	_ act.Journal    = (*Store)(nil)
	_ journal.Opener = (*Store)(nil)
	_ journal.Syncer = (*Store)(nil)
)

// Open opens or creates a database, migrates it, and verifies the chains of unfinished runs. The
// errors include *LockedError, *NetworkError, *SchemaError, *SettingError, *UnreachableError,
// *Damage and those of the file system. The caller must close the store.
func Open(ctx context.Context, opts Options) (*Store, error) {
	var files *blobs
	if opts.Postgres == nil {
		var err error
		if files, err = openBlobs(opts); err != nil {
			return nil, notOpened(opts.Path, err)
		}
	}
	s, err := open(ctx, opts, files)
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	err = s.verifyUnfinished(ctx)
	if err == nil {
		err = s.verifyOpenSessions(ctx)
	}
	if err == nil && s.shared != nil {
		err = s.recount(ctx)
	}
	if err != nil {
		return nil, errors.Join(notOpened(s.db.name(), err), s.closeFiles(), files.close())
	}
	if err := s.holdFiles(); err != nil {
		return nil, errors.Join(notOpened(s.db.name(), err), s.closeFiles(), files.close())
	}
	s.reserve.hold()
	s.checkSpace()
	s.queue.init(s.opts.QueueBytes)
	s.done.Add(2)
	go s.writer.loop()
	go s.keepUp()
	return s, nil
}

// open opens a database without starting goroutines and without verifying it. files holds its lock;
// nil for PostgreSQL.
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
	s.limits.Store(&s.opts.Limits)
	s.orphans.Store(true) // what an earlier process has left
	defer func() {
		if err != nil {
			_ = s.closeFiles()
			err = notOpened(opts.title(), err)
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

// title returns the name of the database for messages before it is open, without credentials.
func (o Options) title() string {
	if o.Postgres != nil {
		return "the PostgreSQL database"
	}
	return o.Path
}

// openServer connects to a PostgreSQL database.
func (s *Store) openServer(ctx context.Context) error {
	db, err := openPostgres(ctx, *s.opts.Postgres, !s.opts.NoSync, s.stop)
	if err != nil {
		return err
	}
	s.db, s.shared = db, db
	return nil
}

// openFiles opens the database file and the files beside it.
func (s *Store) openFiles(ctx context.Context) error {
	path, dir := s.opts.Path, filepath.Dir(s.opts.Path)
	if s.opts.still {
		db, err := openStill(ctx, path)
		if err == nil {
			s.db = db
		}
		return err
	}
	db, err := openPresent(ctx, s.opts, s.blobs)
	if err != nil {
		return err
	}
	db.faults = s.opts.Faults
	s.db = db
	s.reserve = &reserve{path: filepath.Join(dir, reserveName), size: reserveSize, faults: s.opts.Faults}
	return s.blobs.syncFolder(dir) // the files may be new
}

// Close writes the queued records and closes the database. Further calls do nothing and return nil.
// If the files of the database were removed or replaced, Err returns that failure afterwards.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.liveMu.Lock() // no reader of another host's run starts from now on
		close(s.stop)
		s.liveMu.Unlock()
		s.done.Wait()
		if s.CheckFiles() == nil {
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

// unopened converts the error of a failed open: damage becomes a *Damage, and a full disk
// journal/full. Other errors are returned as they are.
func unopened(err error) error {
	switch {
	case corrupt(err):
		return &Damage{What: err.Error()}
	case isFull(err), noIndex(err):
		return contract.Errorf("journal/full", "the disk is full: %w", err).
			WithHint("free space on the file system of the data directory")
	}
	return err
}

// notOpened adds the name of the database to the error of a failed open, unless the error already
// has it.
func notOpened(name string, err error) error {
	if err = unopened(err); strings.HasPrefix(err.Error(), "store: open ") {
		return err
	}
	return fmt.Errorf("store: open %s: %w", name, err)
}

func closedError() *contract.Error {
	return contract.Errorf("journal/unavailable", "journal: append: the store is closed")
}

// Failed returns a channel that is closed when a commit, a sync or a file write has failed. The
// store then rejects all further appends, and the process should end.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns the failure that closed the channel of Failed; nil while the store works.
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
		err = damaged(err)
		s.failedAt = s.opts.Now()
		s.err = fmt.Errorf("store: write %s: %w", s.db.name(), err)
		close(s.failed)
		s.queue.fail(unwritten(err))
	})
}

// damaged converts the error of a write to a damaged page to journal/damaged, because only a repair
// helps: neither more space nor a retry does.
func damaged(err error) error {
	if !corrupt(err) || errors.Is(err, contract.OfType("journal/damaged")) {
		return err
	}
	return contract.Errorf("journal/damaged", "a page of the database is damaged: %w", err)
}

// unwritten returns the error that callers get for a failed write: journal/fenced, journal/damaged
// or journal/unavailable.
func unwritten(err error) *contract.Error {
	typ := "journal/unavailable"
	var replaced *ReplacedError
	switch {
	case errors.As(err, &replaced):
		return contract.Errorf(typ, "journal: append: %w", err).
			WithHint("an operator puts the file back or restores a backup, and starts the daemon again")
	case errors.Is(err, ErrFenced):
		typ = "journal/fenced"
	case corrupt(err):
		return contract.Errorf("journal/damaged", "journal: append: %w", err).
			WithHint("stop the daemon and run \"ferment admin journal-repair --dry-run\"")
	}
	return contract.Errorf(typ, "journal: append: %w", err)
}
