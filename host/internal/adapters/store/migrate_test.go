package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func migratorAt(t *testing.T, path string, steps []migration) *migrator {
	db, err := openSQLite(context.Background(), path, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.close()) })
	m, err := newMigrator(db, time.Now)
	require.NoError(t, err)
	m.steps = steps
	return m
}

// migrated returns the error of a migration.
func migrated(opts Options, to int, acceptLoss bool) error {
	_, err := Migrate(context.Background(), opts, to, acceptLoss, false)
	return err
}

func migrate(t testing.TB, opts Options, to int, acceptLoss bool) {
	t.Helper()
	require.NoError(t, migrated(opts, to, acceptLoss))
}

func schemaOf(t *testing.T, m *migrator) (out []string) {
	rows, err := m.db.writer().QueryContext(context.Background(),
		"SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'migrations' ORDER BY name")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		out = append(out, text)
	}
	require.NoError(t, rows.Err())
	return out
}

// OPS-007: from each version, up and down and up again give the same schema.
func TestMigrationsGoUpAndDown(t *testing.T) {
	steps, err := readMigrations(sqlFiles, "sql/sqlite")
	require.NoError(t, err)
	require.NotEmpty(t, steps)
	m := migratorAt(t, filepath.Join(t.TempDir(), "x.db"), steps)
	ctx := context.Background()
	at := [][]string{nil} // the schema of each version
	for n := range steps {
		m.steps = steps[:n+1]
		require.NoError(t, m.up(ctx, true))
		at = append(at, schemaOf(t, m))
		assert.NotEmpty(t, at[n+1])
	}
	for n := len(steps) - 1; n >= 0; n-- {
		require.NoError(t, m.down(ctx, n))
		assert.Equal(t, at[n], schemaOf(t, m), "down to %d", n)
		require.NoError(t, m.up(ctx, true))
		assert.Equal(t, at[len(steps)], schemaOf(t, m), "up from %d", n)
		require.NoError(t, m.down(ctx, n))
	}
}

// OPS-007: a later version, an unknown text and a missing migration are told
// apart; a migration of a database with content keeps a copy; a step that fails
// changes nothing.
func TestMigrationsAreChecked(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	path := filepath.Join(dir, "x.db")
	one := migration{version: 1, name: "0001_a", up: "CREATE TABLE a (n)", down: "DROP TABLE a"}
	two := migration{
		version: 2, name: "0002_b", up: "CREATE TABLE b (n); INSERT INTO a VALUES (2)", down: "DROP TABLE b; DELETE FROM a WHERE n = 2",
	}
	require.NoError(t, migratorAt(t, path, []migration{one}).up(ctx, true))

	var schema *SchemaError
	require.ErrorAs(t, migratorAt(t, path, []migration{one, two}).up(ctx, false), &schema)
	assert.Equal(t, SchemaError{Path: path, Found: 1, Known: 2}, *schema)

	bad := two
	bad.up = "CREATE TABLE b (n); INSERT INTO missing VALUES (2)"
	m := migratorAt(t, path, []migration{one, bad})
	require.Error(t, m.up(ctx, true))
	assert.Len(t, schemaOf(t, m), 1)

	require.NoError(t, migratorAt(t, path, []migration{one, two}).up(ctx, true))
	saved := migratorAt(t, path+".v1", []migration{one})
	found, err := saved.version(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, found)

	require.ErrorAs(t, migratorAt(t, path, []migration{one}).up(ctx, true), &schema)
	assert.Equal(t, SchemaError{Path: path, Found: 2, Known: 1}, *schema)
	one.up = "CREATE TABLE a (m)"
	require.ErrorAs(t, migratorAt(t, path, []migration{one, two}).up(ctx, true), &schema)
	assert.Equal(t, "0001_a", schema.Changed)
}

// OPS-007: Open refuses a database that a later program wrote.
func TestOpenRefusesALaterVersion(t *testing.T) {
	dir := filled(t)
	tamper(t, dir, "INSERT INTO migrations VALUES (99, '0099_later', 'b3:', 1)")
	_, err := tryOpen(t, dir)
	var schema *SchemaError
	require.ErrorAs(t, err, &schema)
	assert.Equal(t, 99, schema.Found)
	assert.False(t, errors.Is(err, os.ErrNotExist))
}

// OPS-007: migrations are numbered without gaps and have both directions.
func TestMigrationFiles(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"gap":     {"d/0002_a.up.sql": {}, "d/0002_a.down.sql": {}},
		"letters": {"d/a.up.sql": {}, "d/a.down.sql": {}},
		"no down": {"d/0001_a.up.sql": {}},
	} {
		_, err := readMigrations(files, "d")
		assert.Error(t, err, name)
	}
	for _, text := range []string{"sqlite"} {
		all, err := readStatements(text)
		require.NoError(t, err)
		s := openAt(t, t.TempDir())
		for name := range all {
			_, err := s.read.get(context.Background(), name)
			assert.NoError(t, err, name)
		}
	}
}

// OPS-007: a lower version is refused while it would lose data, and the way back
// up gives an empty store.
func TestMigrateRefusesToLoseData(t *testing.T) {
	dir, ctx := filled(t), context.Background()
	path := filepath.Join(dir, "ferment.db")
	migrate(t, Options{Path: path}, -1, false)
	var loss *LossError
	require.ErrorAs(t, migrated(Options{Path: path}, 0, false), &loss)
	steps, err := readMigrations(sqlFiles, "sql/sqlite")
	require.NoError(t, err)
	assert.Equal(t, LossError{Path: path, From: len(steps)}, *loss)
	s := openAt(t, dir)
	var locked *LockedError
	require.ErrorAs(t, migrated(Options{Path: path}, 0, true), &locked)
	require.NoError(t, s.Verify(ctx, "run_1"))
	require.NoError(t, s.Close())
	migrate(t, Options{Path: path}, 0, true)
	s = openAt(t, dir)
	runs, err := s.Runs(ctx, Filter{})
	require.NoError(t, err)
	assert.Empty(t, runs)
}
