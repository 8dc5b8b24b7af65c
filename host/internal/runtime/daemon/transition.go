package daemon

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Transition is one change of the state of a plugin process. Generation is its incarnation number.
type Transition struct {
	Plugin     string
	Instance   int
	Generation int
	From, To   string
	Cause      string
	PID        int // 0 if there is no process
	Calls      int // number of calls that the end of a process canceled
	At         time.Time
	Fault      *contract.Error // nil if the change is not a failure
}

// Value returns the transition as one flat map, with the keys of the journal's plugin/transition
// record and :event :plugin.
func (t Transition) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("event", edn.K("plugin"))
	b.Key("plugin", edn.Text(t.Plugin))
	b.Key("generation", edn.Int(int64(t.Generation)))
	b.Key("from", edn.K(t.From))
	b.Key("to", edn.K(t.To))
	b.Key("cause", edn.K(t.Cause))
	b.Key("at", edn.Inst(t.At))
	b.OptInt("pid", int64(t.PID))
	if t.Calls > 0 {
		b.Key("calls", edn.Int(int64(t.Calls)))
	}
	if t.Fault != nil {
		b.Key("error", t.Fault.Value())
	}
	return b.Map()
}

// sink implements plugin.Sink. Log lines are dropped, because they are in the log files of the
// plugins.
type sink struct {
	each         func(Transition)
	recordHealth func(plugin.Statement)
}

var _ plugin.Sink = sink{}

// Transition implements plugin.Sink.
func (s sink) Transition(t plugin.Transition) {
	if s.each != nil {
		s.each(Transition{
			Plugin:     t.Plugin,
			Instance:   t.Instance,
			Generation: t.Generation,
			From:       string(t.From),
			To:         string(t.To),
			Cause:      string(t.Cause),
			PID:        t.PID,
			Calls:      t.Calls,
			At:         t.At,
			Fault:      t.Err,
		})
	}
}

// Health implements plugin.Sink.
func (s sink) Health(told plugin.Statement) { s.recordHealth(told) }

// Log implements plugin.Sink.
func (s sink) Log(plugin.Line) {}
