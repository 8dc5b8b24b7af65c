package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ISO-001, WS-080: under the isolation of the shipped configuration the context
// engine reads the files in which git says what a user ignores, and no other file
// beside them.
func TestWorkspaceReadsTheFilesOfGit(t *testing.T) {
	t.Parallel()
	w := tree(t)
	config, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	w.write("ferment.hcl", string(config))
	w.write("mine", "*.txt\n")
	home := t.TempDir()
	w.env = append(w.env, "HOME="+home)
	write := func(name, text string) {
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	w.good("plugin", "lock")
	w.good("workspace", "init", "--scheme", "git-sha1")
	assert.Contains(t, w.good("workspace", "ignore", "explain", "note.txt"), "no rule fits", "there are no files of git")
	write(".config/git/ignore", "note*\n")
	assert.Contains(t, w.good("workspace", "ignore", "explain", "note.txt"), home+"/.config/git/ignore:1")
	write(".gitconfig", fmt.Sprintf("[core]\n\texcludesFile = %s/mine\n", w.dir))
	assert.Contains(t, w.good("workspace", "ignore", "explain", "note.txt"), "/mine:1")
	write("beside", "*.txt\n")
	write(".gitconfig", "[core]\n\texcludesFile = ~/beside\n")
	assert.Contains(t, w.good("workspace", "ignore", "explain", "note.txt"), "no rule fits", "a file that is not granted")
}
