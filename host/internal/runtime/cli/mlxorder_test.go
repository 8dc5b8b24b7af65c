package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// twoServers is a host with two model servers for one intent, ordered by
// availability.
func twoServers(t *testing.T) (*world, *served) {
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "models"), 0o755))
	var config strings.Builder
	for _, name := range []string{"first", "second"} {
		config.WriteString(shipped(name, "mlx", "optional = true",
			fmt.Sprintf("isolation {\n  network     = \"loopback\"\n  read_paths  = [\"models\"]\n  write_paths = [\"cache\"]\n  exec        = [%q]\n}", built.helper),
			fmt.Sprintf("config {\n  model         = \"%s-%s\"\n  command       = [%q, %q, \"{port}\"]\n  max_in_flight = 1\n  serve %q {\n    intents = [\"text/respond\"]\n  }\n}", t.Name(), name, built.helper, roleModel, name)))
		fmt.Fprintf(&config, "capability \"%s/server\" {\n  plugin   = %q\n  provides = \"mlx/server\"\n}\n", name, name)
	}
	w.write("ferment.hcl", config.String()+`
http {
  listen = ["127.0.0.1:0"]
}

dispatch "default" {
  policy = "availability"

  breaker {
    threshold = 0.36
  }
}
`)
	return w, w.serve()
}

// MLX-009, MLX-011, BIND-003, BIND-007: the order of two model servers follows
// their warmth, load and crashes, an explanation shows it, and a stopped one
// is resumed through the host.
func TestOrderFollowsModelServers(t *testing.T) {
	t.Parallel()
	w, s := twoServers(t)
	ask := func(capID, prompt string) answer {
		pin := ""
		if capID != "" {
			pin = " :cap/id :" + capID
		}
		return s.request(t.Context(), http.MethodPost, "/v1/act", `{:proto 1 :trace {:id "m"} :task {:intent :text/respond`+pin+`} :input {:prompt "`+prompt+`"}}`)
	}
	says := func(capID string) (pid int, by string) {
		t.Helper()
		a := ask(capID, "hello")
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		pid, err := strconv.Atoi(text(t, a.value(t).Key("result").Key("out").Key("text")))
		require.NoError(t, err)
		return pid, a.value(t).Key("invoke/meta").Key("cap/id").String()
	}
	explain := func() edn.Value {
		got := w.run("explain", "text/respond", "--edn")
		require.Zero(t, got.code, got.stderr)
		return got.value(t)
	}
	// until waits for an explanation: the candidates in order, each with its
	// warmth.
	until := func(want string) edn.Value {
		t.Helper()
		var v edn.Value
		said := ""
		assert.Eventually(t, func() bool {
			v, said = explain(), ""
			for c := range v.Key("candidates").Elems() {
				said += strings.TrimPrefix(c.Key("cap/id").String(), ":mlx/") + " " + strings.TrimPrefix(c.Key("figures").Key("warmth").String(), ":") + ", "
			}
			said = strings.TrimSuffix(said, ", ")
			return said == want
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, want, said, "the last explanation")
		return v
	}
	figures := func(v edn.Value, capID string) edn.Value {
		for _, list := range []string{"candidates", "rejected"} {
			for c := range v.Key(list).Elems() {
				if c.Key("cap/id").String() == ":"+capID {
					return c.Key("figures")
				}
			}
		}
		return edn.Nil()
	}

	until("first cold, second cold")
	_, by := says("mlx/second")
	assert.Equal(t, ":mlx/second", by)
	until("second warm, first cold")
	_, by = says("")
	assert.Equal(t, ":mlx/second", by, "the warm one")
	assert.Contains(t, w.run("plugin", "inspect", "second").stdout, "mlx/second: ready, warm")

	says("mlx/first")
	until("first warm, second warm")
	assert.True(t, figures(explain(), "mlx/first").HasKey("first-token-ms"))

	// One call is in progress and two wait: the other server precedes it.
	hold := filepath.Join(w.dir, "models", "hold")
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { assert.Equal(t, http.StatusOK, ask("mlx/first", "wait for "+hold).status) })
	}
	require.Eventually(t, func() bool { return figures(explain(), "mlx/first").Key("queued").String() == "2" }, time.Minute, 20*time.Millisecond)
	until("second warm, first warm")
	got := w.run("explain", "text/respond")
	assert.Contains(t, got.stdout, "warm, 1 call in flight at 1 place, 2 queued")
	pid, by := says("")
	assert.Equal(t, ":mlx/second", by)
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	calls.Wait()
	until("first warm, second warm")

	// A crash without calls counts too.
	died := func(n string) {
		t.Helper()
		var last edn.Value
		if !assert.Eventually(t, func() bool {
			last = explain()
			return figures(last, "mlx/second").Key("deaths").String() == n
		}, time.Minute, 20*time.Millisecond) {
			require.Fail(t, "deaths", "want %s, last explanation: %s\n%s", n, last, w.run("plugin", "inspect", "second").stdout)
		}
	}
	for n := 1; n <= 2; n++ {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		died(strconv.Itoa(n))
		until("first warm, second cold")
		pid, _ = says("mlx/second")
		until("first warm, second warm")
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	var out edn.Value
	require.Eventually(t, func() bool {
		v := explain()
		for r := range v.Key("rejected").Elems() {
			out = r
		}
		return v.Key("rejected").Len() == 1
	}, time.Minute, 20*time.Millisecond)
	assert.Equal(t, ":model/crash-loop", out.Key("why").String(), "%s", out)
	assert.NotEqual(t, ":closed", out.Key("figures").Key("breaker").String(), "three deaths of eight outcomes: %s", out)

	// Operators reach a plugin whose servers are out of service.
	operate := func(intent, capID string) {
		t.Helper()
		a := s.request(t.Context(), http.MethodPost, "/v1/act", fmt.Sprintf(`{:proto 1 :trace {:id "o"} :task {:intent :%s :cap/id :%s} :input {}}`, intent, capID))
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	}
	operate("model/quit", "second/server")
	operate("model/freeze", "first/server")
	until("second cold")
	operate("model/thaw", "first/server")
	until("first warm, second cold")
	s.signal(syscall.SIGTERM)
	s.wait()
}
