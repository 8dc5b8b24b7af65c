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
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Everything that only SQLite has is in this file and below sql/sqlite.

// Sizes of the write-ahead log at which it is copied into the database.
const (
	walCopy = 4 << 20
	walCut  = 64 << 20
)

const busyTimeout = 10 * time.Second

// sqliteDB are the connections to a database file.
type sqliteDB struct {
	path    string
	writers *sql.DB // one connection for the writer, one for checkpoints
	conn    *sql.Conn
	behind  *sql.Conn // of checkpoints
	readers *sql.DB
	shm     *os.File // index of the write-ahead log; nil before it is read first
}

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
	db.readers, err = sql.Open("sqlite", sqliteSource(path, url.Values{"mode": {"ro"}, "_query_only": {"1"}}))
	if err != nil {
		return nil, err
	}
	db.readers.SetMaxOpenConns(4)
	return db, nil
}

func (db *sqliteDB) close() error {
	var errs []error
	if db.readers != nil {
		errs = append(errs, db.readers.Close())
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

// walSize is the length of the write-ahead log file. It does not shrink when the
// log starts over.
func (db *sqliteDB) walSize() int64 {
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// Places in the index of the write-ahead log, as SQLite documents its file
// format, in native byte order.
const (
	shmFrames = 16 // pages in the log
	shmCopied = 96 // pages of them that are in the database
	shmHeader = 100
	pageSize  = 4096
)

// walBehind returns the bytes of the write-ahead log that are not in the
// database yet. The file stays open: closing it would release the locks of this
// process on it, and with them its protection against other programs.
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

// checkpoint copies the write-ahead log into the database. With cut it waits
// for readers and empties the log. It reports whether all of the log was copied;
// readers can prevent that.
func (db *sqliteDB) checkpoint(ctx context.Context, cut bool) (whole bool, err error) {
	mode := "PASSIVE"
	if cut {
		mode = "TRUNCATE"
	}
	var busy, pages, copied int
	err = db.behind.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &pages, &copied)
	if hasCode(err, sqlite3.SQLITE_BUSY) {
		return false, nil
	}
	return busy == 0 && pages == copied, err
}

func hasCode(err error, codes ...int) bool {
	var failed *sqlite.Error
	return errors.As(err, &failed) && slices.Contains(codes, failed.Code()&0xff)
}

// isCorrupt reports whether the error says that the file is damaged.
func isCorrupt(err error) bool { return hasCode(err, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) }

// check returns what is wrong with the pages of the database, or nothing.
func (db *sqliteDB) check(ctx context.Context) (string, error) {
	var found string
	err := db.readers.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found)
	switch {
	case isCorrupt(err):
		return err.Error(), nil
	case found == "ok":
		return "", err
	}
	return found, err
}

// eraseMode makes deletions overwrite also the pages that they free. Within pages
// they always overwrite what they delete or move.
func (db *sqliteDB) eraseMode(ctx context.Context, on bool) error {
	mode := "FAST"
	if on {
		mode = "ON"
	}
	_, err := db.conn.ExecContext(ctx, "PRAGMA secure_delete="+mode)
	return err
}

// shrink returns free pages to the file system.
func (db *sqliteDB) shrink(ctx context.Context) error {
	rows, err := db.conn.QueryContext(ctx, "PRAGMA incremental_vacuum")
	if err != nil {
		return err
	}
	for rows.Next() { // frees a page per row
	}
	return errors.Join(rows.Err(), rows.Close())
}

// copyTo writes a copy of the database to a file, and replaces one that is there.
func (db *sqliteDB) copyTo(ctx context.Context, path string) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	_, err := db.conn.ExecContext(ctx, "VACUUM INTO ?", path)
	return err
}
