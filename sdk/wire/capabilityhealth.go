package wire

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

// Warmth is how near a capability is to working on one more call.
type Warmth uint8

// The degrees, the nearest first. WarmthUnknown makes no statement.
const (
	WarmthUnknown Warmth = iota
	Warm                 // what it stands on runs
	Warming              // what it stands on is being started, and calls wait for it
	Cold                 // the next call has to start it
)

// String gives the keyword of the degree without colon.
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

// CapabilityHealth is what a plugin says about one capability that stands on
// something of its own, such as a process or another machine. Everything but
// the name may be left at zero, which makes no statement.
type CapabilityHealth struct {
	// ID is the name as in the description.
	ID string
	// State is that of the capability, HealthUnknown for that of the plugin. A
	// capability that is not callable is passed over while others of the same
	// plugin are called.
	State HealthState
	// Reason and Source are as those of Health.
	Reason string
	Source contract.Source
	Warmth Warmth
	// InFlight are the calls that are worked on, Queued those that wait for a
	// place, Places how many there are.
	InFlight, Queued, Places int
	// Deaths is how often what it stands on has died since the process of the
	// plugin began, whether a call noticed or not. It never falls. A host counts
	// each of them once against the capability.
	Deaths uint64
	// RecentDeaths are those of late, as the plugin sees it.
	RecentDeaths int
}

// MaxCapabilityHealth is how many capabilities are read of one statement.
const MaxCapabilityHealth = 4096

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

// capabilitiesFrom reads what is there, as far as it has a name.
func capabilitiesFrom(hide hider, all []*pluginv1.CapabilityHealth) []CapabilityHealth {
	if len(all) == 0 {
		return nil
	}
	out := make([]CapabilityHealth, 0, min(len(all), MaxCapabilityHealth))
	for _, e := range all[:min(len(all), MaxCapabilityHealth)] {
		c := CapabilityHealth{
			ID:     e.GetCapId(),
			State:  knownState(e.GetState()),
			Reason: hide.text(e.GetReason()),
			Warmth: Warmth(e.GetWarmth()),

			InFlight: int(e.GetInFlight()), Queued: int(e.GetQueued()), Places: int(e.GetPlaces()),
			Deaths: e.GetDeaths(), RecentDeaths: int(e.GetRecentDeaths()),
		}
		if e.GetWarmth() < 0 || e.GetWarmth() > pluginv1.Warmth_WARMTH_COLD {
			c.Warmth = WarmthUnknown // of a later revision
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

// knownState has a state of a later revision as unknown.
func knownState(s pluginv1.HealthState) HealthState {
	if s < 0 || s > pluginv1.HealthState_HEALTH_STATE_DRAINING {
		return HealthUnknown
	}
	return HealthState(s)
}
