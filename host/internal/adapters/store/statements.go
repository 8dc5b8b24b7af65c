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

// statements executes the named statements of a dialect on one connection or on a pool. Each
// statement is prepared on its first use.
type statements struct {
	on interface {
		PrepareContext(ctx context.Context, text string) (*sql.Stmt, error)
	}
	text  map[string]string
	admit func(args []any) error
	// With finds, an error for a damaged page or row becomes a *Damage. The writer needs the
	// original error, because it makes the store fail.
	finds bool

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

// readStatements returns the named statements of a dialect, by name.
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

// getAs is get for a statement whose text is not in s.text; it is cached under name.
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

// ready checks the arguments and returns the prepared statement.
func (s *statements) ready(ctx context.Context, name string, args []any) (*sql.Stmt, error) {
	if err := s.admit(args); err != nil {
		return nil, err
	}
	return s.get(ctx, name)
}

// reset replaces the connection. All statements are prepared again.
func (s *statements) reset(on *sql.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.prepared = on, nil
}

// exec executes a statement and returns the number of changed rows.
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

// one scans the first row of a result into into. If there is no row, the error is sql.ErrNoRows.
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

// all scans each row of a result into into and calls each after it. An error of each stops it.
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

// read scans each row into into, calls each after it, and closes rows.
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
