package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
)

// SDK-005: --check lists differences and writes nothing; without it the
// runtime of the project becomes that of the program.
func TestPluginRuntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := w.run("plugin", "new", "mine", "--kind", "tool", "--lang", scaffold.Python, "--interpreter", "/usr/bin/python3")
	require.Zero(t, out.code, "%s", out.stderr)
	changed, missing := filepath.Join(w.dir, "mine/ferment/wire.py"), filepath.Join(w.dir, "mine/ferment/blake3.py")
	text, err := os.ReadFile(changed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(changed, append(text, '#'), 0o600))
	require.NoError(t, os.Remove(missing))

	for range 2 {
		out = w.run("plugin", "runtime", "mine", "--check")
		assert.Equal(t, 1, out.code, "%s", out.stderr)
		assert.Equal(t, "mine/ferment/blake3.py: missing\nmine/ferment/wire.py: differs\n", out.stdout)
	}
	out = w.run("plugin", "runtime", "mine", "--check", "--edn")
	assert.Equal(t, 1, out.code, "%s", out.stderr)
	assert.Equal(t, `[{:file "ferment/blake3.py" :missing? true} {:file "ferment/wire.py" :missing? false}]`,
		out.value(t).Key("changes").String())
	assert.False(t, out.value(t).Key("written?").Truthy())

	out = w.run("plugin", "runtime", "mine")
	assert.Zero(t, out.code, "%s", out.stderr)
	assert.Equal(t, "mine/ferment/blake3.py: added\nmine/ferment/wire.py: replaced\n", out.stdout)
	w.dir = filepath.Join(w.dir, "mine")
	out = w.run("plugin", "runtime", "--check")
	assert.Zero(t, out.code, "%s", out.stderr)
	assert.Equal(t, "ferment is up to date\n", out.stdout)
	again, err := os.ReadFile(changed)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
}
