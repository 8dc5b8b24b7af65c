package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// backend is a kind of database that tests of behavior run on. A directory stands for
// one database; a host that opens it has the directory as its id.
type backend struct {
	name    string
	driver  string
	files   int // of a large value
	options func(t testing.TB, dir string) Options
	source  func(t testing.TB, dir string) string
}

// onFile is the backend of tests about files.
var onFile = backend{
	name:   "sqlite",
	driver: "sqlite",
	files:  1,
	options: func(_ testing.TB, dir string) Options {
		return Options{Path: filepath.Join(dir, "ferment.db"), Now: now}
	},
	source: func(_ testing.TB, dir string) string { return "file:" + filepath.Join(dir, "ferment.db") },
}

// onEach runs a test over every kind of database (SES-030).
func onEach(t *testing.T, test func(t *testing.T, b backend)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { test(t, b) })
	}
}

func (b backend) openAt(t testing.TB, dir string, change ...func(*Options)) *Store {
	t.Helper()
	s, err := b.tryOpen(t, dir, change...)
	require.NoError(t, err)
	return s
}

func (b backend) tryOpen(t testing.TB, dir string, change ...func(*Options)) (*Store, error) {
	opts := b.options(t, dir)
	for _, f := range change {
		f(&opts)
	}
	s, err := Open(context.Background(), opts)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
	}
	return s, err
}

// tamper changes the database of a closed store behind its back.
func (b backend) tamper(t testing.TB, dir string, statements ...string) {
	t.Helper()
	db, err := sql.Open(b.driver, b.source(t, dir))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for name, table := range map[string]string{
		"records_update": "records", "records_delete": "records", "content_update": "content", "content_delete": "content",
		"runs_update": "runs", "host_records_update": "host_records", "host_records_delete": "host_records",
	} {
		text := "DROP TRIGGER IF EXISTS " + name
		if b.driver != "sqlite" {
			text += " ON " + table
		}
		statements = append([]string{text}, statements...)
	}
	for _, text := range statements {
		_, err := db.Exec(text)
		require.NoError(t, err, text)
	}
}

// filled returns the directory of a database with the finished runs run_1 and run_2
// and the open run run_3. run_1 has a value with parts, a tree and a large value.
func (b backend) filled(t testing.TB) string {
	dir := t.TempDir()
	s := b.openAt(t, dir)
	for n := range 3 {
		sc := newScript(fmt.Sprintf("run_%d", n+1))
		records := sc.whole(3)
		if n == 0 {
			records = append(records[:1:1], append(sc.step(dialogue(40), large(1)), sc.finished(edn.Text("x")))...)
			for i := range records {
				records[i].Seq = i + 1
			}
		}
		if n == 2 {
			records = records[:6]
		}
		appendAll(t, s, records...)
		require.NoError(t, s.Sync(context.Background(), sc.run))
	}
	damage, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.NoError(t, s.Close())
	return dir
}
