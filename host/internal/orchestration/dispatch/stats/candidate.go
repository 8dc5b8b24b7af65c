package stats

import (
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Candidate holds the breaker, the quality window and the measurements of one
// capability for one intent. It is safe for concurrent use. A nil Candidate is one
// without statistics; the methods that accept it say so.
type Candidate struct {
	table *Table

	// closed is true while the breaker is closed; it is read without the lock.
	closed atomic.Bool

	performance // has a lock of its own

	mu sync.Mutex
	state
}

func newCandidate(t *Table, c *registry.Capability, intent string, settings registry.Breaker, rules registry.Quality,
	now time.Time) *Candidate {
	cs := &Candidate{
		table:       t,
		performance: performance{paid: new(big.Rat)},
		state: state{
			capID:    c.ID,
			intent:   intent,
			plugin:   c.Plugin,
			settings: settings,
			breaker:  breaker.New(settings, now),
			health:   health{rules: rules, window: breaker.NewWindow(floorOf(rules))},
			notified: breaker.Closed,
		},
	}
	cs.closed.Store(true)
	return cs
}

// Headroom returns the number of tokens that the model of an edition was found to
// need for reasoning. It returns 0 if that is unknown or the Candidate is nil.
func (cs *Candidate) Headroom(edition int) int64 {
	if cs == nil {
		return 0
	}
	if h := cs.headroom.Load(); h != nil && h.edition == edition {
		return h.tokens
	}
	return 0
}

// headroom is the number of tokens that an edition needs for reasoning.
type headroom struct {
	edition int
	tokens  int64
}

// learnHeadroom reads the headroom from the error of an answer that was empty
// because reasoning had used up its limit.
func (cs *Candidate) learnHeadroom(err *contract.Error, edition int) {
	if err == nil || err.Type != "provider/empty" {
		return
	}
	n, _ := err.Details.Key("tokens/headroom").AsInt()
	for n > 0 && n <= maxHeadroom {
		known := cs.headroom.Load()
		if known != nil && (edition < known.edition || edition == known.edition && n <= known.tokens) ||
			cs.headroom.CompareAndSwap(known, &headroom{edition, n}) {
			return
		}
	}
}

// maxHeadroom bounds the headroom that is learned from an answer.
const maxHeadroom = 1 << 18

// Closed reports whether the breaker is closed.
func (cs *Candidate) Closed() bool { return cs.closed.Load() }

// Allow reports whether a call may be made, and if not, when the breaker may
// admit one; zero: not by itself. While the breaker ramps up, each call of Allow
// counts as a request.
func (cs *Candidate) Allow(now time.Time, edition int, version string) (ok bool, reopens time.Time) {
	if cs.closed.Load() {
		return true, time.Time{}
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, version)
	ok = cs.breaker.Allow(now)
	if !ok {
		reopens = cs.reopens(now)
	}
	return ok, reopens
}

// configure applies the settings of a call.
func (cs *Candidate) configure(plugin string, s registry.Breaker, q registry.Quality, now time.Time) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.state.configure(plugin, s, q)
}

// ReopensIn returns the time until the breaker may admit a call; ok is false if it
// does not reopen by itself.
func (cs *Candidate) ReopensIn(now time.Time) (wait time.Duration, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	at := cs.reopens(now)
	return at.Sub(now), !at.IsZero()
}

// Acquire takes a permit for a call, or returns false if the breaker rejects the call. The
// permit must be passed to Record or Return. A nil Candidate admits every call.
func (cs *Candidate) Acquire(now time.Time, edition int, version string) (breaker.Permit, bool) {
	if cs == nil {
		return breaker.Permit{}, true
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, version)
	return cs.breaker.Acquire(now)
}

// Return returns a permit that was not used to the breaker. A nil Candidate ignores it.
func (cs *Candidate) Return(now time.Time, p breaker.Permit) {
	if cs != nil {
		cs.report(now, p, breaker.Ignored, 0, 0)
	}
}

// report records the outcome of a call; see breaker.Breaker.Report.
func (cs *Candidate) report(now time.Time, p breaker.Permit, o breaker.Outcome, floor time.Duration, u float64) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.breaker.Report(now, p, o, floor, u)
}

// Admits reports whether the breaker would admit a call, without counting as a
// request.
func (cs *Candidate) Admits(now time.Time) bool {
	cs.mu.Lock()
	defer cs.unlock(now)
	return cs.breaker.Admits(now)
}

// trip opens the breaker after a failure that only a change of the
// configuration can fix, until the time in the error or until another edition
// serves (LLM-030). A result of an earlier edition returns the permit only.
func (cs *Candidate) trip(now time.Time, permit breaker.Permit, edition int, err *contract.Error) {
	until := time.Time{}
	if floor := RetryAfter(err); floor > 0 {
		until = now.Add(floor)
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	if edition != 0 && edition != cs.edition {
		cs.breaker.Report(now, permit, breaker.Ignored, 0, 0)
		return
	}
	cs.tripped = err
	cs.breaker.Trip(now, until)
}

// unlock releases the lock and delivers the notices.
func (cs *Candidate) unlock(now time.Time) {
	if st := cs.breaker.LastState(); st != cs.notified {
		cs.notified = st
		cs.noteState(now, st)
	}
	cs.closed.Store(cs.notified == breaker.Closed)
	notices := cs.notices
	cs.notices = nil
	cs.mu.Unlock()
	if cs.table.Notice != nil {
		for _, n := range notices {
			cs.table.Notice(n)
		}
	}
}

// Refusal returns the rejection of a call by the breaker, for binding. Its field Why is
// the reason for which the candidate is ejected or tripped; nil if the breaker is open
// because of failed calls.
func (cs *Candidate) Refusal(now time.Time) policy.Unavailable {
	cs.mu.Lock()
	defer cs.unlock(now)
	u := policy.Unavailable{Reason: policy.ReasonBreaker}
	switch {
	case cs.breaker.Tripped(now):
		u.Why = cs.tripped
	case cs.breaker.Ejected(now):
		u.Why = contract.Errorf("eval/low-score", ":%s is left out for :%s: %s", cs.capID, cs.intent, cs.health.why)
	}
	return u
}

// Substitute returns the capability that serves in place of a swapped one until
// its breaker is closed again; empty: none. A nil Candidate has none.
func (cs *Candidate) Substitute() string {
	if cs == nil || cs.closed.Load() {
		return ""
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.health.substitute
}

// OpenForDrift opens the breaker of a judge that no longer agrees with labelled
// answers, until another edition or version serves or ClearDrift is called
// (JDG-011).
func (cs *Candidate) OpenForDrift(now time.Time, edition int, version, judge, why string) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, version)
	cs.tripForDrift(now, judge, why)
}

// ClearDrift closes the breaker if it was opened for the drift of this judge.
func (cs *Candidate) ClearDrift(now time.Time, judge string) {
	cs.mu.Lock()
	defer cs.unlock(now)
	if cs.drift == judge {
		cs.drift = ""
		cs.breaker.Reset(now)
	}
}
