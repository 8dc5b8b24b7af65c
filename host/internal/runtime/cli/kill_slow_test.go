//go:build slow

package cli_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// restless are the attributes of a plugin that is killed repeatedly and
// restarts immediately.
const restless = `restart {
  max         = 1000
  window      = "1s"
  backoff     = "1ms"
  max_backoff = "2ms"
  jitter      = 0
}`

// kin is a part of the plan under fire: a map whose items several processes
// can serve, and the processes that are killed.
type kin struct {
	name    string
	plugins []string // all that serve it; one is killed only if all are ready
	victims []string
	items   int
	answers int    // fewer than so many are accepted between the start of a victim and its kill
	call    string // keys of the call; {n} is the item
	want    func(i int, out edn.Value) string
}

func echoed(i int, out edn.Value) string {
	if want := fmt.Sprintf("{:n \"%d\"}", i); out.String() != want {
		return "want " + want
	}
	return ""
}

// Under fire: one candidate that is killed beside one that is not, without
// retry; two that are both killed; a capability and the two that check it; two
// solvers, each with a worker process.
var kins = []kin{
	{
		name: "strict", plugins: []string{"strict-a", "strict-b"}, victims: []string{"strict-a"}, items: 600, answers: 24,
		call: `:intent :strict/echo :input {:n {:slot/id :n}} :dispatch {:candidates [:strict-a/echo :strict-b/echo] :retry {:fallback-max 1}}`,
		want: echoed,
	},
	{
		name: "both", plugins: []string{"both-a", "both-b"}, victims: []string{"both-a", "both-b"}, items: 600, answers: 24,
		call: `:intent :both/echo :input {:n {:slot/id :n}} :dispatch {:candidates [:both-a/echo :both-b/echo] :retry {:same-cap-max 4 :fallback-max 1}}`,
		want: echoed,
	},
	{
		name: "judged", plugins: []string{"judged-a", "judged-b", "judge-a", "judge-b"}, victims: []string{"judged-a", "judge-a", "judge-b"}, items: 400, answers: 24,
		call: `:intent :judged/echo :input {:n {:slot/id :n}} :dispatch {:candidates [:judged-a/echo :judged-b/echo] :retry {:same-cap-max 4 :fallback-max 1}} :done {:must #{:good}}`,
		want: echoed,
	},
	{
		name: "sat", plugins: []string{"sat-a", "sat-b"}, victims: []string{"sat-a", "sat-b"}, items: 60, answers: 8,
		call: `:intent :sat/solve :input {:clauses [[1 2] [-1 2] [3 -2]]} :dispatch {:candidates [:sat-a/solver :sat-b/solver] :retry {:same-cap-max 16 :fallback-max 1}}`, // its calls are long enough to be hit often
		want: func(_ int, out edn.Value) string {
			if word(out.Key("status")) != "sat" {
				return "want a model"
			}
			return ""
		},
	},
}

// underFire returns the world of the kins.
func underFire(t *testing.T) *world {
	w := newWorld(t)
	var config, nodes, emits strings.Builder
	echo := func(plugin, intent, step string) {
		config.WriteString(scripted(plugin, restless))
		w.write(plugin+".edn", script(":"+plugin+"/echo", ":"+intent, ":in-schema :req/any :out-schema :res/any", step))
	}
	for _, name := range []string{"strict", "both", "judged"} {
		for _, side := range []string{"a", "b"} {
			echo(name+"-"+side, name+"/echo", `{:template {:n "{{input.n}}"} :delay-ms 5}`)
		}
		fmt.Fprintf(&config, "intent %q {\n  in  = \"req/any\"\n  out = \"res/any\"\n}\n", name+"/echo")
	}
	echo("judge-a", "judge/good", `{:value {:ok? true}}`)
	echo("judge-b", "judge/good", `{:value {:ok? true}}`)
	config.WriteString("intent \"judge/good\" {\n  in  = \"req/any\"\n  out = \"res/any\"\n}\ncheck \"good\" {\n  intent  = \"judge/good\"\n  timeout = \"30s\"\n}\n")
	for _, side := range []string{"sat-a", "sat-b"} {
		config.WriteString(shipped(side, "sat", restless))
		for _, capability := range []string{"solver", "verifier"} {
			fmt.Fprintf(&config, "capability %q {\n  plugin   = %q\n  provides = %q\n}\n", side+"/"+capability, side, "sat/"+capability)
		}
	}
	config.WriteString("intent \"sat/solve\" {\n  in  = \"req/sat.solve\"\n  out = \"res/sat.solve\"\n}\n")
	w.write("ferment.hcl", config.String())
	for _, k := range kins {
		var over strings.Builder
		for i := range k.items {
			fmt.Fprintf(&over, "%d ", i)
		}
		fmt.Fprintf(&nodes, " {:op :map :id %q :over [%s] :item :n :as :%s :max-parallel 4\n  :body [{:op :call %s :as :r} {:op :emit :input {:slot/path [:r :out]}}]}\n",
			k.name, over.String(), k.name, k.call)
		fmt.Fprintf(&emits, " :%s {:slot/path [:%s :out]}", k.name, k.name)
	}
	w.write("plan.edn", "{:nodes [\n"+nodes.String()+" {:op :emit :input {"+emits.String()+"}}]}\n")
	return w
}

// TestKillPoints: SIGKILL of a plugin at seeded moments of real runs never
// loses a run while a candidate is left.
func TestKillPoints(t *testing.T) {
	t.Parallel()
	killPoints := int64(proof.Size(t, "kills of plugins", 100, 500))
	w := underFire(t)
	var kills atomic.Int64
	cut := int64(0)
	begun := time.Now()
	for run := 0; kills.Load() < killPoints; run++ {
		require.Less(t, run, 20, "the runs end before anything is killed")
		p := w.launchLimit(time.Hour, "", built.ferment,
			"run", "plan.edn", "-o", "edn", "--progress", "edn", "--deadline", "1h")
		var shooters sync.WaitGroup
		for i, k := range kins {
			shooters.Go(func() {
				k.fire(p, rand.New(rand.NewPCG(killSeed, uint64(run*len(kins)+i))), func() bool { return kills.Add(1) < killPoints })
			})
		}
		shooters.Wait()
		got := p.wait()
		require.Equal(t, 0, got.code, "run %d of seed %d, after %d kills:\n%s", run, killSeed, kills.Load(), tail(got.stderr, 40))
		cut += int64(strings.Count(got.stderr, ":event :attempt :failure/type :runtime/crashed"))
		out := got.value(t).Key("result").Key("out")
		for _, k := range kins {
			results := slices.Collect(out.Key(k.name).Elems())
			require.Len(t, results, k.items)
			for i, r := range results {
				if wrong := k.want(i, r); wrong != "" {
					require.Fail(t, "wrong answer", "%s, item %d: got %s, %s", k.name, i, r, wrong)
				}
			}
		}
	}
	t.Logf("%d kills cut %d calls in %s", kills.Load(), cut, time.Since(begun).Round(time.Millisecond))
	require.Greater(t, cut, killPoints/4, "most of the shots missed")
}

// answered reports whether an event is an accepted attempt of a kin.
func (k kin) answered(e event) bool {
	plugin, _, _ := strings.Cut(e.word("cap/id"), "/")
	return e.word("event") == "attempt" && e.word("outcome") == "ok" && slices.Contains(k.plugins, plugin)
}

// fire kills the victims of a kin at random moments until the run is over or
// more returns false. The moments follow the answers of the kin, not the clock:
// on a slow machine kills by the clock would hit every attempt of a call.
func (k kin) fire(p *process, random *rand.Rand, more func() bool) {
	pids := map[string]int{}
	cursor := 0
	for {
		// A candidate must be left, so all are ready before the next one is
		// killed.
		for answers := random.IntN(k.answers); len(pids) < len(k.plugins) || answers > 0; {
			e, ok := p.next(cursor, func(e event) bool {
				return k.answered(e) || e.word("event") == "plugin" && slices.Contains(k.plugins, e.word("plugin"))
			})
			if !ok {
				return
			}
			cursor = e.at + 1
			if e.word("event") == "attempt" {
				if len(pids) == len(k.plugins) {
					answers--
				}
				continue
			}
			if e.word("to") == "ready" {
				pids[e.word("plugin")] = e.number("pid")
			} else {
				delete(pids, e.word("plugin"))
			}
			if e.word("to") == "draining" {
				return // the run is over
			}
		}
		pause := time.NewTimer(time.Duration(random.IntN(5_000)) * time.Microsecond)
		select {
		case <-pause.C:
		case <-p.over:
			return
		}
		victim := k.victims[random.IntN(len(k.victims))]
		exe := filepath.Join(built.plugins, "scripted")
		if k.name == "sat" {
			exe = filepath.Join(built.plugins, "sat")
		}
		if pid := pids[victim]; same(pid, exe) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			delete(pids, victim)
			if !more() {
				return
			}
			continue
		}
		// It stopped by itself: the run is about to end, which an event
		// reports.
		delete(pids, victim)
	}
}

// TestKillAtStart: a plugin that is killed while the host starts it, or
// describes it for the first time, does not end a run.
func TestKillAtStart(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known %v", known), func(t *testing.T) {
			random := rand.New(rand.NewPCG(killSeed, 1))
			exe := filepath.Join(built.plugins, "scripted")
			for i := range proof.Size(t, "kills at the start", 4, 10) {
				answer := fmt.Sprintf(`{:template {:n "{{input.n}}" :round "%d %v"}}`, i, known)
				w := newWorld(t,
					"ferment.hcl", scripted("a", restless)+scripted("b", restless)+`
dispatch "default" {
  retry {
    fallback = 1
  }
}
intent "demo/echo" {
  in  = "req/any"
  out = "res/any"
}
`,
					"a.edn", script(":t/a", ":demo/echo", ":in-schema :req/any :out-schema :res/any", answer),
					"b.edn", script(":t/b", ":demo/echo", ":in-schema :req/any :out-schema :res/any", answer))
				if known {
					w.mustLock()
				}
				p := w.start("", "act", "demo/echo", "{:n 7}", "-o", "edn", "--progress", "edn", "--deadline", "1h")
				seen := awaitProcesses(runLimit, func() ([]int, bool) {
					pids := childrenOf(p.cmd.Process.Pid, exe)
					return pids, len(pids) > 0
				})
				require.NotEmpty(t, seen)
				pause := time.NewTimer(time.Duration(random.IntN(60_000)) * time.Microsecond)
				<-pause.C
				victim := seen[random.IntN(len(seen))]
				if same(victim, exe) {
					_ = syscall.Kill(victim, syscall.SIGKILL)
				}
				got := p.wait()
				require.Equal(t, 0, got.code, "round %d:\n%s", i, got.stderr)
				require.Equal(t, `"7"`, got.value(t).Key("result").Key("out").Key("n").String())
			}
		})
	}
}
