package dispatch

import (
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Notice is something that changed about a candidate.
type Notice struct {
	At    time.Time
	Event string
	CapID, Intent,
	Plugin string
	// Details are what is known beside, a map; :why is a sentence.
	Details edn.Value
}

// The events.
const (
	EventOpened   = "breaker/opened"
	EventHalfOpen = "breaker/half-open"
	EventRamping  = "breaker/ramping"
	EventClosed   = "breaker/closed"

	EventDrift = "judge/drift" // its grades are not believed any more

	EventRescored      = "judge/rescored"       // it graded the labelled answers again
	EventRescoreFailed = "judge/rescore-failed" // it could not be made to

	EventSwap       = "quality/swap"        // another takes its place
	EventRestart    = "quality/restart"     // its processes are started anew
	EventEject      = "quality/eject"       // it is left out for a while
	EventQuarantine = "quality/quarantine"  // so is the plugin, which serves nothing else
	EventSwapped    = "quality/swapped"     // the new edition answers
	EventFailed     = "quality/failed"      // what was to be done could not be
	EventCapReached = "quality/cap-reached" // it would have to be left out, and too many are
	EventRecovered  = "quality/recovered"   // it is well again by itself
	EventReleased   = "quality/released"    // an operator lets it in again
)

// IsQuality tells whether the event is about answers and not about failures.
func (n Notice) IsQuality() bool { return len(n.Event) > 8 && n.Event[:8] == "quality/" }

// phrases say what each event means for its candidate.
var phrases = map[string]string{
	EventOpened:        "failed too often and is left alone",
	EventHalfOpen:      "is asked once, to see whether it is back",
	EventRamping:       "is let in again, for a share of the calls",
	EventClosed:        "is wholly in again",
	EventDrift:         "does not grade as it did when it was calibrated, and is not asked any more",
	EventRescored:      "has graded the labelled answers again",
	EventRescoreFailed: "could not be had to grade the labelled answers again",

	EventSwap:       "is being swapped",
	EventRestart:    "is started anew",
	EventEject:      "is left out",
	EventQuarantine: "takes its plugin out of service, which has nothing else to serve",
	EventSwapped:    "is served by a new edition",
	EventFailed:     "is as it was",
	EventCapReached: "should be left out and serves on",
	EventRecovered:  "is well again by itself",
	EventReleased:   "was let in again by an operator",
}

// Sentence says for a log what happened.
func (n Notice) Sentence() string {
	text := ":" + n.CapID + " for :" + n.Intent
	if n.Plugin != "" {
		text += " (plugin " + n.Plugin + ")"
	}
	text += " " + phrases[n.Event]
	if to, ok := n.Details.Key("to").AsKeyword(); ok {
		text += " for :" + to
	}
	if until, ok := n.Details.Key("until").AsInst(); ok && n.Event == EventOpened {
		text += " for " + until.Sub(n.At).Round(100*time.Millisecond).String()
	}
	if why, ok := n.Details.Key("why").AsString(); ok {
		text += ": " + why
	}
	return text
}

// note is kept until the lock is free. It is called with the lock.
func (cs *candidateStats) note(now time.Time, event string, details edn.Value) {
	if details.IsNil() {
		details = edn.MustMap()
	}
	cs.notices = append(cs.notices, Notice{At: now, Event: event, CapID: cs.capID, Intent: cs.intent, Plugin: cs.plugin, Details: details})
}

// turned notes that the breaker is in another state. It is called with the
// lock.
func (cs *candidateStats) noteStateChange(now time.Time, st breaker.State) {
	if st == breaker.Closed {
		cs.remediation.substitute, cs.remediation.why = "", ""
	}
	details := edn.MustMap()
	if st == breaker.Open {
		if at, ok := cs.breaker.Reopens(now); ok {
			details = edn.MustMap(edn.K("until"), edn.Inst(at.UTC().Truncate(time.Millisecond)))
		}
	}
	cs.note(now, map[breaker.State]string{
		breaker.Open: EventOpened, breaker.HalfOpen: EventHalfOpen, breaker.Ramping: EventRamping, breaker.Closed: EventClosed,
	}[st], details)
}

// formatShare is a share as an exact decimal.
func formatShare(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
