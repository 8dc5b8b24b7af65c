package post

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
)

// rights are the kinds of statements that a call may execute; the zero value permits only reads.
type rights struct{ write, ddl bool }

var (
	readWords  = []string{"select", "with", "values", "table", "show", "explain"}
	writeWords = []string{"insert", "update", "delete", "merge", "select", "with", "values", "table"}
	ddlWords   = []string{"create", "alter", "drop", "truncate", "comment", "reindex", "refresh", "analyze"}
)

// outside are functions that act outside of the transaction or execute a text; a rollback does not
// undo them. A name that ends in * is a prefix.
var outside = []string{
	"set_config", "dblink*", "pg_terminate_backend", "pg_cancel_backend", "pg_reload_conf", "pg_rotate_logfile",
	"lo_import", "lo_export", "pg_read_*", "pg_ls_*", "pg_stat_file", "pg_file_*", "pg_logical_*", "pg_replication_*",
	"pg_create_*", "pg_drop_*", "pg_switch_wal", "pg_promote", "pg_backup_*", "pg_advisory_*", "pg_try_advisory_*",
	"pg_stat_reset*", "query_to_xml*", "cursor_to_xml*", "table_to_xml*", "schema_to_xml*", "database_to_xml*",
	"ts_stat", "ts_rewrite", "xpath_table", "crosstab*", "connectby",
}

// permit returns a fault for a statement that its text does not allow. It accepts the kinds of
// statements that the rights cover, without the functions of outside, and without names and strings
// that are written with Unicode escapes, because it does not decode them. The server checks
// everything else.
func permit(sql string, r rights) *result.Fault {
	words := readWords
	if r.write {
		words = writeWords
	}
	if r.ddl {
		words = slices.Concat(writeWords, ddlWords)
	}
	s := scanner{text: sql}
	first := s.next()
	for first.kind == tokenMark && first.text == "(" {
		first = s.next()
	}
	switch {
	case first.kind == tokenEnd:
		return result.Faultf(result.Invalid, "the text contains no statement")
	case first.kind != tokenWord || !slices.Contains(words, first.text):
		return result.Faultf(result.NotAllowed, "expected a statement that begins with %s, found %q",
			strings.ToUpper(strings.Join(words, ", ")), strings.ToUpper(first.text))
	}
	for before, t := first, s.next(); t.kind != tokenEnd; before, t = t, s.next() {
		switch {
		case t.kind == tokenEscaped:
			return result.Faultf(result.NotAllowed, "names and strings with U& are not accepted")
		case t.kind == tokenMark && t.text == "(" && before.kind != tokenMark && isOutside(before.text):
			return result.Faultf(result.NotAllowed, "the function %s has effects outside of the transaction",
				before.text)
		}
	}
	return nil
}

func isOutside(name string) bool {
	return slices.ContainsFunc(outside, func(o string) bool {
		prefix, wild := strings.CutSuffix(o, "*")
		return name == o || wild && strings.HasPrefix(name, prefix)
	})
}
