//go:build linux

package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/fermenthq/ferment/plugins/db/internal/task"
	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The test binary is the plugin and its worker, like the shipped one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Arg {
		os.Exit(worker.Main(os.Stdin, os.Stdout, task.Hold))
	}
	sdktest.Main(m, shipped())
}

func shipped() sdk.Plugin {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return newPlugin(self)
}

// client calls the tools of a served plugin. It has the connection "main".
type client struct {
	t    *testing.T
	p    *sdktest.Plugin
	keys atomic.Int64
	// scopes of the calls, by effect.
	read, write string
}

// serve serves the plugin with one connection, given as EDN.
func serve(t *testing.T, connection string) *client {
	t.Helper()
	p := sdktest.Serve(t, shipped(), sdktest.WithConfig(edn.MustRead(`{:enforcement :strict :connections {"main" `+connection+`}}`)))
	return &client{
		t: t, p: p, read: `{:enabled true :connections ["main"]}`, write: `{:enabled true :connections ["main"] :ddl true}`,
	}
}

// lite serves the plugin with a new SQLite database.
func lite(t *testing.T) (c *client, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "main.db")
	return serve(t, fmt.Sprintf(`{:driver :sqlite :path %q}`, path)), path
}

// call makes a call with an effect key.
func (c *client) call(tool, key, input string) (edn.Value, *contract.Error) {
	is, _ := effects.ToolNamed(tool)
	scope := c.read
	if is.Effect == "db/write" {
		scope = c.write
	}
	response, err := c.p.Do(c.t.Context(), sdktest.Call{Capability: is.ID, Input: edn.MustRead(input), Context: wire.CallContext{
		Effects: []string{is.Effect}, Scope: edn.MustMap(edn.K(is.Effect), edn.MustRead(scope)), EffectKey: key,
	}})
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	return response.Key("result").Key("out"), nil
}

// query reads on connection main; the input is that after :sql.
func (c *client) query(sql, more string) (edn.Value, *contract.Error) {
	return c.call("db/query", "", fmt.Sprintf(`{:connection "main" :sql %q %s}`, sql, more))
}

// exec changes connection main under a key of its own.
func (c *client) exec(sql, more string) (edn.Value, *contract.Error) {
	key := fmt.Sprintf("b3:%d", c.keys.Add(1))
	return c.call("db/exec", key, fmt.Sprintf(`{:connection "main" :sql %q %s}`, sql, more))
}

// must changes connection main and expects no error.
func (c *client) must(sql string) {
	c.t.Helper()
	_, err := c.exec(sql, "")
	require.Nil(c.t, err, "%s: %v", sql, err)
}

// rows reads on connection main and expects no error.
func (c *client) rows(sql string) string {
	c.t.Helper()
	out, err := c.query(sql, "")
	require.Nil(c.t, err, "%s: %v", sql, err)
	return out.Key("rows").String()
}

// openSQLite opens a database as another program does.
func openSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func reason(err *contract.Error) string {
	if err == nil {
		return ""
	}
	r, _ := err.Details.Key("reason").AsKeyword()
	return strings.TrimSpace(err.Type + " " + r)
}

// FX tools: a query and a change of an SQLite database, and what they answer.
func TestQueryAndExec(t *testing.T) {
	c, _ := lite(t)
	out, err := c.exec("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, price TEXT)", "")
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `{:affected 0 :connection "main" :effect :db/write :repeated? false :results [{:affected 0}] :tool/id :db/exec}`, out.String())
	out, err = c.exec("INSERT INTO fruit (name, price) VALUES ($1, $2), ('fig', $2) RETURNING id, price", `:parameters ["apple" 1.50M] :types {:price :decimal}`)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `{:affected 2 :connection "main" :effect :db/write :repeated? false :results [{:affected 2 :columns [{:name "id" :type "INTEGER"} {:name "price" :type "TEXT"}] :rows [{:id 1 :price 1.5M} {:id 2 :price 1.5M}]}] :tool/id :db/exec}`, out.String())
	out, err = c.query("SELECT name, count(*) OVER () AS n, price FROM fruit WHERE name > ? ORDER BY 1", `:parameters ["b"] :types {"price" :decimal}`)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `{:columns [{:name "name" :type "TEXT"} {:name "n"} {:name "price" :type "TEXT"}] :connection "main" :effect :db/read :rows [{:n 1 :name "fig" :price 1.5M}] :tool/id :db/query :truncated? false}`, out.String())
}
