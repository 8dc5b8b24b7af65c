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

	"github.com/fermenthq/ferment/sdk/edn"
)

// ofWorkspace reports whether an example calls an intent of a context engine.
func ofWorkspace(line string) bool {
	return strings.HasPrefix(line, "ferment workspace") || strings.HasPrefix(line, "ferment context")
}

// engineConfig is a configuration with the context engine for the directory.
func engineConfig() string {
	return `
plugin "workspace" {
  command = ["` + filepath.Join(built.plugins, "workspace") + `"]

  isolation {
    read_paths  = ["."]
    write_paths = [".ferment"]
  }

  config {
    allowed_roots = ["."]
  }
}

http {
  listen = ["127.0.0.1:0"]
}

effects {
  scope "db/read" { enabled = true }

  scope "db/write" { enabled = true }
}
` + shipped("text", "text")
}

// tree returns a directory with a small tree and the context engine for it.
func tree(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, "ferment.hcl", engineConfig(), ".gitignore", "*.log\nvar/\n", "README.md", "# A project\n\nIt parses flags.\n",
		"src/a.go", "package a\n\n// A adds.\nfunc A(x, y int) int { return x + y }\n", "src/inner/b.go", "package inner\n",
		"old/c.txt", "c\n", "build/a.log", "log\n", "note.txt", "Says what the flags do.\n")
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, ".ferment"), 0o755))
	return w
}

// good runs a command that must succeed.
func (w *world) good(args ...string) string {
	w.t.Helper()
	got := w.run(args...)
	require.Equal(w.t, 0, got.code, "ferment %s\n%s%s", strings.Join(args, " "), got.stdout, got.stderr)
	return got.stdout
}

// engineState returns the state root of the workspace.
func engineState(t testing.TB, w *world) string {
	t.Helper()
	v, err := edn.ReadString(w.good("workspace", "status", "--edn"), edn.WithLimits(edn.Body))
	require.NoError(t, err)
	root, ok := v.Key("state-root").AsString()
	require.True(t, ok, "%s", v)
	return root
}

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

// WS-181, WS-184, WS-185: what a person meets first: no tree, a path that is ignored,
// another directory, an unknown agent, a store that is damaged.
func TestWorkspaceErrors(t *testing.T) {
	t.Parallel()
	w := tree(t)
	for _, row := range []struct {
		args string
		code int
		err  string
	}{
		{"context get-node README.md", 5, `(?s)^ferment context get-node: .*\(:workspace/(not-found|unscanned)\)\n  next: .*ferment workspace`},
		{"workspace scan", 0, ``},
		{"context get-node build/a.log", 5, `(?s)^ferment context get-node: .*build/a.log.*\(:path/not-in-tree\)\n  next: ferment workspace ignore explain build/a.log\n$`},
		{"context get-node ../elsewhere", 2, `^error: path "../elsewhere" is outside the workspace`},
		{"context get-head README.md --type note", 5, `\(:frame/no-head\)\n  next: ferment context list-frames README.md\n$`},
		{"workspace scan --agent absent", 4, `\(:agent/unknown\)\n  next: ferment context agents list\n$`},
		{"workspace scan --agent reader", 4, `\(:agent/role-denied\)`},
		{"workspace init --scheme s2", 6, `\(:workspace/exists\)`},
		{"workspace status --workspace /", 4, `\(:workspace/root-denied\)`},
		{"workspace status --as-of 99", 5, `\(:seq/unknown\)`},
		{"context get-node 00000000", 5, `\(:node/not-found\)`},
		{"workspace import note.txt --yes", 2, `\(:import/invalid\)`},
		{"workspace import absent.frm --yes", 3, `^error: read absent.frm: no such file or directory`},
		{"workspace scann", 2, `(?s)unknown command "scann" for "ferment workspace".*did you mean ferment workspace scan\?`},
		{"context lst-frames", 2, `did you mean ferment context list-frames\?`},
		{"get-node README.md", 2, `did you mean ferment context get-node\?`},
	} {
		got := w.run(strings.Fields(row.args)...)
		assert.Equal(t, row.code, got.code, "%s\n%s%s", row.args, got.stdout, got.stderr)
		assertStream(t, row.err, got.stderr)
	}
	segment := filepath.Join(w.dir, ".ferment", "workspace", "log", "00000001.seg")
	b, err := os.ReadFile(segment)
	require.NoError(t, err)
	b[len(b)/2] ^= 0x20
	require.NoError(t, os.WriteFile(segment, b, 0o600))
	got := w.run("workspace", "validate")
	assert.Equal(t, 1, got.code, got.stderr)
	assert.Contains(t, got.stdout, "the store is NOT valid")
	assert.Contains(t, got.stdout, "00000001.seg")
}

// WS-165, WS-184, WS-186: watch prints changes until it is interrupted, with the code of
// an interrupt, in this process and in a daemon; the store is valid then.
func TestWorkspaceWatchInterrupted(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"here", "by a daemon"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := tree(t)
			w.good("workspace", "scan")
			if where != "here" {
				w.serve()
			}
			out := filepath.Join(t.TempDir(), "out")
			p := w.launch("", "/bin/sh", "-c", fmt.Sprintf("exec %s workspace watch --json > %s", built.ferment, out))
			lines := func(n int) []string {
				var got []string
				require.Eventually(t, func() bool {
					text, _ := os.ReadFile(out)
					got = strings.Split(strings.TrimSpace(string(text)), "\n")
					return len(got) >= n && strings.HasSuffix(string(text), "\n")
				}, runLimit, 10*time.Millisecond)
				return got
			}
			assert.Contains(t, lines(1)[0], `"ready"`)
			w.write("src/new.go", "package a\n")
			assert.Contains(t, lines(2)[1], `"src/new.go"`)
			p.signal(syscall.SIGINT)
			got := p.wait()
			assert.Equal(t, 130, got.code, got.stderr)
			assert.Contains(t, w.good("workspace", "validate"), "the store is valid")
			assert.Contains(t, w.good("context", "get-node", "src/new.go"), "src/new.go  file")
		})
	}
}

// WS-186: a scan that is killed at any time leaves a store that is valid and that the
// next scan completes.
func TestWorkspaceScanInterrupted(t *testing.T) {
	t.Parallel()
	w := tree(t)
	for i := range 300 {
		w.write(fmt.Sprintf("many/%d/file.txt", i), strings.Repeat("x", i))
	}
	for i, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGINT} {
		p := w.start("", "workspace", "scan", "--force", "--progress", "json")
		p.line(0) // the first progress event
		p.signal(signal)
		got := p.wait()
		assert.Contains(t, []int{0, 130}, got.code, "%d: %s", i, got.stderr)
	}
	assert.Contains(t, w.good("workspace", "scan"), "scanned")
	assert.Contains(t, w.good("workspace", "validate"), "the store is valid")
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
