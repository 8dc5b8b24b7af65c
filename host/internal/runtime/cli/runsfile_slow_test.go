//go:build slow

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// JRN-050, JRN-053: the exported runs of the example plans are replayed where there is
// nothing but the configuration: no daemon, no data directory, none of the plugins. A
// changed byte is found, and so is a configuration under which a run would end otherwise.
func TestExamplePlansReplayFromFiles(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "ferment.hcl"))
	require.NoError(t, err)
	config := string(text) + "\nhttp {\n  listen = [\"127.0.0.1:0\"]\n}\n"
	w := newWorld(t, "ferment.hcl", config)
	require.NoError(t, os.Symlink(filepath.Join(root, "bin"), filepath.Join(w.dir, "bin")))
	require.NoError(t, os.CopyFS(filepath.Join(w.dir, "examples"), os.DirFS(filepath.Join(root, "examples"))))
	bare := newWorld(t, "ferment.hcl", config)
	bare.env = append(bare.env, "HOME="+t.TempDir(), "PATH=")

	s := w.serve()
	plans, err := filepath.Glob(filepath.Join(root, "examples/plans/*.edn"))
	require.NoError(t, err)
	require.NotEmpty(t, plans)
	for _, plan := range plans {
		name := filepath.Base(plan)
		if got := w.run("run", plan); !assert.Equal(t, 0, got.code, "%s: %s", name, got.stderr) {
			continue
		}
		got := w.run("runs", "export", "last", filepath.Join(bare.dir, name))
		require.Equal(t, 0, got.code, "%s: %s", name, got.stderr)
		recorded := w.run("runs", "replay", "last", "--edn")
		require.Equal(t, 0, recorded.code, "%s: %s", name, recorded.stderr)
		for range 2 { // it leaves nothing behind
			got = bare.run("runs", "replay", name, "--edn")
			require.Equal(t, 0, got.code, "%s: %s", name, got.stderr)
			assert.Equal(t, recorded.value(t).Key("hash").String(), got.value(t).Key("hash").String(), name)
		}
	}
	s.stop()
	assert.NoDirExists(t, filepath.Join(bare.dir, "var"))

	got := bare.run("runs", "replay", "./missing.edn")
	assert.Equal(t, 3, got.code, got.stderr)
	assert.Contains(t, got.stderr, "missing.edn")
	got = bare.run("runs", "replay", "hello.edn", "--mode", "fill")
	assert.Equal(t, 2, got.code, got.stderr)
	assert.Contains(t, got.stderr, "ferment runs import hello.edn")

	file, err := os.ReadFile(filepath.Join(bare.dir, "hello.edn"))
	require.NoError(t, err)
	for part, changed := range map[string]string{"Hello, world!": "Hello, World!", ":plugin/name \"text\"": ":plugin/name \"texu\""} {
		require.Contains(t, string(file), part)
		bare.write("changed.edn", strings.Replace(string(file), part, changed, 1))
		got = bare.run("runs", "replay", "changed.edn")
		assert.NotZero(t, got.code)
		assert.Contains(t, got.stderr, "import/invalid", part)
	}
	const candidates = "candidates  = [\"text/template\"]\n  role        = \"voice\"\n  constraints = { max_chars = "
	refusing := strings.Replace(config, candidates+"12000 }", candidates+"5 }\n  done { must = [\"max-chars\"] }", 1)
	require.NotEqual(t, config, refusing)
	bare.write("ferment.hcl", refusing)
	got = bare.run("runs", "replay", "hello.edn")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "replay/miss")
}
