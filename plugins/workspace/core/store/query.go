package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
)

// preparer is a database or a connection.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// statements are the prepared queries of a database or connection, by text. The queries are
// constants, so there are few.
type statements struct{ byText sync.Map }

func (s *statements) get(ctx context.Context, db preparer, query string) (*sql.Stmt, error) {
	if known, ok := s.byText.Load(query); ok {
		return known.(*sql.Stmt), nil
	}
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	known, loaded := s.byText.LoadOrStore(query, stmt)
	if loaded {
		_ = stmt.Close()
	}
	return known.(*sql.Stmt), nil
}

func (s *statements) close() error {
	var errs []error
	s.byText.Range(func(_, stmt any) bool {
		errs = append(errs, stmt.(*sql.Stmt).Close())
		return true
	})
	s.byText.Clear()
	return errors.Join(errs...)
}

// prepared is a transaction of a reader that compiles each query once for each
// connection.
type prepared struct {
	tx      *sql.Tx
	db      *sql.DB
	queries *statements
}

var _ querier = (*prepared)(nil)

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := p.queries.get(ctx, p.db, query)
	if err != nil {
		return nil, err
	}
	return p.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
}

func (p *prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := p.queries.get(ctx, p.db, query)
	if err != nil {
		return p.tx.QueryRowContext(ctx, query, args...) // fails in the same way
	}
	return p.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
}

// preparedConn is the connection of the writer. It compiles each statement once.
// Rows must be read before the same query runs again.
type preparedConn struct {
	*sql.Conn
	queries statements
}

var _ querier = (*preparedConn)(nil)

func connect(ctx context.Context, db *sql.DB) (*preparedConn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &preparedConn{Conn: conn}, nil
}

// ExecContext runs a statement, or a script, which is not kept.
func (p *preparedConn) ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	if strings.Contains(statement, ";") {
		return p.Conn.ExecContext(ctx, statement, args...)
	}
	stmt, err := p.queries.get(ctx, p.Conn, statement)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

func (p *preparedConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := p.queries.get(ctx, p.Conn, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

func (p *preparedConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := p.queries.get(ctx, p.Conn, query)
	if err != nil {
		return p.Conn.QueryRowContext(ctx, query, args...) // fails in the same way
	}
	return stmt.QueryRowContext(ctx, args...)
}

// Close releases the statements and the connection.
func (p *preparedConn) Close() error { return errors.Join(p.queries.close(), p.Conn.Close()) }
