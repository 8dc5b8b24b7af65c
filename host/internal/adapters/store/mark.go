package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markName is the file beside a database that says that there was one, and how far it had come.
const markName = "JOURNAL"

// mark is the number in that file, which the database has too, as its user_version: the first
// transaction of each process and the first one after each checkpoint increase it, in the log
// first. A database with a lower number lacks its log, or is an older copy.
type mark struct {
	path     string // of the file
	database string // name of its database
	number   int64
	used     bool // there was a database of that name
}

// readMark reads the mark of a database. One that cannot be read has the number 0.
func readMark(database string) mark {
	m := mark{path: filepath.Join(filepath.Dir(database), markName), database: filepath.Base(database)}
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	var name string
	if n, _ := fmt.Sscanf(string(text), "%d %q", &m.number, &name); n == 2 && name != m.database {
		return mark{path: m.path, database: m.database} // of another configuration
	}
	m.used = true
	return m
}

// write makes a number durable. The text has a fixed length, so a full disk has space for it and
// it is never half of one number and half of another.
func (m *mark) write(number int64, sync bool) (err error) {
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteAt(fmt.Appendf(nil, "%010d %q\n", number, m.database), 0)
	if err == nil && sync {
		err = f.Sync()
	}
	if err == nil && sync && !m.used {
		err = SyncDir(filepath.Dir(m.path))
	}
	m.number, m.used = number, true
	return err
}

// WalkDir is filepath.WalkDir for a directory that may be a symbolic link. Links below it are not
// followed.
func WalkDir(dir string, f fs.WalkDirFunc) error {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return f(dir, nil, err)
	}
	return filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		return f(filepath.Join(dir, strings.TrimPrefix(at, root)), d, err)
	})
}

// SyncDir makes the names in a directory durable.
func SyncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Unused reports whether no database was ever created at Path: there is no such file, Used is
// false, and the directory has no mark of it. It is false if the file cannot be examined.
func (o Options) Unused() bool {
	_, err := os.Stat(o.Path)
	return errors.Is(err, fs.ErrNotExist) && !o.Used && !readMark(o.Path).used
}

// lost returns the *Damage of a database that is not the one that was left there.
func lost(what string) *Damage {
	return &Damage{Lost: true, What: what + ", although a journal was there: its runs, idempotency keys, sessions, " +
		"users and budgets may be lost"}
}

// Fix returns the next step for an operator; empty: there is none beside the usual one.
func (d *Damage) Fix() string {
	if !d.Lost {
		return ""
	}
	return `put the files back, or move the data directory away and run "ferment admin restore" with a backup; ` +
		`"ferment admin journal-repair" begins a journal with what is left, and suspends its open runs`
}

// openPresent opens a database file, unless it is not the one that was left there.
func openPresent(ctx context.Context, opts Options, files *blobs) (*sqliteDB, error) {
	m := readMark(opts.Path)
	was := (m.used || opts.Used) && !opts.scratch
	info, err := os.Stat(opts.Path)
	switch {
	case was && errors.Is(err, fs.ErrNotExist):
		return nil, lost("the file is missing")
	case err == nil && info.IsDir():
		return nil, lost("the path has a directory, expected a file")
	}
	if err := files.checkEmptied(opts.Path); err != nil {
		return nil, err
	}
	if was && err == nil && info.Size() == 0 {
		return nil, lost("the file is empty")
	}
	db, err := openSQLite(ctx, opts.Path, !opts.NoSync)
	if err != nil {
		return nil, err
	}
	db.mark, db.sync = m, !opts.NoSync
	if err := db.checkLeft(ctx, was); err != nil {
		return nil, errors.Join(err, db.close())
	}
	db.due.Store(!opts.scratch)
	return db, nil
}

// checkLeft returns a *Damage if the database is that of another program, or was and is
// not as it was left.
func (db *sqliteDB) checkLeft(ctx context.Context, was bool) error {
	var tables, ours, number int64
	err := db.conn.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE name = 'migrations'), "+
		"(SELECT user_version FROM pragma_user_version) FROM sqlite_schema").Scan(&tables, &ours, &number)
	switch {
	case err != nil:
		return err
	case tables > 0 && ours == 0:
		return lost("the file is a database of another program")
	case was && tables == 0:
		return lost("the database has no tables")
	case was && number < db.mark.number:
		return lost("the database is older than it was left: its log " + filepath.Base(db.path) +
			"-wal is missing, or a copy has taken its place")
	}
	db.mark.number = max(db.mark.number, number)
	return nil
}

// raise increases the number of the database in the current transaction, if that is due.
func (db *sqliteDB) raise(ctx context.Context) error {
	if !db.due.Swap(false) && !db.raising {
		return nil
	}
	db.raising = true // until a transaction is committed
	_, err := db.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", db.mark.number+1))
	return err
}

// raised makes the number of a committed transaction that of the mark.
func (db *sqliteDB) raised() error {
	if !db.raising {
		return nil
	}
	db.raising = false
	return db.mark.write(db.mark.number+1, db.sync)
}
