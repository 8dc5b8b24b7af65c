package registry

// The actions on a capability whose answers fail too often.
const (
	ActionSwap       = "swap"       // another edition or capability replaces it
	ActionRestart    = "restart"    // its processes are restarted
	ActionQuarantine = "quarantine" // it gets no calls
)

// Quality holds the quality settings of a capability, or of those that serve an intent.
// Zero fields are unset. Window and MinSamples count verdicts on answers.
type Quality struct {
	Window, MinSamples int
	// MinPassRate is the minimum share of answers that pass their gates; 0 means no
	// minimum. To recover, the share must exceed it by Hysteresis.
	MinPassRate, Hysteresis Share
	// Action is one of the Action constants.
	Action string
	// SwapTo is the capability that replaces a swapped one; empty: the next
	// edition of its plugin.
	SwapTo string
	// MaxEjected is the maximum share of an intent's candidates that may be
	// ejected at once.
	MaxEjected Share
}

// Share is a number from 0 to 1, or unset.
type Share struct {
	V   float64
	Set bool
}

// ShareOf returns a set share.
func ShareOf(v float64) Share { return Share{V: v, Set: true} }

// Over returns q with unset fields taken from weak.
func (q Quality) Over(weak Quality) Quality {
	if q.Window != 0 {
		weak.Window = q.Window
	}
	if q.MinSamples != 0 {
		weak.MinSamples = q.MinSamples
	}
	for _, share := range []struct{ from, to *Share }{
		{&q.MinPassRate, &weak.MinPassRate}, {&q.Hysteresis, &weak.Hysteresis}, {&q.MaxEjected, &weak.MaxEjected},
	} {
		if share.from.Set {
			*share.to = *share.from
		}
	}
	if q.Action != "" {
		weak.Action = q.Action
	}
	if q.SwapTo != "" {
		weak.SwapTo = q.SwapTo
	}
	return weak
}
