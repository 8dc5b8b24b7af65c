package cli_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
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

// The secrets of this test. Nothing else has their beginning.
const (
	canary       = "CANARY-7e1f"
	canaryKey    = canary + "-key-of-the-environment"
	canaryToken  = canary + "-token-of-a-file"
	canaryNew    = canary + "-token-after-a-rotation"
	canaryEffect = canary + "-bearer-of-a-tool"
)

// ear collects everything that is said anywhere, by where it was said.
type ear struct {
	mu    sync.Mutex
	heard []string
}

func (e *ear) hear(where, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, where+"\x00"+what)
}

// silent asserts that no secret was said.
func (e *ear) silent(t *testing.T) {
	t.Helper()
	for _, said := range e.heard {
		where, what, _ := strings.Cut(said, "\x00")
		for _, form := range []string{
			canary, strings.ToLower(canary), strings.ToUpper(canary), strings.Trim(fmt.Sprint([]byte(canary)), "[]"),
		} {
			if at := strings.Index(what, form); at >= 0 {
				t.Errorf("a secret in %s: %s", where, what[max(0, at-200):min(len(what), at+60)])
			}
		}
	}
}

// process hears what the kernel shows of a process to whoever may look.
func (e *ear) process(t *testing.T, pid int, who string) {
	t.Helper()
	for _, file := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if assert.NoError(t, err, "%s of %s", file, who) {
			e.hear(file+" of "+who, string(text))
		}
	}
}

// secretive is a world with two secrets of a plugin and one of the tools, and a
// server that the last one is for. The server hears every request.
func secretive(t *testing.T, server func(http.ResponseWriter, *http.Request)) (*world, *ear) {
	w := newWorld(t)
	e := &ear{}
	web := httptest.NewTLSServer(http.HandlerFunc(server))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	require.NoError(t, err)
	w.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	w.write("token", canaryToken+"\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "token"), 0o600))
	w.env = append(w.env, "KEEPER_KEY="+canaryKey, "TOOL_KEY="+canaryEffect, "FERMENT_PROFILE=test")
	w.write("ferment.hcl", fmt.Sprintf(`plugin "keeper" {
  command = [%q, %q]

  restart {
    max         = 6
    backoff     = "10ms"
    max_backoff = "20ms"
  }

  config {
    key   = secret("env:KEEPER_KEY")
    token = secret("file:token")
  }
}

`, built.helper, roleKeeper)+shipped("tools", "tools", "config {\n  ca_file = \"ca.pem\"\n}")+fmt.Sprintf(`
effects {
  scope "net/http" {
    enabled       = true
    hosts         = ["127.0.0.1"]
    ports         = [%[1]s]
    methods       = ["GET", "POST"]
    allow_private = true
  }

  rule "net/http" {
    any = ["user", "admin"]
  }

  secret "hub" {
    value = secret("env:TOOL_KEY")
    hosts = ["127.0.0.1"]
  }
}
`, port))
	for name, url := range map[string]string{"fetch": "https://127.0.0.1:" + port + "/in", "elsewhere": "https://example.com/"} {
		w.write(name+".edn", fetchPlan(url))
	}
	return w, e
}

func fetchPlan(url string) string {
	return fmt.Sprintf(`{:nodes [{:op :tool :tool/id :net/http :as :got :effects {:allowed #{:net/http}}
          :input {:url %q :headers {"authorization" ["Bearer " #ferment/secret :hub]}}}
 {:op :emit :input {:status {:slot/path [:got :status]}}}]}`, url)
}

// ISO-005, FX-011: whatever a plugin does with its secrets, whatever fails, is asked, shown, compared, reloaded or logged, they are
// in no output, no file and nothing that the kernel shows of a process.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var shown []string
	held := make(chan struct{}) // keeps the next request waiting
	came := make(chan struct{}) // closed when that is there
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
	require.Eventually(t, func() bool { pid = s.pidOf("keeper"); return pid != 0 }, 20*time.Second, 5*time.Millisecond)
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
		require.Eventually(t, func() bool { return s.pidOf("keeper") != 0 }, 20*time.Second, 5*time.Millisecond)
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
	case <-came: // the worker has it; before, one may only wait for a call
	case cut := <-failing:
		require.Fail(t, "the request does not come", cut.stderr)
	}
	worker := awaitProcesses(20*time.Second, func() ([]int, bool) {
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

	// Another secret, then a configuration that its plugin refuses.
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
				return nil //nolint:nilerr // other tests work beside this one
			}
			if text, err := os.ReadFile(path); err == nil {
				files++
				assert.NotContains(t, string(text), canary, path)
			}
			return nil
		})
	}
	assert.Greater(t, files, 5)
	assert.Empty(t, w.left(time.Second))
}

// pidOf is the process of a plugin that takes calls; 0 for none.
func (s *served) pidOf(name string) int {
	for p := range s.admin(`{:action :plugin-list}`).value(s.t).Key("result").Key("plugins").Elems() {
		if is, _ := p.Key("plugin").AsString(); is != name {
			continue
		}
		for i := range p.Key("instances").Elems() {
			if pid, ok := i.Key("pid").AsInt(); ok && i.Key("callable?").Truthy() {
				return int(pid)
			}
		}
	}
	return 0
}
