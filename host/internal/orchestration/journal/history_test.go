package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// past builds records in order.
type past struct{ records []journal.Record }

func (p *past) add(epoch int, path string, body journal.Body) *past {
	p.records = append(p.records, journal.Record{
		Run: "run_x", Seq: len(p.records) + 1, At: time.Unix(1, 0), Epoch: epoch, Path: edn.MustRead(path), Node: "n", Body: body,
	})
	return p
}

// JRN-040: the end of an attempt that a later host noted is not an end of the
// attempt; a later attempt with its number is another one.
func TestHistoryOfAttempts(t *testing.T) {
	h := journal.NewHistory(new(past).
		add(1, "[0]", &journal.AttemptStarted{Attempt: 1}).
		add(1, "[0]", &journal.AttemptFinished{Attempt: 1, Outcome: journal.OutcomeOK}).
		add(1, "[0]", &journal.GateVerdict{Attempt: 1, Gate: "first", Pass: true}).
		add(1, "[0]", &journal.GateVerdict{Attempt: 1, Gate: "a", Pass: false}).
		add(1, "[0]", &journal.GateVerdict{Attempt: 1, Gate: "a", Pass: true}).
		add(1, "[0]", &journal.AttemptStarted{Attempt: 2, Recovery: "once"}).
		add(2, "[0]", &journal.AttemptFinished{Attempt: 2, Outcome: journal.OutcomeUnknown}).
		add(2, "[1]", &journal.NodeSkipped{}).records)
	p := h.At(edn.MustRead("[0]"))
	require.Len(t, p.Attempts, 2)
	first, second := p.Attempts[0], p.Attempts[1]
	assert.False(t, first.Lost)
	assert.Equal(t, []int{1, 2}, []int{first.Begun, first.Ended})
	assert.True(t, first.Verdict("a").Pass, "the newest verdict")
	assert.NotNil(t, first.Verdict("first"))
	assert.Nil(t, first.Verdict("b"))
	assert.False(t, first.HadEffectOnce())
	assert.True(t, second.Lost)
	assert.True(t, second.Closed)
	assert.Nil(t, second.Finished)
	assert.True(t, second.HadEffectOnce())
	assert.False(t, p.IsCommitted())
	assert.True(t, h.At(edn.MustRead("[1]")).Skipped)
	assert.Nil(t, h.At(edn.MustRead("[2]")))
	assert.Equal(t, []int{8, 2}, []int{h.Last, h.Epoch})
	assert.Nil(t, (*journal.History)(nil).At(edn.MustRead("[0]")))
}

// IR-010: equal plans that two attempts answer with have one path, and are two
// plans all the same.
func TestHistoryOfPlanAnswers(t *testing.T) {
	value := func(n int64) *journal.NodeCommitted { return &journal.NodeCommitted{Value: journal.RefTo(edn.Int(n))} }
	const plan = `[0 "p1"]`
	h := journal.NewHistory(new(past).
		add(1, plan, &journal.PlanResolved{Source: "answer", Attempt: 1}).
		add(1, `[0 "p1" 0 "p2"]`, &journal.PlanResolved{Source: "answer", Attempt: 1}).
		add(1, `[0 "p1" 0 "p2" 0]`, value(1)).
		add(1, `[0 "p1" 0 "p2"]`, &journal.PlanResolved{Source: "answer", Attempt: 2}).
		add(1, `[0 "p1" 0 "p2" 0]`, value(2)).
		add(1, plan, &journal.PlanResolved{Source: "answer", Attempt: 3}).
		add(1, `[0 "p1" 0]`, value(3)).
		add(1, `[]`, &journal.RunFinished{Status: journal.StatusCompleted}).records)
	at := func(h *journal.History, path string) int64 {
		p := h.At(edn.MustRead(path))
		if p == nil {
			return 0
		}
		n, _ := p.Committed.Value.Value().AsInt()
		return n
	}
	first, third := h.Answer(edn.MustRead(plan), 1), h.Answer(edn.MustRead(plan), 3)
	const inner = `[0 "p1" 0 "p2"]`
	assert.EqualValues(t, 1, at(first.Answer(edn.MustRead(inner), 1), inner[:len(inner)-1]+" 0]"))
	assert.EqualValues(t, 2, at(first.Answer(edn.MustRead(inner), 2), inner[:len(inner)-1]+" 0]"))
	assert.EqualValues(t, 3, at(third, `[0 "p1" 0]`))
	assert.Zero(t, at(third, inner[:len(inner)-1]+" 0]"), "it is of the first plan")
	assert.Zero(t, at(third.Answer(edn.MustRead(inner), 1), inner[:len(inner)-1]+" 0]"))
	assert.Same(t, h, h.Answer(edn.MustRead("[9]"), 1), "nothing is recorded there")
	assert.Zero(t, at(h.Answer(edn.MustRead(plan), 2), `[0 "p1" 0]`), "no plan of this attempt is recorded")
	for _, each := range []*journal.History{h, first, first.Answer(edn.MustRead(inner), 1), h.Answer(edn.MustRead(plan), 2)} {
		assert.Equal(t, journal.StatusCompleted, each.Status)
	}
}
