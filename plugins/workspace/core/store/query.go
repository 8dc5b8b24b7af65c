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

func (s *statements) get(ctx context.Context, db *sql.Conn, query string) (*sql.Stmt, error) {
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
		if err := ctx.Err(); err != nil {
			return err
		}
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

// scanText is a scan function for collect that reads the only column of a row, as text or as bytes.
func scanText[T string | []byte](rows *sql.Rows, x *T) error {
	var value []byte
	err := rows.Scan(&value)
	*x = T(value)
	return err
}

// isFull reports whether SQLite could not write because the disk is full. A transaction whose commit
// failed so is not in the index: its last page was not written.
func isFull(err error) bool {
	var in *sqlite.Error
	return errors.As(err, &in) && in.Code()&0xff == sqlite3.SQLITE_FULL
}

// cannotGrow reports whether a file of the index cannot be extended: the disk is full.
func cannotGrow(err error) bool {
	var in *sqlite.Error
	return isFull(err) || errors.As(err, &in) && in.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
}

// isOpen reports whether a prepared query failed because its rows are still open.
func isOpen(err error) bool {
	var in *sqlite.Error
	return errors.As(err, &in) && in.Code() == sqlite3.SQLITE_MISUSE
}

// conn is a connection that compiles each query and each statement once. A query whose
// rows are open can run again within. The end of a context is noticed between queries and
// between rows: database/sql would start a goroutine for each query to notice it earlier,
// which costs more than most queries.
type conn struct {
	*sql.Conn
	queries statements
	// unknown means that it was opened by path and can be of another index.
	unknown bool
}

var _ querier = (*conn)(nil)

func (c *conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx = context.WithoutCancel(ctx)
	stmt, err := c.queries.get(ctx, c.Conn, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

func (c *conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := c.queries.get(ctx, c.Conn, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if isOpen(err) {
		return c.Conn.QueryContext(ctx, query, args...)
	}
	return rows, err
}

func (c *conn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	stmt, err := c.queries.get(ctx, c.Conn, query)
	if err != nil {
		return c.Conn.QueryRowContext(ctx, query, args...) // fails in the same way
	}
	return stmt.QueryRowContext(ctx, args...)
}

// run executes a statement.
func (c *conn) run(ctx context.Context, statement string, args ...any) error {
	_, err := c.ExecContext(ctx, statement, args...)
	return err
}

// Close closes the statements and the connection.
func (c *conn) Close() error { return errors.Join(c.queries.close(), c.Conn.Close()) }

// maxIdle is the number of connections that a pool keeps while nothing is read.
const maxIdle = 4

// pool holds the connections of readers. It is safe for concurrent use.
type pool struct {
	db   *sql.DB
	mu   sync.Mutex
	idle []*conn
}

// begin returns a connection in a transaction. The caller must call end.
func (p *pool) begin(ctx context.Context) (c *conn, end func(), err error) {
	if c, err = p.take(ctx); err != nil {
		return nil, nil, err
	}
	if err := c.run(ctx, "BEGIN"); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, func() {
		if c.run(ctx, "ROLLBACK") != nil || !p.keep(c) {
			_ = c.Close()
		}
	}, nil
}

func (p *pool) take(ctx context.Context) (*conn, error) {
	if c := p.kept(); c != nil {
		return c, nil
	}
	plain, err := p.db.Conn(ctx)
	return &conn{Conn: plain, unknown: true}, err
}

func (p *pool) kept() (c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle) - 1; n >= 0 {
		c, p.idle = p.idle[n], p.idle[:n]
	}
	return c
}

func (p *pool) keep(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.unknown || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, c)
	return true
}

// close closes the connections. None may be in use.
func (p *pool) close() error {
	var errs []error
	for _, c := range p.idle {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, p.db.Close())...)
}
