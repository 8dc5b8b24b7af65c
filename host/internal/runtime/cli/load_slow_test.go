//go:build slow

package cli_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// pace counts answered acts. Storms wait for answers and not for the clock, so that
// the share of the acts that they hit does not depend on the machine.
type pace struct {
	mu   sync.Mutex
	n    int64
	more *sync.Cond
}

func newPace() *pace {
	p := &pace{}
	p.more = sync.NewCond(&p.mu)
	return p
}

func (p *pace) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.more.Broadcast()
}

// after waits for n more answers; it returns false at the end of ctx.
func (p *pace) after(ctx context.Context, n int64) bool {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.more.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for until := p.n + n; p.n < until && ctx.Err() == nil; {
		p.more.Wait()
	}
	return ctx.Err() == nil
}

// storm repeats an action until the end of the load, each time after a random number
// of answers.
func (p *pace) storm(ctx context.Context, wait *sync.WaitGroup, mean int64, seed uint64, do func(r *rand.Rand)) {
	wait.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1))
		for p.after(ctx, mean/2+r.Int64N(mean)) {
			do(r)
		}
	})
}

// twins serve the same intents: one of them is killed only while the other is ready.
var twins = map[string]string{"a": "b", "b": "a", "c1": "c2", "c2": "c1"}

// Section 9 of the daemon's tests, plugins.md section 8: under steady load,
// with reloads that change something, swaps, and plugins killed at random, no
// act fails; after SIGTERM no process is left.
func TestServeUnderLoad(t *testing.T) {
	t.Parallel()
	acts := proof.Size(t, "acts under faults, at least", 1500, 10_000)
	scripts := map[string]string{"a": "a.edn", "b": "b.edn"}
	w := newWorld(t, "ferment.hcl", loaded("5s", "a.edn", "b.edn"), "a.edn", echoing(":t/a", 0), "b.edn", echoing(":t/b", 0))
	s := w.serveLimit(time.Hour)
	answers := newPace()
	ctx, end := context.WithCancel(t.Context())
	var storms sync.WaitGroup
	var reloads, swaps int
	var kills atomic.Int64
	answers.storm(ctx, &storms, 90, 1, func(r *rand.Rand) {
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
	answers.storm(ctx, &storms, 300, 2, func(r *rand.Rand) {
		swaps++
		a := s.admin(fmt.Sprintf(`{:action :plugin-swap :plugin "%s"}`, []string{"a", "b", "c1", "c2"}[r.IntN(4)]))
		assert.Equal(t, 202, a.status, "%s", a.body)
	})
	killed := map[int]bool{} // the daemon may list a process that has been killed just now
	answers.storm(ctx, &storms, 75, 3, func(r *rand.Rand) {
		ready := s.pids()
		alive := func(name string) bool { return ready[name] != 0 && !killed[ready[name]] }
		var victims []int
		for _, name := range slices.Sorted(maps.Keys(twins)) {
			if alive(name) && alive(twins[name]) {
				victims = append(victims, ready[name])
			}
		}
		if len(victims) == 0 {
			return
		}
		victim := victims[r.IntN(len(victims))]
		if syscall.Kill(victim, syscall.SIGKILL) == nil {
			killed[victim] = true
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
		return n > int64(acts) && (renewed.Load() && kills.Load() > 0 || time.Since(begun) > 30*time.Minute)
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
				answers.answered()
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
	assert.Empty(t, w.left(endLimit))
}
