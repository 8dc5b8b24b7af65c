package stats

import (
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// state is the part of a Candidate that its lock guards. capID and intent do not
// change.
type state struct {
	capID, intent string
	plugin        string // the capability may move to another one

	settings registry.Breaker
	breaker  *breaker.Breaker
	health   health
	notified breaker.State   // last state in a notice
	notices  []Notice        // to deliver after unlock
	crash    string          // message of the last process crash that was counted
	tripped  *contract.Error // why the breaker was last tripped
	drift    string          // name of the drifted judge for which the breaker was tripped
	edition  int
	version  string

	// headroom is the largest that the model was found to need; nil: none is known.
	// It is read without the lock.
	headroom atomic.Pointer[headroom]
}

// configure applies the settings of a call and keeps what was recorded: calls
// from layers with different settings for the same capability and intent may
// alternate.
func (s *state) configure(plugin string, rules registry.Breaker, quality registry.Quality) {
	s.plugin = plugin
	s.health.configure(quality)
	if !s.settings.Equal(rules) {
		s.settings = rules
		s.breaker.SetSettings(rules)
	}
}

// askAgain is the wait before the next call of Allow for a half-open or ramping
// breaker.
const askAgain = 50 * time.Millisecond

// reopens returns the time at which the breaker may admit a call; zero: not by itself.
func (s *state) reopens(now time.Time) time.Time {
	at, ok := s.breaker.Reopens(now)
	if ok && at.IsZero() {
		return now.Add(askAgain)
	}
	return at
}

// observeInstance resets breaker and window if another edition or version of
// the capability serves.
func (s *state) observeInstance(now time.Time, edition int, version string) {
	if s.edition == edition && s.version == version {
		return
	}
	s.edition, s.version, s.drift = edition, version, ""
	s.breaker.Replaced(now)
	s.health.window.Replaced()
	s.health.renewed(now)
}

// tripForDrift opens the breaker of a judge that no longer agrees with labelled
// answers.
func (s *state) tripForDrift(now time.Time, judge, why string) {
	if s.drift != "" {
		return
	}
	s.drift, s.tripped = judge, contract.Errorf("judge/drift", ":%s is no longer used as judge %s: %s",
		s.capID, judge, why)
	s.breaker.Trip(now, time.Time{})
	s.notified = breaker.Open // the drift notice covers this state
	s.note(now, EventDrift, edn.MustMap(edn.K("judge"), edn.Text(judge), edn.K("why"), edn.Text(why)))
}

// eject opens the breaker because of quality.
func (s *state) eject(now time.Time, why string) (until time.Time) {
	until = s.breaker.Eject(now)
	s.health.renewed(now)
	s.health.why = why
	s.notified = breaker.Open // the notice of the ejection covers this state
	return until
}

// note queues a notice for delivery by unlock and returns it.
func (s *state) note(now time.Time, event string, details edn.Value) Notice {
	if details.IsNil() {
		details = edn.MustMap()
	}
	n := Notice{
		At:      now,
		Event:   event,
		CapID:   s.capID,
		Intent:  s.intent,
		Plugin:  s.plugin,
		Details: details,
	}
	s.notices = append(s.notices, n)
	return n
}

// noteState queues the notice of a new breaker state.
func (s *state) noteState(now time.Time, st breaker.State) {
	if st == breaker.Closed {
		s.health.substitute, s.health.why = "", ""
	}
	details := edn.MustMap()
	if st == breaker.Open {
		if at, ok := s.breaker.Reopens(now); ok {
			details = edn.MustMap(edn.K("until"), inst(at))
		}
	}
	s.note(now, map[breaker.State]string{
		breaker.Open:     EventOpened,
		breaker.HalfOpen: EventHalfOpen,
		breaker.Ramping:  EventRamping,
		breaker.Closed:   EventClosed,
	}[st], details)
}
