package dispatch

import (
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Notice is something that changed about a candidate.
type Notice struct {
	At    time.Time
	Event string
	CapID, Intent,
	Plugin string
	// Details are what is known beside, a map.
	Details edn.Value
	// Err is what went wrong, nil if nothing did.
	Err *contract.Error
}

// The events.
const (
	EventOpened   = "breaker/opened"
	EventHalfOpen = "breaker/half-open"
	EventRamping  = "breaker/ramping"
	EventClosed   = "breaker/closed"

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

// Sentence says for a log what happened.
func (n Notice) Sentence() string {
	who := ":" + n.CapID + " for :" + n.Intent
	if n.Plugin != "" {
		who += " (plugin " + n.Plugin + ")"
	}
	if why, ok := n.Details.Key("why").AsString(); ok {
		return who + ": " + why
	}
	if n.Err != nil {
		return who + ": " + n.Err.FullMessage()
	}
	return who
}

// note is kept until the lock is free. It is called with the lock.
func (p *page) note(now time.Time, event string, details edn.Value) {
	if details.IsNil() {
		details = edn.MustMap()
	}
	p.news = append(p.news, Notice{At: now, Event: event, CapID: p.capID, Intent: p.intent, Plugin: p.plugin, Details: details})
}

// turned notes that the breaker is in another state. It is called with the
// lock.
func (p *page) turned(now time.Time, st breaker.State) {
	if st == breaker.Closed {
		p.standing.stead, p.standing.why = "", ""
	}
	details := edn.MustMap()
	if st == breaker.Open {
		if at, ok := p.breaker.Reopens(now); ok {
			details = edn.MustMap(edn.K("until"), edn.Inst(at.UTC().Truncate(time.Millisecond)))
		}
	}
	p.note(now, map[breaker.State]string{
		breaker.Open: EventOpened, breaker.HalfOpen: EventHalfOpen, breaker.Ramping: EventRamping, breaker.Closed: EventClosed,
	}[st], details)
}

// formatShare is a share as an exact decimal.
func formatShare(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
