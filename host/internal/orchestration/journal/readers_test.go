package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// story builds the records of a run.
type story struct{ records []journal.Record }

func (s *story) add(path, node string, body journal.Body) *story {
	rec := journal.Record{
		Run: "run_x", Seq: len(s.records) + 1, At: time.Unix(0, 0).Add(time.Duration(len(s.records)) * 10 * time.Millisecond), Epoch: 1, Node: node, Body: body,
	}
	if path != "" {
		rec.Path = edn.MustRead(path)
	}
	s.records = append(s.records, rec)
	return s
}

// failover is a run of two nodes: one that moved to its second candidate after
// a crash and a rejected answer, and one that was skipped.
func failover() []journal.Record {
	s := &story{}
	sample := samples()
	plan := edn.MustRead(`{:nodes [{:op :call :intent :a/b :as :x} {:op :call :intent :a/b}]}`)
	request := func(n int64) journal.Ref {
		return journal.RefTo(edn.MustMap(edn.K("input"), edn.MustMap(edn.K("n"), edn.Int(n))))
	}
	finding := journal.RefTo(edn.MustRead(`[{:gate :good :message "no"}]`))
	s.add("", "", sample[journal.KindRunAccepted])
	s.add("[]", "", &journal.PlanResolved{Plan: journal.RefTo(plan), Source: "request"})
	s.add("[0]", "n0", &journal.NodeResolved{Op: "call", Intent: "a/b", Policy: "declared", Strategy: "cascade", Candidates: []journal.Candidate{{CapID: "a/one"}, {CapID: "a/two"}}})
	s.add("[0]", "n0", &journal.AttemptStarted{Attempt: 1, CapID: "a/one", CapVersion: "1", Request: request(1), Recovery: "none", EffectKey: someHash})
	s.add("[0]", "n0", &journal.AttemptFinished{Attempt: 1, Outcome: "unknown", Latency: 5 * time.Millisecond, Err: contract.Errorf("runtime/crashed", "gone"), Usage: edn.MustRead(`{:tokens-in 1 :cost-usd 0.001M :cost-mark :at-least :mode :live}`)})
	s.add("[0]", "n0", &journal.AttemptStarted{Attempt: 2, CapID: "a/two", CapVersion: "1", Request: request(1), Recovery: "none", EffectKey: someHash})
	s.add("[0]", "n0", &journal.AttemptFinished{Attempt: 2, Outcome: "ok", Result: journal.RefTo(edn.MustRead(`{:result {:type :value :out {:n 1}}}`)), ResultType: "value", Usage: edn.MustRead(`{:tokens-in 2 :mode :live}`), Meta: edn.MustRead(`{:model "m"}`)})
	s.add("[0]", "n0", &journal.GateVerdict{Attempt: 2, Gate: "good", Severity: "must", Tier: 1, Findings: finding})
	s.add("[0]", "n0", &journal.AttemptStarted{Attempt: 3, CapID: "a/two", CapVersion: "1", Request: request(1), Recovery: "none", EffectKey: someHash})
	s.add("[0]", "n0", &journal.AttemptFinished{Attempt: 3, Outcome: "ok", Result: journal.RefTo(edn.MustRead(`{:result {:type :value :out {:n 2}}}`)), ResultType: "value", Usage: edn.MustRead(`{:tokens-in 3 :cost-usd 0.002M :cost-mark :exact :mode :live}`), Meta: edn.MustRead(`{:model "m"}`)})
	s.add("[0]", "n0", &journal.GateVerdict{Attempt: 3, Gate: "good", Severity: "must", Tier: 1, Pass: true, CapID: "a/judge", CapVersion: "1", Usage: edn.MustRead(`{:tokens-in 4 :mode :live}`)})
	s.add("[0]", "n0", &journal.NodeCommitted{Value: journal.RefTo(edn.Int(1)), As: "x", CapID: "a/two", Attempt: 3, Score: journal.ScoreOf(667)})
	s.add("[1]", "n1", &journal.NodeSkipped{Op: "call", When: edn.Bool(false)})
	s.add("", "", sample[journal.KindRunFinished])
	return s.records
}

// The report has calls, answers, gates, failovers and durations.
func TestReport(t *testing.T) {
	r := journal.NewReport(failover())
	assert.Equal(t, "a/b", r.Intent)
	assert.Equal(t, "completed", r.Status)
	require.Len(t, r.Nodes, 2)
	n := r.Nodes[0]
	assert.Equal(t, "a/b", n.Asked)
	assert.Equal(t, "a/two", n.Answered)
	assert.Equal(t, "committed", n.State)
	assert.True(t, n.FailedOver())
	assert.Equal(t, `{:n 1}`, n.Input.String())
	assert.Equal(t, 90*time.Millisecond, n.Latency)
	assert.Equal(t, `0.667M`, n.Score.Value().String())
	require.Len(t, n.Attempts, 3)
	assert.Equal(t, edn.MustRead(`{:attempt 1 :cap/id :a/one :outcome :unknown :failure/type :runtime/crashed :message "gone" :latency-ms 5 :cost-usd 0.001M}`).String(), n.Attempts[0].Value().String())
	assert.Equal(t, edn.MustRead(`[{:gate :good :severity :must :pass true :cap/id :a/judge}]`).String(), n.Value().Key("gates").String())
	assert.Equal(t, 3, n.Value().Key("attempts").Len())
	assert.Equal(t, "eval/must-failed", n.Attempts[1].Failure)
	assert.Empty(t, n.Attempts[2].Failure)
	assert.Equal(t, []journal.GateReport{{Gate: "good", Severity: "must", Pass: true, Applicable: true, By: "a/judge"}}, n.Gates)
	assert.Equal(t, "skipped", r.Nodes[1].State)
	assert.False(t, r.Nodes[1].FailedOver())
}

// SCHED-004: no node of a finished run is running: one that its end has cut short is
// unfinished, with the time that it took.
func TestUnfinishedNodeOfRun(t *testing.T) {
	s := &story{}
	s.add("", "", samples()[journal.KindRunAccepted])
	s.add("[0]", "n0", samples()[journal.KindNodeResolved])
	assert.Equal(t, "running", journal.NewReport(s.records).Nodes[0].State)
	s.add("", "", samples()[journal.KindRunFinished])
	node := journal.NewReport(s.records).Nodes[0]
	assert.Equal(t, "unfinished", node.State)
	assert.Equal(t, s.records[2].At.Sub(s.records[1].At), node.Latency)
	assert.Positive(t, node.Latency)
}

// RUN-022, RUN-044: a run that was reopened has its last end in every reader, and what
// failed before is not failed any more. Its open questions are those of the new epoch.
func TestReopenedReads(t *testing.T) {
	s := &story{}
	failure := contract.Errorf("provider/unavailable", "no server listens")
	s.add("", "", samples()[journal.KindRunAccepted])
	s.add("[0]", "n0", &journal.NodeFailed{Err: failure, Attempts: 1})
	s.add("[1]", "n1", &journal.NodeFailed{Err: failure, Attempts: 1})
	end := *samples()[journal.KindRunFinished].(*journal.RunFinished)
	end.Status, end.Err = journal.StatusFailed, failure
	s.add("", "", &end)
	assert.True(t, journal.NewHistory(s.records).MayReopen())
	again := *samples()[journal.KindRunResumed].(*journal.RunResumed)
	again.Why, again.By, again.DeadlineAt, again.Decisions, again.Values = journal.ResumedKey, "uid/7", time.Unix(900, 0).UTC(), nil, journal.Ref{}
	s.add("", "", &again)
	past := journal.NewHistory(s.records)
	assert.False(t, past.Finished || past.MayReopen())
	assert.Equal(t, 1, past.ByKey)
	assert.Equal(t, again.DeadlineAt, past.DeadlineAt)
	report := journal.NewReport(s.records)
	assert.Empty(t, report.Status)
	assert.Equal(t, "running", report.Nodes[0].State)

	s.add("[0]", "n0", samples()[journal.KindInterruptOpened])
	assert.Len(t, journal.OpenInterrupts(s.records), 1)
	s.add("[0]", "n0", samples()[journal.KindNodeCommitted])
	s.add("", "", samples()[journal.KindRunFinished])
	report = journal.NewReport(s.records)
	assert.Equal(t, journal.StatusCompleted, report.Status)
	assert.Equal(t, "committed", report.Nodes[0].State)
	var names []string
	var last journal.Event
	require.NoError(t, journal.Watch(t.Context(), journal.Recorded(s.records), func(e journal.Event) bool {
		names, last = append(names, e.Name), e
		return true
	}))
	assert.Equal(t, []string{"accepted", "failed", "failed", "reopened", "interrupt", "commit", "finished"}, names)
	assert.Equal(t, ":completed", last.Details.Key("status").String())
	end.Err = contract.Errorf("policy/blocked", "no")
	assert.False(t, journal.NewHistory(append(s.records[:3:3], s.records[len(s.records)-1])).MayReopen(), "a run that completed")
	s.records[3].Body = &end
	assert.False(t, journal.NewHistory(s.records[:4]).MayReopen(), "the class of its error is final")
}

// An answer that passed its gates and lost to a better one is not a failure in
// any reader, and a canceled loser is not a failover.
func TestLosersDidNotFail(t *testing.T) {
	s := &story{}
	plan := edn.MustRead(`{:nodes [{:op :call :intent :a/b :as :x}]}`)
	request := journal.RefTo(edn.MustRead(`{:input {}}`))
	s.add("", "", samples()[journal.KindRunAccepted])
	s.add("[]", "", &journal.PlanResolved{Plan: journal.RefTo(plan), Source: "request"})
	s.add("[0]", "n0", &journal.NodeResolved{Op: "call", Intent: "a/b", Policy: "declared", Strategy: "tournament", Width: 4})
	for i, cap := range []string{"a/best", "a/good", "a/poor", "a/late"} {
		s.add("[0]", "n0", &journal.AttemptStarted{Attempt: i + 1, CapID: cap, CapVersion: "1", Request: request, Recovery: "none", EffectKey: someHash})
	}
	for i := range 4 {
		finished := &journal.AttemptFinished{Attempt: i + 1, Outcome: "ok", Result: journal.RefTo(edn.MustRead(`{:result {:type :value :out {:n 1}}}`)), ResultType: "value"}
		if i == 3 {
			finished.Outcome, finished.Err = "canceled", contract.Errorf("race/lost", "late")
		}
		s.add("[0]", "n0", finished)
		s.add("[0]", "n0", &journal.GateVerdict{Attempt: i + 1, Gate: "nice", Severity: "should", Tier: 1, Pass: i == 0})
	}
	s.add("[0]", "n0", &journal.NodeCommitted{Value: journal.RefTo(edn.Int(1)), As: "x", CapID: "a/best", Attempt: 1, Outscored: []int{2}})
	s.add("", "", samples()[journal.KindRunFinished])
	for _, rec := range s.records {
		require.NoError(t, rec.Check())
	}
	var types, failed []string
	for _, a := range journal.NewReport(s.records).Nodes[0].Attempts {
		types = append(types, a.Failure)
		if a.Failed() {
			failed = append(failed, a.CapID)
		}
	}
	assert.Equal(t, []string{"", "", "eval/low-score", "race/lost"}, types)
	assert.Equal(t, []string{"a/poor"}, failed)
	var told []string
	for e := range journal.Transcript(s.records).Elems() {
		told = append(told, e.Key("failure/type").String())
	}
	assert.Equal(t, []string{"nil", "nil", ":eval/low-score", ":race/lost"}, told)
	assert.Equal(t, `{:eval/low-score 1 :race/lost 1}`, journal.NewAccount(s.records).PlanRun(nil).Key("telemetry").Key("calls/failure-types").String())
}

// Every prefix of a run has a report.
func TestReadersTakeAnyPrefix(t *testing.T) {
	all := failover()
	for i := range all {
		r := journal.NewReport(all[:i])
		assert.LessOrEqual(t, len(r.Nodes), 2)
		attempts := 0
		for _, rec := range all[:i] {
			if rec.Body.Kind() == journal.KindAttemptStarted {
				attempts++
			}
		}
		assert.Equal(t, attempts, journal.Transcript(all[:i]).Len())
		assert.Equal(t, attempts > 0, journal.NewAccount(all[:i]).Executed())
		assert.Equal(t, int64(attempts), count(journal.NewAccount(all[:i]).PlanRun(nil), "calls/total"))
	}
}

func count(run edn.Value, key string) int64 {
	n, _ := run.Key("telemetry").Key(key).AsInt()
	return n
}

// contracts.md 2.2: :plan/run counts the work below a plan.
func TestPlanRun(t *testing.T) {
	v := journal.NewAccount(failover()).PlanRun(contract.Errorf("runtime/crashed", "gone"))
	assert.Equal(t, `{:calls/failure-types {:eval/must-failed 1 :runtime/crashed 1} :calls/fallback-hops 1 :calls/retries 1 :calls/succeeded 1 `+
		`:calls/total 3 :nodes/failed 0 :nodes/skipped 1 :nodes/total 2}`, v.Key("telemetry").String())
	assert.Equal(t, `[[:a/one nil] [:a/two "m"]]`, v.Key("participants").String())
	assert.Equal(t, 3, v.Key("timings").Len())
	assert.Equal(t, `:runtime/crashed`, v.Key("failure/type").String())
}

// contracts.md 2.2: :usage sums all attempts and checks, exactly, with the
// weakest mark.
func TestUsage(t *testing.T) {
	u := journal.NewAccount(failover()).Usage()
	assert.Equal(t, `{:attempts 3 :by-capability {:a/judge {:calls 1 :mode :live :tokens-in 4} `+
		`:a/one {:calls 1 :cost-mark :at-least :cost-usd 0.001M :mode :live :tokens-in 1} `+
		`:a/two {:calls 2 :cost-mark :exact :cost-usd 0.002M :mode :live :tokens-in 5}} `+
		`:cost-mark :at-least :cost-usd 0.003M :judge-calls 0 :mode :live :tokens-in 10}`, u.String())
	assert.Equal(t, `[[:a/two "m"]]`, journal.NewAccount(failover()).ModelsUsed().String())
}

// JRN-009: :totals of run/finished, per operation and per attempt.
func TestTotals(t *testing.T) {
	v := journal.NewAccount(failover()).Totals()
	assert.Equal(t, `{:committed 1 :cost-mark :exact :cost-usd 0.002M :failed 0 :kept 0 :mode :live :skipped 1 :tokens-in 3}`, v.Key("operations").String())
	assert.Equal(t, `{:answered 2 :cost-mark :at-least :cost-usd 0.003M :failed 1 :mode :live :tokens-in 6 :total 3}`, v.Key("attempts").String())
	assert.Equal(t, `0.003M`, v.Key("cost-usd").String())
	body := &journal.RunFinished{Status: "completed", Response: journal.RefTo(edn.Int(1)), Totals: v}
	assert.NoError(t, record(body).Check())
}

// EVAL-061: the transcript of rejected attempts.
func TestTranscriptOfRefusedAttempts(t *testing.T) {
	list := journal.Transcript(failover())
	first, _ := list.Nth(0)
	second, _ := list.Nth(1)
	third, _ := list.Nth(2)
	assert.Equal(t, `:runtime/crashed`, first.Key("failure/type").String())
	assert.Equal(t, `:runtime/crashed`, first.Key("error").Key("type").String())
	assert.Equal(t, `:eval/must-failed`, second.Key("failure/type").String())
	assert.Equal(t, `[{:gate :good :message "no"}]`, second.Key("findings").String())
	assert.Equal(t, `{:n 1}`, second.Key("out").String())
	assert.False(t, third.HasKey("failure/type"))
	assert.Equal(t, `1`, third.Key("candidate-index").String())
	assert.Equal(t, `:x`, third.Key("as").String())
}

// Every record has an event, and the events of a run are flat maps with their
// place.
func TestProgress(t *testing.T) {
	var names []string
	for _, rec := range failover() {
		e, ok := journal.Progress(rec)
		require.True(t, ok)
		names = append(names, e.Name)
		v := e.Value()
		assert.Equal(t, `"run_x"`, v.Key("run").String())
		assert.Equal(t, edn.Int(int64(rec.Seq)).String(), v.Key("seq").String())
		assert.Equal(t, rec.Path.Len() > 0, v.HasKey("node"))
	}
	assert.Equal(t, []string{
		"accepted", "resolved", "resolved", "attempt", "attempt", "attempt", "attempt", "gate", "attempt", "attempt", "gate", "commit", "skipped", "finished",
	}, names)
	e, _ := journal.Progress(failover()[4])
	assert.Equal(t, `{:at #inst "1970-01-01T00:00:00.040Z" :attempt 1 :event :attempt :failure/type :runtime/crashed :latency-ms 5 :message "gone" `+
		`:node "n0" :outcome :unknown :path [0] :run "run_x" :seq 5 :state :finished :usage {:cost-mark :at-least :cost-usd 0.001M :mode :live :tokens-in 1}}`, e.Value().String())
	_, ok := journal.Progress(record(samples()[journal.KindEnvRead]))
	assert.False(t, ok)
}
