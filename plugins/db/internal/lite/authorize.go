package lite

import (
	"slices"
	"strings"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
)

// rights are the kinds of actions that the statements of a call may do; 0 permits only reads.
type rights uintptr

const (
	rightWrite rights = 1 << iota
	rightDDL
)

// effectsTable is a table that the statements of calls must not change.
const effectsTable = result.EffectsTable

// action is an operation of a statement: its SQLite code, and the first two names that belong to it
// (mostly a table, an index or a function).
type action struct {
	code   int32
	first  string
	second string
}

// allows reports whether one action is permitted. An action that is not listed is denied: PRAGMA,
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

// changes reports whether the rows of a table may be changed. SQLite reports its own tables when it
// changes them for a change of the schema; a statement that names one of them fails because the
// schema is not writable.
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

// authorize is the callback that SQLite calls for each action of a statement while it prepares the
// statement; held are the rights of the call. It returns SQLITE_OK or SQLITE_DENY.
func authorize(_ *libc.TLS, held uintptr, code int32, first, second, _, _ uintptr) int32 {
	if rights(held).allows(action{code: code, first: libc.GoString(first), second: libc.GoString(second)}) {
		return sqlite3.SQLITE_OK
	}
	return sqlite3.SQLITE_DENY
}
