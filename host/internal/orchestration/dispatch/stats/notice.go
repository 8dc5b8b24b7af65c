package stats

import (
	"strconv"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Notice reports a change in the state of a candidate, of a judge, or of the learned order
// for an intent.
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

	EventPriorsReset   = "dispatch/priors-reset" // learned dispatch starts again from the priors
	EventOutcomesDrift = "dispatch/drift"        // its latest outcomes have replaced the older ones

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
	EventOpened:        "has an open breaker",
	EventHalfOpen:      "is probed with one call",
	EventRamping:       "gets a share of the calls again",
	EventClosed:        "has a closed breaker again",
	EventDrift:         "has drifted from its calibration and is not called as a judge",
	EventPriorsReset:   "learns the order of its candidates from the start",
	EventOutcomesDrift: "no longer passes its gates as often as before, or more often",

	EventRescored:      "was measured again with the labelled answers",
	EventRescoreFailed: "could not be measured again",

	EventSwap:       "is being swapped",
	EventRestart:    "is being restarted",
	EventEject:      "is ejected",
	EventQuarantine: "is ejected, and so is the rest of its plugin, which is quarantined",
	EventSwapped:    "is served by a new edition",
	EventFailed:     "is unchanged",
	EventCapReached: "should be ejected but stays",
	EventRecovered:  "has recovered by itself",
	EventReleased:   "was readmitted by an operator",
}

// Sentence returns the notice as one line for a log.
func (n Notice) Sentence() string {
	text := ":" + n.Intent
	if n.CapID != "" {
		text = ":" + n.CapID + " for " + text
	}
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

func inst(t time.Time) edn.Value { return edn.Inst(t.UTC().Truncate(time.Millisecond)) }

// formatShare formats a share as an exact decimal.
func formatShare(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
