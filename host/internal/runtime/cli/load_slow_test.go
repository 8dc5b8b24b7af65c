//go:build slow

package cli_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

const callers = 16

// loaded is the configuration of the load test: two plugins for one intent,
// two chess engines for the other, and unlimited restarts.
func loaded(drain, a, b string) string {
	restart := "restart {\n  max         = 1000\n  backoff     = \"10ms\"\n  max_backoff = \"50ms\"\n}"
	block := func(name, program, more string) string {
		return fmt.Sprintf("plugin %q {\n  command       = [%q]\n  drain_timeout = %q\n%s\n%s}\n\n", name, filepath.Join(built.plugins, program), drain, indent([]string{restart}), indent([]string{more}))
	}
	return testProfile +
		block("a", "scripted", fmt.Sprintf("config {\n  script = %q\n}", a)) + block("b", "scripted", fmt.Sprintf("config {\n  script = %q\n}", b)) +
		block("c1", "chess", "config {\n  depth = 2\n}") + block("c2", "chess", "config {\n  depth = 1\n}") + `
capability "chess/one" {
  plugin   = "c1"
  provides = "chess/engine"
}

capability "chess/two" {
  plugin   = "c2"
  provides = "chess/engine"
}

capability "rules/one" {
  plugin   = "c1"
  provides = "chess/rules"
}

capability "rules/two" {
  plugin   = "c2"
  provides = "chess/rules"
}

dispatch "default" {
  retry {
    same_capability = 4
    fallback        = 1
    backoff         = "20ms"
    max_backoff     = "200ms"
  }
}

intent "load/echo" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["t/a", "t/b"]
}

intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/one", "chess/two"]
}
`
}

func echoing(id string, n int) string {
	return fmt.Sprintf("{:capabilities {%s {:intents #{:load/echo} :in-schema :req/any :out-schema :res/any :steps [{:value {:n %d}}]}}}\n", id, n)
}

// storm repeats an action until the end of the load, after random waits.
//
//revive:disable-next-line:context-as-argument
func storm(t *testing.T, ctx context.Context, wait *sync.WaitGroup, mean time.Duration, seed uint64, do func(r *rand.Rand)) {
	t.Helper()
	wait.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-time.After(mean/2 + time.Duration(r.Int64N(int64(mean)))):
				do(r)
			case <-ctx.Done():
				return
			}
		}
	})
}

// Section 9 of the daemon's tests, plugins.md section 8: under steady load,
// with reloads that change something, swaps, and plugins killed at random, no
// act fails; after SIGTERM no process is left.
func TestServeUnderLoad(t *testing.T) {
	t.Parallel()
	acts := proof.Size(t, "acts under faults, at least", 1500, 10_000)
	scripts := map[string]string{"a": "a.edn", "b": "b.edn"}
	w := newWorld(t, "ferment.hcl", loaded("5s", "a.edn", "b.edn"), "a.edn", echoing(":t/a", 0), "b.edn", echoing(":t/b", 0))
	s := w.serveLimit(10 * time.Minute)
	ctx, end := context.WithCancel(t.Context())
	var storms sync.WaitGroup
	var reloads, swaps int
	var kills atomic.Int64
	storm(t, ctx, &storms, 300*time.Millisecond, 1, func(r *rand.Rand) {
		reloads++
		// A script is never changed while its plugin may be starting: a new
		// one has another name.
		drain := fmt.Sprintf("%ds", 4+reloads%2)
		if r.IntN(3) > 0 {
			name := []string{"a", "b"}[r.IntN(2)]
			scripts[name] = fmt.Sprintf("%s-%d.edn", name, reloads)
			w.write(scripts[name], echoing(":t/"+name, reloads))
		}
		w.write("ferment.hcl.new", loaded(drain, scripts["a"], scripts["b"]))
		assert.NoError(t, os.Rename(filepath.Join(w.dir, "ferment.hcl.new"), filepath.Join(w.dir, "ferment.hcl")))
		for range 1 + r.IntN(3) {
			s.signal(syscall.SIGHUP)
		}
	})
	storm(t, ctx, &storms, time.Second, 2, func(r *rand.Rand) {
		swaps++
		a := s.admin(fmt.Sprintf(`{:action :plugin-swap :plugin "%s"}`, []string{"a", "b", "c1", "c2"}[r.IntN(4)]))
		assert.Equal(t, 202, a.status, "%s", a.body)
	})
	storm(t, ctx, &storms, 250*time.Millisecond, 3, func(r *rand.Rand) {
		var pids []int
		for _, pid := range s.pids() {
			pids = append(pids, pid)
		}
		if len(pids) == 0 {
			return
		}
		if syscall.Kill(pids[r.IntN(len(pids))], syscall.SIGKILL) == nil {
			kills.Add(1)
		}
	})

	var asked, failed atomic.Int64
	var renewed atomic.Bool // an act was answered under a configuration that was loaded during the load
	var first sync.Once
	var load sync.WaitGroup
	begun := time.Now()
	// The load continues until every storm has occurred, however fast the
	// machine is.
	over := func(n int64) bool {
		return n > int64(acts) && (renewed.Load() && kills.Load() > 0 || time.Since(begun) > time.Minute)
	}
	for i := range callers {
		load.Go(func() {
			for {
				n := asked.Add(1)
				if over(n) {
					return
				}
				intent, input := "load/echo", "{}"
				if (n+int64(i))%10 == 0 {
					intent, input = "chess/best-move", `{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}`
				}
				a := s.request(t.Context(), "POST", "/v1/act", envelopeOf(intent, input, ":debug/transcript? true"))
				switch {
				case a.err != nil || a.status != 200:
					failed.Add(1)
					first.Do(func() { t.Logf("the first failed act: %d %v\n%s", a.status, a.err, a.body) })
				case intent == "load/echo" && !strings.Contains(string(a.body), "{:n 0}"):
					renewed.Store(true)
				}
			}
		})
	}
	load.Wait()
	took := time.Since(begun)
	end()
	storms.Wait()
	made := asked.Load() - callers // each caller was rejected once at the end
	assert.Zero(t, failed.Load(), "failed acts of %d", made)
	got := s.stop()
	committed := strings.Count(got.stderr, `"@message":"config/reloaded"`)
	t.Logf("%d acts in %s (%.0f/s), %d reloads asked for, %d committed, %d refused, %d swaps, %d kills", made, took.Round(time.Millisecond),
		float64(made)/took.Seconds(), reloads, committed, strings.Count(got.stderr, `"@message":"reload refused"`), swaps, kills.Load())
	if t.Failed() {
		for line := range strings.Lines(got.stderr) {
			if strings.Contains(line, `"to":"quarantined"`) || strings.Contains(line, `"@level":"error"`) {
				t.Log(line)
			}
		}
	}
	require.Positive(t, committed)
	assert.Positive(t, kills.Load())
	left, err := os.ReadDir(filepath.Join(w.dir, "var", "work"))
	require.NoError(t, err)
	assert.Empty(t, left, "scratch directories")
	assert.NoFileExists(t, filepath.Join(w.dir, "var", "run", "admin.sock"))
	assert.Empty(t, w.left(time.Second))
}
