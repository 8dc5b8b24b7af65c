//go:build linux

package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of every engine, with SQLite.
func TestSQLite(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *client){
		"one key": testOneKey, "all or nothing": testAllOrNothing, "bounds": testBounds, "timeout": testTimeout, "refused": testRefused,
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := lite(t)
			c.must("CREATE TABLE IF NOT EXISTS begun (n integer)")
			test(t, c)
		})
	}
}

// Values go into SQLite and come back as the table in host/docs/effects.md says.
func TestValuesOfSQLite(t *testing.T) {
	c, _ := lite(t)
	c.must("CREATE TABLE v (x)")
	for _, row := range []struct{ in, sql, as, out string }{
		{`nil`, "null", "", `nil`},
		{`true`, "integer", ":boolean", `true`},
		{`false`, "integer", "", `0`},
		{`9223372036854775807`, "integer", "", `9223372036854775807`},
		{`-9223372036854775808`, "integer", "", `-9223372036854775808`},
		{`0.1`, "real", "", `0.1`},
		{`1.7976931348623157E308`, "real", "", `1.7976931348623157e308`},
		{`12345678901234567890.123456789M`, "text", ":decimal", `12345678901234567890.123456789M`},
		{`-0.000000000000000000001M`, "text", ":decimal", `-0.000000000000000000001M`},
		{`"a\u0000b ü 漢"`, "text", "", `"a\u0000b ü 漢"`},
		{`""`, "text", "", `""`},
		{`#db/bytes "AP8Q"`, "blob", "", `#db/bytes "AP8Q"`},
		{`#db/bytes ""`, "blob", "", `#db/bytes ""`},
		{`#inst "2027-02-18T09:30:00.123456789Z"`, "text", ":instant", `#inst "2027-02-18T09:30:00.123456789Z"`},
		{`#inst "2027-02-18T10:30:00+01:00"`, "text", "", `"2027-02-18T09:30:00.000Z"`},
		{`#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, "text", ":uuid", `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`},
		{`{:a [1 "b" nil {"c d" true}]}`, "text", ":json", `{:a [1 "b" nil {"c d" true}]}`},
	} {
		c.must("DELETE FROM v")
		_, err := c.exec("INSERT INTO v VALUES ($1)", ":parameters ["+row.in+"]")
		require.Nil(t, err, "%s: %v", row.in, err)
		types := ""
		if row.as != "" {
			types = ":types {:x " + row.as + "}"
		}
		out, err := c.query("SELECT x, typeof(x) AS t FROM v", types)
		require.Nil(t, err, "%s: %v", row.in, err)
		assert.Equal(t, fmt.Sprintf(`[{:t %q :x %s}]`, row.sql, row.out), out.Key("rows").String(), row.in)
	}
	for _, in := range []string{`9223372036854775808`, `:k`, `#db/bytes "?"`, `#other/tag 1`} {
		_, err := c.exec("INSERT INTO v VALUES ($1)", ":parameters ["+in+"]")
		assert.Equal(t, "effects/invalid-input sql/invalid", reason(err), in)
	}
	c.must("DELETE FROM v")
	c.must("INSERT INTO v VALUES (9e999), (CAST(x'ff' AS TEXT))")
	for _, where := range []string{"typeof(x) = 'real'", "typeof(x) = 'text'"} {
		_, err := c.query("SELECT x FROM v WHERE "+where, "")
		assert.Equal(t, "effects/invalid-input sql/invalid", reason(err), where)
	}
	for _, as := range []string{":boolean", ":decimal", ":instant", ":json", ":uuid"} {
		_, err := c.query("SELECT 'no' AS x", ":types {:x "+as+"}")
		assert.Equal(t, "effects/invalid-input sql/invalid", reason(err), as)
	}
}

// hostile are statements that do more than read, or hide it.
var hostile = []string{
	"DELETE FROM kept",
	"INSERT INTO kept VALUES ('x')",
	"WITH w AS (SELECT 1) DELETE FROM kept",
	"WITH w (x) AS (SELECT 'x') INSERT INTO kept SELECT x FROM w RETURNING *",
	"SELECT 1; DELETE FROM kept",
	"SELECT 1 /* ; */ ; -- ;\nDELETE FROM kept",
	"/* SELECT */ DELETE FROM kept /* */",
	"/* /* */ DELETE FROM kept",
	"ATTACH DATABASE '%s' AS other",
	"ATTACH ':memory:' AS other",
	"DETACH main",
	"PRAGMA writable_schema = ON",
	"PRAGMA journal_mode = DELETE",
	"PRAGMA query_only = OFF",
	"PRAGMA user_version = 7",
	"PRAGMA temp_store_directory = '/tmp'",
	"SELECT * FROM pragma_user_version(7)",
	"SELECT * FROM pragma_journal_mode('delete')",
	"UPDATE sqlite_schema SET sql = 'x'",
	"UPDATE sqlite_dbpage SET data = zeroblob(4096)",
	"DELETE FROM ferment_effects",
	"DROP TABLE kept",
	"CREATE TEMP TABLE t AS SELECT * FROM kept",
	"CREATE TEMP TRIGGER g AFTER INSERT ON kept BEGIN DELETE FROM kept; END",
	"CREATE VIRTUAL TABLE f USING fts5(x)",
	"CREATE TABLE t (x)",
	"VACUUM",
	"VACUUM INTO '%s'",
	"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "RELEASE s",
	"SELECT load_extension('%s')",
	"SELECT writefile('%s', 'x')",
	"SELECT readfile('%s')",
	"REINDEX", "ANALYZE",
	"EXPLAIN DELETE FROM kept",
	"REPLACE INTO kept VALUES ('x')",
	"ALTER TABLE kept RENAME TO gone",
	"SELECT fts3_tokenizer('simple', x'0000000000000000')",
}

// FX tools, db/query: no statement changes the database, leaves its transaction
// or reaches another file, in both kinds of journals.
func TestReadsOnlyRead(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) { readsOnlyRead(t, mode) })
	}
}

func readsOnlyRead(t *testing.T, mode string) {
	c, path := lite(t)
	c.must("CREATE TABLE kept (x text)")
	c.must("INSERT INTO kept VALUES ('kept')")
	setJournal(t, path, mode)
	before := contents(t, path)
	for _, sql := range hostile {
		sql = strings.ReplaceAll(sql, "%s", filepath.Join(filepath.Dir(path), "other"))
		_, err := c.query(sql, "")
		if assert.NotNil(t, err, sql) {
			assert.Contains(t, []string{"effects/scope-denied statement-not-allowed", "effects/invalid-input sql/invalid"}, reason(err), "%s: %v", sql, err)
		}
	}
	for _, sql := range []string{
		"SELECT zeroblob(99000000) AS b", "SELECT zeroblob(2000000000) AS b", "SELECT group_concat(hex(zeroblob(1000000))) AS b FROM generate",
	} {
		sql = "WITH RECURSIVE generate (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM generate WHERE n < 1000) " + sql
		_, err := c.query(sql, "")
		assert.Equal(t, "effects/scope-denied max-bytes", reason(err), "%s: %v", sql, err)
	}
	assert.Equal(t, before, contents(t, path), mode)
	assert.Equal(t, `[{:x "kept"}]`, c.rows("SELECT x FROM kept"))
}

// FX tools, db/exec: what a change may not do, although it may change data, or
// the schema too.
func TestChangesStayInTheirScope(t *testing.T) {
	c, path := lite(t)
	c.must("CREATE TABLE kept (x text)")
	c.must("INSERT INTO kept VALUES ('kept')")
	for _, sql := range hostile {
		switch {
		case strings.Contains(sql, "ferment_effects"):
		case strings.HasPrefix(sql, "EXPLAIN"), strings.HasPrefix(sql, "CREATE TABLE"), strings.HasPrefix(sql, "DROP"), strings.HasPrefix(sql, "ALTER"),
			strings.HasPrefix(sql, "REINDEX"), strings.HasPrefix(sql, "ANALYZE"), strings.Contains(sql, "kept") && !strings.Contains(sql, ";") && !strings.Contains(sql, "TEMP"):
			continue // that is what the scope allows
		}
		sql = strings.ReplaceAll(sql, "%s", filepath.Join(filepath.Dir(path), "other"))
		_, err := c.exec(sql, "")
		if assert.NotNil(t, err, sql) {
			assert.Contains(t, []string{"effects/scope-denied statement-not-allowed", "effects/invalid-input sql/invalid"}, reason(err), "%s: %v", sql, err)
		}
	}
	for _, sql := range []string{
		"DELETE FROM FERMENT_effects", "UPDATE ferment_effects SET answer = '{}'", "DROP TABLE ferment_effects", "ALTER TABLE ferment_effects RENAME TO gone",
		"CREATE TRIGGER g AFTER INSERT ON ferment_effects BEGIN SELECT 1; END", "INSERT INTO ferment_effects VALUES ('b3:9', '', '', '')",
		"CREATE INDEX i ON ferment_effects (answer)",
	} {
		_, err := c.exec(sql, "")
		assert.Equal(t, "effects/scope-denied statement-not-allowed", reason(err), sql)
	}
	c.must("CREATE TRIGGER g AFTER INSERT ON kept BEGIN DELETE FROM ferment_effects; END")
	_, err := c.exec("INSERT INTO kept VALUES ('by way of a trigger')", "")
	assert.Equal(t, "effects/scope-denied statement-not-allowed", reason(err))
	c.must("CREATE VIEW seen AS SELECT x FROM kept")
	c.must("CREATE INDEX quick ON kept (x)")
	assert.Equal(t, `[{:x "kept"}]`, c.rows("SELECT x FROM seen"))
	entries, rerr := os.ReadDir(filepath.Dir(path))
	require.NoError(t, rerr)
	for _, e := range entries {
		assert.True(t, strings.HasPrefix(e.Name(), "main.db"), "%s was made", e.Name())
	}
}

// FX tools, db/exec: with ddl, tables and columns are renamed and columns are dropped, with
// what refers to them; without it, and for the table of effects, they are not.
func TestAlteredTables(t *testing.T) {
	c, path := lite(t)
	c.must("CREATE TABLE kept (id INTEGER PRIMARY KEY AUTOINCREMENT, x text, y text)")
	c.must("INSERT INTO kept (x, y) VALUES ('a', 'b')")
	c.must("CREATE INDEX quick ON kept (x)")
	c.must("CREATE VIEW seen AS SELECT x FROM kept")
	c.must("ALTER TABLE kept RENAME COLUMN x TO z")
	c.must("ALTER TABLE kept RENAME TO moved")
	c.must("ALTER TABLE moved DROP COLUMN y")
	c.must("ALTER TABLE moved ADD COLUMN w text")
	assert.Equal(t, `[{:id 1 :w nil :z "a"}]`, c.rows("SELECT * FROM moved"))
	assert.Equal(t, `[{:x "a"}]`, c.rows("SELECT z AS x FROM seen"))
	for _, sql := range []string{
		"ALTER TABLE ferment_effects RENAME TO gone", "ALTER TABLE ferment_effects RENAME COLUMN answer TO gone",
		"ALTER TABLE ferment_effects DROP COLUMN answer", "CREATE TEMP TABLE t (x)",
	} {
		_, err := c.exec(sql, "")
		assert.Equal(t, "effects/scope-denied statement-not-allowed", reason(err), sql)
	}
	for _, sql := range []string{
		"UPDATE sqlite_temp_master SET sql = 'x'", "UPDATE temp.sqlite_schema SET sql = 'x'", "DELETE FROM sqlite_temp_master",
		"INSERT INTO sqlite_temp_schema VALUES ('table', 'g', 'g', 0, 'x')", "SELECT sqlite_rename_table('main', 'table', 'a', 'b', 'c', 'd', 0)",
	} {
		_, err := c.exec(sql, "")
		assert.NotNil(t, err, sql)
	}
	c.write = `{:enabled true :connections ["main"]}`
	before := contents(t, path)
	for _, sql := range []string{
		"ALTER TABLE moved RENAME TO gone", "ALTER TABLE moved RENAME COLUMN z TO gone", "ALTER TABLE moved DROP COLUMN w",
	} {
		_, err := c.exec(sql, "")
		assert.Equal(t, "effects/scope-denied statement-not-allowed", reason(err), sql)
	}
	assert.Equal(t, before, contents(t, path))
}

// FX-012, FX tools: which files are databases of a connection.
func TestFilesOfConnections(t *testing.T) {
	c, path := lite(t)
	_, err := c.query("SELECT 1", "")
	assert.Equal(t, "effects/runtime-missing", reason(err), "there is no file")
	c.write = `{:enabled true :connections ["main"]}`
	_, err = c.exec("INSERT INTO t VALUES (1)", "")
	assert.Equal(t, "effects/runtime-missing", reason(err), "it is made only where the schema may be changed")
	assert.NoFileExists(t, path)
	other := filepath.Join(t.TempDir(), "other.db")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Symlink(other, path))
	_, err = c.query("SELECT 1", "")
	assert.Equal(t, "effects/runtime-missing", reason(err), "a link")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("this is not a database, but long enough to be one: "+hex.EncodeToString(make([]byte, 4096))), 0o600))
	_, err = c.query("SELECT 1 FROM sqlite_schema", "")
	assert.Equal(t, "effects/runtime-failed", reason(err), "no database")
}

// setJournal sets the kind of journal of a database.
func setJournal(t *testing.T, path, mode string) {
	t.Helper()
	db := openSQLite(t, path)
	var got string
	require.NoError(t, db.QueryRow("PRAGMA journal_mode = "+mode).Scan(&got))
	require.Equal(t, mode, got)
	require.NoError(t, db.Close())
}

// contents returns the contents of the files of a database, without the index of
// the log.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		require.NoError(t, err)
		if len(text) > 0 && !strings.HasSuffix(e.Name(), "-shm") {
			out[e.Name()] = string(text)
		}
	}
	return out
}
