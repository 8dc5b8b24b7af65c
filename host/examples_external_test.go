//go:build external

package host_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// in runs the built program in a folder of the examples.
func in(t *testing.T, folder string, args ...string) (output string, code int) {
	t.Helper()
	program, err := filepath.Abs("../bin/ferment")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join("..", "examples", "plugins", folder)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		return out.String(), exit.ExitCode()
	}
	require.NoError(t, err)
	return out.String(), 0
}

// withRuntime writes the runtime of an example.
func withRuntime(t *testing.T, folder string) {
	t.Helper()
	out, code := in(t, folder, "plugin", "runtime")
	require.Zero(t, code, "%s", out)
}

// WIRE-006: plugins in other languages, without any code of Ferment, pass core
// conformance and whatever else they claim.
func TestConformanceInOtherLanguages(t *testing.T) {
	for folder, command := range map[string][]string{
		"readability": {"/usr/bin/python3", "plugin.py"},
		"outline":     {"node", "plugin.mjs"},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			withRuntime(t, folder)
			out, code := in(t, folder, append([]string{"conform", "--patience", "10", "--samples", "samples.edn", "--"}, command...)...)
			assert.Zero(t, code, "%s", out)
			t.Log(out)
		})
	}
}

// WIRE-006: the host serves them: JSON payloads, deltas, and the way back to the
// host over the brokered connection.
func TestExamplesInOtherLanguages(t *testing.T) {
	withRuntime(t, "readability")
	withRuntime(t, "outline")
	for _, tt := range []struct{ folder, intent, input, want string }{
		{"readability", "text/readability", `{:text "Bees dance. Others read it."}`, `{:findings [] :grade -0.5 :ok? true :sentences 2 :words 5}`},
		{"readability", "text/readability", `{:text "Notwithstanding considerable organisational difficulties, interdisciplinary investigation continues."}`, `:ok? false`},
		{"readability", "text/title", `{:text "Bees dance to tell where food is. Other bees read the dance in the dark hive."}`, `{:made 1 :title "Bees Dance To Tell Where Food"}`},
		{"outline", "text/outline", `{:markdown "# Bees\n## Dance"}`, `{:headings [{:level 1 :line 1 :title "Bees"} {:level 2 :line 2 :title "Dance"}]}`},
		{"outline", "text/read-outline", `{:markdown "# Bees\n## Dance"}`, `{:text "Bees\n  Dance"}`},
	} {
		out, code := in(t, tt.folder, "act", tt.intent, tt.input, "--edn")
		require.Zero(t, code, "%s", out)
		v, err := edn.ReadString(out)
		require.NoError(t, err, "%s", out)
		assert.Contains(t, v.Key("result").Key("out").String(), tt.want)
	}
	out, code := in(t, "outline", "act", "text/outline", `{:markdown 7}`)
	assert.NotZero(t, code)
	assert.Contains(t, out, "should be a string")
}
