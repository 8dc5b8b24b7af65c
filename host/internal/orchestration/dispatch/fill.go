package dispatch

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Fill configures a run that replays another one: an attempt that the other run
// recorded with the same request is not made but gets the recorded end; every other
// attempt is made (JRN-051).
type Fill struct {
	// Swap maps capabilities to those that are called in their place.
	Swap map[string]string
	// Effects are the effects that an attempt may have if it is made. Reading is
	// always allowed.
	Effects []string
}

// denied returns why a capability may not be called, nil if it may. A nil Fill
// denies nothing.
func (f *Fill) denied(c *registry.Capability) *contract.Error {
	if f == nil {
		return nil
	}
	for _, effect := range c.Effects {
		if !slices.Contains(policy.CheckEffects, effect) && !slices.Contains(f.Effects, effect) {
			return contract.Errorf("effects/missing-required", "a replay calls :%s only if its effect :%s is allowed", c.ID, effect).
				WithDetail("effect", edn.K(effect)).
				WithHint("--effects " + effect + " allows it; the effect then happens again")
		}
	}
	return nil
}

// fill reads the records of the operation in the replayed run.
func (o *operation) fill(place *journal.Place) {
	n, q := &o.node, &o.request
	p := &past{}
	p.fits = func(t *journal.Tried) bool {
		c, ok := n.d.Registry.Capability(t.Started.CapID)
		return ok && t.Started.Request.Hash() == edn.Hash(q.envelope(c, q.composePrompt(c)))
	}
	list := func(capID string) {
		if other, ok := n.run.Fill.Swap[capID]; ok {
			capID = other
		}
		p.listed = append(p.listed, capID)
	}
	if place.Resolved != nil {
		for _, c := range place.Resolved.Candidates {
			list(c.CapID)
		}
	}
	won := false
	for _, t := range place.Attempts {
		list(t.Started.CapID)
		t = asDecided(n.w.Node, t)
		// The request of a repair depends on the answer before it.
		if hasEnd(t) && slices.Contains(n.w.Policy.static.List, t.Started.CapID) && (t.Started.Round > 0 || p.fits(t)) {
			p.ended = append(p.ended, t)
			won = won || place.IsCommitted() && place.Committed.Attempt == t.Started.Attempt
		}
	}
	if !won { // without the recorded winner, an attempt that lost may win: make it again
		p.ended = slices.DeleteFunc(p.ended, lostRace)
	}
	o.attempts.past, o.candidates.past = p, p
}

// asDecided returns an attempt with the end that an operator's decision gave it
// (JRN-044). An attempt that was decided to be retried has no end. Without a decision
// it returns t itself.
func asDecided(node string, t *journal.Tried) *journal.Tried {
	if t.Decided == nil {
		return t
	}
	end := journal.AttemptFinished{Usage: edn.MustMap()}
	if t.Finished != nil {
		end = *t.Finished
	}
	own := *t
	own.Lost, own.Forgotten, own.Finished = false, false, &end
	switch t.Decided.Choice {
	case journal.DecisionRetry:
		own.Finished = nil
	case journal.DecisionDone:
		end.Outcome, end.Result, end.Err = journal.OutcomeOK, journal.RefTo(contract.ValueResult(t.Decided.Value)), nil
	case journal.DecisionFail:
		end.Outcome, end.Err = journal.OutcomeUnknown, decidedToFail(node, t.Started)
	}
	return &own
}

// hasEnd reports whether the recorded end of an attempt is a result of its capability. It
// returns false if the run or the node ended first, or if the call was made again.
func hasEnd(t *journal.Tried) bool {
	if t.Lost || t.Forgotten || t.Finished == nil {
		return false
	}
	switch t.Finished.Outcome {
	case journal.OutcomeCanceled:
		return lostRace(t)
	case journal.OutcomeUnknown:
		return t.Finished.Err == nil || t.Finished.Err.Type != "timeout/hard"
	}
	return true
}

func lostRace(t *journal.Tried) bool {
	return t.Finished.Err != nil && t.Finished.Err.Type == "race/lost"
}

// fills reports whether the past is that of another run.
func (p *past) fills() bool { return p != nil && p.fits != nil }

// orderAsListed orders candidates as the replayed run did, followed by those that it
// did not have. Candidates with a recorded attempt need not be callable now.
func (p *past) orderAsListed(accepted []string) []string {
	var ids []string
	for _, id := range p.listed {
		if !slices.Contains(ids, id) && (slices.Contains(accepted, id) || p.has(id)) {
			ids = append(ids, id)
		}
	}
	for _, id := range accepted {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// repeatStart records the start of an attempt that is not made.
func (s *attempts) repeatStart(a *attempt, strategy string) {
	a.begin = *a.past.Started
	a.begin.Attempt, a.begin.EffectKey, a.begin.Entrant = a.number, s.c.request.effectKey(), strategy
	a.begin.Budget, a.begin.Waited, a.begin.Recorded = edn.MustMap(), 0, true
	s.n.Record(&a.begin)
	if a.number == 1 && s.n.w.Begun != nil {
		s.n.w.Begun()
	}
}

// repeatEnd records the end of an attempt that is not made.
func (a *attempt) repeatEnd() {
	end := a.past.Finished
	a.ended, a.usage = a.started.Add(end.Latency), end.Usage
	a.recordEnd()
}

// repeatVerdict records a verdict of the replayed run.
func (j *judging) repeatVerdict(v *journal.GateVerdict, severity quality.Severity) {
	own := *v
	own.Attempt, own.Severity = j.a.number, severity.String()
	j.n.Record(&own)
}
