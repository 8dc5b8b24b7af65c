package lite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // as another program uses the database

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/sdk/effects"
)

var statements = []string{
	"SELECT x FROM kept", "SELECT 1; DELETE FROM kept", "/* /* */ DELETE FROM kept", "WITH w AS (SELECT 1) INSERT INTO kept SELECT 'y' FROM w RETURNING *",
	"PRAGMA writable_schema = ON", "ATTACH 'other' AS o", "UPDATE sqlite_schema SET sql = ''", "VACUUM INTO 'other'", "COMMIT", "EXPLAIN DELETE FROM kept",
	"SELECT * FROM pragma_wal_checkpoint", "CREATE TEMP TABLE t AS SELECT 1", "SELECT zeroblob(1000000000)", "INSERT INTO kept VALUES ('y')",
	"DELETE FROM ferment_effects", "CREATE TABLE made (x)", "REPLACE INTO kept SELECT x FROM kept", "SELECT count(*) FROM sqlite_dbpage", "DROP TABLE kept",
	"WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
}

// newDatabase makes a database with a table and a key in a directory of its own.
func newDatabase(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "main.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, statement := range []string{"CREATE TABLE kept (x TEXT)", "INSERT INTO kept VALUES ('kept')", createEffects, "INSERT INTO ferment_effects VALUES ('b3:0', 's', 'a', 't')"} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	return path
}

// run executes one statement under the rights of a call, and commits nothing.
func run(t testing.TB, s Settings, text string, after func(*DB)) *result.Fault {
	t.Helper()
	db, _, fault := Open(s)
	require.Nil(t, fault, "%v", fault)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	fault = db.Run(ctx, effects.Statement{SQL: text}, result.NewRows(&result.Bounds{Rows: 10, Bytes: 1000}, nil))
	if after != nil {
		db.trust()
		after(db)
	}
	return fault
}

// FX tools, db/query: whatever the statement is, the files of the database keep
// their bytes and no other file is made.
func FuzzRead(f *testing.F) {
	for _, s := range statements {
		f.Add(s)
	}
	path := newDatabase(f)
	before, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Chdir(filepath.Dir(path))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			t.Skip("the contract of the tool rejects it")
		}
		run(t, Settings{Path: path, Wait: time.Second}, text, nil)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "%v", entries)
	})
}

// FX tools, db/exec: whatever the statement is, a call without ddl keeps the
// schema, the keys of other calls, its own key and its transaction.
func FuzzChange(f *testing.F) {
	for _, s := range statements {
		f.Add(s)
	}
	path := newDatabase(f)
	f.Chdir(filepath.Dir(path))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			t.Skip("the contract of the tool rejects it")
		}
		run(t, Settings{Path: path, Write: true, Key: "b3:1", Now: time.Unix(0, 0), Wait: time.Second}, text, func(db *DB) {
			for query, want := range map[string]string{
				"SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name)": "ferment_effects kept",
				"SELECT group_concat(effect_key || answer, ' ') FROM (SELECT * FROM ferment_effects ORDER BY effect_key)": "b3:0a b3:1",
				"SELECT group_concat(name, ' ') FROM pragma_database_list WHERE name <> 'temp'":                           "main",
			} {
				row, fault := db.exec(query)
				require.Nil(t, fault, "%v", fault)
				require.Equal(t, []string{want}, row)
			}
			require.Zero(t, autocommit(db), "the transaction of the call goes on")
		})
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		for _, e := range entries {
			require.Contains(t, []string{"main.db", "main.db-journal"}, e.Name())
		}
	})
}
