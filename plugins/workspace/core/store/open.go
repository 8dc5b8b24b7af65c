package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Options configure a store.
type Options struct {
	// Now is the clock of commits, in nanoseconds since 1970. It is required.
	Now func() int64
	// Warn is called with a description of each derived file that was rebuilt,
	// and the reason. It may be nil.
	Warn func(message string)
	// Rebuilt is called when an index is rebuilt. It may be nil.
	Rebuilt func()
	Faults  log.Faults
	// SegmentSize is for tests; 0 means log.SegmentSize.
	SegmentSize int64
	// Unsynced skips every fsync of the log, for tests that do not need one.
	Unsynced bool
}

// Store is an open data directory.
type Store struct {
	Identity Identity
	Scheme   id.Scheme

	dir  string
	o    Options
	lock *os.File
	held held
	// follows means that another process writes the store.
	follows bool
	log     *log.Log
	index   *index
	damage  *log.Damage
	behind  atomic.Bool // see Behind
	// tree is the tree of the last transaction that put one, nil if it was not read yet. Only the
	// writer uses it.
	tree *tree.Tree
	// saved is the stat cache of the last process until LoadCache returns it.
	saved *scan.Result
	// Of the batch that is being prepared; only the writer uses them. drafts are its records of
	// frames, cursor is the position in the log after the prepared records. crowded means that the
	// batch before it had several requests.
	drafts  map[id.ID][]byte
	cursor  log.Cursor
	crowded bool

	readers atomic.Pointer[readers]
	// shape is held while the log is rewritten, or read as a whole.
	shape  sync.Mutex
	warned struct {
		sync.Mutex
		list []string
	}

	// resolver computes inputs of frames that come from the configuration.
	resolver atomic.Pointer[ResolveInput]
	// examples has a frame for each recipe that was looked at, by its key.
	examples sync.Map
	// rows counts the rows that were read of frames and their inputs.
	rows  atomic.Int64
	trees trees // of readers

	life sync.RWMutex // held for reading while a View runs
	// abandon ends when Close has waited long enough for the running transaction.
	abandon context.Context
	give    context.CancelCauseFunc

	news   news
	queue  chan *request
	closed chan struct{}
	writer sync.WaitGroup
	once   sync.Once
	err    error // of Close
}

// Open opens a data directory and takes its lock. A damaged store is opened
// read-only: see Damage. The error is store/unsafe for a default one that contains or is
// reached by a symbolic link.
func Open(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	s := newStore(dir, o)
	at, err := openDir(dir, false)
	if err != nil {
		return nil, asOpenError(dir, err)
	}
	defer func() { _ = at.Close() }()
	var text []byte
	if s.Identity, s.Scheme, text, err = readIdentity(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.lock, err = takeLock(at, dir); err != nil {
		return nil, err
	}
	if err := s.hold(at); err != nil {
		return nil, err
	}
	if err := s.identify(text); err != nil { // before anything is written with this identity
		return nil, err
	}
	if err := s.recover(ctx); err != nil {
		return nil, asStoreError("open", err)
	}
	if err := s.begin(text); err != nil {
		return nil, err
	}
	s.news.publish(s.log.End().Seq)
	s.writer.Go(s.write)
	return s, nil
}

func newStore(dir string, o Options) *Store {
	s := &Store{dir: dir, o: o, queue: make(chan *request, maxQueue), closed: make(chan struct{})}
	s.readers.Store(&readers{})
	s.abandon, s.give = context.WithCancelCause(context.Background())
	return s
}

// asStoreError returns typed errors unchanged and makes others store/io.
func asStoreError(op string, err error) error {
	var typed *contract.Error
	if errors.As(err, &typed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return contract.AsError(err)
	}
	if e := scan.TooManyFiles("store: "+op, "", err); e != nil {
		return e
	}
	return contract.Errorf("store/io", "%w", err).WithOp("store: "+op, "")
}

func (s *Store) warn(message string) {
	s.warned.Lock()
	s.warned.list = append(s.warned.list, message)
	s.warned.Unlock()
	if s.o.Warn != nil {
		s.o.Warn(message)
	}
}

// warnings returns what was rebuilt since the store was opened.
func (s *Store) warnings() []string {
	s.warned.Lock()
	defer s.warned.Unlock()
	return slices.Clone(s.warned.list)
}

// recover brings index and log to the same state.
func (s *Store) recover(ctx context.Context) error {
	known, from, err := s.openDerived(ctx)
	if err != nil {
		return err
	}
	if err := s.openLog(ctx, known, from); err != nil {
		return err
	}
	if s.damage != nil && s.damage.Other && s.logHas(known) {
		// The index is of another copy of this workspace.
		if err := errors.Join(s.log.Close(), s.index.close()); err != nil {
			return err
		}
		if err := s.rebuild(ctx, s.damage.Error()); err != nil {
			return err
		}
		if err := s.openLog(ctx, known, log.Checkpoint{}); err != nil {
			return err
		}
	}
	if s.damage != nil {
		s.warn("the log is damaged: " + s.damage.Error())
		return nil
	}
	if err := s.rememberRebuilt(ctx); err != nil {
		return err
	}
	// From here on the seal would describe an older state.
	if err := os.Remove(filepath.Join(s.dir, sealFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// logHas reports whether the whole log verifies and contains the transaction.
func (s *Store) logHas(seq uint64) bool {
	end, damage, err := log.Verify(filepath.Join(s.dir, logDir), s.Scheme.Alg(), func(*log.Transaction) error { return nil })
	return err == nil && damage == nil && end.Seq >= seq
}

// openLog opens the log and applies what the index lacks.
func (s *Store) openLog(ctx context.Context, known uint64, from log.Checkpoint) (err error) {
	if err := s.index.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	s.log, s.damage, err = log.Open(filepath.Join(s.dir, logDir), log.Options{
		Alg:         s.Scheme.Alg(),
		From:        from,
		Known:       known,
		Quarantine:  filepath.Join(s.dir, quarantineDir),
		SegmentSize: s.o.SegmentSize,
		Unsynced:    s.o.Unsynced,
		Faults:      s.o.Faults,
		Replay:      func(t *log.Transaction) error { return s.replay(ctx, t) },
	})
	if err != nil {
		return errors.Join(err, s.index.exec(ctx, "ROLLBACK"))
	}
	if s.damage == nil {
		if err := s.index.mark(ctx, s.log.End()); err != nil {
			return err
		}
	}
	return s.index.exec(ctx, "COMMIT")
}

// replay applies a transaction of the log to the index.
func (s *Store) replay(ctx context.Context, t *log.Transaction) error {
	s.index.batch = batchCache{}
	for i, r := range t.Records {
		if err := s.index.apply(ctx, t.Commit.Seq, r, t.Places[i]); err != nil {
			return err
		}
	}
	if err := s.index.applied(ctx, t.Commit); err != nil {
		return err
	}
	return s.index.mark(ctx, t.End)
}

// openDerived opens the index, or a new one if the old one cannot be used. It returns the last
// transaction that the seal or the index records, and the checkpoint of the index.
func (s *Store) openDerived(ctx context.Context) (known uint64, from log.Checkpoint, err error) {
	path := filepath.Join(s.dir, indexFile)
	sealed, err := readSeal(s.dir)
	if err != nil {
		s.warn(unusableSeal(err))
	}
	if sealed != nil {
		known = sealed.end.Seq
		hash, err := hashFile(path)
		if err != nil {
			return 0, from, err
		}
		// An index that was written after the seal has its own checkpoint.
		if hash != sealed.index && !exists(path+"-wal") {
			return known, from, s.rebuild(ctx, "the index is not the one that was sealed")
		}
	}
	if !exists(path) && hasLog(s.dir) {
		return known, from, s.rebuild(ctx, "it was missing")
	}
	s.index, err = openIndex(ctx, path, s.Identity, s.Scheme)
	if errors.Is(err, errIndex) && !cannotGrow(err) {
		return known, from, s.rebuild(ctx, err.Error())
	}
	if err != nil {
		return 0, from, err
	}
	if from, err = checkpoint(ctx, s.index.conn); err != nil {
		return 0, from, err
	}
	return max(known, from.Seq), from, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// rebuild makes a new index. It stores the reason, and the reasons of earlier rebuilds from the old
// index.
func (s *Store) rebuild(ctx context.Context, why string) (err error) {
	why = "the index was rebuilt: " + why
	s.warn(why)
	path := filepath.Join(s.dir, indexFile)
	earlier := s.remembered(ctx, path)
	if err := removeIndex(path); err != nil {
		return err
	}
	if s.index, err = openIndex(ctx, path, s.Identity, s.Scheme); err != nil {
		return err
	}
	if s.o.Rebuilt != nil {
		s.o.Rebuilt()
	}
	for _, f := range append(earlier, Finding{Code: Rebuilt, Reason: why}) {
		if err := s.remember(ctx, f.Code, f.Reason); err != nil {
			return err
		}
	}
	return nil
}

// identify returns an error if the log was begun with another workspace.edn: its hash is in the
// first record. A record that does not verify is ignored.
func (s *Store) identify(text []byte) error {
	if begun, _, _ := s.begunWith(text); begun {
		return nil
	}
	if was, err := lostIdentity(s.dir); err == nil && !bytes.Equal(was, text) {
		return corrupt(identityFile, otherIdentity).WithHint("`ferment workspace repair` restores it")
	}
	return nil
}

// begunWith reports whether the first record of the log has the hash of a workspace.edn, and the
// segment of that record. The error is one of reading; a truncated record counts as another hash.
func (s *Store) begunWith(text []byte) (begun bool, segment int, err error) {
	sum := s.Scheme.Alg().Sum(text)
	first, segment, err := log.First(filepath.Join(s.dir, logDir), s.Scheme.Alg(), len(sum))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, segment, nil
	}
	return string(first) == string(sum[:]), segment, err
}

const otherIdentity = "it is not the file that the log was begun with"

// begin binds a new log to workspace.edn. Open does not read the records that the index
// has, so a damaged first record of another log is found here.
func (s *Store) begin(text []byte) error {
	if s.damage != nil {
		return nil
	}
	if s.log.End().Seq == 0 {
		sum := s.Scheme.Alg().Sum(text)
		done, err := s.log.Append(log.Draft{Actor: "ferment", Time: s.o.Now(), Records: []log.Record{{Kind: kindWorkspace, Payload: append(sum[:], text...)}}})
		if err != nil {
			return err
		}
		if err := errors.Join(s.index.applied(context.Background(), done[0].Commit),
			s.index.mark(context.Background(), s.log.End())); err != nil {
			return asStoreError("create", err)
		}
		return nil
	}
	begun, segment, err := s.begunWith(text)
	if err != nil {
		return asStoreError("open", err)
	}
	if !begun {
		s.damage = &log.Damage{File: log.SegmentName(segment), Reason: "the first record is damaged"}
		s.warn("the log is damaged: " + s.damage.Error())
	}
	return nil
}

// Damage returns the damage of the log that was found by Open, or by a validation or a
// read since the last repair; nil if none was found. A damaged store is read-only.
func (s *Store) Damage() error {
	if s.damage != nil {
		return s.damage
	}
	return readMark(s.dir)
}

// closeGrace is the time that Close gives a running transaction to finish.
const closeGrace = 5 * time.Second

// Close finishes the running transaction, seals the store and releases its
// lock. A transaction that does not end within 5 seconds is canceled and rolled
// back. Waiting calls return store/io.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closed)
		grace := time.AfterFunc(closeGrace, func() { s.give(errClosed(s.dir)) })
		s.writer.Wait()
		grace.Stop()
		s.life.Lock()
		defer s.life.Unlock()
		s.err = s.sealAll()
		s.release()
		s.index = nil
	})
	return s.err
}

// sealAll copies the write-ahead log of the index into it and writes the seal.
func (s *Store) sealAll() error {
	if s.follows || s.damage != nil || s.log.Failed() != nil || s.checkWritten() != nil {
		return nil // the next open decides from what is on the disk
	}
	ctx := context.Background()
	end := s.log.End()
	if err := s.index.exec(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return asStoreError("seal", err)
	}
	if err := s.index.close(); err != nil {
		return asStoreError("seal", err)
	}
	s.index = nil
	path := filepath.Join(s.dir, indexFile)
	if exists(path + "-wal") {
		return nil // another program reads the index: what it has is not in one file
	}
	hash, err := hashFile(path)
	if err == nil {
		err = syncFile(path)
	}
	if !s.InPlace() {
		return nil
	}
	if err == nil {
		err = s.fault(opSeal, func() error { return seal{end: end, index: hash}.write(s.dir) })
	}
	if err != nil {
		return asStoreError("seal", err)
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *Store) release() {
	s.give(nil)
	if s.index != nil {
		_ = s.index.close()
	}
	if s.log != nil {
		_ = s.log.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// SaveCache writes the stat cache of a scan result to the store directory, so
// that later processes need not read unchanged files again.
func (s *Store) SaveCache(r *scan.Result) error {
	if !s.InPlace() {
		return errReplaced(s.dir)
	}
	if err := scan.SaveCache(filepath.Join(s.dir, cacheFile), r); err != nil {
		return asStoreError("save the stat cache", err)
	}
	return nil
}

// LoadCache returns the stat cache that the last process saved. It returns nil on the
// second call and if the cache is unusable; the next scan then reads every file.
func (s *Store) LoadCache() *scan.Result {
	r := s.saved
	s.saved = nil
	return r
}
