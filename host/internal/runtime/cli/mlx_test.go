package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modelled is a world with a model server of its own and the plugin for texts
// as fallback. Ports depend on the model, so each test has another model.
func modelled(t testing.TB, settings, grants string) *world {
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "models"), 0o755))
	w.write("ferment.hcl", shipped("text", "text")+shipped("mlx", "mlx", "optional = true", `env_pass = ["PATH"]`,
		fmt.Sprintf("isolation {\n  network     = \"loopback\"\n  read_paths  = [\"models\"]\n  write_paths = [\"cache\"]\n%s\n}", grants),
		fmt.Sprintf("config {\n  model = %q\n  %s\n  serve \"meta\" {\n    intents = [\"context/summarize\", \"text/respond\"]\n  }\n}", t.Name(), settings))+`
intent "context/summarize" {
  in         = "req/context"
  out        = "res/context-summary"
  candidates = ["mlx/meta", "text/extractive"]
}

http {
  listen = ["127.0.0.1:0"]
}
`)
	return w
}

// MLX-012: on a machine without MLX the next candidate answers, and the error
// of a request for the server alone has a hint.
func TestWithoutAModelServer(t *testing.T) {
	t.Parallel()
	w := modelled(t, "", `exec = ["mlx_lm.server"]`)
	w.env = append(w.env, "PATH="+w.dir) // no programs of this machine
	got := w.run("act", "context/summarize", `{:text "Rust is fast. Go is simple. Cats sleep. Go compiles fast."}`, "--edn")
	require.Zero(t, got.code, got.stderr)
	v := got.value(t)
	assert.Equal(t, ":text/extractive", v.Key("invoke/meta").Key("cap/id").String())
	assert.NotEmpty(t, text(t, v.Key("result").Key("out").Key("text")))

	got = w.run("act", "text/respond", `{:prompt "hello"}`, "--edn")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stdout+got.stderr, "install mlx-lm, or set command")
}

// MLX-007: the model server works under the isolation that its plugin
// requests; the end of the plugin or of the host stops the server and its
// children.
func TestModelServerEndsWithItsPlugin(t *testing.T) {
	t.Parallel()
	w := modelled(t, fmt.Sprintf("command = [%q, %q, \"{port}\"]", built.helper, roleModel), fmt.Sprintf("exec = [%q]", built.helper))
	s := w.serve()
	respond := func() int {
		t.Helper()
		var pid int
		require.Eventually(t, func() bool {
			a := s.request(t.Context(), http.MethodPost, "/v1/act", `{:proto 1 :trace {:id "m"} :task {:intent :text/respond} :input {:prompt "hello"}}`)
			if a.status != http.StatusOK {
				return false
			}
			var err error
			pid, err = strconv.Atoi(text(t, a.value(t).Key("result").Key("out").Key("text")))
			return err == nil
		}, 30*time.Second, 20*time.Millisecond)
		return pid
	}
	family := func(pid int) []int { return append(childrenOf(pid, built.helper), pid) }
	over := func(pids []int) {
		t.Helper()
		left := awaitProcesses(endLimit, func() ([]int, bool) {
			var left []int
			for _, pid := range pids {
				if !zombie(pid) {
					left = append(left, pid)
				}
			}
			return left, len(left) == 0
		})
		require.Empty(t, left, describe(left))
	}

	first := family(respond())
	require.Len(t, first, 2, describe(first))
	plugins := childrenOf(s.pid, filepath.Join(built.plugins, "mlx"))
	require.Len(t, plugins, 1)
	require.NoError(t, syscall.Kill(plugins[0], syscall.SIGKILL))
	over(first)

	second := family(respond())
	require.Len(t, second, 2, describe(second))
	assert.NotEqual(t, first, second)
	s.signal(syscall.SIGKILL)
	over(second)
	s.wait()
}

// SES-003, SES-020: each session has its model server, which stops when its session
// is frozen, by its owner or because more sessions are hot than allowed.
func TestModelServersOfSessions(t *testing.T) {
	t.Parallel()
	command := fmt.Sprintf("command = [%q, %q, \"{port}\"]", built.helper, roleModel)
	w := modelled(t, "workers = \"per-session\"\n  "+command, fmt.Sprintf("exec = [%q]", built.helper))
	config, err := os.ReadFile(filepath.Join(w.dir, "ferment.hcl"))
	require.NoError(t, err)
	w.write("ferment.hcl", string(config)+"\nsession {\n  max_hot = 2\n}\n")
	s := w.serve()
	order := func(body string) answer {
		t.Helper()
		a := s.request(t.Context(), http.MethodPost, "/v1/session", body)
		require.Equal(t, http.StatusOK, a.status, string(a.body))
		return a
	}
	respond := func(id string) int {
		t.Helper()
		a := s.request(t.Context(), http.MethodPost, "/v1/act",
			fmt.Sprintf(`{:proto 1 :trace {:id "m"} :session/id %q :task {:intent :text/respond} :input {:prompt "hello"}}`, id))
		require.Equal(t, http.StatusOK, a.status, string(a.body))
		pid, err := strconv.Atoi(text(t, a.value(t).Key("result").Key("out").Key("text")))
		require.NoError(t, err)
		return pid
	}
	gone := func(pid int) {
		t.Helper()
		require.Eventually(t, func() bool { return zombie(pid) }, 10*time.Second, 10*time.Millisecond)
	}
	order(`{:action :open :session/id "a"}`)
	order(`{:action :open :session/id "b"}`)
	a, b := respond("a"), respond("b")
	require.NotEqual(t, a, b)
	order(`{:action :freeze :session/id "a"}`)
	gone(a)
	assert.Equal(t, b, respond("b"), "that of another session stays")
	again := respond("a")
	assert.NotEqual(t, a, again)
	assert.Equal(t, "1", order(`{:action :worker/freeze :session/id "a"}`).value(t).Key("result").Key("plugins").String())
	gone(again)
	refused := s.request(t.Context(), http.MethodPost, "/v1/act",
		`{:proto 1 :trace {:id "m"} :session/id "a" :task {:intent :text/respond} :input {:prompt "hello"}}`)
	assert.Contains(t, string(refused.body), "model/frozen")
	order(`{:action :worker/thaw :session/id "a"}`)
	a = respond("a")
	order(`{:action :open :session/id "c"}`)
	gone(b) // b was not used for the longest time
	assert.Equal(t, a, respond("a"))
	got := order(`{:action :get :session/id "b"}`).value(t).Key("result")
	assert.Equal(t, ":manager/hot-limit", got.Key("session/frozen-by").String())
}
