//go:build linux

package task

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // as another program uses the database
)

// prepare makes a database with more rows than a page cache holds.
func prepare(t *testing.T, path, mode string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, statement := range []string{
		"PRAGMA journal_mode = " + mode, "CREATE TABLE t (x text)",
		"INSERT INTO t WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 60000) SELECT hex(randomblob(50)) FROM r",
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
}
