package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SchemaError is the error of opening a database whose schema this program cannot use. Its Path is
// the name of the database.
type SchemaError struct {
	Path  string
	Found int // version of the database
	Known int // latest version that this program supports
	// Changed is the name of an applied migration whose text differs from that of this program;
	// empty if there is none.
	Changed string
}

// Error implements error.
func (e *SchemaError) Error() string {
	switch {
	case e.Changed != "":
		return fmt.Sprintf("store: open %s: migration %s was applied in another form than that of this program",
			e.Path, e.Changed)
	case e.Found < e.Known:
		return fmt.Sprintf("store: open %s: schema has version %d, this program needs %d", e.Path, e.Found, e.Known)
	}
	return fmt.Sprintf("store: open %s: schema has version %d, this program knows up to %d", e.Path, e.Found, e.Known)
}

// Fix returns the next step for the operator.
func (e *SchemaError) Fix() string {
	if e.Changed != "" || e.Found > e.Known {
		return "use the program that wrote the database; \"ferment admin db-status\" shows the versions"
	}
	return "run \"ferment admin migrate\"; \"ferment admin db-status\" shows the versions"
}

// migration is one step of the schema.
type migration struct {
	version  int
	name     string
	up, down string
	// moveUp and moveDown, if not nil, convert rows after up and before down.
	moveUp, moveDown move
}

// readMigrations reads the files NNNN_name.up.sql and .down.sql of a folder, which must be numbered
// from 1 without gaps.
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
		out = append(out, migration{version: version, name: name, up: string(up), down: string(down)})
		out[version-1].moveUp, out[version-1].moveDown = movesOf(version)
	}
	return out, nil
}

// migrator brings a database to a version of the schema.
type migrator struct {
	db    database
	text  map[string]string // named statements
	steps []migration
	now   func() time.Time
}

// version returns the schema version of the database. The error is a *SchemaError if an applied
// migration differs from the known one, or the version is newer than this program.
func (m *migrator) version(ctx context.Context) (int, error) {
	if _, err := m.db.writer().ExecContext(ctx, m.text["migrations_table"]); err != nil {
		return 0, err
	}
	rows, err := m.db.writer().QueryContext(ctx, m.text["migrations"])
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
		return 0, &SchemaError{Path: m.db.name(), Found: found, Known: len(m.steps), Changed: changed}
	}
	return found, nil
}

// up applies the missing migrations, each in its own transaction. It first copies a database that
// has content. Without apply, a missing migration is a *SchemaError, except for an empty database.
func (m *migrator) up(ctx context.Context, apply bool) error {
	found, err := m.version(ctx)
	if err != nil || found == len(m.steps) {
		return err
	}
	if found > 0 {
		if !apply {
			return &SchemaError{Path: m.db.name(), Found: found, Known: len(m.steps)}
		}
		if err := m.db.backup(ctx, found); err != nil {
			return err
		}
	}
	for _, step := range m.steps[found:] {
		err := m.step(ctx, step.name, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, step.up); err != nil {
				return err
			}
			return m.move(ctx, tx, step.moveUp)
		}, "add_migration", step.version, step.name, hexSum(step.up), m.now().UnixNano())
		if err != nil {
			return err
		}
	}
	return nil
}

// LossError is the error of Migrate to an older version, which would delete data, without
// acceptLoss. Its Path is the name of the database.
type LossError struct {
	Path     string
	From, To int // versions
}

// Error implements error.
func (e *LossError) Error() string {
	return fmt.Sprintf("store: migrate %s: version %d cannot store data of version %d; the flag --accept-loss deletes it",
		e.Path, e.To, e.From)
}

// Migration describes a change of the schema version of a database.
type Migration struct {
	Database string
	From, To int      // versions
	Steps    []string // names of the migrations, in the order in which they are applied or reverted
}

// plan sets Steps from the versions and all known migrations.
func (m *Migration) plan(steps []migration) {
	for _, step := range steps[min(m.From, m.To):max(m.From, m.To)] {
		m.Steps = append(m.Steps, step.name)
	}
	if m.To < m.From {
		slices.Reverse(m.Steps)
	}
}

// Plan returns the migration of an open store to version to; a negative or unknown version means
// the latest. It changes nothing.
func (s *Store) Plan(ctx context.Context, to int) (m Migration, err error) {
	steps, err := readMigrations(sqlFiles, "sql/"+s.db.dialect())
	if err != nil {
		return m, err
	}
	m = Migration{Database: s.db.name(), To: to}
	if to < 0 || to > len(steps) {
		m.To = len(steps)
	}
	if m.From, err = s.version(ctx); err == nil {
		m.plan(steps)
	}
	return m, err
}

// Migrate changes the schema of a database to version to; a negative or unknown version means the
// latest. The store must not be open. A lower version deletes data: without acceptLoss the error is
// then a *LossError. With dryRun it changes nothing. It returns the migration in both cases.
func Migrate(ctx context.Context, opts Options, to int, acceptLoss, dryRun bool) (_ Migration, err error) {
	db, err := openAlone(ctx, opts)
	if err != nil {
		return Migration{}, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	m, err := newMigrator(db, time.Now)
	if err != nil {
		return Migration{}, err
	}
	if to < 0 || to > len(m.steps) {
		to = len(m.steps)
	}
	out := Migration{Database: db.name(), To: to}
	err = db.alone(ctx, func() error {
		out.From, err = m.version(ctx)
		if err == nil {
			out.plan(m.steps)
		}
		switch {
		case err != nil || dryRun || out.From == to:
			return err
		case out.From < to:
			return m.up(ctx, true)
		case !acceptLoss:
			return &LossError{Path: out.Database, From: out.From, To: to}
		}
		return m.down(ctx, to)
	})
	return out, err
}

// lockedDB is a SQLite database together with the lock of its file. close releases both.
type lockedDB struct {
	database
	lock *blobs
}

func (db *lockedDB) close() error { return errors.Join(db.database.close(), db.lock.close()) }

// openAlone opens the database of opts without a Store. A file is locked until the database is
// closed.
func openAlone(ctx context.Context, opts Options) (database, error) {
	if opts.Postgres != nil {
		db, err := openPostgres(ctx, *opts.Postgres, !opts.NoSync, nil)
		if err != nil {
			return nil, notOpened(opts.title(), err)
		}
		return db, nil
	}
	lock, err := openBlobs(opts)
	if err != nil {
		return nil, err
	}
	opts.NoSync = false
	db, err := openPresent(ctx, opts, lock)
	if err != nil {
		return nil, errors.Join(unopened(err), lock.close())
	}
	return &lockedDB{db, lock}, nil
}

func newMigrator(db database, now func() time.Time) (*migrator, error) {
	steps, err := readMigrations(sqlFiles, "sql/"+db.dialect())
	if err != nil {
		return nil, err
	}
	text, err := readStatements(db.dialect())
	return &migrator{db: db, text: text, steps: steps, now: now}, err
}

// down reverts the migrations above version to, each in its own transaction. Data that they added
// is deleted.
func (m *migrator) down(ctx context.Context, to int) error {
	found, err := m.version(ctx)
	if err != nil {
		return err
	}
	for ; found > to; found-- {
		step := m.steps[found-1]
		err := m.step(ctx, step.name, func(tx *sql.Tx) error {
			if err := m.move(ctx, tx, step.moveDown); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, step.down)
			return err
		}, "remove_migration", step.version)
		if err != nil {
			return err
		}
	}
	return nil
}

// move runs a row conversion within a migration. Deleted text is overwritten in the file.
func (m *migrator) move(ctx context.Context, tx *sql.Tx, move move) error {
	if move == nil {
		return nil
	}
	return m.db.erasing(ctx, func() error { return move(ctx, newMover(m.db, tx)) })
}

// step calls do and updates the list of applied migrations with the statement mark, in one
// transaction.
func (m *migrator) step(ctx context.Context, name string, do func(*sql.Tx) error, mark string, args ...any) error {
	tx, err := m.db.writer().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return fmt.Errorf("migration %s: %w", name, err)
	}
	if _, err := tx.ExecContext(ctx, m.text[mark], args...); err != nil {
		return fmt.Errorf("migration %s: %w", name, err)
	}
	return tx.Commit()
}
