//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/db/internal/task"
	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// work returns the parts of a db/exec call on a connection.
func work(t *testing.T, c task.Connection, key, input string) worker.Task {
	t.Helper()
	tool, _ := effects.ToolNamed("db/exec")
	scope, problems := effects.ParseScope(tool.Effect, edn.MustRead(`{:enabled true :connections ["main"] :ddl true}`))
	require.Empty(t, problems)
	parts, failed := (&task.Task{
		Tool: tool, Input: edn.MustRead(input), Scope: scope, Key: key, Strict: true, Connections: map[string]task.Connection{"main": c},
	}).Parts()
	require.Nil(t, failed)
	return parts
}

// runWork runs a task in a crew of its own.
func runWork(ctx context.Context, self string, w worker.Task) error {
	crew := worker.NewCrew(self, 0)
	defer crew.Close()
	_, err := crew.Run(ctx, w)
	return err
}

// FX tools, db/exec: a worker that is killed between the commit and its answer
// has made the call, and the next try has the answer of it.
func testKillAfterCommit(t *testing.T, connection task.Connection) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	// The answer does not fit a pipe that is not read: the worker has committed,
	// and blocks.
	call := work(t, connection, "b3:killed", `{:connection "main" :statements [
		{:sql "CREATE TABLE killed (n integer, s text)"}
		{:sql "INSERT INTO killed WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 2000) SELECT n, $1 FROM r RETURNING n, s" :parameters ["`+long+`"]}]}`)
	cmd := exec.Command(self, worker.Arg)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for _, part := range []edn.Value{call.Rules, call.Call} {
		text := edn.Write(part)
		_, err = in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		require.NoError(t, err)
	}
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	crew := worker.NewCrew(self, 0)
	defer crew.Close()
	again, err := crew.Run(t.Context(), call)
	require.NoError(t, err)
	assert.Equal(t, "true 2000", again.Key("repeated?").String()+" "+again.Key("affected").String())
	count, err := crew.Run(t.Context(), work(t, connection, "b3:count", `{:connection "main" :sql "SELECT count(*) AS n FROM killed"}`))
	require.NoError(t, err)
	rows, _ := count.GetIn(edn.K("results"), edn.Int(0), edn.K("rows"))
	assert.Equal(t, `[{:n 2000}]`, rows.String())
}

const long = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

// FX tools, db/exec: workers that are killed at any moment; each call is made
// once, however often it is tried.
func testKillAnywhere(t *testing.T, connection task.Connection) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	crew := worker.NewCrew(self, 0)
	defer crew.Close()
	run := func(key, input string) edn.Value {
		out, err := crew.Run(t.Context(), work(t, connection, key, input))
		require.NoError(t, err)
		return out
	}
	run("b3:made", `{:connection "main" :sql "CREATE TABLE once (n integer)"}`)
	killed := 0
	for i := range 40 {
		call := work(t, connection, fmt.Sprintf("b3:%d", i), fmt.Sprintf(`{:connection "main" :sql "INSERT INTO once VALUES (%d)"}`, i))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		_, err := crew.Run(ctx, call)
		cancel()
		if err != nil {
			killed++
			assert.Equal(t, ":unknown", contract.AsError(err).Details.Key("effect/state").String())
		}
		_, err = crew.Run(t.Context(), call)
		require.NoError(t, err)
	}
	assert.NotZero(t, killed)
	out := run("b3:counted", `{:connection "main" :sql "SELECT count(*) AS n, count(DISTINCT n) AS d FROM once"}`)
	rows, _ := out.GetIn(edn.K("results"), edn.Int(0), edn.K("rows"))
	assert.Equal(t, `[{:d 40 :n 40}]`, rows.String())
}

func TestKillSQLite(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			path := t.TempDir() + "/main.db"
			setJournal(t, path, mode)
			connection := task.Connection{Driver: task.SQLite, Path: path}
			testKillAfterCommit(t, connection)
			testKillAnywhere(t, connection)
			assert.Equal(t, "ok", integrity(t, path))
		})
	}
}

func integrity(t *testing.T, path string) (said string) {
	t.Helper()
	require.NoError(t, openSQLite(t, path).QueryRow("PRAGMA integrity_check").Scan(&said))
	return said
}
