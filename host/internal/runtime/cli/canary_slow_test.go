//go:build slow

package cli_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ISO-005, FX-011, JRN-022: the secrets of a plugin appear in no output, no file and no
// process information, whatever command or failure occurs.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var shown []string
	held := make(chan struct{}) // blocks the next request
	came := make(chan struct{}) // closed when that request arrives
	arrived := sync.OnceFunc(func() { close(came) })
	status := 200
	hold := false
	w, e := secretive(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown = append(shown, r.Header.Get("Authorization"))
		wait, code := hold, status
		mu.Unlock()
		if wait {
			arrived()
			<-held
		}
		rw.WriteHeader(code)
	})
	run := func(args ...string) ended {
		t.Helper()
		got := w.run(args...)
		e.hear("ferment "+strings.Join(args, " "), got.stdout+got.stderr)
		return got
	}

	// Without a daemon.
	for _, args := range [][]string{
		{"validate"}, {"validate", "--json"}, {"config", "show", "--defaults", "--origins"}, {"config", "show", "--flat"}, {"config", "show", "--edn"}, {"config", "show", "--inputs"},
		{"config", "docs", "--plugin", "keeper"}, {"plugin", "list", "--edn"}, {"plugin", "inspect", "keeper"}, {"plugin", "inspect", "tools", "--edn"}, {"plugin", "lock"}, {"doctor"},
		{"act", "t/keep", `{:do "ok"}`, "--report", "--transcript", "--progress", "edn"},
	} {
		got := run(args...)
		assert.Equal(t, 0, got.code, "%v: %s", args, got.stderr)
	}
	got := run("conform", "--config", fmt.Sprintf("{:key %q :token %q}", canaryKey, canaryToken), "--samples", `{:t/keep {:do "typed"}}`,
		"--run", "tool/answer|core/health", "--json", "report.json", "--md", "report.md", "--junit", "report.xml", "--", built.helper, roleKeeper)
	assert.Equal(t, 1, got.code, got.stderr)
	assert.Contains(t, got.stdout, "[secret]")
	for _, do := range []string{"answer", "log", "print", "error", "typed", "panic", "crash"} {
		run("act", "t/keep", fmt.Sprintf("{:do %q}", do), "--report", "--transcript", "--progress", "edn", "-o", "edn")
	}
	got = run("run", "fetch.edn", "--effects", "net/http", "--report", "--transcript", "--edn")
	require.Equal(t, 0, got.code, got.stderr)

	// With one.
	s := w.serve()
	e.process(t, s.pids()["tools"], "the tools")
	var pid int
	require.Eventually(t, func() bool { pid = s.pidOf("keeper"); return pid != 0 }, runLimit, 5*time.Millisecond)
	e.process(t, pid, "the keeper")
	ask := func(what, request string) answer {
		t.Helper()
		var last answer
		for _, form := range []string{"application/edn", "application/json"} {
			last = s.request(t.Context(), "POST", "/v1/act", request, "Accept", form)
			require.NoError(t, last.err)
			e.hear("the answer to "+what, fmt.Sprint(last.header)+string(last.body))
		}
		return last
	}
	sum := sha256.Sum256([]byte(canaryKey + " and " + canaryToken))
	for _, do := range []string{"ok", "answer", "log", "print", "error", "typed", "panic", "crash"} {
		require.Eventually(t, func() bool { return s.pidOf("keeper") != 0 }, runLimit, 5*time.Millisecond)
		a := ask(do, envelopeOf("t/keep", fmt.Sprintf("{:do %q}", do), ":debug/transcript? true :debug/plan? true"))
		if do == "ok" {
			assert.Contains(t, string(a.body), hex.EncodeToString(sum[:]), "the plugin has its secrets")
		}
	}
	got = run("run", "fetch.edn", "--effects", "net/http", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	run("run", "elsewhere.edn", "--effects", "net/http", "--edn", "--transcript")
	mu.Lock()
	for _, header := range shown {
		assert.Equal(t, "Bearer "+canaryEffect, header, "the server has its secret")
	}
	require.Len(t, shown, 2)
	status, hold = 500, true
	mu.Unlock()
	failing := make(chan ended, 1)
	go func() { failing <- w.run("run", "fetch.edn", "--effects", "net/http", "--edn", "--transcript") }()
	select {
	case <-came: // the worker has it; until then a call may only wait for it
	case cut := <-failing:
		require.Fail(t, "the request does not come", cut.stderr)
	}
	worker := awaitProcesses(runLimit, func() ([]int, bool) {
		found := childrenOf(s.pids()["tools"], filepath.Join(built.plugins, "tools"))
		return found, len(found) > 0
	})
	require.NotEmpty(t, worker)
	e.process(t, worker[0], "a worker of the tools")
	assert.NoError(t, syscall.Kill(worker[0], syscall.SIGKILL))
	close(held)
	cut := <-failing
	e.hear("a call whose worker was killed", cut.stdout+cut.stderr)
	for _, action := range []string{
		"{:action :status}", "{:action :plugin-list}", `{:action :plugin-inspect :plugin "keeper"}`, `{:action :plugin-inspect :plugin "tools"}`, `{:action :plugin-logs :plugin "keeper"}`,
		"{:action :config-show :defaults? true :origins? true :text? true}", "{:action :config-diff}",
	} {
		e.hear(action, string(s.admin(action).body))
	}
	for _, path := range []string{"/ready", "/health", "/routes", "/openapi.json"} {
		e.hear(path, string(s.request(t.Context(), "GET", path, "").body))
	}

	// Another secret, then a configuration that the plugin rejects.
	w.write("token.new", canaryNew+"\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "token.new"), 0o600))
	require.NoError(t, os.Rename(filepath.Join(w.dir, "token.new"), filepath.Join(w.dir, "token")))
	run("diff")
	got = run("admin", "reload", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "another value")
	sum = sha256.Sum256([]byte(canaryKey + " and " + canaryNew))
	assert.Contains(t, string(ask("ok", envelopeOf("t/keep", `{:do "ok"}`, "")).body), hex.EncodeToString(sum[:]))
	ask("typed", envelopeOf("t/keep", `{:do "typed"}`, ""))
	w.rewrite("ferment.hcl", "    token = secret", "    mood  = \"refuses\"\n    token = secret")
	got = run("admin", "reload", "--edn")
	assert.NotEqual(t, 0, got.code)
	assert.Contains(t, got.stderr+got.stdout, "nobody lets")
	run("plugin", "logs", "keeper", "--lines", "10000", "--edn")
	got = run("runs", "list", "--limit", "1000", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, ":t/keep")
	for _, args := range [][]string{{"show", "last"}, {"records", "last", "--edn"}, {"export", "last", "run.edn"}, {"verify"}} {
		got = run(append([]string{"runs"}, args...)...)
		assert.Equal(t, 0, got.code, got.stderr)
	}
	end := s.stop()
	e.hear("the log of the daemon", end.stdout+end.stderr)
	assert.Contains(t, end.stderr, "[secret]")
	refused := run("serve")
	assert.Equal(t, 69, refused.code, refused.stderr)

	e.silent(t)
	files := 0
	for _, dir := range []string{w.dir, w.rt, built.home} {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || path == filepath.Join(w.dir, "token") {
				return nil //nolint:nilerr // other tests change this directory concurrently
			}
			if text, err := os.ReadFile(path); err == nil {
				files++
				assert.NotContains(t, string(text), canary, path)
			}
			return nil
		})
	}
	assert.FileExists(t, filepath.Join(w.dir, "var", "ferment.db"))
	assert.Greater(t, files, 5)
	assert.Empty(t, w.left(endLimit))
}
