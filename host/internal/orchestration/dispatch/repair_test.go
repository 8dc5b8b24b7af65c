package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const repairs = ":cap/repairs? true"

// needs returns a check that requires :good true and has one finding per
// missing key.
func needs(name, key string) quality.Check {
	return quality.Check{
		Check: registry.Check{Name: name, Kind: registry.CheckCondition},
		Judge: func(s quality.Subject) quality.Outcome {
			if yes, _ := s.Result.Key(key).AsBool(); yes {
				return quality.Outcome{Pass: true}
			}
			return quality.Failed(quality.Finding{Path: []edn.Value{edn.K(key)}, Message: "wants :" + key})
		},
	}
}

func repairWorld(t testing.TB, more ...string) *dispatchtest.World {
	return dispatchtest.New(t, dispatchtest.Spec{Caps: caps(more...), Checks: []quality.Check{needs("good", "good"), needs("kind", "kind")}})
}

func repair(rounds, same, fallback int, source policy.Source) policy.Layer {
	l := policy.Merge(retries(same, fallback), must("good", "kind"))
	l.RepairMax = policy.Of(rounds, policy.Origin{Source: source})
	return l
}

// rounds returns the candidate and the round of each attempt.
func (s served) rounds() []string {
	var out []string
	for _, r := range s.records {
		if x, ok := r.Body.(*journal.AttemptStarted); ok {
			out = append(out, fmt.Sprintf("%s%d", x.CapID[len(x.CapID)-1:], x.Round))
		}
	}
	return out
}

// REP-001, REP-002, REP-003, REP-004, REP-005 and the rows of the sequence
// table: which candidates are repaired, how often, and how it ends.
func TestRepair(t *testing.T) {
	bad, half, fine := out(`{:n 1}`), out(`{:good true}`), out(`{:good true :kind true}`)
	for name, tc := range map[string]struct {
		a, b   []dispatchtest.Step
		meta   string
		layer  policy.Layer
		rounds []string
		winner string
		fails  string
	}{
		"the first round helps":           {a: []dispatchtest.Step{bad, fine}, layer: repair(2, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1"}, winner: "t/a"},
		"progress goes on":                {a: []dispatchtest.Step{bad, half, fine}, layer: repair(2, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1", "a2"}, winner: "t/a"},
		"the same answer twice stops":     {a: []dispatchtest.Step{bad, bad, fine}, layer: repair(8, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1"}, fails: "repair/exhausted"},
		"a circle stops":                  {a: []dispatchtest.Step{bad, half, bad, fine}, layer: repair(8, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1", "a2"}, fails: "repair/exhausted"},
		"rounds are bounded":              {a: []dispatchtest.Step{bad, half, out(`{:kind true}`), fine}, layer: repair(2, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1", "a2"}, fails: "repair/exhausted"},
		"exhausted switches":              {a: []dispatchtest.Step{fails("provider/unavailable"), bad, bad}, b: []dispatchtest.Step{fine}, layer: repair(1, 1, 1, policy.SourceNode), rounds: []string{"a0", "a0", "a1", "b0"}, winner: "t/b"},
		"without repair it is retried":    {a: []dispatchtest.Step{bad, bad}, b: []dispatchtest.Step{bad, fine}, meta: "-", layer: repair(1, 1, 1, policy.SourceNode), rounds: []string{"a0", "a0", "b0", "b1"}, winner: "t/b"},
		"another failure leaves the loop": {a: []dispatchtest.Step{bad, fails("provider/unavailable"), fine}, layer: repair(3, 1, 0, policy.SourceNode), rounds: []string{"a0", "a1", "a0"}, winner: "t/a"},
		"a crash leaves the loop":         {a: []dispatchtest.Step{bad, {Crash: true}}, b: []dispatchtest.Step{fine}, layer: repair(3, 0, 1, policy.SourceNode), rounds: []string{"a0", "a1", "b0"}, winner: "t/b"},
		"no rounds":                       {a: []dispatchtest.Step{bad, fine}, layer: repair(0, 0, 0, policy.SourceNode), rounds: []string{"a0"}, fails: "eval/must-failed"},
		"idempotent, the node wants it":   {a: []dispatchtest.Step{bad, fine}, meta: repairs + " :cap/idempotent? true :cap/effects #{:fs/write}", layer: repair(1, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1"}, winner: "t/a"},
		"idempotent, the policy wants it": {a: []dispatchtest.Step{bad, fine}, meta: repairs + " :cap/idempotent? true :cap/effects #{:fs/write}", layer: repair(1, 0, 0, policy.SourceIntent), rounds: []string{"a0"}, fails: "eval/must-failed"},
		"once is never repaired":          {a: []dispatchtest.Step{bad, fine}, meta: repairs + " :cap/effects #{:process/run}", layer: repair(1, 0, 0, policy.SourceNode), rounds: []string{"a0"}, fails: "eval/must-failed"},
		"rounds are apart from tries":     {a: []dispatchtest.Step{bad, half, fails("provider/unavailable"), bad, fine}, layer: repair(3, 1, 0, policy.SourceNode), rounds: []string{"a0", "a1", "a2", "a0", "a3"}, winner: "t/a"},
		"rounds are per candidate":        {a: []dispatchtest.Step{bad, half, out(`{:kind true}`)}, b: []dispatchtest.Step{bad, half, fine}, layer: repair(2, 0, 1, policy.SourceNode), rounds: []string{"a0", "a1", "a2", "b0", "b1", "b2"}, winner: "t/b"},
		"a circle over a retry stops":     {a: []dispatchtest.Step{bad, half, fails("provider/unavailable"), out(`{:kind true}`), half, fine}, layer: repair(8, 1, 0, policy.SourceNode), rounds: []string{"a0", "a1", "a2", "a0", "a3"}, fails: "repair/exhausted"},
		"a schema is repaired too":        {a: []dispatchtest.Step{wrong, fine}, layer: repair(1, 0, 0, policy.SourceNode), rounds: []string{"a0", "a1"}, winner: "t/a"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.meta == "" {
				tc.meta = repairs
			}
			w := repairWorld(t, strings.TrimPrefix(tc.meta, "-"), repairs)
			w.On("t/a", tc.a...).On("t/b", tc.b...)
			r := serve(t, w, order{layer: tc.layer})
			assert.Equal(t, tc.rounds, r.rounds())
			assert.Equal(t, tc.fails, r.failure(), "%v", r.Err)
			if tc.fails == "" {
				assert.Equal(t, tc.winner, r.CapID)
			}
			if tc.fails == "repair/exhausted" {
				assert.Equal(t, "eval/must-failed", r.Err.Cause.Type)
			}
		})
	}
}

// REP-002: attempts, money and the deadline bound a repair besides :max; an
// answer that is accepted in the last possible round is accepted.
func TestRepairIsBounded(t *testing.T) {
	n := 0
	worse := func(context.Context, dispatch.Call) dispatchtest.Step { // never the same twice
		n++
		return out(fmt.Sprintf(`{:n %d}`, n))
	}
	w := repairWorld(t, repairs, repairs)
	w.Func("t/a", worse).Func("t/b", worse)
	r := serve(t, w, order{layer: repair(8, 16, 1, policy.SourceNode)})
	assert.Equal(t, "repair/exhausted", r.failure())
	assert.Len(t, r.rounds(), 18, "nine each: no retry after the rounds, whatever :same-cap-max is")

	synctest.Test(t, func(t *testing.T) {
		w := repairWorld(t, repairs)
		w.Func("t/a", func(ctx context.Context, c dispatch.Call) dispatchtest.Step { return in(30*ms, worse(ctx, c)) })
		r := serve(t, w, order{layer: repair(8, 0, 0, policy.SourceNode), deadline: 100 * ms})
		assert.Equal(t, "timeout/hard", r.failure())
		assert.Equal(t, []string{"a0", "a1", "a2", "a3"}, r.rounds())
	})
}

// REP-004: neither a retry nor another candidate gets the repair context.
func TestRepairIsNotInherited(t *testing.T) {
	w := repairWorld(t, repairs, repairs)
	unavailable := fails("provider/unavailable")
	w.On("t/a", out(`{:n 1}`), out(`{:good true}`), unavailable, out(`{:n 3}`), unavailable, unavailable)
	w.On("t/b", out(`{:n 1}`), out(`{:good true :kind true}`))
	r := serve(t, w, order{layer: repair(3, 1, 1, policy.SourceNode)})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"a0", "a1", "a2", "a0", "a3", "b0", "b1"}, r.rounds())
	previous := make([]string, 0, 7)
	for _, c := range w.Calls() {
		previous = append(previous, c.Request.Key("context").Key("repair").Key("previous").String())
	}
	assert.Equal(t, []string{"nil", "{:n 1}", "{:good true}", "nil", "{:n 3}", "nil", "{:n 1}"}, previous)
}

// REP-003, JRN-043: each round is an effect of its own, also after a retry;
// after the effect of a refused answer no other candidate is tried, whatever
// the result of the rounds (the recovery table of section 7).
func TestEffectsOfRepairs(t *testing.T) {
	effects := repairs + " :cap/idempotent? true :cap/effects #{:fs/write}"
	unavailable := fails("provider/unavailable")
	w := repairWorld(t, effects, effects)
	w.On("t/a", out(`{:n 1}`), out(`{:good true}`), unavailable, out(`{:n 3}`), unavailable, unavailable)
	w.On("t/b", out(`{:good true :kind true}`))
	r := serve(t, w, order{layer: repair(3, 1, 1, policy.SourceNode)})
	assert.Equal(t, []string{"a0", "a1", "a2", "a0", "a3"}, r.rounds(), "no other candidate repeats the effect")
	assert.Equal(t, "provider/unavailable", r.failure())
	keys := map[string]int{}
	for _, c := range w.Calls() {
		keys[c.EffectKey]++
	}
	assert.Len(t, keys, 4, "the first call and its retry have one, every round has one: %v", keys)

	w = repairWorld(t, effects, effects)
	w.On("t/a", dispatchtest.Step{Crash: true}, unavailable).On("t/b", out(`{:good true :kind true}`))
	r = serve(t, w, order{layer: repair(0, 1, 1, policy.SourceNode)})
	assert.Equal(t, []string{"a0", "a0", "b0"}, r.rounds(), "with the key of the first call it says that nothing was done")

	w = repairWorld(t, effects, effects)
	w.On("t/a", unavailable).On("t/b", out(`{:good true :kind true}`))
	r = serve(t, w, order{layer: repair(3, 0, 1, policy.SourceNode)})
	require.Nil(t, r.Err)
	assert.Equal(t, "t/b", r.CapID, "what was surely not done may be done elsewhere")
}

// REP-004: an unreadable answer has no value; the repair request holds its
// text.
func TestDriftIsRepairedFromItsText(t *testing.T) {
	drift := func(raw string) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("format/drift", "no EDN").WithDetail("raw", edn.Text(raw))}
	}
	w := repairWorld(t, repairs)
	w.On("t/a", drift("Sure! {"), drift("{:good true"), out(`{:good true :kind true}`))
	r := serve(t, w, order{layer: repair(3, 0, 0, policy.SourceNode)})
	require.Nil(t, r.Err)
	calls := w.Calls()
	require.Len(t, calls, 3)
	assert.Equal(t, `{:attempt 1 :error {:message "no EDN" :type :format/drift} :findings [] :previous "Sure! {"}`, calls[1].Request.Key("context").Key("repair").String())
	assert.Equal(t, `"{:good true"`, calls[2].Request.Key("context").Key("repair").Key("previous").String())

	w = repairWorld(t, repairs)
	w.On("t/a", drift("the same"), drift("the same"), out(`{:good true :kind true}`))
	r = serve(t, w, order{layer: repair(3, 0, 0, policy.SourceNode)})
	assert.Equal(t, "repair/exhausted", r.failure())
	assert.Equal(t, []string{"a0", "a1"}, r.rounds(), "the same text twice")

	w = repairWorld(t, repairs)
	w.On("t/a", fails("provider/output-truncated"), fails("format/drift"), out(`{:good true :kind true}`))
	r = serve(t, w, order{layer: repair(3, 0, 0, policy.SourceNode)})
	require.Nil(t, r.Err, "two kinds of failure are not the same because neither has a text: %v", r.Err)
}

// REP-003: the repair request is about the last answer only, and every round is
// an effect of its own.
func TestRepairRequest(t *testing.T) {
	w := repairWorld(t, repairs)
	w.On("t/a", out(`{:n 1}`), out(`{:good true}`), out(`{:good true :kind true}`))
	l := repair(3, 0, 0, policy.SourceNode)
	l.Context = policy.FieldsOf(edn.MustRead(`{:frames ["f"]}`), here)
	r := serve(t, w, order{layer: l})
	require.Nil(t, r.Err)
	calls := w.Calls()
	require.Len(t, calls, 3)
	assert.Equal(t, `{:frames ["f"]}`, calls[0].Request.Key("context").String())
	second := calls[1].Request.Key("context")
	assert.Equal(t, `["f"]`, second.Key("frames").String())
	assert.Equal(t, `{:attempt 1 :findings [{:gate :good :message "wants :good" :path [:good] :severity :must} {:gate :kind :message "wants :kind" :path [:kind] :severity :must}] :previous {:n 1}}`, second.Key("repair").String())
	assert.Equal(t, `{:attempt 2 :findings [{:gate :kind :message "wants :kind" :path [:kind] :severity :must}] :previous {:good true}}`, calls[2].Request.Key("context").Key("repair").String())
	keys := map[string]bool{}
	for _, c := range calls {
		keys[c.EffectKey] = true
		assert.Equal(t, calls[0].Request.Key("input").String(), c.Request.Key("input").String())
	}
	assert.Len(t, keys, 3)
}

// REP-001, REP-003: repair requests do not grow with the rounds, and are
// bounded for any answer.
func TestRepairRequestsDoNotGrow(t *testing.T) {
	w := repairWorld(t, repairs)
	n := 0
	w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
		n++
		return out(fmt.Sprintf(`{:good %q :pad %q :n %d}`, strings.Repeat("g", 100), strings.Repeat("x", 100<<10), n))
	})
	r := serve(t, w, order{layer: repair(8, 0, 0, policy.SourceNode)})
	assert.Equal(t, "repair/exhausted", r.failure())
	calls := w.Calls()
	require.Len(t, calls, 9)
	size := len(calls[1].Request.AppendCanonical(nil))
	assert.Less(t, size, 8<<10)
	for _, c := range calls[1:] {
		assert.Len(t, c.Request.AppendCanonical(nil), size)
		sent := c.Request.Key("context").Key("repair").Key("previous")
		assert.Equal(t, `[{:path [:good] :value "`+strings.Repeat("g", 100)+`"}]`, sent.Key("parts").String(), "the places that findings are about")
	}
}

// REP-005: the switch set may contain repair/exhausted or the type of its
// cause.
func TestExhaustedMatchesEither(t *testing.T) {
	for set, served := range map[string]bool{"repair/exhausted": true, "eval/must-failed": true, "eval/*": true, "timeout/hard": false} {
		w := repairWorld(t, repairs, repairs)
		w.On("t/a", out(`{:n 1}`)).On("t/b", out(`{:good true :kind true}`))
		l := repair(1, 0, 1, policy.SourceNode)
		l.SwitchOn = policy.Additive{Add: policy.Of(policy.NamesOf(here, set), here)}
		r := serve(t, w, order{layer: l})
		assert.Equal(t, served, r.Err == nil, set)
		assert.Equal(t, map[bool][]string{true: {"a0", "a1", "b0"}, false: {"a0", "a1"}}[served], r.rounds(), set)
	}
}

// ATT-004: after a tournament without an accepted answer, the candidate with
// the best score is repaired first.
func TestTournamentIsRepaired(t *testing.T) {
	w := repairWorld(t, repairs, repairs, "")
	w.On("t/a", out(`{:n 1}`)).On("t/b", out(`{:kind true}`), out(`{:good true :kind true}`)).On("t/c", fails("provider/error"))
	l := tournament(3, 0)
	l.Must = policy.NamesOf(here, "good")
	l.Should = policy.NamesOf(here, "kind")
	l.RepairMax = policy.Of(1, here)
	r := serve(t, w, order{layer: l})
	require.Nil(t, r.Err)
	assert.Equal(t, "t/b", r.CapID)
	assert.Equal(t, []string{"a0", "b0", "c0", "b1"}, r.rounds())
}
