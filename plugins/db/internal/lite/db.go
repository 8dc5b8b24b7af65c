package lite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Settings configure Open.
type Settings struct {
	Path string
	// Write opens the database for changes. DDL allows changes of its schema, and
	// creates the file if it is missing.
	Write, DDL bool
	// Key is the effect key of a call that writes.
	Key string
	// Now is the time that is recorded with the key.
	Now time.Time
	// Wait is the maximum time to wait for a lock, in whole milliseconds.
	Wait time.Duration
}

// DB is a database in the transaction of one call. It must be used by one goroutine.
type DB struct {
	*native
	key    string
	rights rights
}

// Open opens a database and begins the transaction of the call. For a call that writes, it also
// records the effect key in the transaction; if an earlier call with this key was committed, Open
// returns the stored answer of that call, and the caller must not execute anything. After Open no
// further file is opened. It waits for locks up to s.Wait. The caller must close db.
//
// The fault is Missing for a file that does not exist or is not a regular file, Busy for a lock
// that another process holds, and Lost for a file that cannot be opened.
func Open(s Settings) (db *DB, stored *result.Stored, fault *result.Fault) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(s.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, result.Faultf(result.Missing, "the directory %s does not exist", filepath.Dir(s.Path))
	}
	path := filepath.Join(dir, filepath.Base(s.Path))
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, nil, result.Faultf(result.Missing, "the path %s is not a regular file", s.Path)
		}
	}
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && !(s.Write && s.DDL):
		return nil, nil, result.Faultf(result.Missing, "the file %s does not exist", s.Path)
	case err != nil && !missing:
		return nil, nil, result.Faultf(result.Missing, "open the file %s: %s", s.Path, cause(err))
	}
	flags := int32(sqlite3.SQLITE_OPEN_READONLY)
	if s.Write {
		flags = sqlite3.SQLITE_OPEN_READWRITE
	}
	if s.Write && s.DDL {
		flags |= sqlite3.SQLITE_OPEN_CREATE
	}
	n, rc := connect(path, flags)
	db = &DB{native: n, key: s.Key}
	if rc != sqlite3.SQLITE_OK {
		fault = n.fault(rc)
		n.close()
		return nil, nil, fault
	}
	sqlite3.Xsqlite3_busy_timeout(n.tls, n.db, int32(s.Wait.Milliseconds()))
	if s.Write {
		stored, fault = db.beginWrite(s, path)
	} else {
		fault = db.beginRead()
	}
	if fault != nil {
		n.close()
		return nil, nil, fault
	}
	n.restrict(db.rights)
	return db, stored, nil
}

func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (db *DB) beginRead() *result.Fault {
	return db.execAll("PRAGMA temp_store = MEMORY", "PRAGMA query_only = ON", "BEGIN",
		"SELECT count(*) FROM sqlite_schema") // takes the lock and opens the log
}

// beginWrite begins the transaction of a call that writes and records its key in it. If an earlier
// call with the key was committed, it returns the answer of that call. The first change opens the
// journal.
func (db *DB) beginWrite(s Settings, path string) (*result.Stored, *result.Fault) {
	db.rights = rightWrite
	if s.DDL {
		db.rights |= rightDDL
	}
	mode, fault := db.exec("PRAGMA journal_mode")
	if fault != nil {
		return nil, fault
	}
	if mode[0] != "wal" {
		// A confined process cannot remove the journal at the end.
		mode, fault = db.exec("PRAGMA journal_mode = TRUNCATE")
	}
	if fault != nil {
		return nil, fault
	}
	if mode[0] != "wal" && mode[0] != "truncate" {
		return nil, result.Faultf(result.Busy, "the journal of the database is in use")
	}
	fault = db.execAll("PRAGMA temp_store = MEMORY", "PRAGMA synchronous = FULL", "BEGIN IMMEDIATE", createEffects)
	if fault != nil {
		return nil, fault
	}
	row, fault := db.exec("SELECT statements, answer FROM "+effectsTable+" WHERE effect_key = ?", db.key)
	if fault != nil {
		return nil, fault
	}
	if row != nil {
		return &result.Stored{Statements: row[0], Answer: row[1]}, nil
	}
	_, fault = db.exec("INSERT INTO "+effectsTable+
		" (effect_key, statements, answer, created_at) VALUES (?, '', '', ?)", db.key, result.Instant(s.Now))
	if fault != nil {
		return nil, fault
	}
	return nil, syncDir(filepath.Dir(path))
}

const createEffects = "CREATE TABLE IF NOT EXISTS " + effectsTable +
	" (effect_key TEXT PRIMARY KEY, statements TEXT NOT NULL, answer TEXT NOT NULL, created_at TEXT NOT NULL)"

// syncDir makes the names of new files in dir durable. SQLite does that too, but only when it
// writes them, which is when the process may no longer open the directory.
func syncDir(dir string) *result.Fault {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return result.Faultf(result.Lost, "sync the directory %s of the file: %s", dir, cause(err))
	}
	return nil
}

func (db *DB) execAll(statements ...string) *result.Fault {
	for _, sql := range statements {
		if _, fault := db.exec(sql); fault != nil {
			return fault
		}
	}
	return nil
}

// Run executes a statement and appends its rows to into. It is interrupted when ctx ends; the fault
// is then Late. A statement that writes is NotAllowed if the call may only read.
func (db *DB) Run(ctx context.Context, s effects.Statement, into *result.Rows) *result.Fault {
	stop := context.AfterFunc(ctx, db.interrupt)
	defer stop()
	if ctx.Err() != nil {
		return result.Faultf(result.Late, "the timeout of the call has passed")
	}
	statement, fault := db.prepare(s.SQL)
	if fault != nil {
		return fault
	}
	defer sqlite3.Xsqlite3_finalize(db.tls, statement)
	if db.rights&rightWrite == 0 && sqlite3.Xsqlite3_stmt_readonly(db.tls, statement) == 0 {
		return result.Faultf(result.NotAllowed,
			"the statement changes the database, expected one that reads: use :db/exec for it")
	}
	if fault := db.bind(statement, s.Parameters); fault != nil {
		return fault
	}
	before := sqlite3.Xsqlite3_total_changes64(db.tls, db.db)
	if fault := db.collect(statement, into); fault != nil {
		return fault
	}
	if sqlite3.Xsqlite3_total_changes64(db.tls, db.db) != before {
		into.Affected = sqlite3.Xsqlite3_changes64(db.tls, db.db)
	}
	return nil
}

// Commit stores the answer under the effect key and commits the transaction. The fault is
// NotAllowed if the statements removed the row of the key. If it is Unsure, the transaction may
// have been committed; otherwise it was not.
func (db *DB) Commit(_ context.Context, s result.Stored) *result.Fault {
	db.trust()
	if _, fault := db.exec("UPDATE "+effectsTable+" SET statements = ?, answer = ? WHERE effect_key = ?",
		s.Statements, s.Answer, db.key); fault != nil {
		return fault
	}
	if sqlite3.Xsqlite3_changes64(db.tls, db.db) != 1 {
		return result.Faultf(result.NotAllowed, "the statements removed the row of this call from the table %s", effectsTable)
	}
	if _, fault := db.exec("COMMIT"); fault != nil {
		fault.Unsure = fault.Kind == result.Lost
		return fault
	}
	return nil
}

// Close rolls the transaction back, unless it was committed, and closes the
// connection.
func (db *DB) Close() {
	db.trust()
	_, _ = db.exec("ROLLBACK")
	db.close()
}
