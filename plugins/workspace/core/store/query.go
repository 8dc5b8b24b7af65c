package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// statements are prepared queries, by text. The queries are constants, so there
// are few.
type statements struct{ byText sync.Map }

// preparer is a database or one connection to it.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

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

// eachRow calls visit for every row of a query.
func eachRow(ctx context.Context, q querier, visit func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collect returns what scan reads from each row of a query.
func collect[T any](ctx context.Context, q querier, scan func(*sql.Rows, *T) error, query string, args ...any) (list []T, err error) {
	err = eachRow(ctx, q, func(rows *sql.Rows) error {
		var x T
		if err := scan(rows, &x); err != nil {
			return err
		}
		list = append(list, x)
		return nil
	}, query, args...)
	return list, err
}

// scanText is for collect: the only column of a row, as text or as bytes.
func scanText[T string | []byte](rows *sql.Rows, x *T) error {
	var value []byte
	err := rows.Scan(&value)
	*x = T(value)
	return err
}

// isOpen reports whether a prepared query failed because its rows are still open.
func isOpen(err error) bool {
	var in *sqlite.Error
	return errors.As(err, &in) && in.Code() == sqlite3.SQLITE_MISUSE
}

// prepared is a transaction of a reader that compiles each query once for each
// connection. A query whose rows are open can run again within.
type prepared struct {
	tx      *sql.Tx
	db      *sql.DB
	queries *statements
}

var _, _ querier = (*prepared)(nil), (*writerConn)(nil)

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := p.queries.get(ctx, p.db, query)
	if err != nil {
		return nil, err
	}
	rows, err := p.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
	if isOpen(err) {
		return p.tx.QueryContext(ctx, query, args...)
	}
	return rows, err
}

func (p *prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := p.queries.get(ctx, p.db, query)
	if err != nil {
		return p.tx.QueryRowContext(ctx, query, args...) // fails in the same way
	}
	return p.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
}

// writerConn is the connection of the writer. It compiles each query and each
// statement once.
type writerConn struct {
	*sql.Conn
	queries statements
}

func (w *writerConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := w.queries.get(ctx, w.Conn, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

func (w *writerConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := w.queries.get(ctx, w.Conn, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if isOpen(err) {
		return w.Conn.QueryContext(ctx, query, args...)
	}
	return rows, err
}

func (w *writerConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := w.queries.get(ctx, w.Conn, query)
	if err != nil {
		return w.Conn.QueryRowContext(ctx, query, args...) // fails in the same way
	}
	return stmt.QueryRowContext(ctx, args...)
}

// Close closes the statements and the connection.
func (w *writerConn) Close() error { return errors.Join(w.queries.close(), w.Conn.Close()) }
