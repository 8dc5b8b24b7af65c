package dispatch

import (
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Notice reports a change in the state of a candidate.
type Notice struct {
	At    time.Time
	Event string
	CapID, Intent,
	Plugin string
	// Details is a map with further facts; :why is a sentence.
	Details edn.Value
}

// Events of a Notice.
const (
	EventOpened   = "breaker/opened"
	EventHalfOpen = "breaker/half-open"
	EventRamping  = "breaker/ramping"
	EventClosed   = "breaker/closed"

	EventDrift = "judge/drift" // the breaker opened because the judge drifted

	EventRescored      = "judge/rescored"       // the judge was measured again
	EventRescoreFailed = "judge/rescore-failed" // a measurement failed

	EventSwap       = "quality/swap"        // another capability or edition replaces it
	EventRestart    = "quality/restart"     // its processes are restarted
	EventEject      = "quality/eject"       // it is left out for a while
	EventQuarantine = "quality/quarantine"  // its plugin is left out too, since all its capabilities are
	EventSwapped    = "quality/swapped"     // the new edition serves
	EventFailed     = "quality/failed"      // the remediation failed
	EventCapReached = "quality/cap-reached" // the limit of ejected candidates is reached; it stays
	EventRecovered  = "quality/recovered"   // its pass rate recovered without a remediation
	EventReleased   = "quality/released"    // an operator readmitted it
)

// IsQuality reports whether the event is about the quality of answers.
func (n Notice) IsQuality() bool { return len(n.Event) > 8 && n.Event[:8] == "quality/" }

// phrases describe the events in sentences.
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

// Sentence returns the notice as one line for a log.
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

// note queues a notice for delivery by unlock. cs.mu must be held.
func (cs *candidateStats) note(now time.Time, event string, details edn.Value) {
	if details.IsNil() {
		details = edn.MustMap()
	}
	cs.notices = append(cs.notices, Notice{At: now, Event: event, CapID: cs.capID, Intent: cs.intent, Plugin: cs.plugin, Details: details})
}

// noteStateChange queues the notice of a new breaker state. cs.mu must be held.
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

// formatShare formats a share as an exact decimal.
func formatShare(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
