package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// grader returns a capability that grades.
func grader(id, more string) string {
	return `{:cap/id :` + id + ` :cap/kind :judge :cap/intents #{:eval/grade} :io/in-schema :req/eval :io/out-schema :res/eval ` + more + `}`
}

// calibrations are the known calibrations of judges.
type calibrations map[string]calibration.Weight

func (c calibrations) Weight(judge string) calibration.Weight { return c[judge] }

var calibrated = calibrations{"grader": {Standing: calibration.Believed, Agrees: true}}

type judgeWorld struct {
	judge registry.Judge
	caps  []string
	cal   dispatch.Calibrations
	anew  bool // without a cache
}

func (c judgeWorld) world(t testing.TB) *dispatchtest.World {
	j := c.judge
	j.Name, j.Intent, j.Enabled, j.Memo = "grader", registry.IntentGrade, !c.judge.Enabled, !c.anew
	if j.Votes == 0 {
		j.Votes = 3
	}
	j.MaxAttempts, j.ScorePath, j.MinKappa = max(1, j.MaxAttempts), []string{"score"}, 0.4
	if c.caps == nil {
		c.caps = []string{grader("t/grader", "")}
	}
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: append(caps(":cap/model \"m-1\" :cap/family \"alpha\"", ""), c.caps...), Judges: []registry.Judge{j}})
	w.Dispatcher.Calibrations = c.cal
	if c.cal == nil {
		w.Dispatcher.Calibrations = calibrated
	}
	w.Dispatcher.Grades, w.Dispatcher.Stats = dispatch.NewGrades(8), &stats.Table{}
	return w
}

// by returns a layer with a judge.
func by(severity, least string) policy.Layer {
	l := policy.Layer{Judge: policy.Of("grader", here), JudgeSeverity: policy.Of(severity, here)}
	if least != "" {
		l.ScoreMin = policy.Of(edn.MustRead(least), here)
	}
	return l
}

func score(s string) dispatchtest.Step {
	return dispatchtest.Step{Value: edn.MustRead(`{:score ` + s + `}`), Usage: edn.MustRead(`{:tokens-out 3 :cost-usd 0.001M}`)}
}

// GATE-004, GATE-008, JDG-004, JDG-008: when the judge is asked, what it costs,
// and the effect of its grades.
func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name     string
		severity string
		least    string
		layer    policy.Layer
		scores   []string
		votes    string
		score    string // of the answer
		failure  string
	}{
		{"a good grade", "should", "0.8M", policy.Layer{}, []string{"0.9"}, "[0.9M]", "0.95M", ""},
		{"it enters the mean", "should", "0.8M", policy.Layer{}, []string{"0.5995"}, "", "0.8M", ""},
		{"the mean is too little", "should", "0.9M", policy.Layer{}, []string{"0.5", "0.6", "0.9"}, "[0.5M 0.6M]", "0.775M", "eval/low-score"},
		{"others outvote the first", "must", "0.8M", policy.Layer{}, []string{"0.5", "0.9", "0.95"}, "[0.5M 0.9M 0.95M]", "0.95M", ""},
		{"others agree with it", "must", "0.8M", policy.Layer{}, []string{"0.5", "0.9", "0.7"}, "[0.5M 0.9M 0.7M]", "0.85M", "eval/must-failed"},
		{"two fails are enough", "must", "0.8M", policy.Layer{}, []string{"0.5", "0.7", "1"}, "[0.5M 0.7M]", "0.8M", "eval/must-failed"},
		{"nothing to reach", "must", "", policy.Layer{}, []string{"0"}, "[0M]", "0.5M", ""},
		{"no grade could be enough", "should", "0.8M", policy.Layer{Should: policy.NamesOf(here, "never", "schema-valid")}, []string{"1"}, "none", "0.0M", "eval/low-score"},
		{"a must has failed", "should", "0.8M", policy.Layer{Must: policy.NamesOf(here, "never")}, []string{"1"}, "none", "", "eval/must-failed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := judgeWorld{}.world(t)
			w.On("t/a", out(`{:text "x"}`))
			for _, s := range row.scores {
				w.On("t/grader", score(s))
			}
			r := serve(t, w, order{layer: policy.Merge(by(row.severity, row.least), row.layer)})
			assert.Equal(t, row.failure, r.failure())
			v := r.verdicts(t)["judge/grader"]
			if row.votes == "none" {
				assert.Nil(t, v)
				assert.Equal(t, []string{"t/a"}, w.Dispatched())
				return
			}
			require.NotNil(t, v)
			assert.Equal(t, 3, v.Tier)
			assert.Equal(t, row.severity, v.Severity)
			assert.Equal(t, []string{"t/grader", "1.0.0"}, []string{v.CapID, v.CapVersion})
			assert.Equal(t, len(w.Calls())-1, v.JudgeCalls)
			assert.Equal(t, len(v.Votes), v.JudgeCalls)
			if row.votes != "" {
				assert.Equal(t, row.votes, edn.Vector(v.Votes...).String())
			}
			assert.Equal(t, fmt.Sprint(3*v.JudgeCalls), v.Usage.Key("tokens-out").String(), "the usage of all votes")
			assert.Equal(t, row.score, r.Verdict.Score.Value().String())
			if row.failure == "" {
				return
			}
			require.NotNil(t, r.Err)
			assert.Contains(t, r.Err.Message, "refused by :judge/grader: judge grader (:t/grader) gave ")
			assert.Contains(t, r.Err.Message, ", expected at least ")
		})
	}
}

// GATE-004: a grade counts once in the mean, not as one of the should checks.
func TestGradeAmongShoulds(t *testing.T) {
	w := judgeWorld{}.world(t)
	w.On("t/a", out(`{:text "x"}`))
	w.On("t/grader", score("0.95"))
	r := serve(t, w, order{layer: policy.Merge(by("should", "0.4M"), policy.Layer{Should: policy.NamesOf(here, "never", "schema-valid")})})
	require.Nil(t, r.Err)
	assert.Equal(t, quality.Score(475), r.Verdict.Score, "none of one should, and the grade")
	checks := r.Verdict.Value().Key("checks")
	last, _ := checks.Nth(checks.Len() - 1)
	assert.Equal(t, `{:gate :judge/grader :pass true :score 0.95M :severity :should}`, last.String())
}

// JDG-001: the input of a judge: task, answer, rubric, and the names that it
// must hide.
func TestJudgeInput(t *testing.T) {
	rubric := edn.MustRead(`{:id :rubric/answer :version 1 :scale [0 10] :criteria [{:id :a :weight 1 :ask "?"}]}`)
	w := judgeWorld{judge: registry.Judge{Rubric: rubric}}.world(t)
	w.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "x"}`), Meta: edn.MustRead(`{:provider {:name "p" :model "m-1" :model/served "m-1-2026"}}`)})
	w.On("t/grader", score("0.1"), score("0.2"))
	layer := by("must", "0.8M")
	layer.Constraints = policy.FieldsOf(edn.MustRead(`{:language :en}`), here)
	r := serve(t, w, order{layer: layer, stack: []string{"t/outer"}})
	require.NotNil(t, r.Err)
	calls := w.Calls()
	require.Len(t, calls, 3)
	first, second := calls[1].Request.Key("input"), calls[2].Request.Key("input")
	assert.Equal(t, `{:constraints {:language :en} :input {:prompt "p"} :intent :text/respond}`, first.Key("task/call").String())
	assert.Equal(t, `{:text "x"}`, first.Key("task/result").String())
	assert.Equal(t, `{}`, first.Key("task/done").String())
	assert.Equal(t, `{}`, first.Key("task/env").String())
	assert.True(t, edn.Equal(rubric, first.Key("rubric")))
	about := first.Key("judge")
	assert.Equal(t, `{:cap/id :t/a :family "alpha" :model "m-1" :names ["t/a" "m-1" "m-1-2026"]}`, about.Key("author").String())
	assert.Equal(t, `[0 10]`, about.Key("scale").String())
	assert.Equal(t, `[:score]`, about.Key("score-path").String())
	assert.Equal(t, `false`, about.Key("allow-same-family?").String())
	assert.Equal(t, `nil`, about.Key("intent").String(), "JDG-001: the plugin decides which intent it calls")
	assert.Equal(t, []string{"0", "1"}, []string{about.Key("sample").String(), second.Key("judge").Key("sample").String()})
	assert.False(t, edn.Equal(about.Key("seed"), second.Key("judge").Key("seed")), "each vote has another seed")
	assert.Equal(t, `:eval/grade`, calls[1].Request.Key("task").Key("intent").String())
	assert.Equal(t, []string{"t/outer", "t/a"}, calls[1].Stack)
	assert.Equal(t, calls[0].Trace, calls[1].Trace)
	again := judgeWorld{judge: registry.Judge{Rubric: rubric}}.world(t)
	again.On("t/a", out(`{:text "x"}`)).On("t/grader", score("0.1"), score("0.2"))
	serve(t, again, order{layer: layer})
	assert.True(t, edn.Equal(about.Key("seed"), again.Calls()[1].Request.Key("input").Key("judge").Key("seed")), "DET-001: the same run draws the same seeds")
}

// JDG-003: a custom judge may answer on its own scale.
func TestForeignJudge(t *testing.T) {
	foreign := `{:cap/id :t/grader :cap/kind :judge :cap/intents #{:eval/grade} :io/in-schema :req/any :io/out-schema :res/any}`
	rubric := edn.MustRead(`{:id :rubric/answer :version 1 :scale [0 10]}`)
	for text, want := range map[string]string{`{:score 8}`: "[0.8M]", `{:text "{\"score\": 8.5}"}`: "[0.85M]", `{:grade/score "9/10"}`: "[0.9M]"} {
		w := judgeWorld{judge: registry.Judge{Rubric: rubric}, caps: []string{foreign}}.world(t)
		w.On("t/a", out(`{:text "x"}`)).On("t/grader", out(text))
		r := serve(t, w, order{layer: by("must", "0.8M")})
		require.Nil(t, r.Err, text)
		assert.Equal(t, want, edn.Vector(r.verdicts(t)["judge/grader"].Votes...).String())
	}
}

// JDG-005: a judge without a grade is a finding that counts, fails the node, or
// is visibly ignored.
func TestJudgeFails(t *testing.T) {
	for _, row := range []struct {
		name     string
		judge    registry.Judge
		severity string
		least    string
		step     dispatchtest.Step
		failure  string
		cause    string
		calls    int
	}{
		{"it counts as a check that fails", registry.Judge{}, "should", "0.5M", fails("provider/timeout"), "eval/low-score", "provider/timeout", 1},
		{"nothing to reach", registry.Judge{}, "should", "", fails("provider/timeout"), "", "provider/timeout", 1},
		{"a must", registry.Judge{}, "must", "0.5M", fails("provider/timeout"), "judge/failed", "provider/timeout", 1},
		{"ignored", registry.Judge{IgnoreErrors: true}, "must", "0.5M", fails("provider/timeout"), "", "provider/timeout", 1},
		{"no score", registry.Judge{}, "must", "0.5M", out(`{:violations #{}}`), "judge/failed", "judge/no-score", 1},
		{"two scores", registry.Judge{}, "must", "0.5M", out(`{:score 0.1 :eval/score 0.2}`), "judge/failed", "judge/ambiguous-score", 1},
		{"out of range", registry.Judge{}, "must", "0.5M", out(`{:score 8}`), "judge/failed", "judge/score-out-of-range", 1},
		{"a plan", registry.Judge{}, "must", "0.5M", dispatchtest.Step{Plan: edn.MustRead(`{:nodes []}`)}, "judge/failed", "runtime/invalid-result", 1},
		{"asked again", registry.Judge{MaxAttempts: 3}, "must", "0.5M", fails("provider/unavailable"), "judge/failed", "provider/unavailable", 3},
		{"not worth asking again", registry.Judge{MaxAttempts: 3}, "must", "0.5M", fails("judge/rubric-invalid"), "judge/failed", "judge/rubric-invalid", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := judgeWorld{judge: row.judge}.world(t)
			w.On("t/a", out(`{:text "x"}`))
			w.On("t/grader", row.step)
			r := serve(t, w, order{layer: by(row.severity, row.least)})
			assert.Equal(t, row.failure, r.failure())
			v := r.verdicts(t)["judge/grader"]
			require.NotNil(t, v)
			require.NotNil(t, v.Err)
			assert.Equal(t, row.cause, v.Err.Type)
			assert.Equal(t, row.calls, v.JudgeCalls)
			assert.Equal(t, row.judge.IgnoreErrors, v.NotApplicable)
			finding, _ := v.Findings.Value().Nth(0)
			assert.Equal(t, ":judge/failed", finding.Key("code").String())
			assert.Contains(t, finding.Key("message").String(), "judge grader gave no grade")
			if row.failure == "judge/failed" {
				assert.Equal(t, row.cause, r.Err.Cause.Type)
			}
			standing := w.Dispatcher.Stats.Standings(time.Now())
			for _, st := range standing {
				if st.CapID == "t/a" && !row.judge.IgnoreErrors {
					assert.Zero(t, st.Samples, "BRK-007: such an answer is no sample")
				}
			}
		})
	}
}

// JDG-006: no judge grades its own answer, calls within a grading are not
// graded, and grades are not graded.
func TestJudgeOfItself(t *testing.T) {
	both := `{:cap/id :t/both :cap/kind :judge :cap/intents #{:text/respond :eval/grade} :io/in-schema :req/any :io/out-schema :res/any}`
	layer := by("must", "0.8M")
	layer.Candidates = policy.Of([]string{"t/both"}, here)
	w := judgeWorld{caps: []string{both}}.world(t)
	w.On("t/both", score("0.1"))
	assert.Nil(t, serve(t, w, order{layer: layer}).Err)
	assert.Equal(t, []string{"t/both"}, w.Dispatched())

	w = judgeWorld{caps: []string{both, grader("t/grader", "")}}.world(t)
	w.On("t/both", out(`{:text "x"}`)).On("t/grader", score("0.9"))
	assert.Nil(t, serve(t, w, order{layer: layer}).Err)
	assert.Equal(t, []string{"t/both", "t/grader"}, w.Dispatched(), "the next judge")

	w = judgeWorld{}.world(t)
	w.On("t/grader", score("0.1"))
	assert.Nil(t, serve(t, w, order{layer: by("must", "0.8M"), intent: registry.IntentGrade, input: `{:task/result {}}`}).Err)
	assert.Equal(t, []string{"t/grader"}, w.Dispatched(), "its own intent")

	w = judgeWorld{}.world(t)
	w.On("t/a", out(`{:text "x"}`))
	assert.Nil(t, serve(t, w, order{layer: by("must", "0.8M"), stack: []string{"t/b", "t/grader"}}).Err)
	assert.Equal(t, []string{"t/a"}, w.Dispatched(), "what a judge asks")

	w = judgeWorld{judge: registry.Judge{Enabled: true}}.world(t) // world inverts it: the judge is disabled
	w.On("t/a", out(`{:text "x"}`))
	assert.Nil(t, serve(t, w, order{layer: by("must", "0.8M")}).Err)
	assert.Equal(t, []string{"t/a"}, w.Dispatched())
}

// JDG-009, JDG-012: no judge of the author's family is asked; the next judge is
// asked, also if one fails or declines.
func TestNextJudge(t *testing.T) {
	alpha, other := grader("t/alpha", `:cap/family "alpha"`), grader("t/other", `:cap/family "beta"`)
	for _, row := range []struct {
		name  string
		judge registry.Judge
		first *dispatchtest.Step
		caps  []string
		asked []string
		cause string
	}{
		{"of the family", registry.Judge{}, nil, []string{alpha, other}, []string{"t/a", "t/other"}, ""},
		{"only of the family", registry.Judge{}, nil, []string{alpha}, []string{"t/a"}, "judge/same-family"},
		{"allowed", registry.Judge{AllowSameFamily: true}, nil, []string{alpha, other}, []string{"t/a", "t/alpha"}, ""},
		{"says so itself", registry.Judge{AllowSameFamily: true}, ptr(fails("judge/same-family")), []string{alpha, other}, []string{"t/a", "t/alpha", "t/other"}, ""},
		{"has no model", registry.Judge{AllowSameFamily: true}, ptr(fails("unsupported/intent")), []string{alpha, other}, []string{"t/a", "t/alpha", "t/other"}, ""},
		{"crashes", registry.Judge{AllowSameFamily: true}, &dispatchtest.Step{Crash: true}, []string{alpha, other}, []string{"t/a", "t/alpha", "t/other"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := judgeWorld{judge: row.judge, caps: row.caps}.world(t)
			w.On("t/a", out(`{:text "x"}`)).On("t/other", score("0.9")).On("t/alpha", score("0.9"))
			if row.first != nil {
				w.Func("t/alpha", func(context.Context, dispatch.Call) dispatchtest.Step { return *row.first })
			}
			r := serve(t, w, order{layer: by("must", "0.8M")})
			assert.Equal(t, row.asked, w.Dispatched())
			v := r.verdicts(t)["judge/grader"]
			if row.cause == "" {
				assert.Nil(t, r.Err)
				assert.Equal(t, row.asked[len(row.asked)-1], v.CapID)
				return
			}
			assert.Equal(t, "judge/failed", r.failure())
			assert.Equal(t, row.cause, v.Err.Type)
		})
	}
}

func ptr[T any](v T) *T { return &v }

// JDG-007: equal text has one grade, also for concurrent calls: a cached grade
// needs no call to a judge (host/bench measures the time); a failed grade is
// requested again.
func TestEqualTextHasOneGrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := judgeWorld{}.world(t)
		w.On("t/a", out(`{:text "x"}`)).On("t/b", out(`{:text "x"}`))
		n := 0
		w.Func("t/grader", func(context.Context, dispatch.Call) dispatchtest.Step {
			time.Sleep(10 * time.Millisecond)
			n++
			return score(fmt.Sprintf("0.%d", 9-n))
		})
		var group sync.WaitGroup
		results := make([]served, 32)
		for i := range results {
			group.Go(func() {
				layer := by("must", "0.7M")
				if i%2 == 1 {
					layer.Candidates = policy.Of([]string{"t/b"}, here)
				}
				results[i] = serve(t, w, order{layer: layer})
			})
		}
		group.Wait()
		memo := 0
		for _, r := range results {
			v := r.verdicts(t)["judge/grader"]
			assert.Equal(t, "[0.8M]", edn.Vector(v.Votes...).String())
			if v.Memo {
				memo++
				assert.Zero(t, v.JudgeCalls)
				assert.Equal(t, "t/grader", v.CapID)
			}
		}
		assert.Equal(t, len(results)-1, memo)
		assert.Equal(t, 1, n)
		// Another task or answer is another question.
		serve(t, w, order{layer: by("must", "0.1M"), input: `{:prompt "q"}`})
		assert.Equal(t, 2, n)
		r := serve(t, w, order{layer: by("must", "0.9M")})
		assert.Equal(t, "eval/must-failed", r.failure(), "the same grade against another threshold")
		assert.Contains(t, r.Err.Message, "it has graded the same answer before")
		assert.Equal(t, 2, n)
	})

	w := judgeWorld{}.world(t)
	w.On("t/a", out(`{:text "x"}`)).On("t/grader", fails("provider/timeout"), score("0.9"))
	assert.Equal(t, "judge/failed", serve(t, w, order{layer: by("must", "0.8M")}).failure())
	assert.Nil(t, serve(t, w, order{layer: by("must", "0.8M")}).Err)

	w = judgeWorld{anew: true}.world(t)
	w.On("t/a", out(`{:text "x"}`)).On("t/grader", score("0.9"))
	serve(t, w, order{layer: by("must", "0.8M")})
	serve(t, w, order{layer: by("must", "0.8M")})
	assert.Len(t, w.Calls(), 4)
}

// JDG-007: a grade expires with everything it depends on: rubric, gates or
// constraints, version, program, configuration or prompt of the judge, the
// models and their programs, and the served model, as far as answers report it.
func TestNoGradeOutlivesWhatDecidedIt(t *testing.T) {
	const chat = `{:cap/id :t/chat :cap/kind :llm :cap/model "%s" :cap/intents #{:model/chat} :io/in-schema :req/chat :io/out-schema :res/chat :cap/version "%s"}`
	const direct = `{:cap/id :t/grader :cap/kind :llm :cap/intents #{:eval/grade} :io/in-schema :req/eval :io/out-schema :res/eval}`
	type variant struct {
		judgeWorld judgeWorld
		layer      policy.Layer
		set        func(*dispatchtest.World)
	}
	plain := func() variant {
		return variant{judgeWorld: judgeWorld{judge: registry.Judge{Rubric: edn.MustRead(`{:id :r :version 1}`)}, caps: []string{grader("t/grader", ""), fmt.Sprintf(chat, "m-1", "1.0.0")}}}
	}
	asking := func(model string) variant {
		v := plain()
		own := strings.NewReplacer("t/chat", "t/own", "#{:model/chat}", "#{:judge/ask}").Replace(chat)
		v.judgeWorld.caps = append(v.judgeWorld.caps, fmt.Sprintf(own, model, "1.0.0"))
		return v
	}
	llm := plain()
	llm.judgeWorld.caps = []string{direct}
	prompted := func(text string) func(*dispatchtest.World) {
		return func(w *dispatchtest.World) {
			w.Dispatcher.Prompts = &prompt.Book{Default: promptLayer(t, "d", text)}
		}
	}
	llm.set = prompted("Judge well.")
	edition := func(id string) func(*dispatchtest.World) {
		return func(w *dispatchtest.World) { w.SetState(id, dispatch.CapState{Ready: true, Edition: 2}) }
	}
	for name, change := range map[string]struct {
		from variant
		to   func(*variant)
		same bool
	}{
		"nothing":                 {plain(), func(*variant) {}, true},
		"rubric":                  {plain(), func(v *variant) { v.judgeWorld.judge.Rubric = edn.MustRead(`{:id :r :version 2}`) }, false},
		"votes":                   {plain(), func(v *variant) { v.judgeWorld.judge.Votes = 5 }, false},
		"version":                 {plain(), func(v *variant) { v.judgeWorld.caps[0] = grader("t/grader", `:cap/version "2.0.0"`) }, false},
		"model":                   {plain(), func(v *variant) { v.judgeWorld.caps[1] = fmt.Sprintf(chat, "m-2", "1.0.0") }, false},
		"version of the model":    {plain(), func(v *variant) { v.judgeWorld.caps[1] = fmt.Sprintf(chat, "m-1", "1.0.1") }, false},
		"another model":           {plain(), func(v *variant) { v.judgeWorld.caps = v.judgeWorld.caps[:1] }, false},
		"own model":               {asking("m-1"), func(v *variant) { *v = asking("m-2") }, false},
		"edition of an own model": {asking("m-1"), func(v *variant) { v.set = edition("t/own") }, false},
		"constraints":             {plain(), func(v *variant) { v.layer.Constraints = policy.FieldsOf(edn.MustRead(`{:language :pl}`), here) }, false},
		"demands":                 {plain(), func(v *variant) { v.layer.Should = policy.NamesOf(here, "schema-valid") }, false},
		"edition of the judge":    {plain(), func(v *variant) { v.set = edition("t/grader") }, false},
		"edition of the model":    {plain(), func(v *variant) { v.set = edition("t/chat") }, false},
		"no prompt":               {llm, func(*variant) {}, true},
		"prompt":                  {llm, func(v *variant) { v.set = prompted("Judge better.") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			grades := dispatch.NewGrades(8)
			asked := 0
			run := func(v variant) {
				w := v.judgeWorld.world(t)
				if v.set != nil {
					v.set(w)
				}
				w.Dispatcher.Grades = grades
				w.On("t/a", out(`{:text "x"}`))
				w.Func("t/grader", func(context.Context, dispatch.Call) dispatchtest.Step { asked++; return score("0.9") })
				require.Nil(t, serve(t, w, order{layer: policy.Merge(by("must", "0.8M"), v.layer)}).Err)
			}
			run(change.from)
			run(change.from)
			require.Equal(t, 1, asked, "the same question is asked once")
			v := change.from
			v.judgeWorld.caps = slices.Clone(v.judgeWorld.caps)
			change.to(&v)
			run(v)
			assert.Equal(t, change.same, asked == 1)
		})
	}
}

// JDG-007: a server may change the model behind a name. Once an answer reports
// it, answers graded by the former model are graded again, and votes of two
// models are not cached.
func TestAnotherModelUnderTheSameName(t *testing.T) {
	w := judgeWorld{}.world(t)
	w.On("t/a", out(`{:text "x"}`))
	served, asked := "m-1", 0
	value := "0.9"
	w.Func("t/grader", func(context.Context, dispatch.Call) dispatchtest.Step {
		asked++
		if served == "any" {
			return out(fmt.Sprintf(`{:score 0.7 :judge {:model "m-%d"}}`, asked))
		}
		return out(`{:score ` + value + ` :judge {:model "` + served + `"}}`)
	})
	ask := func(question string) graded {
		r := serve(t, w, order{layer: by("should", "0.8M"), input: `{:prompt "` + question + `"}`})
		return graded{edn.Vector(r.verdicts(t)["judge/grader"].Votes...).String(), asked}
	}
	assert.Equal(t, graded{"[0.9M]", 1}, ask("1"))
	assert.Equal(t, graded{"[0.9M]", 1}, ask("1"))
	served, value = "m-2", "0.85"
	assert.Equal(t, graded{"[0.9M]", 1}, ask("1"), "no answer has reported another model yet")
	assert.Equal(t, graded{"[0.85M]", 2}, ask("2"))
	assert.Equal(t, graded{"[0.85M]", 3}, ask("1"), "what m-1 graded is graded again")
	assert.Equal(t, graded{"[0.85M]", 3}, ask("1"))
	assert.Equal(t, graded{"[0.85M]", 3}, ask("2"))
	served = "any"
	assert.Equal(t, graded{"[0.7M 0.7M]", 5}, ask("3"))
	assert.Equal(t, graded{"[0.7M 0.7M]", 7}, ask("3"), "two models gave the votes")
}

// graded is the result of a call: the votes on its answer, and the number of
// calls to the judge until then.
type graded struct {
	votes string
	asked int
}

// JDG-008, BUD-005: each vote is reserved and settled in the judge budget;
// without further budget the first vote counts, and without any the judge
// fails.
func TestVotesArePaidFor(t *testing.T) {
	for _, row := range []struct {
		limits  string
		votes   string
		failure string
		says    string
	}{
		{`{:max-judge-calls 3}`, "[0.5M 0.9M 0.6M]", "eval/must-failed", "gave 0.6"},
		{`{:max-judge-calls 2}`, "[0.5M 0.9M]", "eval/must-failed", "the first vote decides"},
		{`{:max-judge-calls 1}`, "[0.5M]", "eval/must-failed", "the first vote decides"},
		{`{:max-attempts 1}`, "[0.5M 0.9M 0.6M]", "eval/must-failed", "gave 0.6"},
		{`{:max-usd 0.003M}`, "[0.5M]", "eval/must-failed", "the first vote decides"},
		{`{:max-usd 0.001M}`, "", "budget/exceeded", ""},
	} {
		t.Run(row.limits, func(t *testing.T) {
			w := judgeWorld{caps: []string{grader("t/grader", ":cap/cost {:usd 0.002M}")}}.world(t)
			for _, id := range []string{"t/a", "t/b"} {
				c, _ := w.Registry.Capability(id)
				c.Cost.USD = edn.Int(0)
			}
			w.On("t/a", out(`{:text "x"}`))
			w.On("t/grader", dispatchtest.Step{Value: edn.MustRead(`{:score 0.5}`)}, dispatchtest.Step{Value: edn.MustRead(`{:score 0.9}`)}, dispatchtest.Step{Value: edn.MustRead(`{:score 0.6}`)})
			r := serve(t, w, order{layer: by("must", "0.8M"), limits: row.limits})
			assert.Equal(t, row.failure, r.failure())
			v := r.verdicts(t)["judge/grader"]
			if row.votes == "" {
				assert.Empty(t, v.Votes)
				assert.Equal(t, "budget/exceeded", v.Err.Type)
				return
			}
			assert.Equal(t, row.votes, edn.Vector(v.Votes...).String())
			assert.Contains(t, r.Err.Message, row.says)
			reserved, settled := 0, 0
			for _, rec := range r.records {
				switch b := rec.Body.(type) {
				case *journal.BudgetReserved:
					if b.For == "vote" {
						reserved++
						assert.Equal(t, "judge/grader", b.Gate)
						assert.Equal(t, "1", b.Amount.Key("judge-calls").String())
					}
				case *journal.BudgetSettled:
					if b.Of.For == "vote" {
						settled++
					}
				}
			}
			assert.Equal(t, len(v.Votes), reserved)
			assert.Equal(t, reserved, settled)
		})
	}
}

// JDG-011: a judge without a calibration, with too little agreement, or with
// another capability than the measured one refuses nothing by itself.
func TestUncalibratedJudge(t *testing.T) {
	key := "b3:" + fmt.Sprintf("%064d", 7)
	for name, row := range map[string]struct {
		cal  dispatch.Calibrations
		must bool
		why  string
	}{
		"measured":       {calibrations{"grader": {Standing: calibration.Believed, Agrees: true}}, true, ""},
		"the same":       {calibrations{"grader": {Standing: calibration.Believed, Agrees: true, CapID: "t/grader", Key: key}}, true, ""},
		"expired":        {calibrations{"grader": {Standing: calibration.Expired, Agrees: true, CapID: "t/grader"}}, false, "has expired"},
		"never":          {calibrations{}, false, "was not calibrated"},
		"another judge":  {calibrations{"other": {Standing: calibration.Believed, Agrees: true}}, false, "was not calibrated"},
		"drifted, weak":  {calibrations{"grader": {Standing: calibration.Drifted, CapID: "t/x"}}, false, "was calibrated with :t/x"},
		"too little":     {calibrations{"grader": {Standing: calibration.Weak}}, false, "agrees too little"},
		"other capacity": {calibrations{"grader": {Standing: calibration.Believed, Agrees: true, CapID: "t/x"}}, false, "was calibrated with :t/x"},
		"another key":    {calibrations{"grader": {Standing: calibration.Believed, Agrees: true, CapID: "t/grader", Key: "b3:" + fmt.Sprintf("%064d", 8)}}, false, "has changed since"},
	} {
		t.Run(name, func(t *testing.T) {
			w := judgeWorld{cal: row.cal}.world(t)
			w.On("t/a", out(`{:text "x"}`)).On("t/grader", out(`{:score 0.7 :judge {:key "`+key+`"} :criteria {:a 0.7} :violations #{:too-long}}`))
			r := serve(t, w, order{layer: by("must", "0.8M")})
			v := r.verdicts(t)["judge/grader"]
			assert.Equal(t, key, v.JudgeKey)
			finding, _ := v.Findings.Value().Nth(0)
			assert.Contains(t, finding.Key("message").String(), "criteria {:a 0.7}; violations #{:too-long}")
			if row.must {
				assert.Equal(t, "eval/must-failed", r.failure())
				assert.Equal(t, "must", v.Severity)
				return
			}
			assert.Nil(t, r.Err, "1.0 and 0.7 are 0.85")
			assert.Equal(t, "should", v.Severity)
			assert.False(t, v.Pass)
			assert.Contains(t, finding.Key("message").String(), "it only counts in the score, because ")
			assert.Contains(t, finding.Key("message").String(), row.why)
		})
	}
}

// JDG-005, JDG-011: a judge that agrees no better than chance is not asked and
// has no weight, also as must; a grade without a calibration counts in the
// score, and not at all where errors of the judge are ignored.
func TestWeightOfAJudge(t *testing.T) {
	worthless := calibrations{"grader": {Standing: calibration.Worthless, Agrees: true, Reason: "it follows the length"}}
	for name, row := range map[string]struct {
		cal    dispatch.Calibrations
		judge  registry.Judge
		asked  int
		counts bool
		score  string
	}{
		"measured":                     {calibrated, registry.Judge{Votes: 1}, 1, true, "0.85M"},
		"measured, ignored":            {calibrated, registry.Judge{Votes: 1, IgnoreErrors: true}, 1, true, "0.85M"},
		"no better than chance":        {worthless, registry.Judge{Votes: 1}, 0, false, "1M"},
		"no better, ignored":           {worthless, registry.Judge{Votes: 1, IgnoreErrors: true}, 0, false, "1M"},
		"uncalibrated":                 {calibrations{}, registry.Judge{Votes: 1}, 1, true, "0.85M"},
		"uncalibrated, ignored":        {calibrations{}, registry.Judge{Votes: 1, IgnoreErrors: true}, 1, false, "1M"},
		"needs none, ignored":          {calibrations{}, registry.Judge{Votes: 1, IgnoreErrors: true, Plain: true}, 1, true, "0.85M"},
		"measured with other, ignored": {calibrations{"grader": {Standing: calibration.Believed, Agrees: true, CapID: "t/x"}}, registry.Judge{Votes: 1, IgnoreErrors: true}, 1, false, "1M"},
	} {
		for _, severity := range []string{"should", "must"} {
			t.Run(name+" "+severity, func(t *testing.T) {
				w := judgeWorld{cal: row.cal, judge: row.judge}.world(t)
				w.On("t/a", out(`{:text "x"}`)).On("t/grader", score("0.7"))
				r := serve(t, w, order{layer: by(severity, "0.8M")})
				v := r.verdicts(t)["judge/grader"]
				require.NotNil(t, v)
				assert.Equal(t, row.asked, v.JudgeCalls)
				assert.Equal(t, !row.counts, v.NotApplicable)
				if row.counts && severity == "must" && len(row.cal.(calibrations)) > 0 {
					assert.Equal(t, "eval/must-failed", r.failure())
					return
				}
				require.Nil(t, r.Err)
				assert.Equal(t, "should", v.Severity)
				assert.Equal(t, row.score, r.Verdict.Score.Value().String())
				if !row.counts {
					assert.Equal(t, 1, v.Findings.Value().Len(), "it says why")
				}
			})
		}
	}
}

// JDG-011: a drifted judge is not asked, its breaker is open, and it serves
// again after a new calibration.
func TestDriftedJudge(t *testing.T) {
	known := calibrations{"grader": {Standing: calibration.Drifted, Agrees: true, CapID: "t/grader", Reason: "kappa was 0.7 and is 0.5"}}
	w := judgeWorld{cal: known}.world(t)
	var events []string
	w.Dispatcher.Stats.Notice = func(n stats.Notice) { events = append(events, n.Event+" "+n.CapID) }
	w.On("t/a", out(`{:text "x"}`)).On("t/grader", score("0.9"))
	for range 2 {
		r := serve(t, w, order{layer: by("must", "0.8M")})
		assert.Equal(t, "judge/failed", r.failure())
		assert.Equal(t, "judge/drift", r.Err.Cause.Type)
		assert.Contains(t, r.Err.Message, "kappa was 0.7 and is 0.5")
	}
	assert.Equal(t, []string{"judge/drift t/grader"}, events)
	for _, st := range w.Dispatcher.Stats.Standings(time.Now()) {
		if st.CapID == "t/grader" {
			assert.Equal(t, "open", st.State())
		}
	}
	known["grader"] = calibration.Weight{Standing: calibration.Believed, Agrees: true, CapID: "t/grader"}
	assert.Nil(t, serve(t, w, order{layer: by("must", "0.8M")}).Err)
	assert.Equal(t, []string{"t/a", "t/a", "t/a", "t/grader"}, w.Dispatched())
}

// JDG-011: a measurement applies at once: the breaker opens and closes before
// the next answer, the next judge is asked, and verdicts on labelled answers
// continue, so that the judge can recover.
func TestBelieve(t *testing.T) {
	known := calibrations{"grader": {Standing: calibration.Believed, Agrees: true, CapID: "t/grader"}}
	w := judgeWorld{cal: known, caps: []string{grader("t/grader", ""), grader("t/next", "")}}.world(t)
	var events []string
	w.Dispatcher.Stats.Notice = func(n stats.Notice) { events = append(events, n.Event+" "+n.CapID) }
	state := func() string {
		for _, st := range w.Dispatcher.Stats.Standings(time.Now()) {
			if st.CapID == "t/grader" && st.Intent == registry.IntentGrade {
				return st.State()
			}
		}
		return "unknown"
	}
	believe := func(drift string) {
		c, _ := w.Registry.Capability("t/grader")
		known["grader"] = calibration.Weight{Standing: calibration.Believed, Agrees: true, CapID: "t/grader"}
		if drift != "" {
			known["grader"] = calibration.Weight{Standing: calibration.Drifted, Agrees: true, CapID: "t/grader", Reason: drift}
		}
		w.Dispatcher.Stats.Believe("grader", c, registry.IntentGrade, w.State("t/grader").Edition, drift, time.Now())
	}
	w.On("t/a", out(`{:text "x"}`)).On("t/grader", score("0.9")).On("t/next", score("0.85"))
	believe("")
	assert.Equal(t, "unknown", state(), "there is nothing to close")
	believe("kappa was 0.9 at first and is 0.5")
	assert.Equal(t, "open", state())
	believe("kappa was 0.9 at first and is 0.5")
	r := serve(t, w, order{layer: by("must", "0.8M")})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"t/a", "t/next"}, w.Dispatched())
	assert.Equal(t, []string{"judge/drift t/grader"}, events, "told once")

	direct := order{intent: registry.IntentGrade, input: `{:task/result {}}`, layer: policy.Layer{Candidates: policy.Of([]string{"t/grader"}, here)}}
	assert.Equal(t, "breaker/open", serve(t, w, direct).failure())
	direct.grading, direct.limits = true, "{:max-judge-calls 1}"
	r = serve(t, w, direct)
	require.Nil(t, r.Err, "a verdict on a labelled answer is asked for whatever the breaker says")
	for _, rec := range r.records {
		if b, ok := rec.Body.(*journal.BudgetReserved); ok {
			assert.Equal(t, "vote judge/anchors {:judge-calls 1}", fmt.Sprint(b.For, " ", b.Gate, " ", b.Amount), "it is counted as a vote")
		}
	}
	assert.Equal(t, "open", state())
	believe("")
	assert.Equal(t, "ok", state())
	assert.Nil(t, serve(t, w, order{layer: by("must", "0.8M"), input: `{:prompt "2"}`}).Err)
	assert.Equal(t, "t/grader", w.Dispatched()[len(w.Dispatched())-1])
}

// JDG-011: a grade of a model that the calibration did not measure refuses nothing by
// itself, also from the cache and as one of several votes, and has no weight with
// on_error = "ignore".
func TestGradesOfAnotherModel(t *testing.T) {
	vote := func(s, model string) dispatchtest.Step {
		return out(`{:score ` + s + ` :judge {:model "` + model + `"}}`)
	}
	cal := calibrations{"grader": {Standing: calibration.Believed, Agrees: true, CapID: "t/grader", Models: []string{"m-7", "m-8"}}}
	for name, row := range map[string]struct {
		judge  registry.Judge
		votes  []dispatchtest.Step
		must   bool
		counts bool
	}{
		"measured":         {registry.Judge{Votes: 1}, []dispatchtest.Step{vote("0.7", "m-8")}, true, true},
		"both measured":    {registry.Judge{}, []dispatchtest.Step{vote("0.7", "m-7"), vote("0.7", "m-8")}, true, true},
		"no model named":   {registry.Judge{Votes: 1}, []dispatchtest.Step{score("0.7")}, true, true},
		"another":          {registry.Judge{Votes: 1}, []dispatchtest.Step{vote("0.7", "m-9")}, false, true},
		"another at first": {registry.Judge{}, []dispatchtest.Step{vote("0.7", "m-9"), vote("0.7", "m-7")}, false, true},
		"another, ignored": {registry.Judge{Votes: 1, IgnoreErrors: true}, []dispatchtest.Step{vote("0.7", "m-9")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := judgeWorld{cal: cal, judge: row.judge}.world(t)
			w.On("t/a", out(`{:text "x"}`)).On("t/grader", append(row.votes, row.votes...)...)
			for range 2 { // the second grade is from the cache if one model gave all votes
				r := serve(t, w, order{layer: by("must", "0.8M")})
				v := r.verdicts(t)["judge/grader"]
				require.NotNil(t, v)
				assert.Equal(t, row.must, r.failure() == "eval/must-failed")
				assert.Equal(t, row.must, v.Severity == "must")
				assert.Equal(t, !row.counts, v.NotApplicable)
				finding, _ := v.Findings.Value().Nth(0)
				assert.Equal(t, !row.must, strings.Contains(finding.Key("message").String(), "another model than m-9"))
			}
		})
	}
}

// JDG-011: Calibrations learns which model gave each grade, however it is
// reported.
func TestServedModels(t *testing.T) {
	known := &modelObserver{calibrations: calibrated}
	w := judgeWorld{cal: known, anew: true}.world(t)
	w.On("t/a", out(`{:text "x"}`))
	w.On("t/grader",
		dispatchtest.Step{Value: edn.MustRead(`{:score 0.9 :judge {:model "m-7"}}`), Meta: edn.MustRead(`{:provider {:model/served "other"}}`)},
		dispatchtest.Step{Value: edn.MustRead(`{:score 0.9}`), Meta: edn.MustRead(`{:provider {:model/served "m-8"}}`)},
		score("0.9"))
	for range 3 {
		require.Nil(t, serve(t, w, order{layer: by("must", "0.8M")}).Err)
	}
	assert.Equal(t, []string{"grader t/grader m-7", "grader t/grader m-8"}, known.served)
}

type modelObserver struct {
	calibrations
	served []string
}

func (x *modelObserver) Served(judge, capID, model string) {
	x.served = append(x.served, judge+" "+capID+" "+model)
}

// JDG-010: Calibrations learns each grade that was given, refusing ones included,
// and not one from the cache.
func TestGradesAreReported(t *testing.T) {
	known := &gradeObserver{calibrations: calibrated}
	w := judgeWorld{cal: known}.world(t)
	w.On("t/a", out(`{:text "x"}`), out(`{:text "x"}`), out(`{:text "y"}`))
	w.On("t/grader", score("0.9"), score("0.2"))
	l := by("must", "0.8M")
	require.Nil(t, serve(t, w, order{layer: l}).Err)
	require.Nil(t, serve(t, w, order{layer: l}).Err, "cached")
	require.NotNil(t, serve(t, w, order{layer: l}).Err)
	assert.Equal(t, []quality.Score{900, 200}, known.grades)
}

type gradeObserver struct {
	calibrations
	grades []quality.Score
}

func (x *gradeObserver) Graded(_ string, _ calibration.Grader, s quality.Score) {
	x.grades = append(x.grades, s)
}

// BRK-001, BRK-007: the breaker of a judge counts its failures, and verdicts of
// a judge with an open or ramping breaker are not samples.
func TestBreakerOfAJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := judgeWorld{}.world(t)
		w.On("t/a", out(`{:text "x"}`))
		ill := true
		w.Func("t/grader", func(context.Context, dispatch.Call) dispatchtest.Step {
			if ill {
				return fails("provider/unavailable")
			}
			return score("0.9")
		})
		for range 5 {
			assert.Equal(t, "judge/failed", serve(t, w, order{layer: by("must", "0.8M")}).failure())
		}
		calls := len(w.Calls())
		r := serve(t, w, order{layer: by("must", "0.8M")})
		assert.Equal(t, "breaker/open", r.Err.Cause.Type)
		assert.Len(t, w.Calls(), calls+1, "the judge is left alone")
		samples := func() int {
			for _, st := range w.Dispatcher.Stats.Standings(time.Now()) {
				if st.CapID == "t/a" {
					return st.Samples
				}
			}
			return -1
		}
		assert.Zero(t, samples())
		ill = false
		time.Sleep(2 * time.Second)
		r = serve(t, w, order{layer: by("must", "0.8M"), input: `{:prompt "2"}`})
		assert.Nil(t, r.Err, "it is asked for a probe")
		assert.Zero(t, samples(), "and says nothing about the answer as long as it is one")
		for i := range 100 {
			serve(t, w, order{layer: by("must", "0.8M"), input: fmt.Sprintf(`{:prompt "p%d"}`, i)})
			time.Sleep(time.Second)
		}
		assert.Positive(t, samples(), "once it is wholly in again")
	})
}

// ATT-014: the grade decides a tournament, with three decimals. TestStrategies
// covers ties.
func TestTournamentOfGrades(t *testing.T) {
	for _, row := range []struct{ short, long, winner string }{
		{"0.82", "0.95", "t/b"},
		{"0.948", "0.950", "t/b"},
		{"0.9502", "0.9504", "t/a"},
	} {
		w := judgeWorld{}.world(t)
		w.On("t/a", out(`{:text "short"}`)).On("t/b", out(`{:text "long"}`))
		w.Func("t/grader", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
			if text, _ := c.Request.Key("input").Key("task/result").Key("text").AsString(); text == "long" {
				return score(row.long)
			}
			return score(row.short)
		})
		layer := by("should", "0.5M")
		layer.Strategy = policy.Of(policy.Tournament, here)
		r := serve(t, w, order{layer: layer})
		require.Nil(t, r.Err)
		assert.Equal(t, row.winner, r.CapID, "%s against %s", row.short, row.long)
		assert.Equal(t, quality.Score(975), r.Verdict.Score)
	}
}

// REP-003: a repair request holds the violations that the judge found.
func TestRepairByJudge(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("t/a", ":cap/repairs? true"), grader("t/grader", "")},
		Judges: []registry.Judge{{Name: "grader", Intent: registry.IntentGrade, Enabled: true, Votes: 1, MaxAttempts: 1, ScorePath: []string{"score"}}}})
	w.Dispatcher.Calibrations = calibrated
	w.On("t/a", out(`{:text "bad"}`), out(`{:text "good"}`))
	w.On("t/grader", out(`{:score 0.2 :violations #{:no-source}}`), out(`{:score 0.9}`))
	layer := by("must", "0.8M")
	layer.RepairMax = policy.Of(1, here)
	r := serve(t, w, order{layer: layer})
	require.Nil(t, r.Err)
	sent := w.Calls()[2].Request.Key("context").Key("repair").Key("findings").String()
	assert.Contains(t, sent, "gave 0.2, expected at least 0.8; violations #{:no-source}")
}
