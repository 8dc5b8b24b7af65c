//go:build slow

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// WS-186, CLI-007: a verb that is run again leaves the state root as the first run
// left it, verbs that read print the same bytes, and all of them do the same
// through a daemon as in the process of the command.
func TestWorkspaceVerbsRepeat(t *testing.T) {
	t.Parallel()
	w := tree(t)
	assert.Equal(t, 5, w.run("workspace", "status").code, "nothing was scanned")
	for _, writes := range []string{
		"workspace scan", "context put-frame README.md note.txt --type note", "context put-frame src/a.go note.txt --type digest",
		"workspace snapshot create run-17", "workspace ignore add *.tmp", "workspace delete old --yes", "workspace restore old", "workspace init",
	} {
		w.good(strings.Fields(writes)...)
		first := engineState(t, w)
		w.good(strings.Fields(writes)...)
		assert.Equal(t, first, engineState(t, w), writes)
	}
	reads := []string{
		"workspace status --breakdown", "workspace validate", "workspace ignore list", "workspace ignore explain build/a.log",
		"workspace snapshot list", "workspace list-deleted", "workspace export", "workspace graph", "context get-node README.md",
		"context get-node src --edn", "context list-frames README.md --json", "context get-head README.md --type note",
		"context history src/a.go", "context compose src/a.go --source current --source parent", "context diff run-17",
		"context report", "context report -o markdown", "context agents list", "context agents show writer --edn",
	}
	first := map[string]string{}
	before := engineState(t, w)
	for _, read := range reads {
		first[read] = w.good(strings.Fields(read)...)
		assert.NotEmpty(t, first[read], read)
		assert.Equal(t, first[read], w.good(strings.Fields(read)...), read)
	}
	assert.Equal(t, before, engineState(t, w), "reading changes nothing")
	w.serve()
	for _, read := range reads {
		assert.Equal(t, first[read], w.good(strings.Fields(read)...), "by the daemon: %s", read)
	}
	for _, line := range strings.Split(w.good("runs", "list"), "\n") {
		assert.NotContains(t, line, "failed", "a command is one call")
	}
}

// CLI-006: the examples of the help of every verb of workspaces work unchanged, one
// after the other, with the configuration of the repository.
func TestWorkspaceExamples(t *testing.T) {
	t.Parallel()
	w := tree(t)
	config, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	w.write("ferment.hcl", string(config)+"\nhttp {\n  listen = [\"127.0.0.1:0\"]\n}\n")
	w.write("calls.edn", `[{:intent :context/get-node :input {:path "README.md"}} {:intent :context/list-frames :input {:path "src"}}]`)
	w.write("puts.edn", `[{:intent :context/put-frame :input {:path "README.md" :frame/type "note" :content "a"}}]`)
	w.good("plugin", "lock")
	w.env = append(w.env, "PATH=")
	w.serve()
	prepare := []string{
		"workspace scan", "context put-frame README.md note.txt --type note", "context put-frame src/a.go note.txt --type digest",
		"context put-frame src/inner/b.go note.txt --type digest", "context synthesize src --type digest --recursive",
		"workspace snapshot create run-17", "workspace export --out context.frm",
	}
	for _, args := range prepare {
		w.good(strings.Fields(args)...)
	}
	n := 0
	for _, verb := range leaves(t, w, "") {
		if !ofWorkspace("ferment " + verb) {
			continue
		}
		for _, line := range examplesOf(t, w, verb) {
			n++
			switch {
			case strings.HasPrefix(line, "ferment workspace watch"):
				out := filepath.Join(t.TempDir(), "out")
				p := w.launch("", "/bin/sh", "-c", "exec "+strings.Replace(line, "ferment", built.ferment, 1)+" > "+out)
				changes := 0
				require.Eventually(t, func() bool {
					changes++ // the output for editors has changes only
					w.write("src/changing.go", fmt.Sprintf("package a // %d\n", changes))
					text, _ := os.ReadFile(out)
					return len(text) > 0
				}, 20*time.Second, 100*time.Millisecond, line)
				p.signal(syscall.SIGINT)
				assert.Equal(t, 130, p.wait().code, line)
			case strings.HasPrefix(line, "ferment workspace init"):
				other := tree(t)
				other.good(strings.Fields(strings.TrimPrefix(line, "ferment "))...)
			default:
				got := w.shell(line)
				codes := []int{0}
				if strings.Contains(line, "--exit-code") || strings.Contains(line, "--fail-on") {
					codes = append(codes, 1)
				}
				assert.Contains(t, codes, got.code, "%s\n%s%s", line, got.stdout, got.stderr)
			}
		}
	}
	assert.Greater(t, n, 60)
}
