package flow

import (
	"bytes"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// cascade makes one attempt after another: at one candidate until it is left,
// then at the next.
type cascade struct {
	*core
	current candidate
	order   []string // candidates that failed as parallel attempts and are to be retried
}

// candidate is the state of the candidate that the cascade currently calls.
type candidate struct {
	capID   string
	attempt int
	try     int
	failure *Failure // of its last attempt; nil before
	// Repair rounds over all its attempts. They are numbered consecutively,
	// because each is an effect of its own. round is the one that runs; 0: none.
	round, done, left int
	seen              [][]byte // fingerprints of the refused answers
}

func (cs *cascade) apply(c *Command, e *Event) {
	switch c.Kind {
	case Find:
		cs.found(e)
	case Start:
		cs.started(c, e)
	case Call:
		cs.emit(Command{Kind: Judge, CapID: c.CapID, Attempt: c.Attempt})
	case Judge:
		cs.judged(c, e)
	case Look:
		cs.looked(e)
	case Ready:
		cs.ready(e)
	}
}

func (cs *cascade) find() { cs.emit(Command{Kind: Find, Wait: true}) }

func (cs *cascade) found(e *Event) {
	capID, ok := cs.next(&e.Situation)
	if !ok {
		cs.finish(0, nil, cs.current.failure)
		return
	}
	cs.used = append(cs.used, capID)
	cs.try(capID)
	cs.start()
}

func (cs *cascade) try(capID string) {
	cs.current = candidate{capID: capID, try: 1, left: cs.rules.Limits.Repairs(capID)}
}

func (cs *cascade) start() {
	cs.emit(Command{Kind: Start, CapID: cs.current.capID, Round: cs.current.round, Repair: cs.current.context()})
}

// context is the :repair of the request of a repair round.
func (t *candidate) context() edn.Value {
	if t.round == 0 {
		return edn.Nil()
	}
	return newRepairContext(t.failure, t.round)
}

func (cs *cascade) started(c *Command, e *Event) {
	if e.Failure != nil {
		cs.attempted(e)
		return
	}
	cs.attempts++
	cs.current.attempt = e.Attempt
	cs.emit(Command{Kind: Call, CapID: c.CapID, Attempt: e.Attempt})
}

func (cs *cascade) judged(c *Command, e *Event) {
	if e.Failure == nil {
		cs.accept(c.Attempt)
		return
	}
	cs.attempted(e)
}

// accept ends the operation with the answer of an attempt.
func (cs *cascade) accept(attempt int) {
	if cs.current.round > 0 {
		cs.current.failure.Owed = 0 // it was repaired
	}
	cs.refuseRest()
	cs.finish(attempt, nil, nil)
}

// attempted continues after an attempt at the current candidate has failed.
func (cs *cascade) attempted(e *Event) {
	t, f := &cs.current, e.Failure
	switch last := t.failure; {
	case t.round > 0:
		cs.repaired(f, &e.Situation)
		return
	case last != nil && f.OverBudget:
		f = last.stoppedByBudget(f, cs.rules.SwitchOn)
	}
	cs.failed(f, &e.Situation)
}

// failed repairs the answer if that may help, and otherwise refuses it.
func (cs *cascade) failed(f *Failure, s *Situation) {
	t := &cs.current
	t.failure = f
	f.RoundsLeft = t.left > 0 && !cs.yields(f, s)
	if action, _ := Decide(*f); action != Repair {
		cs.refuse(f)
		return
	}
	cs.repair()
}

// repair starts the next round.
func (cs *cascade) repair() {
	t := &cs.current
	t.left--
	t.done++
	t.seen = append(t.seen, answerFingerprint(t.failure))
	t.round = t.done
	cs.start()
}

// repaired continues after a round has failed. All rounds of a candidate count
// as one verdict on it.
func (cs *cascade) repaired(f *Failure, s *Situation) {
	t := &cs.current
	last := t.failure
	t.round = 0
	if f.OverBudget {
		t.left = 0
		cs.refuse(last.stoppedByBudget(f, cs.rules.SwitchOn))
		return
	}
	if f.Owed == 0 {
		f.Owed = last.Owed
	}
	last.Owed = 0
	f.RoundsLeft = true
	if action, _ := Decide(*f); action != Repair { // another kind of failure
		f.RoundsLeft = false
		cs.refuse(f)
		return
	}
	t.failure = f
	again := answerFingerprint(f)
	known := slices.ContainsFunc(t.seen, func(b []byte) bool { return bytes.Equal(b, again) })
	if known || t.left == 0 || cs.yields(f, s) {
		t.left = 0
		cs.refuse(exhausted(cs.rules.Node, f, cs.rules.SwitchOn))
		return
	}
	cs.repair()
}

// refuse counts a refused answer and asks for the Situation.
func (cs *cascade) refuse(f *Failure) {
	cs.current.failure = f
	cs.refuseOnce(f)
	cs.emit(Command{Kind: Look, CapID: cs.current.capID, Failure: f})
}

// looked decides whether the candidate is called again.
func (cs *cascade) looked(e *Event) {
	t := &cs.current
	if t.failure == nil { // it failed as a parallel attempt
		cs.failed(cs.failureOf(t.capID), &e.Situation)
		return
	}
	f := t.failure
	f.TriesLeft = t.try <= cs.rules.Limits.Retries(f.Err.Type) && !cs.yields(f, &e.Situation)
	cs.available(f, &e.Situation)
	switch action, _ := Decide(*f); action {
	case Again, AgainWhenReady:
		cs.emit(Command{Kind: Ready, CapID: t.capID, Try: t.try, Wait: action == AgainWhenReady, Failure: f})
	default:
		cs.leave()
	}
}

// available sets in f which candidates are left. A candidate whose process
// exited before the call reached it counts as not tried: it can be bound again,
// or keeps the retries that it has left. If it respawns and no other candidate
// is ready, the operation waits for it as after a crash (ATT-008 row 6).
func (cs *cascade) available(f *Failure, s *Situation) {
	t := &cs.current
	first := f.Undelivered && t.try == 1
	if first {
		cs.used = slices.DeleteFunc(cs.used, func(id string) bool { return id == t.capID })
	}
	if cs.nextLeft(f, s) || first || f.Crashed || f.Err.Type != policy.ReasonNotReady || f.Outcome != Definite {
		return
	}
	f.ComesBack, f.Crashed = s.ComesBack, s.ComesBack
	f.TriesLeft = f.TriesLeft || f.Undelivered
}

// ready calls the candidate again. If that is not possible, it clears the reasons
// for a retry in the failure, so that Decide chooses another action, and leaves
// the candidate.
func (cs *cascade) ready(e *Event) {
	t := &cs.current
	f := t.failure
	switch {
	case e.Ready:
		if !f.Undelivered {
			t.try++
		}
		cs.start()
		return
	case e.Late:
		f.TriesLeft, f.Expired = false, e.Expired
	default:
		if e.Failure != nil { // the budget is too small now
			f = f.stoppedByBudget(e.Failure, cs.rules.SwitchOn)
			t.failure = f
		}
		f.TriesLeft, f.ComesBack, f.Expired = false, false, e.Expired
		cs.nextLeft(f, &e.Situation)
	}
	cs.leave()
}

// leave continues with another candidate, or finishes the operation with the
// failure.
func (cs *cascade) leave() {
	f := cs.current.failure
	if len(cs.order) > 0 {
		if cs.order = cs.order[1:]; ends(f) {
			cs.refuseRest()
			cs.finish(0, nil, f)
			return
		}
		if len(cs.order) > 0 {
			cs.retry()
			return
		}
	}
	if action, _ := Decide(*f); action != Next {
		cs.finish(0, nil, f)
		return
	}
	cs.find()
}

// retry continues with the first candidate to be retried.
func (cs *cascade) retry() {
	cs.try(cs.order[0])
	cs.emit(Command{Kind: Look, CapID: cs.current.capID})
}
