//go:build linux

package task

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// tasked is a task of a tool within a scope.
func tasked(t *testing.T, tool, scope, input string) *Task {
	t.Helper()
	known, ok := effects.ToolNamed(tool)
	require.True(t, ok, tool)
	s, problems := effects.ParseScope(known.Effect, edn.MustRead(scope))
	require.Empty(t, problems)
	return &Task{Tool: known, Scope: s, Strict: true, Input: edn.MustRead(input), Key: "b3:1"}
}

// FX-003, FX-004, ERR-002: failures of workers, each with its type: a missing
// program, a program that is not a worker, a missing root, invalid
// certificates.
func TestWorkersThatCannot(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	read := tasked(t, "fs/read-file", fmt.Sprintf(`{:enabled true :roots [%q] :allow ["."]}`, dir), `{:path "f"}`)
	gone := tasked(t, "fs/read-file", fmt.Sprintf(`{:enabled true :roots [%q] :allow ["."]}`, filepath.Join(dir, "gone")), `{:path "f"}`)
	ask := func(roots string) *Task {
		task := tasked(t, "net/http-request", `{:enabled true :hosts ["example.com"] :schemes ["https"] :ports [443] :methods ["GET"]}`, `{:url "https://example.com/"}`)
		task.CAFile = roots
		return task
	}
	for name, row := range map[string]struct {
		self, typ, says string
		task            *Task
	}{
		"no program":      {filepath.Join(dir, "worker"), "effects/runtime-missing", "start a worker", read},
		"no worker":       {"/bin/true", "effects/runtime-failed", "the worker ended without an answer", read},
		"no root":         {self, "effects/runtime-failed", "open the root", gone},
		"no certificates": {self, "effects/runtime-missing", "read the certificates", ask(filepath.Join(dir, "gone.pem"))},
		"no certificate":  {self, "effects/runtime-missing", "empty.pem contains no certificate", ask(empty)},
	} {
		t.Run(name, func(t *testing.T) {
			c := worker.NewCrew(row.self, 0)
			defer c.Close()
			parts, failed := row.task.Parts()
			require.Nil(t, failed)
			_, err := c.Run(t.Context(), parts)
			require.Error(t, err)
			e := contract.AsError(err)
			assert.Equal(t, row.typ, e.Type, "%v", err)
			assert.Contains(t, e.Message, row.says)
		})
	}
}

// FX-003: an unknown tool is rejected; so is a call that does not match the
// rules by which the worker was confined, and a call that the kernel cannot
// confine.
func TestWorkersThatRefuse(t *testing.T) {
	_, err := (&Task{Tool: effects.Tool{ID: "process/run"}}).hold()
	require.NotNil(t, err)
	assert.Equal(t, "effects/unsupported-tool", err.Type)

	root := t.TempDir()
	scope := fmt.Sprintf(`{:enabled true :roots [%q] :allow ["."]}`, root)
	rules, err := tasked(t, "fs/read-file", scope, `{:path "one"}`).rules()
	require.Nil(t, err)
	task, problem := taskFrom(rules)
	require.NoError(t, problem)
	err = task.learn(tasked(t, "fs/read-file", scope, `{:path "two"}`).call())
	require.NotNil(t, err)
	assert.Equal(t, "runtime/internal", err.Type)

	err = worker.Unheld(effects.Tool{ID: "fs/read-file"}, fmt.Errorf("confine: %w", &confine.Error{Layer: confine.LayerFiles, Err: os.ErrPermission}))
	assert.Equal(t, `effects/not-enforceable "landlock"`, err.Type+" "+err.Details.Key("layer").String())
}
