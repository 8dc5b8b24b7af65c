package scaffold

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// written returns the folder of a new project.
func written(t *testing.T, lang string) string {
	t.Helper()
	files, err := Project{Name: "my-plugin", Kind: "tool", Lang: lang, Interpreter: DefaultInterpreter(lang)}.Files()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "p")
	require.NoError(t, Write(dir, files))
	return dir
}

// outdated returns the paths that differ in a project, true for missing ones.
func outdated(t *testing.T, dir string) map[string]bool {
	t.Helper()
	changes, err := Outdated(dir)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, c := range changes {
		assert.NotContains(t, found, c.Path, "once")
		found[c.Path] = c.Missing
	}
	return found
}

// SDK-005: one changed byte and a missing file are detected, and an update
// restores both and writes nothing else.
func TestRuntimeIsUpdated(t *testing.T) {
	for lang, name := range map[string]struct{ program, changed, missing string }{
		Python: {"plugin.py", "ferment/wire.py", "ferment/__init__.py"},
		Node:   {"plugin.mjs", "ferment/index.mjs", "ferment/plugin.proto"},
	} {
		t.Run(lang, func(t *testing.T) {
			dir := written(t, lang)
			assert.Empty(t, outdated(t, dir), "a new project")
			own := filepath.Join(dir, name.program)
			require.NoError(t, os.WriteFile(own, []byte("mine"), 0o600))
			path := filepath.Join(dir, name.changed)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			edited := append([]byte{text[0] ^ 1}, text[1:]...)
			require.NoError(t, os.WriteFile(path, edited, 0o600))
			require.NoError(t, os.Remove(filepath.Join(dir, name.missing)))
			assert.Equal(t, map[string]bool{name.changed: false, name.missing: true}, outdated(t, dir))

			changes, err := Outdated(dir)
			require.NoError(t, err)
			require.NoError(t, Update(dir, changes))
			assert.Empty(t, outdated(t, dir))
			again, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(text), string(again))
			mine, err := os.ReadFile(own)
			require.NoError(t, err)
			assert.Equal(t, "mine", string(mine))

			require.NoError(t, os.RemoveAll(filepath.Join(dir, RuntimeDir)))
			changes, err = Outdated(dir)
			require.NoError(t, err, "the program says what the project is")
			require.NoError(t, Update(dir, changes))
			assert.Empty(t, outdated(t, dir))
			runtime, err := runtimeFiles(lang)
			require.NoError(t, err)
			left, err := os.ReadDir(filepath.Join(dir, RuntimeDir))
			require.NoError(t, err)
			assert.Len(t, left, len(runtime))
		})
	}
}

// SDK-005: a folder with programs in both languages has both runtimes.
func TestRuntimesBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plugin.py", "plugin.mjs"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	found := outdated(t, dir)
	for _, name := range []string{"ferment/wire.py", "ferment/index.mjs", "ferment/plugin.proto"} {
		assert.True(t, found[name], name)
	}
	changes, err := Outdated(dir)
	require.NoError(t, err)
	require.NoError(t, Update(dir, changes))
	assert.Empty(t, outdated(t, dir))
}

// SDK-005: a folder that is not a project with a runtime is rejected, and
// nothing outside of it is written.
func TestRuntimeRefused(t *testing.T) {
	for name, files := range map[string][]string{
		"empty":              {},
		"in Go":              {"main.go", "go.mod"},
		"former Python":      {"plugin.py", "wire.py", "plugin_pb2.py"},
		"former Node":        {"plugin.mjs", "wire.mjs", "certificate.mjs"},
		"a file named so":    {"plugin.py", "ferment"},
		"a program of hosts": {"ferment"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
			}
			_, err := Outdated(dir)
			require.ErrorIs(t, err, contract.OfType("input/invalid"))
			assert.NotEmpty(t, contract.AsError(err).Hint)
		})
	}
	_, err := Outdated(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)

	dir, other := written(t, Python), t.TempDir()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, RuntimeDir)))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, RuntimeDir)))
	_, err = Outdated(dir)
	require.ErrorIs(t, err, contract.OfType("input/invalid"))
	require.Error(t, Update(dir, []Change{{File: File{Path: "ferment/wire.py"}}}))
	left, err := os.ReadDir(other)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// SDK-005: the configuration of a project lists every runtime file that its
// program loads.
func TestRuntimeIsListed(t *testing.T) {
	for _, lang := range []string{Python, Node} {
		_, listed := Project{Lang: lang}.program()
		runtime, err := runtimeFiles(lang)
		require.NoError(t, err)
		for _, f := range runtime {
			if lang == Node || filepath.Ext(f.Path) == ".py" {
				assert.Contains(t, listed, f.Path)
			}
		}
	}
}
