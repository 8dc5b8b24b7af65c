package lite

import (
	"slices"
	"strings"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
)

// rights are what the statements of a call may do.
type rights uintptr

const (
	rightWrite rights = 1 << iota
	rightDDL
)

// effectsTable may not be changed by the statements of calls.
const effectsTable = result.EffectsTable

// action is what a statement would do: the code of SQLite, the first two names
// that belong to it (mostly a table, an index or a function), and whether a
// trigger or a view does it.
type action struct {
	code   int32
	first  string
	second string
}

// allows decides about one action. Whatever is not listed is denied: PRAGMA,
// ATTACH, transactions, temporary and virtual tables, VACUUM.
func (r rights) allows(a action) bool {
	switch a.code {
	case sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE:
		return true
	case sqlite3.SQLITE_FUNCTION:
		return !strings.EqualFold(a.second, "load_extension")
	case sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE:
		return r&rightWrite != 0 && r.changes(a.first) || r&rightDDL != 0 && a.renames()
	}
	if r&rightDDL == 0 || !slices.Contains(schemaActions, a.code) {
		return false
	}
	// The table is the second name of what belongs to one, such as an index.
	return !strings.EqualFold(a.first, effectsTable) && !strings.EqualFold(a.second, effectsTable)
}

var schemaActions = []int32{
	sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_CREATE_TRIGGER,
	sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_DROP_TRIGGER,
	sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_ANALYZE,
}

// changes decides about the rows of a table. SQLite reports its own tables when
// it changes them for a change of the schema; a statement that names one of them
// fails because the schema is not writable.
func (r rights) changes(table string) bool {
	table = strings.ToLower(table)
	switch {
	case table == effectsTable:
		return false
	case strings.HasPrefix(table, "sqlite_"):
		return r&rightDDL != 0 && slices.Contains(schemaTables, table)
	}
	return true
}

// renames reports whether an action belongs to a rename or to the removal of a column:
// SQLite then also rewrites the temporary triggers and views. There are none, and a
// statement that names their table fails because the schema is not writable.
func (a action) renames() bool {
	table := strings.ToLower(a.first)
	return a.code == sqlite3.SQLITE_UPDATE && (table == "sqlite_temp_master" || table == "sqlite_temp_schema")
}

var schemaTables = []string{"sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}

// authorize is called by SQLite for each action of a statement; held are the
// rights of the call.
func authorize(_ *libc.TLS, held uintptr, code int32, first, second, _, _ uintptr) int32 {
	if rights(held).allows(action{code: code, first: libc.GoString(first), second: libc.GoString(second)}) {
		return sqlite3.SQLITE_OK
	}
	return sqlite3.SQLITE_DENY
}
