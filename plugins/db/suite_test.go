//go:build linux

package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The tests of this file hold for every engine.

// FX tools, db/exec: 64 callers of one effect key at the same time change the
// database once, and all have the same answer.
func testOneKey(t *testing.T, c *client) {
	t.Helper()
	c.must("CREATE TABLE counted (n integer)")
	answers := make([]edn.Value, 64)
	errs := make([]*contract.Error, len(answers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i], errs[i] = c.call("db/exec", "b3:same", `{:connection "main" :sql "INSERT INTO counted VALUES (1) RETURNING n"}`)
		})
	}
	all.Wait()
	first := 0
	for i, out := range answers {
		require.Nil(t, errs[i], "%v", errs[i])
		if out.Key("repeated?").String() == "false" {
			first++
		}
		rows, _ := out.GetIn(edn.K("results"), edn.Int(0), edn.K("rows"))
		assert.Equal(t, `[{:n 1}]`, rows.String())
	}
	assert.Equal(t, 1, first, "one call is the first")
	assert.Equal(t, `[{:n 1}]`, c.rows("SELECT count(*) AS n FROM counted"))

	_, err := c.call("db/exec", "b3:same", `{:connection "main" :sql "INSERT INTO counted VALUES (2)"}`)
	assert.Equal(t, "effects/invalid-input sql/invalid", reason(err), "a key belongs to its statements")
	_, err = c.call("db/exec", "", `{:connection "main" :sql "INSERT INTO counted VALUES (2)"}`)
	assert.Equal(t, "runtime/internal", reason(err), "no change without a key")
	assert.Equal(t, `[{:n 1}]`, c.rows("SELECT count(*) AS n FROM counted"))
}

// FX tools, db/exec: the statements of a call are executed all or not at all, and
// a call that failed may be tried again under its key.
func testAllOrNothing(t *testing.T, c *client) {
	t.Helper()
	c.must("CREATE TABLE account (name text PRIMARY KEY, amount integer CHECK (amount >= 0))")
	c.must("INSERT INTO account VALUES ('a', 10), ('b', 0)")
	transfer := func(amount int) (edn.Value, *contract.Error) {
		return c.call("db/exec", "b3:transfer", fmt.Sprintf(`{:connection "main" :statements [
			{:sql "UPDATE account SET amount = amount + $1 WHERE name = 'b'" :parameters [%[1]d]}
			{:sql "UPDATE account SET amount = amount - $1 WHERE name = 'a'" :parameters [%[1]d]}]}`, amount))
	}
	_, err := transfer(11)
	assert.Equal(t, "effects/invalid-input sql/constraint", reason(err))
	require.NotNil(t, err)
	assert.Contains(t, err.Message, "statement 2")
	assert.True(t, err.Details.Key("effect/state").IsNil(), "it is known that nothing was changed")
	assert.Equal(t, `[{:amount 10 :name "a"} {:amount 0 :name "b"}]`, c.rows("SELECT name, amount FROM account ORDER BY 1"))
	out, err := transfer(7)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `2 [{:affected 1} {:affected 1}]`, out.Key("affected").String()+" "+out.Key("results").String())
	assert.Equal(t, `[{:amount 3 :name "a"} {:amount 7 :name "b"}]`, c.rows("SELECT name, amount FROM account ORDER BY 1"))
}

// FX tools: the rows of an answer have bounds. A query is cut off at a row; a
// change that returns too much is not made.
func testBounds(t *testing.T, c *client) {
	t.Helper()
	c.must("CREATE TABLE numbers (n integer, s text)")
	c.must("INSERT INTO numbers WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 20) SELECT n, '" + strings.Repeat("x", 90) + "' FROM r")
	c.read = `{:enabled true :connections ["main"] :max-rows 7 :max-bytes 1000}`
	c.write = `{:enabled true :connections ["main"] :max-rows 7 :max-bytes 1000}`
	for _, row := range []struct {
		sql   string
		count int
		cut   string
	}{
		{"SELECT n FROM numbers ORDER BY n", 7, "true"},
		{"SELECT n FROM numbers WHERE n < 8 ORDER BY n", 7, "false"},
		{"SELECT n, s FROM numbers WHERE n < 10 ORDER BY n", 7, "true"},
		{"SELECT n, s AS " + strings.Repeat("long", 10) + " FROM numbers ORDER BY n", 7, "true"},
		{"SELECT s AS a, s AS b, s AS c FROM numbers", 3, "true"},
	} {
		out, err := c.query(row.sql, "")
		require.Nil(t, err, "%v", err)
		assert.Equal(t, row.count, out.Key("rows").Len(), row.sql)
		assert.Equal(t, row.cut, out.Key("truncated?").String(), row.sql)
	}
	_, err := c.query("SELECT s || s || s || s || s || s || s || s || s || s || s || s AS x FROM numbers", "")
	assert.Equal(t, "effects/scope-denied max-bytes", reason(err), "a row that does not fit")
	_, err = c.exec("UPDATE numbers SET n = -n RETURNING n", "")
	assert.Equal(t, "effects/scope-denied max-bytes", reason(err))
	assert.Equal(t, `[{:n 0}]`, c.rows("SELECT count(*) AS n FROM numbers WHERE n < 0"), "it was not made")
}

// FX tools: a statement that does not end is stopped at its timeout, and a call
// that is canceled leaves nothing behind.
func testTimeout(t *testing.T, c *client) {
	t.Helper()
	c.must("CREATE TABLE slow (n integer)")
	const endless = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n > 0) SELECT count(*) AS n FROM r WHERE n < 0"
	start := time.Now()
	_, err := c.query(endless, ":timeout-ms 300")
	assert.Equal(t, "timeout/hard", reason(err))
	_, err = c.call("db/exec", "b3:slow", `{:connection "main" :timeout-ms 300 :statements [{:sql "INSERT INTO slow VALUES (1)"} {:sql "`+endless+`"}]}`)
	assert.Equal(t, "timeout/hard", reason(err))
	assert.Less(t, time.Since(start), 2*time.Minute)
	_, err = c.query("SELECT 1 AS one", ":timeout-ms 20000")
	assert.Equal(t, "effects/invalid-input timeout/range", reason(err), "a call may shorten the timeout of its scope")
	assert.Equal(t, `[{:n 0}]`, c.rows("SELECT count(*) AS n FROM slow"))
}

// FX-001: connections that the scope does not name, and inputs that are none.
func testRefused(t *testing.T, c *client) {
	t.Helper()
	for _, row := range []struct{ tool, input, want string }{
		{"db/query", `{:connection "other" :sql "SELECT 1"}`, "effects/scope-denied connection-not-allowed"},
		{"db/query", `{:connection "" :sql "SELECT 1"}`, "effects/invalid-input schema"},
		{"db/query", `{:connection "main" :sql "  "}`, "effects/invalid-input schema"},
		{"db/query", `{:connection "main" :sql "SELECT 1" :types {:a :money}}`, "effects/invalid-input schema"},
		{"db/query", `{:connection "main" :sql "SELECT 1 AS a" :types {:b :json}}`, "effects/invalid-input sql/invalid"},
		{"db/query", `{:connection "main" :sql "SELECT 1 AS a, 2 AS a"}`, "effects/invalid-input sql/invalid"},
		{"db/query", `{:connection "main" :sql "SELECT 1 FROM nowhere"}`, "effects/invalid-input sql/invalid"},
		{"db/query", `{:connection "main" :sql "SELEC 1"}`, "effects/"},
		{"db/query", `{:connection "main" :sql "-- nothing"}`, "effects/invalid-input sql/invalid"},
		{"db/query", `{:connection "main" :sql "SELECT $1 AS a"}`, "effects/invalid-input sql/invalid"},
		{"db/query", `{:connection "main" :sql "SELECT 1" :parameters [1]}`, "effects/invalid-input sql/invalid"},
		{"db/query", `{:connection "main" :sql "SELECT $1 AS a" :parameters [:keyword]}`, "effects/invalid-input sql/invalid"},
		{"db/exec", `{:connection "main" :sql "SELECT 1" :statements [{:sql "SELECT 1"}]}`, "effects/invalid-input schema"},
		{"db/exec", `{:connection "main" :statements []}`, "effects/invalid-input schema"},
	} {
		_, err := c.call(row.tool, "b3:refused", row.input)
		require.NotNil(t, err, row.input)
		if !strings.HasPrefix(reason(err), row.want) && !strings.HasPrefix(reason(err), "input/") {
			t.Errorf("%s: %s, want %s: %v", row.input, reason(err), row.want, err)
		}
	}
	c.write = `{:enabled true :connections ["main"]}`
	_, err := c.exec("CREATE TABLE made (n integer)", "")
	assert.Equal(t, "effects/scope-denied statement-not-allowed", reason(err), "the scope does not allow changes of the schema")
	c.write = `{:enabled false :connections ["main"] :ddl true}`
	_, err = c.exec("CREATE TABLE made (n integer)", "")
	assert.Equal(t, "effects/scope-denied disabled", reason(err))
	c.read = `{:enabled true}`
	_, err = c.query("SELECT 1", "")
	assert.Equal(t, "effects/scope-denied connection-not-allowed", reason(err), "a scope without connections has none")
}
