package store

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
	"strings"
)

// maxRows is the number of rows that one statement inserts at most. Each number up to it
// has a prepared statement of its own.
const maxRows = 16

// insert adds rows with a statement that inserts one, several at a time. columns is the
// number of its arguments for a row. If it returns rows, they are read into the places,
// and each is called after each of them; their order is not that of the rows.
func (s *statements) insert(ctx context.Context, name string, columns int, args, into []any, each func() error) error {
	for len(args) > 0 {
		n := min(len(args)/columns, maxRows)
		st, err := s.readyRows(ctx, name, n, args[:n*columns])
		if err != nil {
			return err
		}
		if err := s.insertRows(ctx, st, name, args[:n*columns], into, each); err != nil {
			return err
		}
		args = args[n*columns:]
	}
	return nil
}

func (s *statements) insertRows(ctx context.Context, st *sql.Stmt, name string, args, into []any, each func() error) error {
	if each == nil {
		if _, err := st.ExecContext(ctx, args...); err != nil {
			return s.failed(name, err)
		}
		return nil
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return s.failed(name, err)
	}
	return s.read(rows, name, into, each)
}

// readyRows returns the prepared statement that inserts n rows.
func (s *statements) readyRows(ctx context.Context, name string, n int, args []any) (*sql.Stmt, error) {
	if n == 1 {
		return s.ready(ctx, name, args)
	}
	if err := s.admit(args); err != nil {
		return nil, err
	}
	return s.getAs(ctx, name+" of "+strconv.Itoa(n), func() string { return withRows(s.text[name], n) })
}

var placeholder = regexp.MustCompile(`([?$])(\d+)`)

// withRows returns the text of an INSERT of one row for n of them.
func withRows(text string, n int) string {
	before, rest, _ := strings.Cut(text, "VALUES ")
	end := closed(rest)
	row := rest[:end]
	columns := len(placeholder.FindAllString(row, -1))
	var b strings.Builder
	b.WriteString(before + "VALUES " + row)
	for i := 1; i < n; i++ {
		b.WriteString(", " + placeholder.ReplaceAllStringFunc(row, func(p string) string {
			k, _ := strconv.Atoi(p[1:])
			return p[:1] + strconv.Itoa(k+i*columns)
		}))
	}
	b.WriteString(rest[end:])
	return b.String()
}

// closed returns the length of what begins with a parenthesis and ends where it is closed.
func closed(text string) int {
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
