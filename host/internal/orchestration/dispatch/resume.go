package dispatch

import (
	"context"
	"math"
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// past holds the recorded attempts of an operation that an earlier start of the run did
// not finish, or of the run that is replayed. The operation runs from its beginning;
// an attempt whose end is recorded is not made again but gets that end (JRN-040).
type past struct {
	ended []*journal.Tried // ended or still waiting for a person, and not taken yet
	// only is the capability of an idempotent call whose outcome is unknown. It must be
	// called again, because no other receiver has seen its effect key (JRN-041). Empty:
	// there is none, or it was called again.
	only string
	// strict: nothing may be done that is not recorded.
	strict bool
	lost   []int // numbers of attempts without an end, or that are made again
	taken  []int // numbers of the attempts that were taken
	gap    int   // number of an attempt that a strict replay misses; 0: none
	// begun are the candidates in the order in which they are tried again, by the resume and
	// by the replay alike (see begin). Among equal answers of parallel attempts this order
	// decides.
	begun []string
	// cascade: there are attempts with an end, and none of them ran in parallel.
	cascade bool
	first   *journal.NodeResolved // of the first host that executed the node; nil: not recorded
	// fits reports whether the next request to the capability of an attempt is the
	// recorded one; nil: the attempts are those of this run.
	fits   func(*journal.Tried) bool
	listed []string // candidates of the other run, in order
}

// resume reads the past of the operation. Attempts without an end are recorded as lost
// with the host. lost is the error of a call that must not be repeated. done is an
// attempt that was decided to have done its work; then the operation is accepted.
func (o *operation) resume(place *journal.Place) (done *journal.Tried, lost *contract.Error) {
	n := &o.node
	p := &past{strict: n.w.Replay, first: place.First}
	o.attempts.past, o.candidates.past = p, p
	o.candidates.learning.recall(place.Resolved)
	for _, t := range place.Attempts {
		start := t.Started
		o.request.attempts = max(o.request.attempts, start.Attempt)
		if d := t.Decided; d != nil {
			p.lost, p.only, lost = append(p.lost, start.Attempt), start.CapID, nil
			switch d.Choice {
			case journal.DecisionDone:
				return t, nil
			case journal.DecisionFail:
				o.attempts.result.Decided = true
				return nil, decidedToFail(n.w.Node, start)
			}
			continue
		}
		if t.Forgotten {
			p.lost = append(p.lost, start.Attempt)
			if t.MayHaveActed() && n.recoveryNow(start) == contract.RecoveryOnce && !n.w.Replay {
				lost = outcomeUnknown(n.w.Node, start.CapID, start.EffectKey,
					contract.Errorf("canceled", "the node failed during the call, which is not repeated"))
			}
			continue
		}
		lostWithHost := t.Lost && !n.asksStill(t)
		if p.begin(t, lostWithHost); !lostWithHost {
			if p.ended, p.only = append(p.ended, t), ""; start.Entrant == "" { // it was made after the lost one
				lost = nil
			}
			continue
		}
		err, class := LostWithHost(), n.recoveryNow(start)
		if p.lost = append(p.lost, start.Attempt); class == contract.RecoveryIdempotent {
			p.only = start.CapID
		}
		if n.w.Replay {
			continue // the next recorded attempt shows how the run continued
		}
		if !t.Closed {
			n.Record(&journal.AttemptFinished{Attempt: start.Attempt, Outcome: journal.OutcomeUnknown, Err: err})
		}
		if class == contract.RecoveryOnce {
			lost = outcomeUnknown(n.w.Node, start.CapID, start.EffectKey, err)
		}
		if place.Bound(start.Attempt) && lost == nil {
			lost = contract.Errorf("stream/truncated", "node %s: the answer of :%s broke off after a part of it was shown: %s",
				n.w.Node, start.CapID, err.Message).WithCause(err).WithSource(contract.SourceHost).
				WithHint("send the request again")
		}
	}
	p.cascade = len(p.ended) > 0 && !slices.ContainsFunc(p.ended, func(t *journal.Tried) bool { return t.Started.Entrant != "" })
	return nil, lost
}

// begin adds the candidate of an attempt to begun, unless it is there. A lost attempt that did not
// run in parallel does not count: the resumed run may try another candidate before its own. If
// the first attempt with an end did not run in parallel either, it decides instead of a lost one.
func (p *past) begin(t *journal.Tried, lost bool) {
	capID, alone := t.Started.CapID, t.Started.Entrant == ""
	switch {
	case lost && alone:
		return
	case !lost && alone && !p.has(capID):
		p.begun = slices.DeleteFunc(p.begun, func(id string) bool { return id == capID })
	case slices.Contains(p.begun, capID):
		return
	}
	p.begun = append(p.begun, capID)
}

// LostWithHost returns the error of an attempt that was in progress when its host stopped.
func LostWithHost() *contract.Error {
	return contract.Errorf("runtime/crashed", "the host process ended during the call").WithSource(contract.SourceHost)
}

// asksStill reports whether an attempt was waiting for a person when its host stopped,
// and can continue.
func (n *node) asksStill(t *journal.Tried) bool {
	if t.Closed || t.Opened == nil || n.w.Replay {
		return false
	}
	c, ok := n.d.Registry.Capability(t.Started.CapID)
	return ok && c.Human != nil
}

// acceptDecided accepts the value of the decision about t as the answer of the node.
func (o *operation) acceptDecided(t *journal.Tried) {
	out, r, w := o.node.run.Secrets.Restore(t.Decided.Value), &o.attempts.result, o.node.w
	r.CapID, r.Attempt, r.Out, r.Response, r.DoneOnce = t.Started.CapID, t.Started.Attempt, out, contract.ValueResult(out), true
	w.Stream.ForAttempt(stream.GatePassed, r.Attempt).Accept(out)
	w.Stream.Close(nil)
}

// decidedToFail returns the error of a call that was decided to have failed.
func decidedToFail(node string, start *journal.AttemptStarted) *contract.Error {
	return outcomeUnknown(node, start.CapID, start.EffectKey,
		contract.Errorf("canceled", "it was decided that the node fails"))
}

// outcomeUnknown is the failure of a call that may have had its effect, and must
// not be made again without a decision (JRN-042).
func outcomeUnknown(node, capID, effectKey string, err *contract.Error) *contract.Error {
	return contract.Errorf("effects/outcome-unknown", "node %s: the outcome of the call of :%s is unknown: %s",
		node, capID, err.Message).WithCause(err).WithDetail("effect/key", edn.Text(effectKey))
}

// SecretMissing is the error of a call that needs a secret of which the journal has only
// the hash (JRN-022).
func SecretMissing(node, what string) *contract.Error {
	return contract.Errorf("run/secret-missing", "node %s: %s has a secret of which the journal keeps only a hash", node, what)
}

// order returns the candidates in the order of the past: those that were called, and
// then the other accepted ones, or only the one that must be called again. A candidate whose
// call has a recorded end need not be callable now.
func (p *past) order(accepted []string, known *registry.Registry) []string {
	if p.fills() {
		return p.orderAsListed(accepted)
	}
	if p.only != "" {
		if p.strict || !slices.Contains(accepted, p.only) {
			return nil
		}
		accepted = []string{p.only}
	}
	var ids []string
	for _, id := range p.begun {
		if _, ok := known.Capability(id); ok && p.has(id) || !p.strict && !p.cascade && slices.Contains(accepted, id) {
			ids = append(ids, id)
		}
	}
	if p.strict {
		return ids
	}
	for _, id := range accepted {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// isCascade reports whether the operation is continued as a cascade.
func (p *past) isCascade() bool { return p != nil && p.cascade }

// replays reports whether nothing may be done that is not recorded.
func (p *past) replays() bool { return p != nil && p.strict }

// has reports whether another attempt at a candidate is recorded.
func (p *past) has(capID string) bool {
	return p != nil && slices.ContainsFunc(p.ended, func(t *journal.Tried) bool { return t.Started.CapID == capID })
}

// take removes and returns the oldest recorded attempt at a candidate in a repair
// round; nil if there is none, or if a strict replay misses an attempt before it, which
// sets gap. Parallel attempts may be taken in another order than the recorded one, because
// a resumed run makes those that were lost again.
func (p *past) take(capID string, round int) *journal.Tried {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.ended, func(t *journal.Tried) bool {
		return t.Started.CapID == capID && t.Started.Round == round && (p.fits == nil || p.fits(t))
	})
	if i < 0 {
		return nil
	}
	t := p.ended[i]
	if p.gap = p.missedBefore(t); p.gap > 0 {
		return nil
	}
	p.taken = append(p.taken, t.Started.Attempt)
	p.ended = slices.Delete(p.ended, i, i+1)
	return t
}

// missedBefore returns the number of an attempt that a strict replay should have taken before
// t; 0 if there is none.
func (p *past) missedBefore(t *journal.Tried) int {
	for number := 1; p.strict && number < t.Started.Attempt; number++ {
		waits := t.Started.Entrant != "" && slices.ContainsFunc(p.ended, func(other *journal.Tried) bool {
			return other.Started.Attempt == number
		})
		if !waits && !slices.Contains(p.lost, number) && !slices.Contains(p.taken, number) {
			return number
		}
	}
	return 0
}

// recall recreates an attempt whose end is recorded.
func (s *attempts) recall(t *journal.Tried, c *registry.Capability, strategy string) *attempt {
	n, q := s.n, &s.c.request
	number := t.Started.Attempt
	if s.past.fills() {
		q.attempts++
		number = q.attempts
	}
	a := &attempt{n: n, capability: c, number: number, past: t, started: t.At}
	a.recovery = n.recoveryNow(t.Started)
	a.prompt = q.composePrompt(c)
	a.stream = n.w.Stream.ForAttempt(s.mode, a.number)
	if strategy == "" {
		s.alone = a
	} else {
		s.parallel = append(s.parallel, a)
	}
	if s.past.fills() {
		s.repeatStart(a, strategy)
	}
	return a
}

// recalled returns the recorded end of the call. The answer is the one after its clean-up, whose rules
// may be others today; if the clean-up refused it, it is the one before.
func (a *attempt) recalled() (Answer, error) {
	end := a.past.Finished
	response := end.Result.Value()
	if response.IsNil() {
		response = end.Raw.Value()
	}
	response = a.n.run.Secrets.Restore(response)
	if end.Err != nil {
		return Answer{Response: response}, end.Err
	}
	return Answer{Response: response}, nil
}

// readPast sets the result of an attempt from its recorded end, like read and
// classifyLostCall for a call that was made.
func (a *attempt) readPast(ctx context.Context) {
	end := a.past.Finished
	a.ended = a.started.Add(end.Latency)
	if end.Err == nil {
		a.read(ctx)
	} else {
		a.err, a.response = end.Err, end.Result.Value()
		switch {
		case end.Outcome == journal.OutcomeUnknown:
			a.outcome = flow.Unknown
			a.crashed = end.Err.Type == "runtime/crashed" || end.Err.Type == "runtime/unresponsive"
		case end.Result.Set(), end.Err.Type == "runtime/invalid-result":
			a.outcome = outcomeAfterAnswer(a.recovery)
		}
	}
	if a.err == nil && (len(a.past.Verdicts) == 0 || a.walk != nil) && !a.n.w.Replay && journal.Masked(a.response) {
		a.err = SecretMissing(a.n.w.Node, "the answer of :"+a.capability.ID) // its gates or calls would get the hash
	}
	a.label, a.usage, a.meta = end.Outcome, end.Usage, end.Meta
	if a.err != nil && a.label == journal.OutcomeOK { // the configuration refuses the answer now
		a.label = journal.OutcomeError
	}
}

// pastVerdict returns the recorded verdict of a gate on the answer, nil if there
// is none or if the gate itself had failed.
func (j *judging) pastVerdict(gate string) *journal.GateVerdict {
	if j.a.past == nil {
		return nil
	}
	v := j.a.past.Verdict(gate)
	switch {
	case v == nil, v.Err != nil && !j.n.w.Replay:
		return nil
	case j.n.run.Fill != nil && v.CapID == "": // a check of the host costs nothing and may have changed
		return nil
	}
	return v
}

// recallFailure sets unevaluated if a recorded gate refused the answer because it could
// not evaluate it.
func (j *judging) recallFailure(v *journal.GateVerdict) {
	switch {
	case v.Err == nil || v.Pass:
	case v.Err.Type == "budget/exceeded":
		j.unevaluated = v.Err
	case v.Tier == int(quality.TierJudge) && v.Severity == quality.Must.String():
		j.unevaluated = contract.Errorf("judge/failed", "node %s: %s gave no grade", j.n.w.Node, v.Gate).WithCause(v.Err)
	}
}

// outcomeOf is the outcome that a verdict records.
func outcomeOf(v *journal.GateVerdict) quality.Outcome {
	return quality.Outcome{
		Pass:          v.Pass || v.NotApplicable,
		NotApplicable: v.NotApplicable,
		Findings:      quality.FindingsOf(v.Findings.Value()),
	}
}

// pastGrade is the result of a judge that a verdict records.
func pastGrade(panel *judgePanel, v *journal.GateVerdict) quality.Result {
	gate := quality.Gate{Name: v.Gate, Severity: quality.SeverityOf(v.Severity), Judge: panel.judge.Name}
	result := quality.Result{Gate: gate, Outcome: outcomeOf(v)}
	if r, ok := v.Score.Value().AsNumber(); ok && !v.NotApplicable {
		result.Grade = new(big.Rat).Set(r)
	}
	return result
}

// next returns the recorded event that comes next while parallel attempts run: the end
// of one of running (a), or the timer of a hedge, if it is set (timed) and the record
// has another attempt that began before that end. Both are zero if neither is recorded.
func (p *past) next(running []*attempt, timed bool) (a *attempt, timer bool) {
	first := math.MaxInt
	for _, r := range running {
		if r.past != nil && r.past.Ended < first {
			a, first = r, r.past.Ended
		}
	}
	if p == nil || !timed || len(p.ended) == 0 {
		return a, false
	}
	if p.ended[0].Begun < first {
		return nil, true
	}
	return a, false
}

// unaffordable is the reason why a replayed run made no further attempt at a
// candidate that could be called: only the budget can prevent the start of such an
// attempt.
func unaffordable(n *node, capID string) *contract.Error {
	return contract.Errorf("budget/exceeded", "node %s: the budget did not cover another call of :%s", n.w.Node, capID)
}

// replayMiss is the error of a strict replay that needs a step which is not recorded
// (JRN-050).
func replayMiss(n *node, format string, args ...any) *contract.Error {
	return contract.Errorf("replay/miss", "node %s: "+format, append([]any{n.w.Node}, args...)...).
		WithWhere("node", edn.Text(n.w.Node)).WithWhere("path", n.w.Path)
}
