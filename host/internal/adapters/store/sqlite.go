package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The parts that only SQLite needs are in this file, in pages.go and below sql/sqlite.

// Sizes of the write-ahead log in bytes: from walCopy on it is copied into the database
// (checkpoint), from walCut on its file is also truncated. At most walRest is copied between two
// commits.
const (
	walCopy = 4 << 20
	walCut  = 64 << 20
	walRest = 128 << 10
)

// walRounds is the maximum number of checkpoints in a row, each for the pages that were appended
// during the previous one.
const walRounds = 4

const busyTimeout = 10 * time.Second

// sqliteDB are the connections to a database file.
type sqliteDB struct {
	path    string
	faults  Faults
	writers *sql.DB // one connection for the writer, one for checkpoints
	conn    *sql.Conn
	behind  *sql.Conn // connection for checkpoints
	pool    *sql.DB   // of readers
	shm     *os.File  // index of the write-ahead log; nil before it is read first
	files   place     // nil: no other process is expected to replace them

	mark    mark
	sync    bool        // the mark is durable
	due     atomic.Bool // the next transaction increases the number of the mark
	raising bool        // the current one does; belongs to the writer
}

var _ database = (*sqliteDB)(nil)

func (db *sqliteDB) name() string      { return db.path }
func (db *sqliteDB) dialect() string   { return "sqlite" }
func (db *sqliteDB) writer() *sql.Conn { return db.conn }
func (db *sqliteDB) readers() *sql.DB  { return db.pool }
func (db *sqliteDB) text(s string) any { return s }

func (db *sqliteDB) admit([]any) error { return nil }

// begin implements database.
func (db *sqliteDB) begin(ctx context.Context, w *writer) (done bool, err error) {
	if _, err = w.sql.exec(ctx, "begin"); err == nil {
		err = db.raise(ctx)
	}
	return false, err
}

// commit implements database. What is in files that were removed or replaced is not durable.
func (db *sqliteDB) commit(ctx context.Context, w *writer) error {
	_, err := w.sql.exec(ctx, "commit")
	if err == nil {
		err = db.inPlace()
	}
	if err == nil {
		err = db.raised()
	}
	return err
}

// inPlace implements database.
func (db *sqliteDB) inPlace() error { return db.files.check() }

// again implements database: no failure of a disk is temporary.
func (db *sqliteDB) again(context.Context, *writer, error) bool { return false }

// alone implements database. It only calls do: the lock on the folder blobs already excludes other
// processes.
func (db *sqliteDB) alone(_ context.Context, do func() error) error { return do() }

func sqliteSource(path string, settings url.Values) string {
	settings.Set("_busy_timeout", fmt.Sprint(busyTimeout.Milliseconds()))
	settings.Set("_defensive", "1")
	settings.Set("_dqs", "0")
	settings.Add("_pragma", "trusted_schema(0)")
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: settings.Encode()}).String()
}

func openSQLite(ctx context.Context, path string, full bool) (_ *sqliteDB, err error) {
	// SQLite gives its other files the mode of this one.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	sync := "FULL"
	if !full {
		sync = "OFF"
	}
	db := &sqliteDB{path: path}
	defer func() {
		if err != nil {
			_ = db.close()
		}
	}()
	db.writers, err = sql.Open("sqlite", sqliteSource(path, url.Values{
		"_auto_vacuum":  {"INCREMENTAL"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {sync},
		"_pragma":       {"wal_autocheckpoint(0)", "secure_delete(fast)"},
	}))
	if err != nil {
		return nil, err
	}
	if db.conn, err = db.writers.Conn(ctx); err != nil {
		return nil, err
	}
	if db.behind, err = db.writers.Conn(ctx); err != nil {
		return nil, err
	}
	db.pool, err = sql.Open("sqlite", sqliteSource(path, url.Values{"mode": {"ro"}, "_query_only": {"1"}}))
	if err != nil {
		return nil, err
	}
	db.pool.SetMaxOpenConns(4)
	return db, nil
}

// openStill opens a file that no process writes. It takes no lock and creates no file, so the file
// may be on a read-only medium.
func openStill(ctx context.Context, path string) (_ *sqliteDB, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	source := sqliteSource(path, url.Values{"mode": {"ro"}, "immutable": {"1"}, "_query_only": {"1"}})
	db := &sqliteDB{path: path}
	defer func() {
		if err != nil {
			_ = db.close()
		}
	}()
	if db.writers, err = sql.Open("sqlite", source); err != nil {
		return nil, err
	}
	if db.conn, err = db.writers.Conn(ctx); err != nil {
		return nil, err
	}
	db.pool, err = sql.Open("sqlite", source)
	return db, err
}

func (db *sqliteDB) close() error {
	var errs []error
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	for _, c := range []*sql.Conn{db.conn, db.behind} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if db.writers != nil {
		errs = append(errs, db.writers.Close())
	}
	if db.shm != nil {
		errs = append(errs, db.shm.Close())
	}
	return errors.Join(errs...)
}

// walSize returns the length of the write-ahead log file. It does not shrink when the log starts
// over.
func (db *sqliteDB) walSize() int64 {
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// Offsets in the index file of the write-ahead log, as documented by SQLite, in native byte order.
const (
	shmFrames = 16 // number of pages in the log
	shmCopied = 96 // number of these pages that were copied into the database
	shmHeader = 100
	pageSize  = 4096
)

// walBehind returns the size of the part of the write-ahead log that is not yet in the database.
// The index file stays open: closing it would release the locks of this process on it, which
// protect against other programs.
func (db *sqliteDB) walBehind() int64 {
	if db.shm == nil {
		f, err := os.Open(db.path + "-shm")
		if err != nil {
			return 0
		}
		db.shm = f
	}
	var head [shmHeader]byte
	if _, err := db.shm.ReadAt(head[:], 0); err != nil {
		return 0
	}
	frames, copied := binary.NativeEndian.Uint32(head[shmFrames:]), binary.NativeEndian.Uint32(head[shmCopied:])
	return (int64(frames) - int64(copied)) * pageSize
}

// upkeep makes a checkpoint if the write-ahead log is long enough. It truncates the file only while
// the writer is idle, because that waits for the writer.
//
// The writer reuses the log from its start only if all of it was copied. Pages that it appends
// during a checkpoint are copied by a further one; the last pages are copied between two commits,
// which takes about as long as a commit.
func (db *sqliteDB) upkeep(ctx context.Context, idle bool, between func(do func(ctx context.Context) error) error) error {
	cut := idle && db.walSize() >= walCut
	if !cut && db.walBehind() < walCopy {
		return nil
	}
	if err := db.faults.at("checkpoint"); err != nil {
		return err
	}
	if cut {
		_, err := db.checkpoint(ctx, db.behind, "TRUNCATE")
		return err
	}
	behind := db.walBehind()
	for range walRounds {
		if _, err := db.checkpoint(ctx, db.behind, "PASSIVE"); err != nil {
			return err
		}
		if behind = db.walBehind(); behind <= walRest {
			break
		}
	}
	if behind == 0 || behind > walRest {
		return nil // nothing was appended, or a reader needs old pages
	}
	return between(func(ctx context.Context) error {
		_, err := db.checkpoint(ctx, db.conn, "PASSIVE")
		return err
	})
}

// flush implements database: it truncates the write-ahead log, which holds old pages.
func (db *sqliteDB) flush(ctx context.Context) (whole bool, err error) {
	return db.checkpoint(ctx, db.behind, "TRUNCATE")
}

// checkpoint copies the write-ahead log into the database. The mode TRUNCATE also waits for readers
// and truncates the log. It reports whether the whole log was copied; readers can prevent that.
func (db *sqliteDB) checkpoint(ctx context.Context, on *sql.Conn, mode string) (whole bool, err error) {
	var busy, pages, copied int
	err = on.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &pages, &copied)
	if hasCode(err, sqlite3.SQLITE_BUSY) {
		return false, nil
	}
	db.due.Store(true)
	return busy == 0 && pages == copied, err
}

func hasCode(err error, codes ...int) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && slices.Contains(codes, failed.Code()&0xff)
}

// isCorrupt reports whether err says that the file is damaged.
func isCorrupt(err error) bool { return hasCode(err, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) }

// isFull reports whether err says that the disk is full. The transaction is then rolled back.
func isFull(err error) bool { return hasCode(err, sqlite3.SQLITE_FULL) }

// DiskFailed reports whether err says that the database could not be read or written because its
// disk is full or fails.
func DiskFailed(err error) bool { return hasCode(err, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL) }

// noIndex reports whether err says that the disk has no space for the index of the write-ahead log,
// which is created when a database is opened.
func noIndex(err error) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && failed.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
}

// check returns a description of the damage in the pages of the database; empty if there is none.
func (db *sqliteDB) check(ctx context.Context) (string, error) { return db.checkTable(ctx, "1") }

// checkTable implements database.
func (db *sqliteDB) checkTable(ctx context.Context, table string) (string, error) {
	var found string
	err := db.pool.QueryRowContext(ctx, "PRAGMA integrity_check("+table+")").Scan(&found)
	switch {
	case isCorrupt(err):
		return err.Error(), nil
	case found == "ok":
		return "", err
	}
	return found, err
}

// erasing implements database: during do, SQLite also overwrites the pages that it frees. Deleted
// bytes within a page are always overwritten.
func (db *sqliteDB) erasing(ctx context.Context, do func() error) error {
	mode := func(is string) error {
		_, err := db.conn.ExecContext(ctx, "PRAGMA secure_delete="+is)
		return err
	}
	if err := mode("ON"); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, mode("FAST"))
}

// shrinkPages is the number of free pages that one call of shrink returns to the file system: 16
// MiB.
const shrinkPages = 4096

// shrink implements database.
func (db *sqliteDB) shrink(ctx context.Context) (more bool, err error) {
	rows, err := db.conn.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
	if err != nil {
		return false, err
	}
	n := 0
	for rows.Next() { // each row frees a page
		n++
	}
	return n >= shrinkPages, errors.Join(rows.Err(), rows.Close())
}

// size implements database. The bytes include the write-ahead log.
func (db *sqliteDB) size(ctx context.Context) (bytes, free int64, err error) {
	var pages, unused int64
	err = db.pool.QueryRowContext(ctx, "SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count)").
		Scan(&pages, &unused)
	return pages*pageSize + db.walSize(), unused * pageSize, err
}

// backup implements database: it writes a copy beside the database and replaces an earlier copy for
// the same version.
func (db *sqliteDB) backup(ctx context.Context, version int) error {
	path := fmt.Sprintf("%s.v%d", db.path, version)
	err := os.WriteFile(path, nil, 0o600)
	if err == nil {
		_, err = db.conn.ExecContext(ctx, "VACUUM INTO ?", path)
	}
	if err != nil {
		return fmt.Errorf("copy to %s before the migration: %w", path, err)
	}
	return nil
}
