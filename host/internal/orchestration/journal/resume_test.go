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

// at changes the time of the last record.
func (p *past) at(seconds int64) *past {
	p.records[len(p.records)-1].At = time.Unix(seconds, 0)
	return p
}

func (p *past) begin() *past {
	return p.add(1, "[]", &journal.RunAccepted{Config: "one", DeadlineAt: time.Unix(100, 0)}).at(10)
}

func placeAt(t *testing.T, h *journal.History, path string) *journal.Place {
	t.Helper()
	p := h.At(edn.MustRead(path))
	require.NotNil(t, p, path)
	return p
}

// LED-005: the reservations that were not settled are known with their paths, oldest
// first, beside those that were.
func TestHistoryOfReservations(t *testing.T) {
	all := []*journal.BudgetReserved{{For: "run"}, {For: "attempt"}, {For: "check"}, {For: "vote"}}
	settled := &journal.BudgetSettled{Of: all[1], Amount: edn.MustRead("{:attempts 1}")}
	h := journal.NewHistory(new(past).begin().
		add(1, "[]", all[0]).
		add(1, "[0]", all[1]).
		add(1, "[1]", all[2]).
		add(1, "[0]", settled).
		add(1, "[2]", all[3]).records)
	assert.Equal(t, []*journal.BudgetReserved{all[0], all[2], all[3]}, h.Reserved)
	assert.Equal(t, []*journal.BudgetSettled{settled}, h.Settled)
	assert.Equal(t, []*journal.BudgetSettled{settled}, placeAt(t, h, "[0]").Settled)
	for i, path := range []string{"[]", "[0]", "[1]", "[2]"} {
		assert.Equal(t, path, h.PathOf(all[i]).String())
	}
}

// JRN-040, JRN-044, RUN-006: the history of a resumed run has its state at the end of the
// host: consecutive crashes are counted, and the time for which it was suspended does not
// count towards its deadline.
func TestHistoryOfResumedRuns(t *testing.T) {
	p := new(past).begin()
	h := journal.NewHistory(p.records)
	assert.False(t, h.Active)
	assert.Equal(t, "one", h.Config)
	assert.Equal(t, time.Unix(10, 0), h.Begun)
	p.add(1, "[]", &journal.RunStarted{})
	assert.True(t, journal.NewHistory(p.records).Active)

	suspended := &journal.RunSuspended{Why: "effects/outcome-unknown"}
	canceled := &journal.CancelRequested{By: "ann"}
	p.add(1, "[]", suspended).at(20).add(1, "[]", canceled)
	h = journal.NewHistory(p.records)
	assert.Same(t, suspended, h.Suspended)
	assert.Same(t, canceled, h.Canceled)
	p.add(2, "[]", &journal.RunResumed{Why: journal.ResumedDecision, Config: "two"}).at(50)
	h = journal.NewHistory(p.records)
	assert.Nil(t, h.Suspended)
	assert.Equal(t, "two", h.Config)
	assert.Equal(t, time.Unix(130, 0), h.DeadlineAt, "30 seconds later")
	assert.Zero(t, h.Crashes)
	for _, step := range []struct {
		why     string
		crashes int
	}{
		{journal.ResumedCrash, 1}, {journal.ResumedLease, 2}, {journal.ResumedCrash, 3},
		{journal.ResumedRestart, 0}, {journal.ResumedCrash, 1}, {journal.ResumedDecision, 0},
	} {
		p.add(3, "[]", &journal.RunResumed{Why: step.why}).at(60)
		h = journal.NewHistory(p.records)
		assert.Equal(t, step.crashes, h.Crashes, step.why)
		assert.Equal(t, time.Unix(130, 0), h.DeadlineAt, "it was not suspended")
		assert.True(t, h.Active)
	}
	queued := journal.NewHistory(new(past).begin().add(2, "[]", &journal.RunResumed{Why: journal.ResumedCrash}).records)
	assert.True(t, queued.Active)
}

// JRN-044, JRN-046: a decision is about the newest attempt at its path; of a request that
// a plugin made to the host it says how that ends, or that its call is made again.
func TestHistoryOfDecisions(t *testing.T) {
	decide := func(path, choice string) journal.Decision {
		return journal.Decision{Path: edn.MustRead(path), Choice: choice, By: "ann"}
	}
	resumed := &journal.RunResumed{Why: journal.ResumedDecision, Values: journal.RefTo(edn.MustRead(`{[0] {:text "done"} [1 "h0"] 7}`)),
		Decisions: []journal.Decision{
			decide("[0]", journal.DecisionDone), decide("[9]", journal.DecisionDone),
			decide(`[1 "h0"]`, journal.DecisionDone), decide(`[2 "h0"]`, journal.DecisionRetry), decide("[3]", journal.DecisionFail),
			decide("[1]", journal.DecisionFail),
		}}
	asked := &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(1))}
	h := journal.NewHistory(new(past).begin().
		add(1, "[0]", &journal.AttemptStarted{Attempt: 1}).
		add(1, "[0]", &journal.AttemptStarted{Attempt: 2}).
		add(1, "[1]", &journal.AttemptStarted{Attempt: 1}).
		add(1, `[1 "h0"]`, asked).
		add(1, "[2]", &journal.AttemptStarted{Attempt: 1}).
		add(1, `[2 "h0"]`, asked).
		add(1, "[3]", &journal.PlanResolved{Source: "request"}).
		add(1, `[4 "h0"]`, &journal.NodeSkipped{}).
		add(2, "[]", resumed).records)
	p := placeAt(t, h, "[0]")
	assert.Nil(t, p.Attempts[0].Decided)
	for want, decided := range map[string]*journal.Decided{`{:text "done"}`: p.Attempts[1].Decided, "7": placeAt(t, h, `[1 "h0"]`).Decided} {
		require.NotNil(t, decided)
		assert.Equal(t, journal.DecisionDone, decided.Choice)
		assert.Equal(t, want, decided.Value.String())
	}
	assert.False(t, placeAt(t, h, "[1]").Diverges)
	require.NotNil(t, placeAt(t, h, "[1]").Attempts[0].Decided)
	assert.Equal(t, journal.DecisionFail, placeAt(t, h, "[1]").Attempts[0].Decided.Choice)
	assert.Nil(t, placeAt(t, h, `[2 "h0"]`).Decided)
	assert.True(t, placeAt(t, h, "[2]").Diverges, "its requests may be others")
	assert.Nil(t, placeAt(t, h, "[3]").Decided, "an inline plan is no request")
	for path, is := range map[string]bool{`[1 "h0"]`: true, "[1]": false, "[3]": false, `[4 "h0"]`: false} {
		assert.Equal(t, is, placeAt(t, h, path).IsHostCall(), path)
	}
}

// RUN-022: a run that failed with an error that is retryable and not final may be
// reopened: once it is, it has a new deadline, and failed nodes and canceled calls are
// executed again, while what was committed and what answered stays.
func TestHistoryOfReopenedRuns(t *testing.T) {
	failed := func(change func(*contract.Error, *journal.RunFinished)) *past {
		end := &journal.RunFinished{Status: journal.StatusFailed, Err: contract.Errorf("provider/unavailable", "down")}
		change(end.Err, end)
		canceled := &journal.AttemptFinished{Attempt: 1, Outcome: "error", Err: contract.Errorf("canceled", "lost")}
		down := &journal.AttemptFinished{Attempt: 1, Outcome: "error", Err: end.Err}
		ok := &journal.AttemptFinished{Attempt: 1, Outcome: journal.OutcomeOK}
		one := &journal.AttemptStarted{Attempt: 1}
		return new(past).begin().
			add(1, "[0]", one).add(1, "[0]", ok).add(1, "[0]", &journal.NodeCommitted{}).
			add(1, "[1]", one).add(1, "[1]", down).add(1, "[1]", &journal.NodeFailed{Err: end.Err}).
			add(1, "[2]", one).add(1, "[2]", canceled).
			add(1, "[3]", one).add(1, "[3]", ok).
			add(1, "[4]", one).add(1, `[4 "p1"]`, &journal.PlanResolved{Source: "answer", Attempt: 1}).
			add(1, `[4 "p1" 0]`, one).add(1, `[4 "p1" 0]`, down).add(1, `[4 "p1" 0]`, &journal.NodeFailed{Err: end.Err}).
			add(1, "[4]", &journal.NodeFailed{Err: end.Err}).
			add(1, "[5]", one).add(1, "[5]", canceled).add(1, `[5 "p1" 0]`, one).add(1, `[5 "p1" 0]`, canceled).
			add(1, `[5 "p1" 0]`, &journal.NodeFailed{Err: end.Err}).add(1, "[5]", &journal.NodeCommitted{}).
			add(1, "[]", end).at(40)
	}
	as := func(*contract.Error, *journal.RunFinished) {}
	h := journal.NewHistory(failed(as).records)
	assert.True(t, h.MayReopen())
	assert.Equal(t, 30*time.Second, h.Worked)
	for name, change := range map[string]func(*contract.Error, *journal.RunFinished){
		"completed":     func(_ *contract.Error, end *journal.RunFinished) { end.Status = journal.StatusCompleted },
		"no error":      func(_ *contract.Error, end *journal.RunFinished) { end.Err = nil },
		"not retryable": func(e *contract.Error, _ *journal.RunFinished) { e.Retryable = false },
		"final":         func(e *contract.Error, _ *journal.RunFinished) { e.Class = contract.ClassFinal },
	} {
		assert.False(t, journal.NewHistory(failed(change).records).MayReopen(), name)
	}
	replay := failed(as)
	replay.records[0].Body.(*journal.RunAccepted).ReplayOf = "run_y"
	assert.False(t, journal.NewHistory(replay.records).MayReopen(), "a replay")
	running := failed(as)
	assert.False(t, journal.NewHistory(running.records[:len(running.records)-1]).MayReopen(), "it goes on")

	for why, counts := range map[string][2]int{journal.ResumedKey: {1, 0}, journal.ResumedRetry: {0, 1}} {
		p := failed(as).add(2, "[]", &journal.RunResumed{Why: why, DeadlineAt: time.Unix(200, 0)}).at(60)
		h = journal.NewHistory(p.records)
		assert.Equal(t, counts, [2]int{h.ByKey, h.Retries}, why)
		assert.Equal(t, []time.Time{time.Unix(200, 0), time.Unix(60, 0)}, []time.Time{h.DeadlineAt, h.ReopenedAt})
		assert.False(t, h.Finished)
		assert.Nil(t, h.Failure)
		assert.Empty(t, h.Status)
		for path, forgotten := range map[string]bool{"[0]": false, "[1]": true, "[2]": true, "[3]": false, "[4]": false, `[4 "p1" 0]`: true} {
			place := placeAt(t, h, path)
			assert.Equal(t, forgotten, place.Attempts[0].Forgotten, path)
			assert.Nil(t, place.Failed, path)
			assert.Equal(t, path == "[0]", place.IsCommitted(), path)
			assert.Equal(t, !forgotten, place.Ended(), path)
		}
		for _, path := range []string{"[5]", `[5 "p1" 0]`} {
			assert.False(t, placeAt(t, h, path).Attempts[0].Forgotten, "%s is part of a committed node", path)
		}
		assert.NotNil(t, placeAt(t, h, `[5 "p1" 0]`).Failed)
		assert.Equal(t, 1, placeAt(t, h, "[0]").Counted())
		assert.Equal(t, 0, placeAt(t, h, "[1]").Counted())
		p.add(2, "[]", &journal.RunFinished{Status: journal.StatusCompleted}).at(75)
		assert.Equal(t, 45*time.Second, journal.NewHistory(p.records).Worked, "without the time between")
	}
}

// RUN-022, IR-010: of the equal plans that two attempts answered with, each is kept when
// the run is reopened, and its failed nodes are executed again.
func TestHistoryOfReopenedPlanAnswers(t *testing.T) {
	down := contract.Errorf("provider/unavailable", "down")
	p := new(past).begin()
	for n := 1; n <= 2; n++ {
		p.add(1, "[0]", &journal.AttemptStarted{Attempt: n}).
			add(1, `[0 "p1"]`, &journal.PlanResolved{Source: "answer", Attempt: n}).
			add(1, `[0 "p1" 0]`, &journal.AttemptStarted{Attempt: 1}).
			add(1, `[0 "p1" 0]`, &journal.AttemptFinished{Attempt: 1, Outcome: "error", Err: down}).
			add(1, `[0 "p1" 0]`, &journal.NodeFailed{Err: down}).
			add(1, `[0 "p1" 1]`, &journal.NodeCommitted{Value: oneRef})
	}
	p.add(1, "[0]", &journal.NodeFailed{Err: down}).
		add(1, "[]", &journal.RunFinished{Status: journal.StatusFailed, Err: down}).
		add(2, "[]", &journal.RunResumed{Why: journal.ResumedRetry, DeadlineAt: time.Unix(200, 0)})
	h := journal.NewHistory(p.records)
	for i, attempt := range placeAt(t, h, "[0]").Attempts {
		assert.False(t, attempt.Forgotten, "attempt %d", i+1)
		answer := h.Answer(edn.MustRead(`[0 "p1"]`), i+1)
		assert.True(t, placeAt(t, answer, `[0 "p1" 0]`).Attempts[0].Forgotten)
		assert.Nil(t, placeAt(t, answer, `[0 "p1" 0]`).Failed)
		assert.True(t, placeAt(t, answer, `[0 "p1" 1]`).IsCommitted())
	}

	// A plan of one attempt that a resumed run records again is the same.
	h = journal.NewHistory(new(past).begin().
		add(1, `[0 "p1"]`, &journal.PlanResolved{Source: "answer", Attempt: 1}).
		add(1, `[0 "p1" 1]`, &journal.NodeCommitted{Value: oneRef}).
		add(2, `[0 "p1"]`, &journal.PlanResolved{Source: "answer", Attempt: 1}).
		add(2, "nil", &journal.PlanResolved{Source: "request"}).records)
	assert.True(t, placeAt(t, h, `[0 "p1" 1]`).IsCommitted())
	assert.Equal(t, "request", placeAt(t, h, "[]").Plan.Source)

	// The end of an attempt that a later host notes is none, however it was.
	h = journal.NewHistory(new(past).begin().
		add(1, "[0]", &journal.AttemptStarted{Attempt: 1}).
		add(2, "[0]", &journal.AttemptFinished{Attempt: 1, Outcome: "error"}).records)
	assert.True(t, placeAt(t, h, "[0]").Attempts[0].Closed)
}

// JRN-045: a run that only waits for people when its host ends, asks on: each attempt
// that was lost had put a question that is not answered.
func TestHistoryOfQuestions(t *testing.T) {
	opened := func(id string, n int) *journal.InterruptOpened {
		return &journal.InterruptOpened{Interrupt: id, Attempt: n}
	}
	base := func() *past {
		return new(past).begin().
			add(1, "[0]", &journal.AttemptStarted{Attempt: 1}).add(1, "[0]", &journal.AttemptFinished{Attempt: 1, Outcome: journal.OutcomeOK}).
			add(1, "[1]", &journal.AttemptStarted{Attempt: 1}).add(1, "[1]", opened("1-0-1", 1))
	}
	answer := &journal.InterruptAnswered{Interrupt: "1-0-1", By: "ann"}
	for name, row := range map[string]struct {
		p    *past
		asks bool
	}{
		"nothing runs":  {new(past).begin(), false},
		"one asks":      {base(), true},
		"one works":     {base().add(1, "[2]", &journal.AttemptStarted{Attempt: 1}), false},
		"two ask":       {base().add(1, "[2]", &journal.AttemptStarted{Attempt: 1}).add(1, "[2]", opened("2-0-1", 1)), true},
		"it is told":    {base().add(1, "[1]", answer), false},
		"another one":   {base().add(1, "[1]", &journal.InterruptAnswered{Interrupt: "9-9-9"}), true},
		"a closed one":  {base().add(2, "[1]", &journal.AttemptFinished{Attempt: 1, Outcome: journal.OutcomeUnknown}), false},
		"it ended then": {base().add(2, "[1]", &journal.AttemptFinished{Attempt: 1, Outcome: journal.OutcomeOK}), false},
	} {
		assert.Equal(t, row.asks, journal.NewHistory(row.p.records).Asks(), name)
	}
	p := placeAt(t, journal.NewHistory(base().add(1, "[1]", answer).records), "[1]")
	assert.Same(t, answer, p.Attempts[0].Answered)
	later := placeAt(t, journal.NewHistory(base().add(2, "[1]", &journal.AttemptFinished{Attempt: 1, Outcome: journal.OutcomeOK}).records), "[1]")
	assert.False(t, later.Attempts[0].Lost, "an attempt that asks goes on in the next host")
}

// STR-004: text that was shown and not retracted commits a node that streams from its
// first token to its attempt.
func TestHistoryOfShownText(t *testing.T) {
	shown := func(stream string, more ...journal.Body) *journal.Place {
		p := new(past).begin().add(1, "[0]", &journal.NodeResolved{Stream: stream}).add(1, "[0]", &journal.AttemptChunk{Attempt: 2})
		for _, body := range more {
			p.add(1, "[0]", body)
		}
		return placeAt(t, journal.NewHistory(p.records), "[0]")
	}
	assert.True(t, shown("first-token").Bound(2))
	assert.False(t, shown("first-token").Bound(1))
	assert.False(t, shown("provisional").Bound(2))
	assert.False(t, shown("first-token", &journal.AttemptRetracted{Attempt: 2}).Bound(2))
	bare := new(past).begin().add(1, "[0]", &journal.AttemptChunk{Attempt: 2})
	assert.False(t, placeAt(t, journal.NewHistory(bare.records), "[0]").Bound(2))
}

// JRN-041, JRN-046: work that must not be repeated was done, or may have been, by an
// attempt that ended well, is unknown or was lost; by one of a request that a plugin made,
// the call of the plugin has done it.
func TestHistoryOfEffects(t *testing.T) {
	for outcome, once := range map[string]bool{journal.OutcomeOK: true, journal.OutcomeUnknown: true, "error": false, "": true} {
		for recovery, is := range map[string]bool{"once": once, "idempotent": false, "none": false} {
			for path, inside := range map[string]bool{`[0 "h0" 0]`: true, `[0 "p1" 0]`: false, `[1 "h0" 0]`: false} {
				p := new(past).begin().add(1, path, &journal.AttemptStarted{Attempt: 1, Recovery: recovery})
				if outcome != "" {
					p.add(1, path, &journal.AttemptFinished{Attempt: 1, Outcome: outcome})
				}
				h := journal.NewHistory(p.records)
				assert.Equal(t, is, placeAt(t, h, path).Attempts[0].HadEffectOnce(), "%s %s", outcome, recovery)
				assert.Equal(t, is && inside, h.AskedOnce(edn.MustRead("[0]")), "%s %s %s", outcome, recovery, path)
			}
		}
	}
}

// JRN-046: what failed below a repeated request of a plugin is made again, and nothing
// beside it; a path that is none has no history.
func TestHistoryOfHostCalls(t *testing.T) {
	down := contract.Errorf("provider/unavailable", "down")
	one := &journal.AttemptStarted{Attempt: 1}
	end := &journal.AttemptFinished{Attempt: 1, Outcome: "error", Err: down}
	h := journal.NewHistory(new(past).begin().
		add(1, `[0 "h0"]`, &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(1))}).
		add(1, `[0 "h0" 0]`, one).add(1, `[0 "h0" 0]`, end).add(1, `[0 "h0" 0]`, &journal.NodeFailed{Err: down}).
		add(1, `[0 "h1"]`, &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(2))}).
		add(1, `[0 "h1" 0]`, one).add(1, `[0 "h1" 0]`, end).add(1, `[0 "h1" 0]`, &journal.NodeFailed{Err: down}).
		add(1, "[0]", one).records)
	assert.Nil(t, h.HostCall(edn.MustRead("[0]")))
	assert.Nil(t, h.HostCall(edn.MustRead(`[0 "h7"]`)))
	require.NotNil(t, h.HostCall(edn.MustRead(`[0 "h0"]`)))
	assert.True(t, placeAt(t, h, `[0 "h0" 0]`).Attempts[0].Forgotten)
	assert.Nil(t, placeAt(t, h, `[0 "h0" 0]`).Failed)
	assert.False(t, placeAt(t, h, `[0 "h1" 0]`).Attempts[0].Forgotten)
	assert.NotNil(t, placeAt(t, h, `[0 "h1" 0]`).Failed)

	// Another request at the same path takes its place.
	h = journal.NewHistory(new(past).begin().
		add(1, `[0 "h0"]`, &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(1))}).
		add(1, `[0 "h0" 0]`, &journal.NodeCommitted{Value: oneRef}).
		add(2, `[0 "h0"]`, &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(1))}).records)
	assert.True(t, h.At(edn.MustRead(`[0 "h0" 0]`)).IsCommitted(), "the same request goes on")
	assert.True(t, h.Within(edn.MustRead(`[0 "h0" 0 1]`)))
	assert.False(t, h.Within(edn.MustRead(`[0 "h0" 0]`)), "it is not part of itself")
	assert.False(t, h.Within(edn.MustRead(`[]`)))
	h = journal.NewHistory(new(past).begin().
		add(1, `[0 "h0"]`, &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(1))}).
		add(1, `[0 "h0" 0]`, &journal.NodeCommitted{Value: oneRef}).
		add(2, `[0 "h0"]`, &journal.PlanResolved{Source: "host", Request: journal.RefTo(edn.Int(2))}).records)
	assert.Nil(t, h.At(edn.MustRead(`[0 "h0" 0]`)))
}

// JRN-050: what a replay counts: the attempts that ended by themselves, and none of a call
// that was decided to be done.
func TestCountedAttempts(t *testing.T) {
	p := &journal.Place{}
	var none *journal.Place
	assert.False(t, none.Ended())
	assert.False(t, p.Ended())
	assert.Zero(t, p.Counted())
	p.Attempts = []*journal.Tried{{}, {Lost: true}, {Forgotten: true}, {}}
	assert.Equal(t, 2, p.Counted())
	assert.True(t, p.Ended())
	p.Attempts = append(p.Attempts, &journal.Tried{Decided: &journal.Decided{Choice: journal.DecisionFail}})
	assert.Equal(t, 2, p.Counted())
	p.Attempts = append(p.Attempts, &journal.Tried{Decided: &journal.Decided{Choice: journal.DecisionDone}})
	assert.Equal(t, 0, p.Counted())
	assert.False(t, (&journal.Place{Attempts: []*journal.Tried{{Forgotten: true}}}).Ended())
	assert.True(t, (&journal.Place{Attempts: []*journal.Tried{{Forgotten: true, Decided: &journal.Decided{}}}}).Ended())
	assert.True(t, (&journal.Place{Failed: &journal.NodeFailed{}}).Ended())
	assert.True(t, (&journal.Place{Committed: &journal.NodeCommitted{}}).Ended())
}

// JRN-045: the questions of a run that wait for an answer, in their order, as people see
// them. One that is answered, or whose attempt or run has ended, waits no more.
func TestOpenInterrupts(t *testing.T) {
	ask := func(id string, n int) *journal.InterruptOpened {
		return &journal.InterruptOpened{Interrupt: id, Attempt: n, Question: journal.RefTo(edn.Text("may I?")), Schema: "a/b"}
	}
	p := new(past).begin().
		add(1, "[0]", &journal.AttemptStarted{Attempt: 2, CapID: "people/clerk"}).add(1, "[0]", ask("0-0-2", 2)).at(20)
	p.add(1, "[1]", &journal.AttemptStarted{Attempt: 2, CapID: "people/boss"})
	timed := ask("1-0-2", 2)
	timed.DeadlineAt, timed.OnDeadline, timed.Default = time.Unix(90, 0), "default", journal.RefTo(edn.Bool(false))
	p.add(1, "[1]", timed).at(30)
	ids := func(records []journal.Record) (out []string) {
		for _, i := range journal.OpenInterrupts(records) {
			out = append(out, i.Body.(*journal.InterruptOpened).Interrupt)
		}
		return out
	}
	open := journal.OpenInterrupts(p.records)
	require.Len(t, open, 2)
	assert.Equal(t, `{:attempt 2 :cap/id :people/clerk :interrupt "0-0-2" :node "n" :opened-at #inst "1970-01-01T00:00:20.000Z"`+
		` :path [0] :question "may I?" :schema :a/b}`, open[0].Value().String())
	assert.Equal(t, `{:attempt 2 :cap/id :people/boss :deadline-at #inst "1970-01-01T00:01:30.000Z" :default false :interrupt "1-0-2"`+
		` :node "n" :on-deadline :default :opened-at #inst "1970-01-01T00:00:30.000Z" :path [1] :question "may I?" :schema :a/b}`,
		open[1].Value().String())
	with := func(path string, body journal.Body) []string {
		more := &past{append([]journal.Record{}, p.records...)}
		return ids(more.add(1, path, body).records)
	}
	assert.Equal(t, []string{"1-0-2"}, with("[0]", &journal.InterruptAnswered{Interrupt: "0-0-2"}))
	assert.Equal(t, []string{"0-0-2"}, with("[1]", &journal.AttemptFinished{Attempt: 2}), "that of its attempt at its path")
	assert.Equal(t, []string{"0-0-2", "1-0-2"}, with("[1]", &journal.AttemptFinished{Attempt: 1}))
	assert.Empty(t, with("[]", &journal.RunFinished{}))
}
