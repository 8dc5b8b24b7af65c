package cli_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stored returns a world whose plans may use two databases: a new one of SQLite,
// and one of PostgreSQL at an address, with a secret.
func stored(t *testing.T, address string) *world {
	t.Helper()
	w := newWorld(t)
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "apart"), 0o700))
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	w.env = append(w.env, fmt.Sprintf("LEDGER_DSN=postgres://ann:%s@%s:%s/ledger?sslmode=disable", canaryEffect, host, port))
	w.write("ferment.hcl", shipped("db", "db")+`
store {
  driver = "sqlite"
}

http {
  listen = ["127.0.0.1:0"]
}

effects {
  enforcement = "strict"

  db "notes" {
    driver = "sqlite"
    path   = "apart/notes.db"
  }

  db "ledger" {
    driver = "postgres"
    dsn    = secret("env:LEDGER_DSN")
  }

  scope "db/read" {
    enabled     = true
    connections = ["notes", "ledger"]
  }

  scope "db/write" {
    enabled     = true
    connections = ["notes"]
    ddl         = true
  }
}
`)
	return w
}

func databasePlan(nodes ...string) string {
	return "{:nodes [" + strings.Join(nodes, "\n ") + "\n {:op :emit :input {:done true}}]}"
}

// FX-001, FX-002: a call of a database tool is decided by the connection that it
// names, before anything runs, with the scopes of the configuration and of the
// node; FX-011: the secret of a connection is in no output, file or record.
func TestDatabases(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a server that says nothing
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	w, e := stored(t, l.Addr().String()), &ear{}
	const write = `{:op :tool :tool/id :db/exec :as :w :effects {:allowed #{:db/write}} :input {:connection :notes
   :statements [{:sql "CREATE TABLE IF NOT EXISTS t (n integer)"} {:sql "INSERT INTO t VALUES ($1)" :parameters [7]}]}}`
	read := func(more, sql string) string {
		return `{:op :tool :tool/id :db/query :as :r :effects {:allowed #{:db/read} ` + more + `} :input {:connection ` + sql + `}}`
	}
	const unnamed = "not one of the allowed connections"
	for _, row := range []struct {
		name, plan, want string
		code             int
	}{
		{"good", strings.Replace(databasePlan(write, read("", `:notes :sql "SELECT n FROM t"`)), "{:done true}", "{:slot/path [:r :rows 0 :n]}", 1), "7", 0},
		{"unknown", databasePlan(read("", `:nots :sql "SELECT 1"`)), unnamed, 2},
		{"writes", databasePlan(strings.Replace(write, ":notes", ":ledger", 1)), unnamed, 2},
		{"node", databasePlan(read(":scope {:db/read {:connections [\"ledger\"]}}", `:notes :sql "SELECT 1"`)), unnamed, 2},
		{"secret", databasePlan(read("", `:ledger :sql "SELECT 1" :timeout-ms 200`)), ":timeout/hard", -1},
		{"hostile", databasePlan(read("", `:notes :sql "DELETE FROM t"`)), ":statement-not-allowed", -1},
	} {
		file := w.write(row.name+".edn", row.plan)
		if row.code == 2 {
			got := w.run("check", file)
			assert.NotZero(t, got.code, row.name)
			assert.Contains(t, got.stdout+got.stderr, row.want, "%s: known before anything runs", row.name)
		}
		got := w.run("run", file, "--effects", "db/read,db/write", "--verbose")
		assert.Equal(t, row.code == 0, got.code == 0, "%s\n%s%s", row.name, got.stdout, got.stderr)
		assert.Contains(t, got.stdout+got.stderr, row.want, row.name)
		e.hear("output of "+row.name, got.stdout+got.stderr)
	}
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, rerr := os.ReadFile(path)
			require.NoError(t, rerr)
			e.hear(path, string(text))
		}
		return err
	}))
	e.silent(t)
}

// JRN-041, FX tools, db/exec: a host that is killed while a change runs makes it
// once: the run is resumed, and its call finds the effect key of the first try.
func TestDatabaseChangeIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := stored(t, "127.0.0.1:1")
	insert := func(as string, n int) string {
		return fmt.Sprintf(`{:op :tool :tool/id :db/exec :as :%s :effects {:allowed #{:db/write}} :input {:connection :notes
   :statements [{:sql "CREATE TABLE IF NOT EXISTS t (n integer)"} {:sql "INSERT INTO t VALUES ($1)" :parameters [%d]}]}}`, as, n)
	}
	var nodes []string
	const calls = 12
	for i := range calls {
		nodes = append(nodes, insert(fmt.Sprintf("a%d", i), i))
	}
	w.write("many.edn", databasePlan(nodes...))
	d := w.serve()
	caller := w.start("", "run", "many.edn", "--effects", "db/write")
	db := filepath.Join(w.dir, "apart", "notes.db")
	require.Eventually(t, func() bool { _, err := os.Stat(db); return err == nil }, 20*time.Second, time.Millisecond)
	d.signal(syscall.SIGKILL)
	_ = d.wait()
	assert.NotZero(t, caller.wait().code, "the run was cut")
	w.serve()
	w.write("count.edn", `{:nodes [{:op :tool :tool/id :db/query :as :r :effects {:allowed #{:db/read}}
   :input {:connection :notes :sql "SELECT count(*) AS n, count(DISTINCT n) AS d FROM t"}} {:op :emit :input {:slot/path [:r :rows 0]}}]}`)
	require.Eventually(t, func() bool {
		return strings.Contains(w.run("run", "count.edn", "--effects", "db/read").stdout, fmt.Sprintf("{:d %[1]d :n %[1]d}", calls))
	}, 30*time.Second, 50*time.Millisecond)
}
