package view

import (
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
)

// Select determines which frames of a node a view selects from.
type Select string

// The selections.
const (
	Heads   Select = "heads"   // the head of each type
	History Select = "history" // also frames that are not heads, and those of earlier states
	Fresh   Select = "fresh"   // heads that are fresh
)

// Order determines the order of frames.
type Order string

// The orderings of views.
const (
	Recency Order = "recency" // the newest first
	ByType  Order = "type"    // as View.Priority lists the types, or by name
	ByAgent Order = "agent"   // as View.Priority lists the agents, or by name
)

// View selects frames of one node.
type View struct {
	MaxFrames int
	MaxBytes  int // of the texts
	Select    Select
	Order     Order
	// Priority lists types or agents for the orderings that need them. Frames of
	// types or agents that are not listed come last, the newest first.
	Priority []string
	Filters  []Filter
	// Include lists states to include besides fresh. With Deleted, a removed path
	// can be read.
	Include []store.HeadState
	Content bool
}

// Limits of views and compositions: the defaults, and the maxima that no configuration
// or request can raise.
const (
	DefaultFrames = 100
	DefaultBytes  = 1 << 20
	mostFrames    = 1000
	mostBytes     = 8 << 20
	mostRelated   = 100 // nodes of a composition
)

// Default returns the view for requests that name no view.
func Default() View {
	return View{
		MaxFrames: DefaultFrames,
		MaxBytes:  DefaultBytes,
		Select:    Heads,
		Order:     Recency,
		Include:   []store.HeadState{store.Stale},
		Content:   true,
	}
}

// BuiltIn returns the named views that exist without a configuration.
func BuiltIn() map[string]View {
	with := func(change func(*View)) View {
		v := Default()
		change(&v)
		return v
	}
	return map[string]View{
		"default":  Default(),
		"heads":    with(func(v *View) { v.Select = Heads }),
		"history":  with(func(v *View) { v.Select = History }),
		"fresh":    with(func(v *View) { v.Select = Fresh }),
		"by-type":  with(func(v *View) { v.Order = ByType }),
		"by-agent": with(func(v *View) { v.Order = ByAgent }),
	}
}

// shows reports whether the view includes heads in a state. A frame that is not
// a head has none.
func (v *View) shows(s store.HeadState) bool {
	switch {
	case s == "" || s == store.Fresh:
		return true
	case v.Select == Fresh:
		return false
	}
	return slices.Contains(v.Include, s)
}
