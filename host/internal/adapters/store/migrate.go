package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// SchemaError is a database whose schema this program cannot use.
type SchemaError struct {
	Path  string
	Found int // version of the database
	Known int // last version that this program knows
	// Changed is the migration that was applied with another text, if any.
	Changed string
}

// Error implements error.
func (e *SchemaError) Error() string {
	switch {
	case e.Changed != "":
		return fmt.Sprintf("store: open %s: migration %s was applied with another text than that of this program",
			e.Path, e.Changed)
	case e.Found < e.Known:
		return fmt.Sprintf("store: open %s: schema has version %d, this program needs %d, and migrations are off",
			e.Path, e.Found, e.Known)
	}
	return fmt.Sprintf("store: open %s: schema has version %d, this program knows up to %d; use the program that "+
		"wrote it", e.Path, e.Found, e.Known)
}

// migration is one step of the schema.
type migration struct {
	version  int
	name     string
	up, down string
}

// readMigrations reads the steps NNNN_name.up.sql and .down.sql of a folder,
// which are numbered from 1 without gaps.
func readMigrations(files fs.FS, dir string) ([]migration, error) {
	entries, err := fs.ReadDir(files, dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var out []migration
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".up.sql")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(out)+1 {
			return nil, fmt.Errorf("migration %s is not number %d", e.Name(), len(out)+1)
		}
		up, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		down, err := fs.ReadFile(files, path.Join(dir, name+".down.sql"))
		if err != nil {
			return nil, err
		}
		out = append(out, migration{version, name, string(up), string(down)})
	}
	return out, nil
}

// migrator brings a database to a version of the schema.
type migrator struct {
	path  string
	conn  *sql.Conn
	steps []migration
	now   func() time.Time
	copy  func(ctx context.Context, path string) error
}

const migrationTable = `CREATE TABLE IF NOT EXISTS migrations (
  version INTEGER PRIMARY KEY,
  name    TEXT    NOT NULL,
  sum     TEXT    NOT NULL,
  applied INTEGER NOT NULL
)`

// version returns the version of the database after it compared the applied
// steps with the known ones.
func (m *migrator) version(ctx context.Context) (int, error) {
	if _, err := m.conn.ExecContext(ctx, migrationTable); err != nil {
		return 0, err
	}
	rows, err := m.conn.QueryContext(ctx, "SELECT version, name, sum FROM migrations ORDER BY version")
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	found, changed := 0, ""
	for rows.Next() {
		var name, sum string
		if err := rows.Scan(&found, &name, &sum); err != nil {
			return 0, err
		}
		if found <= len(m.steps) && changed == "" && sum != hexSum(m.steps[found-1].up) {
			changed = name
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if found > len(m.steps) || changed != "" {
		return 0, &SchemaError{Path: m.path, Found: found, Known: len(m.steps), Changed: changed}
	}
	return found, nil
}

// up applies the missing steps, each in a transaction of its own. A database
// with content is copied first. Without apply a missing step is an error.
func (m *migrator) up(ctx context.Context, apply bool) error {
	found, err := m.version(ctx)
	if err != nil || found == len(m.steps) {
		return err
	}
	if found > 0 {
		if !apply {
			return &SchemaError{Path: m.path, Found: found, Known: len(m.steps)}
		}
		saved := fmt.Sprintf("%s.v%d", m.path, found)
		if err := m.copy(ctx, saved); err != nil {
			return fmt.Errorf("copy to %s before the migration: %w", saved, err)
		}
	}
	for _, step := range m.steps[found:] {
		err := m.step(ctx, step.name, step.up, "INSERT INTO migrations (version, name, sum, applied) VALUES (?1, ?2, ?3, ?4)",
			step.version, step.name, hexSum(step.up), m.now().UnixNano())
		if err != nil {
			return err
		}
	}
	return nil
}

// LossError is a change of the schema that would delete data.
type LossError struct {
	Path     string
	From, To int // versions
}

// Error implements error.
func (e *LossError) Error() string {
	return fmt.Sprintf("store: migrate %s: version %d has no place for data of version %d; the flag --accept-loss deletes it",
		e.Path, e.To, e.From)
}

// Migrate brings the database of a store that is not open to a version of the
// schema; a negative one is the latest. A lower version deletes data, which
// acceptLoss must allow.
func Migrate(ctx context.Context, path string, to int, acceptLoss bool) (err error) {
	lock, err := openBlobs(path, Faults{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.close()) }()
	db, err := openSQLite(ctx, path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	m, err := newMigrator(db, time.Now)
	if err != nil {
		return err
	}
	if to < 0 || to >= len(m.steps) {
		return m.up(ctx, true)
	}
	found, err := m.version(ctx)
	if err != nil || found <= to {
		return err
	}
	if !acceptLoss {
		return &LossError{Path: path, From: found, To: to}
	}
	return m.down(ctx, to)
}

func newMigrator(db *sqliteDB, now func() time.Time) (*migrator, error) {
	steps, err := readMigrations(sqlFiles, "sql/sqlite")
	return &migrator{path: db.path, conn: db.conn, steps: steps, now: now, copy: db.copyTo}, err
}

// down takes back the steps above a version. It deletes what they added.
func (m *migrator) down(ctx context.Context, to int) error {
	found, err := m.version(ctx)
	if err != nil {
		return err
	}
	for ; found > to; found-- {
		step := m.steps[found-1]
		if err := m.step(ctx, step.name, step.down, "DELETE FROM migrations WHERE version = ?1", step.version); err != nil {
			return err
		}
	}
	return nil
}

func (m *migrator) step(ctx context.Context, name, text, mark string, args ...any) error {
	tx, err := m.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("migration %s: %w", name, err)
	}
	if _, err := tx.ExecContext(ctx, mark, args...); err != nil {
		return fmt.Errorf("migration %s: %w", name, err)
	}
	return tx.Commit()
}
