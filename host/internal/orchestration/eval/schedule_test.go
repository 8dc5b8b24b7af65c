package eval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// echo is a world whose only capability answers with its input, after :ms, or
// fails if the input has :fail.
func echo(t testing.TB, more ...string) *dispatchtest.World {
	list := []string{dispatchtest.Cap("t/echo", ""), dispatchtest.Cap("t/write", ":cap/effects #{:fs/write}")}
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: append(list, more...)})
	answer := func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		in := c.Request.Key("input")
		ms, _ := in.Key("ms").AsInt()
		step := dispatchtest.Step{Value: in, Delay: time.Duration(ms) * time.Millisecond}
		if typ, ok := in.Key("fail").AsKeyword(); ok {
			step.Err = contract.Errorf(typ, "node says so")
		}
		if in.Key("panic").Truthy() {
			step.Panic = "boom"
		}
		return step
	}
	w.Func("t/echo", answer)
	w.Func("t/write", answer)
	return w
}

func begins(r ran) string {
	var out []string
	for _, rec := range r.records {
		if rec.Body.Kind() == journal.KindAttemptStarted {
			out = append(out, rec.Node)
		}
	}
	return strings.Join(out, " ")
}

func call(id, input, more string) string {
	return fmt.Sprintf(`{:op :call :id %q :intent :text/respond :input %s :dispatch {:candidates [:t/echo]} %s}`, id, input, more)
}

func write(id, input, more string) string {
	return fmt.Sprintf(`{:op :call :id %q :intent :text/respond :input %s :dispatch {:candidates [:t/write]} :effects {:allowed #{:fs/write}} %s}`, id, input, more)
}

func nodes(mode string, list ...string) string {
	return "{:mode :" + mode + " :nodes [" + strings.Join(list, " ") + "]}"
}

// SCHED-001, SCHED-002, SCHED-008, SCHED-009: the example of section 3.
func TestOrderOfNodes(t *testing.T) {
	list := []string{
		call("a", `{:ms 20}`, ":as :x"),
		call("b", `{:ms 30}`, ":as :y"),
		write("w", `{:ms 10 :x {:slot/path [:x :ms]}}`, ":as :w1"),
		call("c", `{:y {:slot/path [:y :ms]}}`, ":when {:not {:failed? :x}} :as :z"),
		write("v", `{:ms 1}`, `:needs ["c"] :as :w2`),
		`{:op :emit :id "e" :input :y}`,
	}
	for mode, want := range map[string]struct {
		order string
		took  time.Duration
	}{
		"strict": {"a b w c v", 61 * time.Millisecond},
		"hybrid": {"a b w c v", 31 * time.Millisecond},
		"lazy":   {"a b w c v", 31 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := echo(t)
			begun := time.Now()
			r := run(t, w, nodes(mode, list...))
			require.Nil(t, r.Err)
			assert.Equal(t, `{:ms 30}`, r.out())
			assert.Equal(t, want.order, begins(r), mode)
			assert.Equal(t, want.took, time.Since(begun), mode)
		})
	}
}

// SCHED-001: :max-parallel limits a hybrid plan, a lazy one starts all ready
// nodes.
func TestParallelism(t *testing.T) {
	for header, most := range map[string]int{
		":mode :strict": 1, ":mode :hybrid :max-parallel 3": 3, ":mode :hybrid": 8, ":mode :lazy": 12,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := echo(t)
			var list []string
			for i := range 12 {
				list = append(list, call(fmt.Sprint("n", i), `{:ms 10}`, ""))
			}
			r := run(t, w, "{"+header+" :nodes ["+strings.Join(list, " ")+"]}")
			require.Nil(t, r.Err)
			assert.Equal(t, most, w.Most(), header)
		})
	}
}

// SCHED-002: effects keep program order in every mode, also in a lazy plan.
func TestEffectsKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := echo(t)
		r := run(t, w, nodes("lazy", write("one", `{:ms 50}`, ""), write("two", `{:ms 1}`, ""), call("free", `{:ms 1}`, ""), write("three", `{}`, "")))
		require.Nil(t, r.Err)
		assert.Equal(t, "one free two three", begins(r))
	})
}

// SCHED-004, SCHED-010: the error that is first in program order is reported,
// whichever occurred first; later nodes are canceled and awaited.
func TestFirstFailureInProgramOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		list   []string
		typ    string
		took   time.Duration
		begins string
	}{
		"later one fails first": {
			[]string{call("a", `{:ms 100 :fail :provider/error}`, ""), call("b", `{:ms 10 :fail :input/invalid}`, ""), call("c", `{:ms 500}`, "")},
			"provider/error", 100 * time.Millisecond, "a b c",
		},
		"earlier one fails first": {
			[]string{call("a", `{:ms 10 :fail :provider/error}`, ""), call("b", `{:ms 500}`, "")},
			"provider/error", 10 * time.Millisecond, "a b",
		},
		"an earlier one that still had to wait": {
			[]string{call("a", `{:ms 50}`, ":as :x"), call("b", `{:ms 10 :fail :provider/error :x {:slot/path [:x :ms]}}`, ""), call("c", `{:ms 5 :fail :input/invalid}`, "")},
			"provider/error", 60 * time.Millisecond, "a c b",
		},
		"later ones do not start": {
			[]string{call("a", `{:ms 10 :fail :provider/error}`, ""), call("b", `{:ms 50}`, ":as :y"), call("c", `{:y {:slot/path [:y :ms]}}`, "")},
			"provider/error", 10 * time.Millisecond, "a b",
		},
		"once is awaited": {
			[]string{call("a", `{:ms 10 :fail :provider/error}`, ""), write("b", `{:ms 300}`, "")},
			"provider/error", 300 * time.Millisecond, "a b",
		},
		"needs may point forward": {
			[]string{call("a", `{:ms 10 :fail :provider/error}`, `:needs ["c"]`), call("b", `{:ms 1 :fail :input/invalid}`, ""), call("c", `{:ms 20}`, "")},
			"provider/error", 30 * time.Millisecond, "b c a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := echo(t)
				begun := time.Now()
				r := run(t, w, nodes("lazy", tc.list...))
				assert.Equal(t, tc.typ, r.failure())
				assert.Equal(t, tc.took, time.Since(begun))
				assert.Equal(t, tc.begins, begins(r))
			})
		})
	}
}

// SCHED-004: the other errors are counted.
func TestOtherFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, echo(t), nodes("lazy", call("a", `{:ms 20 :fail :provider/error}`, ""), call("b", `{:ms 10 :fail :input/invalid}`, "")))
		assert.Equal(t, `1`, r.Err.Details.Key("others-failed").String())
		assert.Equal(t, `"a"`, r.Err.Where.Key("node").String())
		assert.Equal(t, `[0]`, r.Err.Where.Key("path").String())
	})
}

// SCHED-004, EVAL-070: not in the error of an item that is kept, a value: a replay,
// where nothing takes time, may count others.
func TestOtherFailuresAreNoValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, echo(t), nodes("lazy", `{:op :map :over [1] :on-item-error :keep :as :ys :body [`+
			call("a", `{:ms 20 :fail :provider/error}`, "")+call("b", `{:ms 10 :fail :input/invalid}`, "")+`]}`,
			`{:op :emit :input {:error {:slot/path [:ys :out 0 :error]}}}`))
		require.Nil(t, r.Err)
		assert.Equal(t, ":provider/error", r.Out.Key("error").Key("type").String())
		assert.False(t, r.Out.Key("error").Key("details").HasKey("others-failed"))
	})
}

// SCHED-009, IR-002: a skipped node satisfies its edges and leaves its slot
// unfilled; the record has its condition.
func TestSkip(t *testing.T) {
	r := run(t, echo(t), nodes("hybrid",
		call("a", `{:n 1}`, ":when false :as :x"),
		call("b", `{:x {:slot/id :x :slot/default "none"}}`, `:as :y`),
		call("c", `{}`, `:when {:present? :x} :as :z`),
		`{:op :emit :input {:y {:slot/path [:y :x]} :z {:slot/id :z :slot/default 0}}}`))
	require.Nil(t, r.Err)
	assert.Equal(t, `{:y "none" :z 0}`, r.out())
	assert.Equal(t, []string{"node/skipped"}, r.kinds("[0]"))
	assert.Equal(t, []string{"node/skipped"}, r.kinds("[2]"))
}

// IR-005: the last executed emit in program order wins, not the last in time.
func TestLastEmitWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, echo(t), nodes("lazy",
			call("slow", `{:ms 100}`, ":as :x"),
			`{:op :emit :input {:first {:slot/path [:x :ms]}}}`,
			`{:op :emit :input {:second 2}}`,
			`{:op :emit :when false :input {:third 3}}`))
		assert.Equal(t, `{:second 2}`, r.out())
	})
	r := run(t, echo(t), nodes("hybrid", call("a", `{}`, "")))
	assert.Equal(t, `{}`, r.out(), "IR-008: a plan without emit")
	assert.False(t, r.Emitted)
	r = run(t, echo(t), `{:nodes [{:op :emit :input "text"}]}`)
	assert.Equal(t, `{:text "text"}`, r.out(), "ENV-006")
	r = run(t, echo(t), `{:nodes []}`)
	assert.Equal(t, `{}`, r.out())
}

// EVAL-010 step 5: an invalid input is rejected before any call.
func TestInputIsChecked(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :t/a :cap/kind :solver :cap/intents #{:text/respond} :io/in-schema :req/text :io/out-schema :res/any}`,
	}})
	r := run(t, w, `{:nodes [{:op :call :intent :text/respond :input {:prompt {:slot/id :n}}}]}`, withBindings(`{:n 7}`))
	assert.Equal(t, "input/invalid", r.failure())
	assert.Equal(t, contract.ClassStop, r.Err.Class)
	assert.NotZero(t, r.Err.Details.Key("findings").Len())
	assert.Empty(t, w.Calls())
	assert.Equal(t, []string{"node/failed"}, r.kinds("[0]"))
}

// SLOT-008: where text is required, the text of a result is taken, and the
// record has the path.
func TestCoercedText(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :t/a :cap/kind :solver :cap/intents #{:text/respond} :io/in-schema :req/text :io/out-schema :res/any}`,
	}})
	w.On("t/a", value(`{:summary "short"}`), value(`{:text "end"}`))
	r := run(t, w, `{:nodes [{:op :call :intent :text/respond :input {:prompt "p"} :as :s} {:op :call :intent :text/respond :input {:prompt {:slot/id :s}} :as :t} {:op :emit :input :t}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:prompt "short"}`, w.Calls()[1].Request.Key("input").String())
	for _, rec := range r.records {
		if n, ok := rec.Body.(*journal.NodeResolved); ok && rec.Path.String() == "[1]" {
			assert.Equal(t, `[[:prompt]]`, edn.Vector(n.Coerced...).String())
		}
	}
}

// SLOT-003: an unfilled slot fails the node at run time, with the error that
// the slot keeps as its cause.
func TestUnresolvedSlot(t *testing.T) {
	r := run(t, echo(t), nodes("hybrid",
		`{:op :call :intent :text/respond :input {:fail :input/invalid} :as :x :dispatch {:candidates [:t/echo] :allow-failure? true}}`,
		call("b", `{:x {:slot/path [:x :text]}}`, "")))
	assert.Equal(t, "slot/unresolved", r.failure())
	require.NotNil(t, r.Err.Cause)
	assert.Equal(t, "input/invalid", r.Err.Cause.Type)
}

// SLOT-004: the slot of an allowed failure.
func TestKeptFailure(t *testing.T) {
	r := run(t, echo(t), nodes("hybrid",
		`{:op :call :id "a" :intent :text/respond :input {:fail :provider/error} :as :x :dispatch {:candidates [:t/echo] :allow-failure? true}}`,
		`{:op :emit :input {:type {:slot/path [:x :failure/type]} :recover {:slot/path [:x :failure/recover?]} :message {:slot/path [:x :error :message]}}}`,
		`{:op :emit :input :x}`))
	require.Nil(t, r.Err)
	assert.Equal(t, `:provider/error`, r.Out.Key("failure/type").String(), "IR-009")
	committed := 0
	for _, rec := range r.records {
		if c, ok := rec.Body.(*journal.NodeCommitted); ok && c.FailureType == "provider/error" {
			committed++
			assert.Equal(t, "x", c.As)
			assert.Equal(t, `true`, c.Value.Value().Key("failure/recover?").String())
		}
	}
	assert.Equal(t, 1, committed)
}

// RUN-005: a defect ends only the run, as runtime/internal.
func TestPanicInANode(t *testing.T) {
	w := echo(t)
	var told []string
	observe := func(_ *taskOf, ev *evaluatorOf, _ *plan.Env) {
		ev.Panicked = func(_, where string, value any, stack []byte) {
			told = append(told, fmt.Sprint(where, " ", value, " ", len(stack) > 0))
		}
	}
	r := run(t, w, nodes("hybrid", call("a", `{:panic true}`, ""), call("b", `{:n 1}`, "")), observe)
	assert.Equal(t, "runtime/internal", r.failure())
	assert.Equal(t, []string{"node a boom true"}, told)
	r = run(t, w, `{:nodes [{:op :call :intent :text/respond :input {:panic true} :as :x :dispatch {:candidates [:t/echo] :allow-failure? true}}]}`)
	assert.Equal(t, "runtime/internal", r.failure(), "not even where failures are allowed")
}

// RUN-006, RUN-013: the end of the run's context ends the run at once, and no new
// attempt starts.
func TestEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := nodes("hybrid", call("a", `{:ms 1000}`, ":as :x"), call("b", `{:x {:slot/id :x}}`, ""), call("c", `{:ms 5000}`, ""))
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		r := runValue(ctx, t, echo(t), edn.MustRead(text))
		assert.Equal(t, "timeout/hard", r.failure())
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		assert.Equal(t, "a c", begins(r))

		ctx, stop := context.WithCancel(context.Background())
		time.AfterFunc(1200*time.Millisecond, stop)
		begun = time.Now()
		r = runValue(ctx, t, echo(t), edn.MustRead(text))
		assert.Equal(t, "canceled", r.failure())
		assert.Equal(t, 1200*time.Millisecond, time.Since(begun))
		assert.Equal(t, "a c b", begins(r), "what began before it")

		gone, stop := context.WithCancel(context.Background())
		stop()
		r = runValue(gone, t, echo(t), edn.MustRead(text))
		assert.Equal(t, "canceled", r.failure())
		assert.Empty(t, begins(r))
	})
}

// EVAL-011, SLOT-004: a tool node is served by the capability of its name,
// with gates and attempts like a call, and has its own slot form.
func TestToolNode(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :fs/write-file :cap/kind :tool :cap/intents #{:fs/write-file} :cap/effects #{:fs/write} :io/in-schema :req/any :io/out-schema :res/any}`,
	}})
	w.On("fs/write-file", dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "busy")}, value(`{:bytes 7}`))
	tool := `{:op :tool :id "w" :tool/id :fs/write-file :input {:path "x"} :effects {:allowed #{:fs/write}} :as :w :dispatch {:retry {:same-cap-max 1}}}`
	r := run(t, w, `{:nodes [`+tool+` {:op :emit :input {:tool {:slot/path [:w :tool/id]} :bytes {:slot/path [:w :bytes]}}}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:bytes 7 :tool :fs/write-file}`, r.out())
	assert.Equal(t, []string{"fs/write"}, w.Calls()[0].Effects)
	entry, _ := journal.Transcript(r.records).Nth(1)
	assert.Equal(t, `:tool :fs/write-file :w`, entry.Key("op").String()+" "+entry.Key("tool/id").String()+" "+entry.Key("as").String())
	assert.False(t, entry.HasKey("intent"))
}

// FX-002: an invalid tool input is an input error with its path, before any
// call.
func TestInputOfATool(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :fs/write-file :cap/kind :tool :cap/intents #{:fs/write-file} :cap/effects #{:fs/write} :io/in-schema :req/write :io/out-schema :res/any}`,
	}, Schemas: map[string]string{"req/write": `[:map [:path :string] [:content :string]]`}})
	r := run(t, w, `{:nodes [{:op :let :value {:slot/id :given :slot/default 7} :as :n}
	  {:op :tool :id "w" :tool/id :fs/write-file :input {:path {:slot/id :n} :content "c"} :effects {:allowed #{:fs/write}} :as :w} {:op :emit :input :w}]}`)
	assert.Equal(t, "effects/invalid-input", r.failure())
	assert.Contains(t, r.Err.Message, "[:path]: should be a string, got 7")
	assert.Equal(t, 400, r.Err.HTTPStatus())
	assert.Empty(t, w.Calls())
}

// SLOT-002, ENV-018: candidates may come from a slot, as ids or handles.
func TestCandidatesFromASlot(t *testing.T) {
	w := two(t)
	w.On("a/two", value(`{:n 2}`))
	text := func(v string) string {
		return `{:nodes [{:op :let :value {:slot/id :given :slot/default ` + v + `} :as :best} {:op :call :intent :text/respond :input {} :as :x :dispatch {:candidates [{:slot/id :best} :a/one]}} {:op :emit :input :x}]}`
	}
	for _, v := range []string{`{:cap/ref :a/two}`, `:a/two`} {
		r := run(t, w, text(v))
		require.Nil(t, r.Err)
		assert.Equal(t, `{:n 2}`, r.out())
	}
	assert.Equal(t, "cap/not-found", run(t, w, text(`:a/nobody`)).failure())
	assert.Equal(t, "plan/invalid", run(t, w, text(`7`)).failure())
}

// SLOT-002, POL-001: slots in context and constraints of a node are filled,
// and override lower layers key by key.
func TestFilledContext(t *testing.T) {
	w := two(t)
	layer := policy.Layer{Context: policy.FieldsOf(edn.MustRead(`{:summary "s" :mode :m}`), policy.Origin{Source: policy.SourceRequest})}
	r := run(t, w, `{:nodes [{:op :let :value "mine" :as :v} {:op :call :intent :text/respond :input {} :context {:summary {:slot/id :v}} :constraints {:language {:slot/id :l :slot/default :pl}} :system {:slot/id :v}}]}`,
		withLayer(layer), withBindings(`{:unused 1}`))
	require.Nil(t, r.Err)
	sent := w.Calls()[0].Request
	assert.Equal(t, `{:mode :m :summary "mine"}`, sent.Key("context").String())
	assert.Equal(t, `{:language :pl}`, sent.Key("constraints").String())
	assert.Equal(t, `"mine"`, sent.Key("system").String())
}

// GATE-005, STR-003: another node sees what a node committed, and nothing of an
// answer that was refused, whatever the streaming policy. What a client sees is
// TestStreamTable of dispatch. This build has no cache and no session that an answer
// enters.
func TestOnlyWhatIsCommittedIsVisible(t *testing.T) {
	for _, stream := range []string{policy.GatePassed, policy.FirstToken, policy.Provisional} {
		t.Run(stream, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
					dispatchtest.Cap("t/first", ""), dispatchtest.Cap("t/second", ""), dispatchtest.Cap("t/reader", ""),
				}})
				says := func(text string) dispatchtest.Step {
					return dispatchtest.Step{
						Pieces: []string{text},
						Gap:    time.Second,
						Value:  edn.MustMap(edn.K("text"), edn.Text(text)),
					}
				}
				w.On("t/first", says("not json")).On("t/second", says("[1]"))
				origin := policy.Origin{Source: policy.SourceRequest}
				r := run(t, w, `{:nodes [
				  {:op :call :id "a" :intent :text/respond :input {} :as :x :done {:must #{:json-valid}}
				   :dispatch {:candidates [:t/first :t/second] :retry {:fallback-max 1}}}
				  {:op :call :id "b" :intent :text/respond :input {:seen {:slot/path [:x :out :text]}} :as :y
				   :dispatch {:candidates [:t/reader]}}
				  {:op :emit :input {:x {:slot/id :x}}}]}`,
					withLayer(policy.Layer{Stream: policy.Of(stream, origin)}))
				require.Nil(t, r.Err)
				require.Len(t, w.Calls(), 3)
				assert.Equal(t, `{:seen "[1]"}`, w.Calls()[2].Request.Key("input").String())
				assert.NotContains(t, r.out(), "not json")
				committed := false
				for _, rec := range r.records {
					committed = committed || rec.Node == "a" && rec.Body.Kind() == journal.KindNodeCommitted
					if rec.Node == "b" {
						assert.True(t, committed, "%s before the commit of a", rec.Body.Kind())
					}
				}
			})
		})
	}
}
