package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
)

// Log is one operation: its rules, its events, and the commands that were open
// after each of them.
type Log struct {
	Rules  flow.Rules
	Events []flow.Event
	Open   []string
	Ended  bool
}

// Add adds an event with the commands that are open after it.
func (l *Log) Add(e flow.Event, open []flow.Command) {
	l.Events, l.Open = append(l.Events, Copy(e)), append(l.Open, text(open))
	l.Ended = slices.ContainsFunc(open, func(c flow.Command) bool { return c.Kind == flow.Finish })
}

// text returns commands with their values.
func text(open []flow.Command) string {
	var b strings.Builder
	for _, c := range open {
		f := clone(c.Failure)
		c.Failure = nil
		fmt.Fprintf(&b, "%+v\n", c)
		if f != nil {
			err := f.Err
			f.Err = nil
			fmt.Fprintf(&b, "\tafter %v %+v\n", err.Value(), *f)
		}
	}
	return b.String()
}

// Copy returns an event that shares no failure with another.
func Copy(e flow.Event) flow.Event {
	e.Failure = clone(e.Failure)
	e.Situation.Accepted = slices.Clone(e.Situation.Accepted)
	return e
}

// Commands returns commands that share no failure with others.
func Commands(open []flow.Command) []flow.Command {
	all := slices.Clone(open)
	for i := range all {
		all[i].Failure = clone(all[i].Failure)
	}
	return all
}

func clone(f *flow.Failure) *flow.Failure {
	if f == nil {
		return nil
	}
	own := *f
	return &own
}

// Check fails tb if the law does not hold for every cut of the log.
func (l *Log) Check(tb testing.TB) {
	tb.Helper()
	var m flow.Machine
	m.Begin(l.Rules)
	for i, e := range l.Events {
		m.Apply(Copy(e))
		if got := text(m.Open()); got != l.Open[i] {
			tb.Errorf("after %d of %d events of a %s (%+v) these commands are open:\n%swant\n%s", i+1, len(l.Events),
				l.Rules.Strategy, e, got, l.Open[i])
			return
		}
	}
}

// Observe returns a dispatch.Observer that checks the law for each operation.
func Observe(tb testing.TB) func(flow.Rules) func(flow.Event, []flow.Command) {
	return func(rules flow.Rules) func(flow.Event, []flow.Command) {
		l := &Log{Rules: rules}
		return func(e flow.Event, open []flow.Command) {
			if l.Add(e, open); l.Ended {
				l.Check(tb)
			}
		}
	}
}
