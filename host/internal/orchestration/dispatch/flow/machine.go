package flow

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Machine is the state machine of one operation: a cascade, or parallel attempts
// followed by a cascade that retries the candidates that failed.
type Machine struct {
	core
	cascade  cascade
	parallel *parallel // nil if the operation began as a cascade
	first    [1]Command
	name     [1]string
}

// core is the state that cascade and parallel share.
type core struct {
	rules Rules
	commands
	tried
	failures []*failed // of parallel attempts
}

// Begin starts an operation and returns its first commands. The machine must be
// new, and must not be copied afterwards.
func (m *Machine) Begin(rules Rules) []Command {
	m.rules, m.open = rules, m.first[:0]
	m.tried = tried{used: m.name[:0], most: rules.MaxCandidates, begun: true}
	m.cascade.core = &m.core
	if rules.Strategy == policy.Cascade {
		m.cascade.find()
		return m.open
	}
	m.parallel = &parallel{core: &m.core, cascade: &m.cascade, missing: rules.Width}
	if rules.Strategy == policy.Hedge {
		m.parallel.missing = 1
	}
	m.parallel.proceed()
	return m.open
}

// Open returns the commands that are not answered, oldest first. A Finish stays
// open. The slice is valid until the next call of Apply.
func (m *Machine) Open() []Command { return m.open }

// Apply continues after an event, which it does not modify, and returns the new
// commands. They are valid until the next call of Apply. It panics if the command
// of the event is not open.
func (m *Machine) Apply(event *Event) []Command {
	m.emitted = 0
	c, e := m.answered(event.Of), event
	if event.Failure != nil {
		own, failure := *event, *event.Failure // the event stays as it is
		own.Failure, e = &failure, &own
	}
	if p := m.parallel; p != nil && !p.over {
		p.apply(&c, e)
	} else {
		m.cascade.apply(&c, e)
	}
	return m.open[len(m.open)-m.emitted:]
}

// GoesOn reports whether the operation would try another candidate after f if
// there were one.
func (m *Machine) GoesOn(f *Failure) bool {
	return !m.Exhausted() && withNext(f) == Next
}

// ends reports whether a failure ends the operation even if candidates are left.
func ends(f *Failure) bool {
	return withNext(f) == End
}

// withNext returns the action after f if there were another candidate.
func withNext(f *Failure) Action {
	hopeful := *f
	hopeful.NextLeft = true
	action, _ := Decide(hopeful)
	return action
}

// commands holds the open commands of an operation and numbers new ones.
type commands struct {
	open    []Command // emitted and not answered
	newest  int       // ID of the newest command
	emitted int       // commands of the last event, at the end of open
}

// answered removes an open command, with the Stop commands that target it, and
// returns it.
func (o *commands) answered(id int) Command {
	if len(o.open) == 1 && o.open[0].ID == id { // the usual case
		c := o.open[0]
		o.open = o.open[:0]
		return c
	}
	i := slices.IndexFunc(o.open, func(c Command) bool { return c.ID == id })
	if i < 0 {
		panic(fmt.Sprintf("flow: event of command %d, which is not open", id))
	}
	c := o.open[i]
	o.open = slices.DeleteFunc(o.open, func(x Command) bool { return x.ID == id || x.Kind == Stop && x.Target == id })
	return c
}

func (o *commands) emit(c Command) int {
	o.newest++
	c.ID = o.newest
	o.open = append(o.open, c)
	o.emitted++
	return c.ID
}

func (o *commands) finish(attempt int, outscored []int, f *Failure) {
	o.emit(Command{Kind: Finish, Attempt: attempt, Outscored: outscored, Failure: f})
}

// failed is a candidate that failed as a parallel attempt.
type failed struct {
	capID   string
	failure *Failure
}

func (o *core) failureOf(capID string) *Failure {
	for _, f := range slices.Backward(o.failures) {
		if f.capID == capID {
			return f.failure
		}
	}
	return nil
}

func (o *core) refuseOnce(f *Failure) {
	if f.Owed > 0 {
		o.emit(Command{Kind: Refuse, Attempt: f.Owed})
		f.Owed = 0
	}
}

// refuseRest emits Refuse for the refused answers of parallel attempts that do not
// count against their candidates yet.
func (o *core) refuseRest() {
	for _, f := range o.failures {
		o.refuseOnce(f.failure)
	}
}
