package store

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
	"strings"
)

// maxRows is the maximum number of rows that one statement inserts. There is a prepared statement
// for each number of rows up to it.
const maxRows = 16

// insert executes an INSERT statement for several rows at a time. columns is the number of
// arguments of one row; args holds those of all rows. If the statement has a RETURNING clause, each
// returned row is scanned into into, and each is called after it; the order of returned rows is not
// defined.
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

// withRows returns the text of an INSERT of n rows, made from that of one row.
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

// closed returns the length of the prefix of text up to the parenthesis that closes the first one.
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
