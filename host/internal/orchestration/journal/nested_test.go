package journal_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// starts, answers, breaks, grades and votes add events of an attempt of a
// node.
func (s *story) starts(path, node string, n int, capID string) *story {
	return s.add(path, node, &journal.AttemptStarted{
		Attempt:    n,
		CapID:      capID,
		CapVersion: "1",
		Request:    journal.RefTo(edn.MustRead(fmt.Sprintf(`{:input {:n %d}}`, n))),
		Recovery:   "none",
		EffectKey:  someHash,
	})
}

func (s *story) answers(path, node string, n int, typ, usage string) *story {
	return s.add(path, node, &journal.AttemptFinished{
		Attempt:    n,
		Outcome:    "ok",
		Latency:    time.Duration(n) * time.Millisecond,
		Result:     journal.RefTo(edn.MustRead(fmt.Sprintf(`{:result {:type :%s :out {:n %d}}}`, typ, n))),
		ResultType: typ,
		Usage:      edn.MustRead(usage),
		Meta:       edn.MustRead(`{:model "m"}`),
	})
}

func (s *story) breaks(path, node string, n int, failure *contract.Error) *story {
	return s.add(path, node, &journal.AttemptFinished{Attempt: n, Outcome: "error", Err: failure})
}

func (s *story) resolves(path, node, op string, candidates ...string) *story {
	b := &journal.NodeResolved{Op: op, Intent: "a/b", Policy: "declared", Strategy: "cascade"}
	if op == "tool" {
		b.Intent, b.ToolID = "", "a/tool"
	}
	for _, c := range candidates {
		b.Candidates = append(b.Candidates, journal.Candidate{CapID: c})
	}
	b.Rejected = []journal.Rejection{{CapID: "a/none", Reason: "runtime/not-ready"}}
	return s.add(path, node, b)
}

func (s *story) plans(path, source, text string) *story {
	b := &journal.PlanResolved{Plan: journal.RefTo(edn.MustRead(text)), Source: source}
	if source == "answer" {
		b.Attempt, b.CapID = 1, "a/planner"
	}
	if path == "[]" {
		return s.add(path, "", b)
	}
	return s.add(path, "plan", b)
}

func (s *story) grades(path, node string, n int, gate string, pass bool) *story {
	return s.add(path, node, &journal.GateVerdict{Attempt: n, Gate: gate, Severity: "must", Tier: 1, Pass: pass})
}

func failure(typ, message string) *contract.Error { return contract.Errorf(typ, "%s", message) }

// nested is a run of a plan with a node whose first attempt gets a plan answer,
// which fails, followed by three other candidates; a map; and a tool.
//
//	[0]              a call: 1 a plan that fails, 2 fails its schema, 3 a low score, 4 is accepted
//	[0 "a1" 0]       a tool of that plan; fails last and is first in the program
//	[0 "a1" 1]       a call of that plan; fails first, and has a failed node of its own below it
//	[1 "i0" 0]       an item of the map; its error is kept
//	[1 "i1" 0]       another item; its judge fails, and it is cut short
//	[2]              a call without an attempt that commits
//	[3] to [10]      skipped
func nested() []journal.Record {
	s := &story{}
	s.add("", "", samples()[journal.KindRunAccepted])
	s.plans("[]", "request", `{:nodes [{:op :call :as :x} {:op :map :as :ys} {:op :let :as :z}]}`)
	s.resolves("[0]", "n0", "call", "a/planner", "a/one", "a/two")
	s.starts("[0]", "n0", 1, "a/planner").answers("[0]", "n0", 1, "plan", `{:tokens-in 1 :mode :live}`)
	s.plans(`[0 "a1"]`, "answer", `{:nodes [{:op :tool :as :inner} {:op :call}]}`)
	s.resolves(`[0 "a1" 1]`, "p1", "call", "a/one")
	s.starts(`[0 "a1" 1]`, "p1", 1, "a/one").breaks(`[0 "a1" 1]`, "p1", 1, failure("provider/error", "second"))
	s.add(`[0 "a1" 1 "a1" 0]`, "q0", &journal.NodeFailed{Err: failure("provider/refused", "deep"), Attempts: 1})
	s.add(`[0 "a1" 1]`, "p1", &journal.NodeFailed{Err: failure("provider/error", "second"), Attempts: 1})
	s.resolves(`[0 "a1" 0]`, "p0", "tool", "a/tool")
	s.starts(`[0 "a1" 0]`, "p0", 1, "a/tool").breaks(`[0 "a1" 0]`, "p0", 1, failure("provider/empty", "first"))
	s.add(`[0 "a1" 0]`, "p0", &journal.NodeFailed{Err: failure("provider/empty", "first"), Attempts: 1})
	s.starts("[0]", "n0", 2, "a/one")
	s.answers("[0]", "n0", 2, "value", `{:tokens-in 2 :cost-usd 0.1M :cost-mark :exact :mode :live}`)
	s.grades("[0]", "n0", 2, "good", false).grades("[0]", "n0", 2, "schema-valid", false)
	s.grades("[0]", "n0", 2, "late", false)
	s.starts("[0]", "n0", 3, "a/one").answers("[0]", "n0", 3, "value", `{:tokens-in 4 :mode :live}`)
	s.grades("[0]", "n0", 3, "schema-valid", true)
	s.starts("[0]", "n0", 4, "a/two")
	s.answers("[0]", "n0", 4, "value", `{:tokens-in 8 :cost-usd 0.2M :cost-mark :estimated :mode :live}`)
	s.grades("[0]", "n0", 4, "good", true)
	s.add("[0]", "n0", &journal.GateVerdict{
		Attempt:    4,
		Gate:       "graded",
		Severity:   "should",
		Tier:       3,
		Pass:       true,
		Score:      journal.ScoreOf(900),
		CapID:      "a/judge",
		CapVersion: "1",
		JudgeCalls: 3,
		Usage:      edn.MustRead(`{:tokens-in 16 :mode :live}`),
	})
	s.add("[0]", "n0", &journal.NodeCommitted{Value: oneRef, CapID: "a/two", Attempt: 4, Score: journal.ScoreOf(900)})
	s.plans("[1]", "inline", `[{:op :call :as :item-as}]`)
	s.resolves(`[1 "i0" 0]`, "m0", "call", "a/one")
	s.starts(`[1 "i0" 0]`, "m0", 1, "a/one").breaks(`[1 "i0" 0]`, "m0", 1, failure("provider/error", "kept"))
	kept := &journal.NodeCommitted{Value: oneRef, CapID: "a/one", Attempt: 1, FailureType: "provider/error"}
	s.add(`[1 "i0" 0]`, "m0", kept)
	s.starts(`[1 "i1" 0]`, "m1", 1, "a/one").answers(`[1 "i1" 0]`, "m1", 1, "value", `{:tokens-in 32 :mode :cached}`)
	s.add(`[1 "i1" 0]`, "m1", &journal.GateVerdict{
		Attempt:    1,
		Gate:       "graded",
		Severity:   "must",
		Tier:       3,
		CapID:      "a/judge",
		CapVersion: "1",
		Err:        failure("provider/error", "no grade"),
	})
	s.add("[2]", "n2", &journal.NodeCommitted{Value: oneRef, Score: journal.ScoreOf(800)})
	for i := 3; i <= 10; i++ {
		s.add(fmt.Sprintf("[%d]", i), fmt.Sprintf("n%d", i), &journal.NodeSkipped{Op: "call", When: edn.Bool(false)})
	}
	s.add("[1]", "n1", &journal.GateVerdict{
		Gate:       "all-good",
		Severity:   "should",
		Tier:       2,
		Pass:       true,
		CapID:      "a/check",
		CapVersion: "1",
		Usage:      edn.MustRead(`{:tokens-in 64 :mode :live}`),
	})
	s.add(`[1 "i1" 0]`, "m1", &journal.NodeFailed{Err: failure("judge/failed", "no grade"), Attempts: 1})
	return s.records
}

// hint is what the catalogue adds to an error; its wording is held in ERRORS.md.
var hint = regexp.MustCompile(` :hint "[^"]*"`)

// sameValues compares a vector with EDN texts, element by element, without hints.
func sameValues(t *testing.T, want []string, got edn.Value) {
	t.Helper()
	var all []string
	for v := range got.Elems() {
		all = append(all, hint.ReplaceAllString(v.String(), ""))
	}
	for i, text := range want {
		want[i] = edn.MustRead(text).String()
	}
	assert.Equal(t, want, all)
}

// EVAL-061, contracts.md 2.2: an entry for each attempt, in the order in which
// they started, with the error that made it lose: its own, of its plan answer
// (first in program order), of a gate, of a judge, or its score.
func TestTranscriptOfNestedRun(t *testing.T) {
	const (
		first  = `{:class :retry :message "first" :retryable? true :source :downstream :type :provider/empty}`
		second = `{:class :retry :message "second" :retryable? true :source :downstream :type :provider/error}`
		kept   = `{:class :retry :message "kept" :retryable? true :source :downstream :type :provider/error}`
		below  = `{:ok? false :error ` + first + ` :failure/type :provider/empty
		  :participants [[:a/one nil] [:a/tool nil]]
		  :telemetry {:calls/failure-types {:provider/empty 1 :provider/error 1} :calls/fallback-hops 0 :calls/retries 0
		    :calls/succeeded 0 :calls/total 2 :nodes/failed 3 :nodes/skipped 0 :nodes/total 3}
		  :timings [{:attempt 1 :cap/id :a/one :latency-ms 0 :node "p1" :path [0 "a1" 1]}
		    {:attempt 1 :cap/id :a/tool :latency-ms 0 :node "p0" :path [0 "a1" 0]}]}`
		n0 = `{:op :call :node "n0" :path [0] :intent :a/b :as :x :invoke/meta {:model "m"} `
	)
	sameValues(t, []string{
		n0 + `:attempt 1 :candidate-index 0 :cap/id :a/planner :input {:n 1} :latency-ms 1 :out {:n 1} :result/type :plan
		  :error ` + first + ` :failure/type :provider/empty :plan/run ` + below + `}`,
		`{:op :call :node "p1" :path [0 "a1" 1] :intent :a/b :attempt 1 :candidate-index 0 :cap/id :a/one :input {:n 1}
		  :latency-ms 0 :error ` + second + ` :failure/type :provider/error}`,
		`{:op :tool :node "p0" :path [0 "a1" 0] :tool/id :a/tool :as :inner :attempt 1 :candidate-index 0 :cap/id :a/tool
		  :input {:n 1} :latency-ms 0 :error ` + first + ` :failure/type :provider/empty}`,
		n0 + `:attempt 2 :candidate-index 1 :cap/id :a/one :input {:n 2} :latency-ms 2 :out {:n 2} :result/type :value
		  :failure/type :schema/invalid}`,
		n0 + `:attempt 3 :candidate-index 1 :cap/id :a/one :input {:n 3} :latency-ms 3 :out {:n 3} :result/type :value
		  :failure/type :eval/low-score}`,
		n0 + `:attempt 4 :candidate-index 2 :cap/id :a/two :input {:n 4} :latency-ms 4 :out {:n 4} :result/type :value}`,
		`{:op :call :node "m0" :path [1 "i0" 0] :intent :a/b :as :item-as :attempt 1 :candidate-index 0 :cap/id :a/one
		  :input {:n 1} :latency-ms 0 :error ` + kept + ` :failure/type :provider/error}`,
		`{:node "m1" :path [1 "i1" 0] :as :item-as :attempt 1 :cap/id :a/one :input {:n 1} :invoke/meta {:model "m"}
		  :latency-ms 1 :out {:n 1} :result/type :value :failure/type :judge/failed}`,
	}, journal.Transcript(nested()))
}

// contracts.md 2.2: the summaries of a run: counts, participants, usage.
func TestAccountOfNestedRun(t *testing.T) {
	a := journal.NewAccount(nested())
	run := a.PlanRun(nil)
	assert.Equal(t, "true", run.Key("ok?").String())
	assert.False(t, run.HasKey("error"))
	sameValues(t, []string{`{:calls/failure-types
		  {:eval/low-score 1 :judge/failed 1 :provider/empty 2 :provider/error 2 :schema/invalid 1}
		:calls/fallback-hops 2 :calls/retries 1 :calls/succeeded 1 :calls/total 8
		:nodes/failed 4 :nodes/skipped 8 :nodes/total 16}`}, edn.Vector(run.Key("telemetry")))
	sameValues(t, []string{
		`[:a/planner "m"]`, `[:a/one "m"]`, `[:a/two "m"]`, `[:a/one nil]`, `[:a/tool nil]`,
	}, run.Key("participants"))
	assert.Equal(t, 8, run.Key("timings").Len())
	failed := a.PlanRun(failure("provider/error", "x"))
	assert.Equal(t, "false :provider/error", failed.Key("ok?").String()+" "+failed.Key("failure/type").String())

	sameValues(t, []string{`[:a/planner "m"]`, `[:a/one "m"]`, `[:a/two "m"]`}, a.ModelsUsed())
	sameValues(t, []string{
		`{:attempts 8 :judge-calls 3 :cost-mark :estimated :cost-usd 0.3M :tokens-in 127 :by-capability {
		  :a/check {:calls 1 :mode :live :tokens-in 64}
		  :a/judge {:calls 3 :mode :live :tokens-in 16}
		  :a/one {:calls 5 :cost-mark :exact :cost-usd 0.1M :tokens-in 38}
		  :a/planner {:calls 1 :mode :live :tokens-in 1}
		  :a/tool {:calls 1}
		  :a/two {:calls 1 :cost-mark :estimated :cost-usd 0.2M :mode :live :tokens-in 8}}}`,
		`{:cost-usd 0.3M :attempts {:answered 5 :failed 3 :total 8 :cost-mark :estimated :cost-usd 0.3M :tokens-in 47}
		  :operations {:committed 2 :failed 4 :kept 1 :skipped 8 :cost-mark :estimated :cost-usd 0.2M :mode :live
			:tokens-in 8}}`,
	}, edn.Vector(a.Usage(), a.Totals()))
	assert.Equal(t, `{:must-pass? true :score 0.8M}`, journal.Quality(nested()).String(), "the lowest of the committed")
	assert.Equal(t, `{:score 0.9M}`, journal.Quality(nested()[:32]).Dissoc(edn.K("must-pass?")).String())
	assert.True(t, journal.Quality(nested()[:3]).IsNil())
}

// A verdict counts as many judge calls as were made; a cached one is free.
func TestUsageOfJudges(t *testing.T) {
	verdict := func(calls, tier int, capID string) *journal.GateVerdict {
		return &journal.GateVerdict{
			Attempt:    1,
			Gate:       "g",
			Severity:   "must",
			Tier:       tier,
			CapID:      capID,
			CapVersion: "1",
			JudgeCalls: calls,
			Usage:      edn.MustRead(`{:tokens-in 1}`),
		}
	}
	for _, row := range []struct {
		name    string
		verdict *journal.GateVerdict
		want    string
	}{
		{"a judge", verdict(2, 3, "a/j"), `{:by-capability {:a/j {:calls 2 :tokens-in 1}} :judge-calls 2 :tokens-in 1}`},
		{"asked once", verdict(1, 3, "a/j"), `{:by-capability {:a/j {:calls 1 :tokens-in 1}} :judge-calls 1
			:tokens-in 1}`},
		{"a memo", verdict(0, 3, "a/j"), `{:by-capability {} :judge-calls 0}`},
		{"a judge that nothing serves", verdict(2, 3, ""), `{:by-capability {} :judge-calls 2}`},
		{"a capability", verdict(0, 2, "a/c"), `{:by-capability {:a/c {:calls 1 :tokens-in 1}} :judge-calls 0
			:tokens-in 1}`},
		{"a built-in", verdict(0, 1, ""), `{:by-capability {} :judge-calls 0}`},
	} {
		s := (&story{}).add("[0]", "n0", row.verdict)
		got := journal.NewAccount(s.records).Usage()
		assert.Equal(t, "0", got.Key("attempts").String(), row.name)
		assert.Equal(t, edn.MustRead(row.want).String(), got.Dissoc(edn.K("attempts")).String(), row.name)
	}
}

// The sum of usage maps is nil if none of them has usage.
func TestSumUsage(t *testing.T) {
	for _, row := range []struct{ want, a, b string }{
		{"nil", "nil", "{}"},
		{"nil", "nil", "7"},
		{"{:tokens-in 3}", "{:tokens-in 1}", "{:tokens-in 2}"},
		{"{:tokens-in 1}", "{:tokens-in 1}", "nil"},
		{"{:tokens-in 1}", "nil", "{:tokens-in 1}"},
		{"{}", "{:unknown 1}", "nil"},
		{
			"{:cost-mark :unknown :cost-usd 0.3M :mode :live}",
			"{:cost-usd 0.1M :cost-mark :unknown :mode :live}", "{:cost-usd 0.2M :mode :live}",
		},
		{"{:tokens-mark :estimated}", "{:mode :live :tokens-mark :exact}", "{:mode :cached :tokens-mark :estimated}"},
	} {
		assert.Equal(t, row.want, journal.SumUsage(edn.MustRead(row.a), edn.MustRead(row.b)).String(), "%s %s", row.a, row.b)
	}
	assert.True(t, journal.SumUsage().IsNil())
}

// The binding of each call, with its place.
func TestResolved(t *testing.T) {
	none := `:policy :declared :strategy :cascade :rejected [{:cap/id :a/none :reason :runtime/not-ready}]}`
	sameValues(t, []string{
		`{:node "n0" :path [0] :op :call :intent :a/b :candidates [{:cap/id :a/planner} {:cap/id :a/one} {:cap/id
			:a/two}] ` + none,
		`{:node "p1" :path [0 "a1" 1] :op :call :intent :a/b :candidates [{:cap/id :a/one}] ` + none,
		`{:node "p0" :path [0 "a1" 0] :op :tool :tool/id :a/tool :candidates [{:cap/id :a/tool}] ` + none,
		`{:node "m0" :path [1 "i0" 0] :op :call :intent :a/b :candidates [{:cap/id :a/one}] ` + none,
	}, journal.Resolved(nested()))
}

// The report has every node with its state, input and gates.
func TestReportOfNestedRun(t *testing.T) {
	r := journal.NewReport(nested())
	assert.Equal(t, "run_x a/b", r.Run+" "+r.Intent)
	assert.Empty(t, r.Status, "the run goes on")
	var got []string // the numbers count rejections, attempts and gates
	for _, n := range r.Nodes {
		got = append(got, fmt.Sprintf("%s %s %s asked=%s input=%s by=%s %s %s %s %s over=%t %d %d %d",
			n.Path, n.Node, n.Op, n.Asked, n.Input, n.Answered, n.State, n.Failure, n.Score.Value(), n.Latency,
			n.FailedOver(), len(n.Rejected), len(n.Attempts), len(n.Gates)))
	}
	skipped := func(i int) string {
		return fmt.Sprintf("[%d] n%d call asked= input=nil by= skipped  nil 0s over=false 0 0 0", i, i)
	}
	assert.Equal(t, []string{
		`[0] n0 call asked=a/b input={:n 1} by=a/two committed  0.9M 250ms over=true 1 4 2`,
		`[0 "a1" 1] p1 call asked=a/b input={:n 1} by= failed provider/error nil 40ms over=false 1 1 0`,
		`[0 "a1" 1 "a1" 0] q0  asked= input=nil by= failed provider/refused nil 0s over=false 0 0 0`,
		`[0 "a1" 0] p0 tool asked=a/tool input={:n 1} by= failed provider/empty nil 30ms over=false 1 1 0`,
		`[1 "i0" 0] m0 call asked=a/b input={:n 1} by= kept provider/error nil 30ms over=false 1 1 0`,
		`[1 "i1" 0] m1  asked= input={:n 1} by= failed judge/failed nil 130ms over=false 0 1 1`,
		`[2] n2 let asked= input=nil by= committed  0.8M 0s over=false 0 0 0`,
		skipped(3), skipped(4), skipped(5), skipped(6), skipped(7), skipped(8), skipped(9), skipped(10),
		`[1] n1 map asked= input=nil by= running  nil 0s over=false 0 0 1`,
	}, got)
	assert.Equal(t, journal.GateReport{
		Gate:       "graded",
		Severity:   "should",
		Pass:       true,
		Applicable: true,
		By:         "a/judge",
		Score:      journal.ScoreOf(900),
	}, r.Nodes[0].Gates[1])
}

// A node failed over when one candidate failed and another one answered.
func TestFailedOver(t *testing.T) {
	for _, row := range []struct {
		answered string
		attempts []journal.AttemptReport
		want     bool
	}{
		{"a/two", []journal.AttemptReport{{CapID: "a/one", Failure: "x/y"}, {CapID: "a/two"}}, true},
		{"a/one", []journal.AttemptReport{{CapID: "a/one", Failure: "x/y"}, {CapID: "a/one"}}, false},
		{"a/two", []journal.AttemptReport{{CapID: "a/one"}, {CapID: "a/two"}}, false},
		{"", []journal.AttemptReport{{CapID: "a/one", Failure: "x/y"}}, false},
		{"a/one", nil, false},
	} {
		n := journal.NodeReport{Answered: row.answered, Attempts: row.attempts}
		assert.Equal(t, row.want, n.FailedOver(), "%v", row)
	}
}

// The error of an attempt whose run was cut short, and without further
// information.
func TestFailureOfAnAnswer(t *testing.T) {
	begin := func() *story {
		return (&story{}).starts("[0]", "n0", 1, "a/one").answers("[0]", "n0", 1, "value", `{}`)
	}
	must := func(pass bool, severity string, tier int, err *contract.Error) *journal.GateVerdict {
		return &journal.GateVerdict{Attempt: 1, Gate: "g", Severity: severity, Tier: tier, Pass: pass, Err: err}
	}
	broken := failure("provider/error", "x")
	failed := &journal.NodeFailed{Err: broken, Attempts: 1}
	commit := func(attempt int, failure string) *journal.NodeCommitted {
		return &journal.NodeCommitted{Value: oneRef, Attempt: attempt, FailureType: failure}
	}
	for name, row := range map[string]struct {
		records []journal.Record
		want    string
	}{
		"cut before its gates":     {begin().records, ""},
		"the node failed":          {begin().add("[0]", "n0", failed).records, "eval/low-score"},
		"another one was accepted": {begin().add("[0]", "n0", commit(2, "")).records, "eval/low-score"},
		"another one followed":     {begin().starts("[0]", "n0", 2, "a/one").records, "eval/low-score"},
		"a kept failure":           {begin().add("[0]", "n0", commit(1, "x/y")).records, "eval/low-score"},
		"accepted":                 {begin().add("[0]", "n0", commit(1, "")).records, ""},
		"a must gate":              {begin().add("[0]", "n0", must(false, "must", 1, nil)).records, "eval/must-failed"},
		"a must gate passed":       {begin().add("[0]", "n0", must(true, "must", 1, nil)).records, ""},
		"a should gate":            {begin().add("[0]", "n0", must(false, "should", 1, nil)).records, ""},
		"a should judge breaks":    {begin().add("[0]", "n0", must(false, "should", 3, broken)).records, ""},
		"a judge breaks":           {begin().add("[0]", "n0", must(false, "must", 3, broken)).records, "judge/failed"},
		"a judge refuses":          {begin().add("[0]", "n0", must(false, "must", 3, nil)).records, "eval/must-failed"},
		"a check breaks":           {begin().add("[0]", "n0", must(false, "must", 2, broken)).records, "eval/must-failed"},
	} {
		first, _ := journal.Transcript(row.records).Nth(0)
		typ, _ := first.Key("failure/type").AsKeyword()
		assert.Equal(t, row.want, typ, name)
	}
}

// When an equal plan answer arrives twice, its nodes have the same paths:
// their records belong to the newest attempt of that number.
func TestNewestAttemptOfANumber(t *testing.T) {
	s := (&story{}).starts("[0]", "n0", 1, "a/one").breaks("[0]", "n0", 1, failure("provider/error", "x"))
	s.starts("[0]", "n0", 1, "a/two").answers("[0]", "n0", 1, "value", `{}`)
	r := journal.NewReport(s.records)
	require.Len(t, r.Nodes, 1)
	require.Len(t, r.Nodes[0].Attempts, 2)
	assert.Equal(t, []string{"error", "ok"}, []string{r.Nodes[0].Attempts[0].Outcome, r.Nodes[0].Attempts[1].Outcome})
	s.add("[0]", "n0", &journal.NodeFailed{Err: refusal, Attempts: 2})
	s.add("[0]", "n0", &journal.NodeCommitted{Value: oneRef, CapID: "a/two", Attempt: 1})
	assert.Equal(t, "committed", journal.NewReport(s.records).Nodes[0].State, "a later commit takes the failure back")
}

// Of the plans recorded at a path the newest defines the nodes.
func TestNewestPlanAtAPath(t *testing.T) {
	s := (&story{}).plans("[]", "request", `{:nodes [{:op :call :as :old}]}`)
	s.starts("[0]", "n0", 1, "a/one")
	s.plans("[]", "request", `{:nodes [{:op :call :as :new}]}`)
	first, _ := journal.Transcript(s.records).Nth(0)
	assert.Equal(t, ":new", first.Key("as").String())
	s.add("[0]", "n0", &journal.NodeCommitted{Value: oneRef, As: "said", Attempt: 1})
	first, _ = journal.Transcript(s.records).Nth(0)
	assert.Equal(t, ":said", first.Key("as").String(), "a commit says it itself")
	for _, path := range []string{"[]", `["x"]`, `["x" 0]`, `["i0" 0]`, "[7]", "[0 1 0]"} {
		alone := (&story{}).plans("[]", "request", `{:nodes [{:op :call :as :new}]}`).starts(path, "n", 1, "a/one")
		first, _ := journal.Transcript(alone.records).Nth(0)
		assert.Equal(t, path == `["i0" 0]`, first.HasKey("as"), "%s: no recorded plan has it, but for an item of a map", path)
	}
}

// Below returns the records below a path, without those of the path itself.
func TestBelow(t *testing.T) {
	var got []string
	for _, rec := range journal.Below(nested(), edn.MustRead(`[0 "a1"]`)) {
		got = append(got, rec.Path.String())
	}
	assert.Len(t, got, 9)
	for _, path := range got {
		assert.Contains(t, []string{`[0 "a1" 0]`, `[0 "a1" 1]`, `[0 "a1" 1 "a1" 0]`}, path)
	}
	assert.Empty(t, journal.Below(nested(), edn.MustRead("[9]")))
	assert.NotEmpty(t, journal.Below(nested(), edn.MustRead("[]")))
	for _, rec := range journal.Below(nested(), edn.MustRead("[]")) {
		assert.Positive(t, rec.Path.Len(), "not those of the run itself")
	}
}

// The event of each kind of record, with its details.
func TestEvents(t *testing.T) {
	type event struct{ name, details string }
	want := map[journal.Kind]event{
		journal.KindRunAccepted: {"accepted", `{:deadline-at #inst "1970-01-01T00:00:09.000Z" :intent :a/b
			:operation :act/run :queue/class :sync}`},
		journal.KindRunStarted:   {"started", `{:host "h"}`},
		journal.KindPlanResolved: {"resolved", `{:attempt 2 :cap/id :a/one :nodes 0 :source :answer}`},
		journal.KindNodeResolved: {"resolved", `{:candidates [:a/one :a/two] :intent :a/b :op :call
			:stream :first-token :tool/id :a/tool
			:rejected [{:cap/id :a/three :figures {:p95-ms 7} :reason :runtime/not-ready :why :provider/not-configured}
			{:cap/id :a/four :reason :runtime/not-ready}]}`},
		journal.KindNodeSkipped: {"skipped", `{:op :map}`},
		journal.KindAttemptStarted: {"attempt", `{:attempt 2 :cap/id :a/one :enforcement :port-only :generation
			4 :state :started}`},
		journal.KindAttemptChunk:     {"provisional", `{:attempt 2 :chunk 3 :text "1"}`},
		journal.KindAttemptRetracted: {"retract", `{:attempt 2 :reason :race/lost}`},
		journal.KindAttemptFinished: {"attempt", `{:attempt 2 :failure/type :provider/error :latency-ms 7 :message
			"no" :outcome :error
			:state :finished :usage {:tokens-in 1}}`},
		journal.KindGateVerdict: {"gate", `{:attempt 2 :cap/id :a/judge :gate :good :memo? true :pass true :score
			1M :severity :should
			:votes [0.5M 1M]}`},
		journal.KindNodeCommitted: {"commit", `{:as :x :attempt 2 :cap/id :a/one :failure/type :runtime/crashed
			:score 0M}`},
		journal.KindNodeFailed: {"failed", `{:failure/type :provider/error :message "no"}`},
		journal.KindInterruptOpened: {"interrupt", `{:attempt 1 :deadline-at #inst "1970-01-01T00:00:09.000Z" :interrupt "0-1-1"
			:on-deadline :default :question 1 :schema :a/b :state :opened}`},
		journal.KindInterruptAnswered: {"interrupt", `{:by "uid/7" :interrupt "0-1-1" :state :answered}`},
		journal.KindCancelRequested:   {"cancel", `{:by "uid/7" :why "enough"}`},
		journal.KindRunSuspended:      {"suspended", `{:open 1 :why :effects/outcome-unknown}`},
		journal.KindRunFinished: {"finished", `{:failure/type :provider/error :latency-ms 7 :message "no"
			:status :failed}`},
		journal.KindHostEvent: {"quality", `{:cap/id :a/one :intent :a/b :to :a/two :what :quality/swap}`},
	}
	for _, w := range wholes() {
		kind := w.body.Kind()
		rec := record(w.body)
		e, ok := journal.Progress(rec)
		require.Equal(t, want[kind].name != "", ok, kind)
		if !ok {
			continue
		}
		assert.Equal(t, want[kind].name, e.Name, kind)
		got := e.Value()
		assert.Equal(t, kind == journal.KindAttemptChunk, e.Shown(), kind)
		assert.Equal(t, `"run_x" 1`, got.Key("run").String()+" "+got.Key("seq").String(), kind)
		assert.Equal(t, ":"+e.Name, got.Key("event").String(), kind)
		_, alone := map[journal.Kind]bool{
			journal.KindRunAccepted: true, journal.KindRunStarted: true, journal.KindCancelRequested: true,
			journal.KindRunSuspended: true, journal.KindRunFinished: true, journal.KindHostEvent: true,
		}[kind]
		assert.Equal(t, !alone, got.HasKey("path"), kind)
		for _, key := range []string{"event", "run", "seq", "at", "path", "node"} {
			got = got.Dissoc(edn.K(key))
		}
		assert.Equal(t, edn.MustRead(want[kind].details).String(), got.String(), kind)
		assert.Equal(t, kind == journal.KindRunFinished, !e.Response.IsNil(), kind)
	}
	for _, purged := range []bool{false, true} { // JRN-061
		body := &journal.AttemptChunk{Visible: "chunk", Value: journal.RefTo(edn.Text("so"))}
		if purged {
			body.Value = journal.RefTo(edn.Nil())
		}
		chunk, _ := journal.Progress(record(body))
		assert.True(t, chunk.Shown())
		assert.Equal(t, purged, chunk.Erased())
	}
	plan, _ := journal.Progress(record(&journal.PlanResolved{Plan: journal.RefTo(edn.MustRead(`{:nodes [1
			2]}`)), Source: "request"}))
	assert.Equal(t, "2", plan.Details.Key("nodes").String())
}

// The event of a judge has its grade, its votes, and its first finding.
func TestEventsOfJudges(t *testing.T) {
	verdict := &journal.GateVerdict{
		Attempt:  1,
		Gate:     "g",
		Severity: "must",
		Tier:     3,
		Findings: journal.RefTo(edn.MustRead(`[{:message "no"} {:message "never"}]`)),
	}
	e, _ := journal.Progress(record(verdict))
	assert.Equal(t, `{:gate :g :message "no" :pass false :severity :must}`, e.Details.String())
	verdict.Votes, verdict.Score = []edn.Value{edn.Int(1)}, journal.ScoreOf(500)
	e, _ = journal.Progress(record(verdict))
	assert.Equal(t, `{:gate :g :message "no" :pass false :score 0.5M :severity :must :votes [1]}`, e.Details.String())
	verdict.Tier = 2
	e, _ = journal.Progress(record(verdict))
	assert.Equal(t, `{:gate :g :pass false :severity :must}`, e.Details.String())
}

// RUN-042: a watcher receives the events of a run in order, those of attempts
// with their capability, until the run is over or the watcher stops.
func TestWatch(t *testing.T) {
	m := journal.NewMemory()
	records := append(nested(), at(len(nested())+1, samples()[journal.KindRunFinished]))
	for _, rec := range records {
		require.NoError(t, m.Append(t.Context(), rec))
	}
	var seen []string
	watch := func(n int) error {
		seen = nil
		return journal.Watch(t.Context(), m.Follow("run_x", 0), func(e journal.Event) bool {
			seen = append(seen, e.Name+" "+e.CapID)
			return len(seen) < n
		})
	}
	require.NoError(t, watch(1000))
	assert.Len(t, seen, len(records))
	assert.Equal(t, []string{
		"accepted ", "resolved ", "resolved ", "attempt a/planner", "attempt a/planner", "resolved a/planner",
	}, seen[:6])
	assert.Equal(t, "attempt a/one", seen[8], "the end of an attempt names whom it asked")
	assert.Equal(t, "finished ", seen[len(seen)-1])
	require.NoError(t, watch(2))
	assert.Len(t, seen, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, journal.Watch(ctx, m.Follow("run_y", 0), func(journal.Event) bool { return true }), context.Canceled)
}

// Runs of any length keep their records and the values that they refer to.
func TestLongRuns(t *testing.T) {
	for _, n := range []int{1, 9, 10, 11, 31, 32, 33, 64, 65, 100} {
		m := journal.NewMemory()
		c := m.Follow("run_x", 0)
		late := m.Follow("run_x", n-1)
		for i := 1; i <= n; i++ {
			require.NoError(t, m.Append(t.Context(), at(i, &journal.NodeCommitted{Value: journal.RefTo(edn.Int(int64(i)))})))
		}
		all := recordsOf(t, m, "run_x")
		require.Len(t, all, n)
		for i, rec := range all {
			require.Equal(t, i+1, rec.Seq)
			got, ok, err := c.Next(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, i+1, got.Seq)
			v, ok := m.Get("run_x", edn.Hash(edn.Int(int64(i+1))))
			require.True(t, ok)
			require.Equal(t, edn.Int(int64(i+1)).String(), v.String())
		}
		got, ok, err := late.Next(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, n, got.Seq)
	}
	m := journal.NewMemory()
	require.Error(t, m.Append(t.Context(), journal.Record{Run: "run_x", Seq: 1}), "no kind")
	assert.Empty(t, recordsOf(t, m, "run_x"))
	gone, ok := m.Get("run_x", someHash)
	assert.False(t, ok)
	assert.True(t, gone.IsNil())
}

// Every value that a record refers to is available by its hash.
func TestValuesOfRecords(t *testing.T) {
	for kind, want := range map[journal.Kind]int{
		journal.KindRunAccepted: 1, journal.KindPlanResolved: 2,
		journal.KindAttemptStarted: 1, journal.KindAttemptFinished: 2,
		journal.KindGateVerdict: 1, journal.KindNodeCommitted: 1, journal.KindNodeFailed: 1, journal.KindRunFinished: 1,
		journal.KindRunStarted: 0, journal.KindBudgetReserved: 0, journal.KindHostEvent: 0,
	} {
		for _, w := range wholes() {
			if w.body.Kind() != kind {
				continue
			}
			m := journal.NewMemory()
			require.NoError(t, m.Append(t.Context(), record(w.body)))
			found := 0
			for _, v := range []edn.Value{edn.Int(1), edn.Int(2)} {
				if _, ok := m.Get("run_x", edn.Hash(v)); ok {
					found++
				}
			}
			assert.Equal(t, want, found, kind)
		}
	}
}

// A name that is not a keyword stays a string, which the schema of the kind
// rejects.
func TestBadKeyword(t *testing.T) {
	assert.Equal(t, `"not a keyword"`, journal.Keyword("not a keyword").String())
	assert.Equal(t, `:a/b`, journal.Keyword("a/b").String())
}

// The error of a plan answer is that of a node of this plan, not of a
// succeeded node, of a sibling plan, or of a deeper node.
func TestFailureOfAPlanAnswer(t *testing.T) {
	s := (&story{}).starts("[1]", "n1", 1, "a/planner").answers("[1]", "n1", 1, "plan", `{}`)
	s.plans(`[1 "a1"]`, "answer", `{:nodes [{:op :call} {:op :call} {:op :call}]}`)
	s.add(`[0 "a1" 0]`, "x", &journal.NodeFailed{Err: failure("provider/refused", "beside"), Attempts: 1})
	s.add(`[1 "a1" 0]`, "p0", &journal.NodeCommitted{Value: oneRef})
	s.add(`[1 "a1" 2]`, "p2", &journal.NodeFailed{Err: failure("provider/error", "third"), Attempts: 1})
	s.add(`[1 "a1" 1]`, "p1", &journal.NodeFailed{Err: failure("provider/empty", "second"), Attempts: 1})
	first, _ := journal.Transcript(s.records).Nth(0)
	assert.Equal(t, ":provider/empty", first.Key("failure/type").String())
	well := (&story{}).starts("[1]", "n1", 1, "a/planner").answers("[1]", "n1", 1, "plan", `{}`)
	well.plans(`[1 "a1"]`, "answer", `{:nodes [{:op :call}]}`)
	well.add(`[1 "a1" 0]`, "p0", &journal.NodeCommitted{Value: oneRef})
	first, _ = journal.Transcript(well.records).Nth(0)
	assert.False(t, first.HasKey("failure/type"), "its gates have not judged it yet")
	assert.Equal(t, "true", first.Key("plan/run").Key("ok?").String())
}

// A record belongs to the node at its path, however many nodes run
// concurrently.
func TestManyNodesAtOnce(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 10, 30} {
		s := &story{}
		place := func(i int) (path, node string) { return fmt.Sprintf("[%d]", i), fmt.Sprintf("n%d", i) }
		for i := range n {
			path, node := place(i)
			s.starts(path, node, 1, "a/one")
		}
		for i := range n {
			path, node := place(i)
			s.answers(path, node, 1, "value", `{:tokens-in 1}`)
		}
		r := journal.NewReport(s.records)
		require.Len(t, r.Nodes, n)
		for _, node := range r.Nodes {
			require.Len(t, node.Attempts, 1, "%d nodes", n)
			require.Equal(t, "ok", node.Attempts[0].Outcome, "%d nodes", n)
		}
		usage := journal.NewAccount(s.records).Usage().Key("by-capability").Key("a/one")
		assert.Equal(t, fmt.Sprintf("{:calls %d :tokens-in %d}", n, n), usage.String())
	}
}

// An unfinished attempt counts as one, and as neither answered nor failed; a
// node committed after one attempt has succeeded.
func TestAccountOfACutRun(t *testing.T) {
	s := (&story{}).starts("[0]", "n0", 1, "a/one").answers("[0]", "n0", 1, "value", `{:tokens-in 1}`)
	s.add("[0]", "n0", &journal.NodeCommitted{Value: oneRef, CapID: "a/one", Attempt: 1})
	s.starts("[1]", "n1", 1, "a/one")
	a := journal.NewAccount(s.records)
	assert.Equal(t, `{:answered 1 :failed 0 :tokens-in 1 :total 2}`, a.Totals().Key("attempts").String())
	assert.Equal(t, int64(1), count(a.PlanRun(nil), "calls/succeeded"))
	second, _ := a.PlanRun(nil).Key("timings").Nth(1)
	assert.Equal(t, `{:attempt 1 :cap/id :a/one :node "n1" :path [1]}`, second.String())
}

// The gates of a report are those of the last judged attempt.
func TestGatesOfTheLastJudgedAttempt(t *testing.T) {
	s := (&story{}).starts("[0]", "n0", 1, "a/one").answers("[0]", "n0", 1, "value", `{}`)
	s.grades("[0]", "n0", 1, "good", false)
	s.starts("[0]", "n0", 2, "a/one").breaks("[0]", "n0", 2, refusal)
	gates := journal.NewReport(s.records).Nodes[0].Gates
	require.Len(t, gates, 1)
	assert.Equal(t, "good", gates[0].Gate)
}

// RUN-042: concurrent attempts are distinguished by their paths.
func TestWatchSideBySide(t *testing.T) {
	s := (&story{}).starts("[0]", "n0", 1, "a/one").starts("[1]", "n1", 1, "a/two").starts("[0]", "n0", 2, "a/three")
	s.answers("[0]", "n0", 1, "value", `{}`).answers("[0]", "n0", 2, "value", `{}`).answers("[1]", "n1", 1, "value", `{}`)
	m := journal.NewMemory()
	for _, rec := range s.records {
		require.NoError(t, m.Append(t.Context(), rec))
	}
	var seen []string
	require.NoError(t, journal.Watch(t.Context(), m.Follow("run_x", 3), func(e journal.Event) bool {
		seen = append(seen, e.CapID)
		return len(seen) < 3
	}))
	assert.Equal(t, []string{"", "", ""}, seen, "a watcher that begins later does not know whom they asked")
	seen = nil
	require.NoError(t, journal.Watch(t.Context(), m.Follow("run_x", 0), func(e journal.Event) bool {
		seen = append(seen, e.CapID)
		return len(seen) < 6
	}))
	assert.Equal(t, []string{"a/one", "a/two", "a/three", "a/one", "a/three", "a/two"}, seen)
}
