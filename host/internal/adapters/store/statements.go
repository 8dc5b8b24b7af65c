package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"
)

//go:embed sql
var sqlFiles embed.FS

// statements are the named statements of a dialect on one connection or on a
// pool. Each is prepared at its first use.
type statements struct {
	on interface {
		PrepareContext(ctx context.Context, text string) (*sql.Stmt, error)
	}
	text  map[string]string
	admit func(args []any) error
	// finds makes a damaged page or row a *Damage. The writer needs the error of the
	// database: it ends the store.
	finds bool

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

// readStatements reads the file of named statements of a dialect.
func readStatements(dialect string) (map[string]string, error) {
	file, err := sqlFiles.ReadFile("sql/" + dialect + "/queries.sql")
	if err != nil {
		return nil, err
	}
	text := map[string]string{}
	for i, part := range strings.Split(string(file), "-- name: ") {
		if name, body, ok := strings.Cut(part, "\n"); ok && i > 0 {
			text[name] = strings.TrimSpace(body)
		}
	}
	return text, nil
}

func (s *statements) get(ctx context.Context, name string) (*sql.Stmt, error) {
	return s.getAs(ctx, name, func() string { return s.text[name] })
}

// getAs is get for a statement with another text than that of its name.
func (s *statements) getAs(ctx context.Context, name string, text func() string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.prepared[name]; st != nil {
		return st, nil
	}
	st, err := s.on.PrepareContext(ctx, text())
	if err != nil {
		return nil, s.failed("prepare statement "+name, err)
	}
	if s.prepared == nil {
		s.prepared = map[string]*sql.Stmt{}
	}
	s.prepared[name] = st
	return st, nil
}

// ready returns the prepared statement for arguments.
func (s *statements) ready(ctx context.Context, name string, args []any) (*sql.Stmt, error) {
	if err := s.admit(args); err != nil {
		return nil, err
	}
	return s.get(ctx, name)
}

// reset makes the statements those of another connection.
func (s *statements) reset(on *sql.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.prepared = on, nil
}

// exec runs a statement and returns the number of changed rows.
func (s *statements) exec(ctx context.Context, name string, args ...any) (int64, error) {
	st, err := s.ready(ctx, name, args)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, s.failed(name, err)
	}
	return res.RowsAffected()
}

// one reads one row; without one the error is sql.ErrNoRows.
func (s *statements) one(ctx context.Context, name string, args, into []any) error {
	st, err := s.ready(ctx, name, args)
	if err != nil {
		return err
	}
	if err := st.QueryRowContext(ctx, args...).Scan(into...); err != nil {
		return s.failed(name, err)
	}
	return nil
}

// all reads every row into the places and calls each after it.
func (s *statements) all(ctx context.Context, name string, args, into []any, each func() error) error {
	st, err := s.ready(ctx, name, args)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return s.failed(name, err)
	}
	return s.read(rows, name, into, each)
}

// read reads every row into the places, calls each after it, and closes the rows.
func (s *statements) read(rows *sql.Rows, name string, into []any, each func() error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return s.failed(name, err)
		}
		if err := each(); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.failed(name, err)
	}
	return nil
}

func (s *statements) failed(name string, err error) error {
	if s.finds && (corrupt(err) || errors.Is(err, errDamaged)) {
		return &Damage{What: fmt.Sprintf("%s: %s", name, err)}
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (s *statements) close() {
	for _, st := range s.prepared {
		_ = st.Close()
	}
}
