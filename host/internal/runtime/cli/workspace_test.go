package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// WS-064: validate is about all agents or one, names what an agent lacks, and fails then.
func TestWorkspaceAgents(t *testing.T) {
	t.Parallel()
	w := tree(t)
	w.good("context", "agents", "validate")
	w.write("ferment.hcl", strings.Replace(engineConfig(), "allowed_roots = [\".\"]", `allowed_roots = ["."]

    agent "bare" {
      role = "writer"
    }
`, 1))
	for _, args := range []string{"context agents validate", "context agents validate bare"} {
		got := w.run(strings.Fields(args)...)
		assert.Equal(t, 1, got.code, "%s\n%s%s", args, got.stdout, got.stderr)
		assert.Contains(t, got.stdout, `no prompt "system" is configured`, args)
	}
	w.good("context", "agents", "validate", "writer")
	assert.Contains(t, w.good("context", "agents", "list"), "INVALID")
	assert.Contains(t, w.good("context", "agents", "show", "bare"), "problems")
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

// planned is engineConfig with what the plans of context generate need: the model of
// speaking writes summaries.
func planned(port string) string {
	operations := "plugin \"workspace\" {\n  operations = [\"prompt/override\"]\n"
	return strings.Replace(engineConfig(), "plugin \"workspace\" {\n", operations, 1) + speaking("one", port) + `
intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["one/voice"]
}

intent "context/generate" {
  in           = "req/context.generate"
  out          = "res/context.generate"
  result_types = ["value", "plan"]
}
`
}

// WS-144, WS-147: the plan of context generate --plan runs as a part of the run of the
// command: its calls of the model are nodes with the system prompt of the agent, which
// only a plugin that the configuration trusts may set; the frames are those that are
// made without a plan, and what exists is not made again.
func TestWorkspacePlanMode(t *testing.T) {
	t.Parallel()
	server := listen(t)
	w := tree(t)
	w.write("ferment.hcl", strings.Replace(planned(server.port), "operations", "# operations", 1))
	w.good("workspace", "scan")
	s := w.serve()
	plan := strings.Fields("context generate src --recursive --type summary --intent text/respond --plan --edn")
	got := w.run(plan...)
	assert.Equal(t, 4, got.code, got.stderr)
	assert.Contains(t, got.stdout+got.stderr, ":policy/blocked")
	assert.Empty(t, server.messages())

	w.rewrite("ferment.hcl", "# operations", "operations")
	w.good("admin", "reload")
	made, err := edn.ReadString(w.good(plan...), edn.WithLimits(edn.Body))
	require.NoError(t, err)
	require.Equal(t, 4, made.Key("frames").Len(), "two files and two directories: %s", made)
	require.NotEmpty(t, server.messages())
	assert.Contains(t, server.messages()[0]["content"], "You describe files and directories")
	for _, path := range []string{"src/a.go", "src/inner/b.go", "src/inner", "src"} {
		head := w.good("context", "get-head", path, "--type", "summary", "--edn")
		assert.Contains(t, head, ":state :fresh", path)
		assert.Contains(t, head, ":attribution/source :caller", path)
	}
	before, head := engineState(t, w), w.frameID("src")
	assert.NotContains(t, w.good(plan...), "f1-b3-", "what exists is not made again")
	assert.Equal(t, before, engineState(t, w))
	s.stop()

	other := tree(t)
	other.write("ferment.hcl", planned(server.port))
	other.good("workspace", "scan")
	other.good(plan[:len(plan)-2]...)
	assert.Equal(t, head, other.frameID("src"), "a plan makes the frames that a call makes")
}

// frameID returns the id of the head of the type summary.
func (w *world) frameID(path string) string {
	id, _ := w.data("context", "get-head", path, "--type", "summary").Key("frame/id").AsString()
	require.NotEmpty(w.t, id)
	return id
}

// WS-050, WS-064: a reload swaps agents and views as one, also while the process of the
// old settings has the store open; settings that are not valid leave the old ones in
// force, and another scheme is for new workspaces.
func TestWorkspaceReload(t *testing.T) {
	t.Parallel()
	w := tree(t)
	w.good("workspace", "scan")
	w.serve()
	put := func() ended {
		return w.run("context", "put-frame", "README.md", "note.txt", "--agent", "docs", "--type", "note")
	}
	assert.Equal(t, 4, put().code, "there is no agent docs")
	const roots, docs = `allowed_roots = ["."]`, "allowed_roots = [\".\"]\n\n    agent \"docs\" {\n      role = \"writer\"\n    }\n\n    view \"notes\" {\n      types = [\"note\"]\n    }\n"
	w.rewrite("ferment.hcl", roots, docs)
	w.good("admin", "reload")
	got := put()
	assert.Equal(t, 0, got.code, got.stderr)
	before := engineState(t, w)
	assert.Contains(t, w.good("context", "get-node", "README.md", "--view", "notes"), "Says what the flags do.")
	w.rewrite("ferment.hcl", `role = "writer"`, `role = "king"`)
	assert.NotEqual(t, 0, w.run("admin", "reload").code)
	got = put()
	assert.Equal(t, 0, got.code, got.stderr)
	w.rewrite("ferment.hcl", `role = "king"`, `role = "reader"`)
	w.rewrite("ferment.hcl", roots, "scheme = \"s2\"\n    "+roots)
	w.good("admin", "reload")
	assert.Equal(t, 4, put().code, "a reader writes nothing")
	assert.Equal(t, before, engineState(t, w))
	assert.Equal(t, 6, w.run("workspace", "init", "--scheme", "s2").code)
}

// WS-174: the file of an export that is too large for a request goes to the plugin in
// parts, wherever it lies, to import it and to compare with it.
func TestWorkspaceLargeExport(t *testing.T) {
	t.Parallel()
	w := tree(t)
	w.good("workspace", "scan")
	for i := range 7 {
		w.write("large.txt", strings.Repeat(fmt.Sprintf("line %d of a large text\n", i), 900_000/23))
		w.good("context", "put-frame", "README.md", "large.txt", "--type", fmt.Sprint("note", i))
	}
	w.write("large.txt", "")
	w.good("workspace", "export", "--out", "all.frm")
	info, err := os.Stat(filepath.Join(w.dir, "all.frm"))
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(5<<20))
	w.serve()
	elsewhere := w.copyOut("all.frm")
	assert.Contains(t, w.good("workspace", "import", elsewhere, "--yes"), "7 exist already")
	assert.Contains(t, w.good("context", "diff", elsewhere, "--edn"), ":equal? true")
	assert.Contains(t, w.good("context", "diff", "./all.frm", "--edn"), ":equal? true")
	assert.Contains(t, w.run("workspace", "import", "/dev/zero", "--yes").stderr, ":import/invalid", "it has no end")
	got := w.run("context", "diff", "all.frm")
	assert.Equal(t, 5, got.code)
	assert.Contains(t, got.stderr, "write ./all.frm for the file")
}

// copyOut copies a file to another directory.
func (w *world) copyOut(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	require.NoError(w.t, err)
	path := filepath.Join(w.t.TempDir(), name)
	require.NoError(w.t, os.WriteFile(path, text, 0o644))
	return path
}

// WS-094, WS-095: each policy that the help names works, and so does a custom one with the intent
// context/summarize.
func TestWorkspacePolicies(t *testing.T) {
	t.Parallel()
	w := tree(t)
	w.good("workspace", "scan")
	w.good("context", "put-frame", "src/a.go", "note.txt", "--type", "note")
	help := regexp.MustCompile(`POLICY: ([a-z, ]+), or`).FindStringSubmatch(w.good("context", "synthesize", "--help"))
	require.Len(t, help, 2)
	for _, policy := range append(strings.Split(help[1], ", "), "{:kind :custom :intent :context/summarize}") {
		w.good("context", "synthesize", "src", "--type", "note", "--policy", policy)
		assert.Contains(t, w.good("context", "get-node", "src"), "Says what the flags do.", policy)
	}
}

// WS-201: the host shows what the plugin counts; an intent, and each call of another
// one, is a span in the log of the plugin if that has the level debug.
func TestWorkspaceTelemetry(t *testing.T) {
	t.Parallel()
	w := tree(t)
	w.rewrite("ferment.hcl", "plugin \"workspace\" {\n", "plugin \"workspace\" {\n  log_level = \"debug\"\n")
	w.serve()
	w.good("workspace", "scan")
	w.good("context", "generate", "README.md", "--type", "summary", "--intent", "context/summarize")
	log := w.good("plugin", "logs", "workspace")
	for _, span := range []string{"workspace/scan", "context/generate", "context/summarize"} {
		assert.Contains(t, log, span)
	}
	require.Eventually(t, func() bool {
		figures := w.good("plugin", "list", "--edn")
		return strings.Contains(figures, ":workspace/frames-appended 1") && strings.Contains(figures, ":workspace/model-calls 1") &&
			!strings.Contains(figures, ":workspace/nodes 0")
	}, runLimit, 100*time.Millisecond)
}
