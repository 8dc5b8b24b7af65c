package flowtest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Log is one operation: its rules, its events, and the commands that were open
// after each of them.
type Log struct {
	Rules  flow.Rules
	Events []flow.Event
	Open   [][]flow.Command
	Ended  bool
}

// Add adds an event with the commands that are open after it.
func (l *Log) Add(e flow.Event, open []flow.Command) {
	l.Events, l.Open = append(l.Events, Copy(e)), append(l.Open, Commands(open))
	l.Ended = slices.ContainsFunc(open, func(c flow.Command) bool { return c.Kind == flow.Finish })
}

// equal reports whether two values of one type are equal, values of EDN and
// errors by their content.
func equal(a, b reflect.Value) bool {
	switch x := a.Interface().(type) {
	case edn.Value:
		return x.Equal(b.Interface().(edn.Value))
	case *contract.Error:
		y := b.Interface().(*contract.Error)
		return x == y || x != nil && y != nil && x.Value().Equal(y.Value())
	}
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() && b.IsNil() || !a.IsNil() && !b.IsNil() && equal(a.Elem(), b.Elem())
	case reflect.Slice:
		same := a.Len() == b.Len()
		for i := 0; same && i < a.Len(); i++ {
			same = equal(a.Index(i), b.Index(i))
		}
		return same
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// Copy returns a copy of e with its own Failure and list of accepted candidates.
func Copy(e flow.Event) flow.Event {
	e.Failure = clone(e.Failure)
	e.Situation.Accepted = slices.Clone(e.Situation.Accepted)
	return e
}

// Commands returns copies of the commands, each with its own Failure.
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

// Check fails tb if the invariant does not hold after each event of the log.
func (l *Log) Check(tb testing.TB) {
	tb.Helper()
	var m flow.Machine
	m.Begin(l.Rules)
	for i, e := range l.Events {
		own := Copy(e)
		m.Apply(&own)
		if got := m.Open(); !equal(reflect.ValueOf(got), reflect.ValueOf(l.Open[i])) {
			tb.Errorf("after %d of %d events of a %s (%+v) these commands are open:\n%+v\nwant\n%+v", i+1, len(l.Events),
				l.Rules.Strategy, e, got, l.Open[i])
			return
		}
	}
}

// Observe returns a dispatch.Observer that calls Check when an operation ends.
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
