package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// TestDispatchKeys: IR-004, each key of :dispatch is parsed into the layer of
// the node.
func TestDispatchKeys(t *testing.T) {
	for _, row := range []struct {
		dispatch string
		got      func(p policy.Policy) any
		want     string
	}{
		{`:candidates [:llm/voice {:cap/ref :llm/meta}]`, func(p policy.Policy) any { return p.Candidates }, "[llm/voice llm/meta]"},
		{`:policy :cost-first`, func(p policy.Policy) any { return p.Ordering }, "cost-first"},
		{`:strategy :hedge`, func(p policy.Policy) any { return p.Strategy }, "hedge"},
		{`:retry {:same-cap-max 2 :fallback-max 3}`, func(p policy.Policy) any { return fmt.Sprint(p.SameCapMax, p.FallbackMax) }, "2 3"},
		{`:switch-on #{:timeout/soft}`, func(p policy.Policy) any { return p.SwitchOnNames }, "[timeout/soft]"},
		{`:switch-on/replace #{:provider/error}`, func(p policy.Policy) any { return p.SwitchOnNames }, "[provider/error]"},
		{`:switch-on #{:timeout/soft} :switch-on/replace #{:provider/error}`, func(p policy.Policy) any { return p.SwitchOnNames }, "[provider/error timeout/soft]"},
		{`:checks [:legal-move]`, func(p policy.Policy) any { return p.Must }, "[legal-move]"},
		{`:checks/hard #{:tests-pass}`, func(p policy.Policy) any { return p.Must }, "[tests-pass]"},
		{`:checks [:legal-move] :checks/hard [:tests-pass]`, func(p policy.Policy) any { return p.Must }, "[tests-pass]"},
		{`:checks/soft [:legal-move]`, func(p policy.Policy) any { return fmt.Sprint(p.Must, p.Should) }, "[] [legal-move]"},
		{`:checks/soft [:legal-move] :checks [:legal-move]`, func(p policy.Policy) any { return fmt.Sprint(p.Must, p.Should) }, "[legal-move] []"},
		{`:repair {:max 2}`, func(p policy.Policy) any { return fmt.Sprint(p.RepairMax, p.RepairAsked) }, "2 true"},
		{`:hedge {:after-ms 150 :max 2}`, func(p policy.Policy) any { return fmt.Sprint(p.HedgeAfter, p.HedgeMax) }, "150ms 2"},
		{`:race {:width 5}`, func(p policy.Policy) any { return p.RaceWidth }, "5"},
		{`:tournament {:width 4}`, func(p policy.Policy) any { return p.TournamentWidth }, "4"},
		{`:exclude [:llm/meta]`, func(p policy.Policy) any { return p.Exclude }, "[llm/meta]"},
		{`:timeout {:extend-ms 40}`, func(p policy.Policy) any { return p.Extend }, "40ms"},
	} {
		t.Run(row.dispatch, func(t *testing.T) {
			read, _ := readPlan(t, `{:nodes [{:op :call :intent :text/respond :dispatch {`+row.dispatch+`} :input {:prompt "x"}}]}`)
			p, err := read.Nodes[0].Layer.Resolve()
			require.NoError(t, err)
			assert.Equal(t, row.want, fmt.Sprint(row.got(p)))
			assert.NotEmpty(t, p.Explain(), "what was written is explained")
		})
	}
	kept := load(t, `{:nodes [{:op :call :intent :text/respond :dispatch {:allow-failure? true} :input {:prompt "x"}}]}`, testEnv(t))
	assert.True(t, kept.Plan.Nodes[0].AllowFailure)
}

// TestInvalidDispatchKeys: IR-004, CHECK-015, CHECK-026, an invalid :dispatch
// key is reported at its place.
func TestInvalidDispatchKeys(t *testing.T) {
	for dispatch, want := range map[string]string{
		`{:retry {:same-cap-max -1}}`:         `1:76: error CHECK-015 wanted an integer from 0 to 16, got -1, in [:nodes 0 :dispatch :retry :same-cap-max]`,
		`{:retry {:fallback-max 33}}`:         `1:76: error CHECK-026 wanted an integer from 0 to 32, got 33, in [:nodes 0 :dispatch :retry :fallback-max]`,
		`{:retry 1}`:                          `1:61: error CHECK-015 wanted a map, got 1, in [:nodes 0 :dispatch :retry]`,
		`{:repair {:max 9}}`:                  `1:68: error CHECK-026 wanted an integer from 0 to 8, got 9, in [:nodes 0 :dispatch :repair :max]`,
		`{:timeout {:extend-ms -1}}`:          `1:75: error CHECK-015 wanted an integer from 0 to 86400000, got -1, in [:nodes 0 :dispatch :timeout :extend-ms]`,
		`{:allow-failure? :yes}`:              `1:70: error CHECK-015 wanted a boolean, got :yes, in [:nodes 0 :dispatch :allow-failure?]`,
		`{:exclude :llm/meta}`:                `1:63: error CHECK-015 wanted a set of keywords, got :llm/meta, in [:nodes 0 :dispatch :exclude]; nearest is #{:llm/meta}`,
		`{:switch-on :timeout/soft}`:          `1:65: error CHECK-015 wanted a set of keywords, got :timeout/soft, in [:nodes 0 :dispatch :switch-on]; nearest is #{:timeout/soft}`,
		`{:switch-on #{:timeout/sofd}}`:       `1:65: error CHECK-015 switch-on: there is no error type :timeout/sofd; nearest is :timeout/soft in [:nodes 0 :dispatch :switch-on]`,
		`{:switch-on/replace #{:class/stop}}`: `1:73: error CHECK-015 switch-on: :class/stop is not a class of a switch-on set: use :class/retry, :class/switch or :class/repair in [:nodes 0 :dispatch :switch-on/replace]`,
		`{:tournament {:width 17}}`:           `1:74: error CHECK-026 wanted an integer from 2 to 16, got 17, in [:nodes 0 :dispatch :tournament :width]`,
		`{:hedge {:after-ms -1}}`:             `1:72: error CHECK-015 wanted an integer from 0 to 86400000, got -1, in [:nodes 0 :dispatch :hedge :after-ms]`,
		`{:candidates :llm/voice}`:            `1:66: error CHECK-015 wanted a vector of capability ids, got :llm/voice, in [:nodes 0 :dispatch :candidates]`,
		`{:candidates ["llm/voice"]}`:         `1:67: error CHECK-015 wanted a capability id or a handle, got "llm/voice", in [:nodes 0 :dispatch :candidates 0]`,
		`{:checks :legal-move}`:               `1:62: error CHECK-015 wanted a set of keywords, got :legal-move, in [:nodes 0 :dispatch :checks]; nearest is #{:legal-move}`,
	} {
		assert.Equal(t, []string{"plan.edn:" + want}, lines(t, `{:nodes [{:op :call :intent :text/respond :dispatch `+dispatch+` :input {:prompt "x"}}]}`, testEnv(t)), dispatch)
	}
}

// TestRaceDoesNotStreamAtOnce: CHECK-047, a race of an intent that streams from
// the first token is a warning: nothing streams before the gates. Hedges and
// other intents have no warning.
func TestRaceDoesNotStreamAtOnce(t *testing.T) {
	streams := func(strategy, stream string) plan.Env {
		env := testEnv(t)
		from := policy.Origin{Source: policy.SourceIntent}
		l := policy.Layer{Stream: policy.Of(stream, from)}
		if strategy != "" {
			l.Strategy = policy.Of(strategy, from)
		}
		env.Policies = &policy.Book{Intents: map[string]policy.Layer{"text/respond": l}}
		return env
	}
	const warns = "warning CHECK-047 with the strategy :%s no text streams before the gates pass, so the answers of :text/respond do not stream from their first token, in %s"
	for _, row := range []struct{ node, intent, stream, want string }{
		{node: ":dispatch {:strategy :race}", stream: policy.FirstToken, want: "1:64: " + fmt.Sprintf(warns, "race", "[:nodes 0 :dispatch :strategy]")},
		{node: ":dispatch {:strategy :tournament}", stream: policy.FirstToken, want: "1:64: " + fmt.Sprintf(warns, "tournament", "[:nodes 0 :dispatch :strategy]")},
		{intent: "race", stream: policy.FirstToken, want: "1:29: " + fmt.Sprintf(warns, "race", "[:nodes 0 :intent]")},
		{node: ":dispatch {:strategy :race :candidates [{:slot/id :best}]}", stream: policy.FirstToken, want: "1:64: " + fmt.Sprintf(warns, "race", "[:nodes 0 :dispatch :strategy]")},
		{node: ":dispatch {:strategy :race :candidates [{:slot/id :best} :llm/voise :llm/voice]}", stream: policy.FirstToken,
			want: "1:100: error CHECK-012 unknown capability :llm/voise in [:nodes 0 :dispatch :candidates 1]; " +
				"nearest is :llm/voice"},
		{node: ":dispatch {:strategy :hedge}", stream: policy.FirstToken},
		{node: ":dispatch {:strategy :cascade}", intent: "race", stream: policy.FirstToken},
		{node: ":dispatch {:strategy :race}", stream: policy.Provisional},
		{node: ":dispatch {:strategy :race}", stream: policy.GatePassed},
	} {
		env := streams(row.intent, row.stream)
		env.Outer = func(name string) bool { return name == "best" }
		var want []string
		if row.want != "" {
			want = []string{"plan.edn:" + row.want}
		}
		assert.Equal(t, want, emptyIsNil(lines(t, `{:nodes [{:op :call :intent :text/respond `+row.node+` :input {:prompt "x"}}]}`, env)), "%+v", row)
	}
}

// TestLearnedNeedsAnObjectiveMust: CHECK-048, LRN-007, a node that learns the order of
// its candidates and has no must check besides the form of its answers is a warning,
// at the node or the intent that names the policy. A judge is not such a check.
func TestLearnedNeedsAnObjectiveMust(t *testing.T) {
	from := policy.Origin{Source: policy.SourceIntent}
	for _, row := range []struct {
		node   string
		intent policy.Layer
		want   string
	}{
		{node: ":dispatch {:policy :learned}", want: "[:nodes 0 :dispatch :policy]"},
		{node: ":dispatch {:policy :learned} :done {:must #{:schema-valid} :should #{:legal-move}}", want: "[:nodes 0 :dispatch :policy]"},
		{node: ":dispatch {:policy :learned} :done {:must #{:legal-move}}"},
		{node: ":dispatch {:policy :learned :checks #{:legal-move}}"},
		{node: ":dispatch {:policy :declared}", intent: policy.Layer{Ordering: policy.Of(policy.Learning, from)}},
		{intent: policy.Layer{Ordering: policy.Of(policy.Learning, from)}, want: "[:nodes 0 :intent]"},
		{intent: policy.Layer{Ordering: policy.Of(policy.Learning, from), Judge: policy.Of("grader", from), JudgeSeverity: policy.Of("must", from)}, want: "[:nodes 0 :intent]"},
		{intent: policy.Layer{Ordering: policy.Of(policy.Learning, from), Must: policy.NamesOf(from, "legal-move")}},
		{node: ":dispatch {:policy :learned}", intent: policy.Layer{Must: policy.NamesOf(from, "legal-move")}},
	} {
		env := testEnv(t)
		env.Policies = &policy.Book{Intents: map[string]policy.Layer{"text/respond": row.intent}}
		var got []string
		for _, line := range lines(t, `{:nodes [{:op :call :intent :text/respond `+row.node+` :input {:prompt "x"}}]}`, env) {
			if strings.Contains(line, "CHECK-048") {
				got = append(got, line)
			}
		}
		if row.want == "" {
			assert.Empty(t, got, "%+v", row)
		} else if assert.Len(t, got, 1, "%+v", row) {
			assert.Contains(t, got[0], "warning")
			assert.Contains(t, got[0], row.want)
		}
	}
}
