package wire

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Warmth is the readiness of the backend of a capability.
type Warmth uint8

// Values of Warmth, warmest first. WarmthUnknown means not stated.
const (
	WarmthUnknown Warmth = iota
	Warm                 // the backend is running
	Warming              // the backend is starting; calls wait for it
	Cold                 // the next call starts the backend
)

// String returns the keyword without colon.
func (w Warmth) String() string {
	switch w {
	case Warm:
		return "warm"
	case Warming:
		return "starting"
	case Cold:
		return "cold"
	}
	return "unknown"
}

// CapabilityHealth is the health of one capability with a backend of its own,
// such as a process or another machine. Every field but the ID may be zero,
// which means not stated.
type CapabilityHealth struct {
	// ID is the name as in the description.
	ID string
	// State is the state of the capability; HealthUnknown means the state of
	// the plugin. The host skips a capability that is not callable and keeps
	// calling the others.
	State HealthState
	// Reason and Source are like those of Health.
	Reason string
	Source contract.Source
	Warmth Warmth
	// InFlight are the running calls, Queued the waiting ones, Places the
	// number of calls that can run at the same time.
	InFlight, Queued, Places int
	// Deaths counts the crashes of the backend since the plugin process
	// started, including crashes between calls. It never decreases. The host
	// counts each crash once against the capability.
	Deaths uint64
	// RecentDeaths is the number of crashes that the plugin considers recent.
	RecentDeaths int
}

// maxCapabilityHealth is the maximum number of capabilities read from one
// health event.
const maxCapabilityHealth = 4096

func (c CapabilityHealth) proto() *pluginv1.CapabilityHealth {
	e := &pluginv1.CapabilityHealth{
		CapId:  c.ID,
		State:  pluginv1.HealthState(c.State),
		Reason: c.Reason,
		Warmth: pluginv1.Warmth(c.Warmth),

		InFlight: count(c.InFlight), Queued: count(c.Queued), Places: count(c.Places),
		Deaths: c.Deaths, RecentDeaths: count(c.RecentDeaths),
	}
	if c.Source != 0 {
		e.Source = c.Source.String()
	}
	return e
}

func count(n int) uint32 { return uint32(min(max(n, 0), 1<<31-1)) }

// capabilitiesFrom reads the entries that have a name.
func capabilitiesFrom(hide hider, all []*pluginv1.CapabilityHealth) []CapabilityHealth {
	if len(all) == 0 {
		return nil
	}
	out := make([]CapabilityHealth, 0, min(len(all), maxCapabilityHealth))
	for _, e := range all[:min(len(all), maxCapabilityHealth)] {
		c := CapabilityHealth{
			ID:     e.GetCapId(),
			State:  knownState(e.GetState()),
			Reason: hide.text(e.GetReason()),
			Warmth: Warmth(e.GetWarmth()),

			InFlight: int(e.GetInFlight()), Queued: int(e.GetQueued()), Places: int(e.GetPlaces()),
			Deaths: e.GetDeaths(), RecentDeaths: int(e.GetRecentDeaths()),
		}
		if e.GetWarmth() < 0 || e.GetWarmth() > pluginv1.Warmth_WARMTH_COLD {
			c.Warmth = WarmthUnknown // value of a later revision
		}
		if s := e.GetSource(); s != "" {
			c.Source, _ = contract.ParseSource(s)
		}
		if c.ID != "" {
			out = append(out, c)
		}
	}
	return out
}

// knownState maps a state of a later revision to unknown.
func knownState(s pluginv1.HealthState) HealthState {
	if s < 0 || s > pluginv1.HealthState_HEALTH_STATE_DRAINING {
		return HealthUnknown
	}
	return HealthState(s)
}
