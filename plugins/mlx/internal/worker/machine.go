package worker

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// State is the state of a worker.
type State string

// The states.
const (
	Cold     State = "cold" // no process, one may be started
	Starting State = "starting"
	Ready    State = "ready"
	Busy     State = "busy"
	Draining State = "draining" // no new calls, the process is being stopped
	Stopped  State = "stopped"  // for good
	Failed   State = "failed"
	Frozen   State = "frozen" // stopped by an operator, until Thaw
)

// alive reports whether there may be a process in the state.
func (s State) alive() bool { return s == Starting || s == Ready || s == Busy || s == Draining }

// rank orders the states without a process: a request to stop overrides those
// of lower rank.
func (s State) rank() int {
	switch s {
	case Frozen:
		return 1
	case Stopped:
		return 2
	}
	return 0
}

// The reasons for stopping a worker.
const (
	MaxPerModel  = "session/max-per-model"
	TTLExpired   = "session/ttl-expired"
	ManualFreeze = "session/manual-freeze"
	Restart      = "session/restart"
)

// Transition is one change of state.
type Transition struct {
	From, To State
	Cause    string
	At       time.Time
	// Took is the duration of the state that ended.
	Took time.Duration
	PID  int // process of the run; 0: none yet
	Run  uint64
}

// Do is the kind of an action.
type Do string

// The kinds of action.
const (
	// Spawn starts a process for the run. The owner reports Spawned and Answers,
	// and always Gone.
	Spawn Do = "spawn"
	// Stop ends the process of the run step by step, Kill at once.
	Stop Do = "stop"
	Kill Do = "kill"
)

// Action is one action on the process of the run that it names.
type Action struct {
	Do    Do
	Run   uint64
	Cause string
}

// Machine is one worker.
type Machine struct {
	record *Record
	state  State
	since  time.Time
	ready  time.Time // when the process of the run became ready
	run    uint64
	pid    int
	calls  int
	after  State           // the state after draining
	err    *contract.Error // why no other run may start
	last   *contract.Error // of the last crash or failed start; nil after a start

	transitions []Transition
	actions     []Action
}

// New returns a cold worker.
func New(record *Record, now time.Time) *Machine {
	return &Machine{record: record, state: Cold, since: now}
}

// State returns the state of the worker, and the time at which it began.
func (m *Machine) State() (State, time.Time) { return m.state, m.since }

// Run returns the number of the last run, 0 if there was none.
func (m *Machine) Run() uint64 { return m.run }

// PID returns the process id of the current run, 0 if there is no process.
func (m *Machine) PID() int { return m.pid }

// Calls returns the number of calls in flight.
func (m *Machine) Calls() int { return m.calls }

// Alive reports whether the worker may have a process.
func (m *Machine) Alive() bool { return m.state.alive() }

// Died returns the error of the last crash or failed start, or nil after a later
// run became ready.
func (m *Machine) Died() *contract.Error { return m.last }

// Take returns the transitions and actions since the last Take.
func (m *Machine) Take() ([]Transition, []Action) {
	t, a := m.transitions, m.actions
	m.transitions, m.actions = nil, nil
	return t, a
}

// Pending reports whether Take would return anything.
func (m *Machine) Pending() bool { return len(m.transitions)+len(m.actions) > 0 }

func (m *Machine) to(now time.Time, next State, cause string) {
	m.transitions = append(m.transitions, Transition{
		From:  m.state,
		To:    next,
		Cause: cause,
		At:    now,
		Took:  now.Sub(m.since),
		PID:   m.pid,
		Run:   m.run,
	})
	m.state, m.since = next, now
	if !next.alive() {
		m.pid, m.calls = 0, 0
	}
}

func (m *Machine) order(do Do, cause string) {
	m.actions = append(m.actions, Action{do, m.run, cause})
}

// Verdict is the decision of Want.
type Verdict int

// The verdicts.
const (
	Go     Verdict = iota + 1 // call the server
	Wait                      // until the state changes
	Refuse                    // return the error
)

// Want decides about a call that needs the server, and starts one if necessary.
// waited is the run that the call has waited for, 0 if none: if that run
// failed, the call fails and does not start the next.
func (m *Machine) Want(now time.Time, waited uint64, cause string) (Verdict, *contract.Error) {
	goal := m.state
	if goal == Draining {
		goal = m.after
	}
	switch {
	case goal == Ready, goal == Busy:
		return Go, nil
	case goal == Frozen:
		return Refuse, contract.Errorf("model/frozen", "the model server was frozen by an operator")
	case goal == Stopped:
		return Refuse, Ending()
	case m.Alive():
		return Wait, nil
	case m.state == Failed && waited != 0 && waited == m.run:
		return Refuse, m.err
	}
	if err := m.record.Blocked(now); err != nil {
		return Refuse, err
	}
	m.run++
	m.err = nil
	m.to(now, Starting, cause)
	m.order(Spawn, cause)
	return Wait, nil
}

// Ending returns the error of calls to a plugin that is being stopped.
func Ending() *contract.Error {
	return contract.Errorf("runtime/not-ready", "the plugin of the model server is shutting down").
		WithSource(contract.SourceDownstream)
}

// Spawned records the process of a run. It ignores a run that is not the current one.
func (m *Machine) Spawned(run uint64, pid int) {
	if run == m.run && m.Alive() {
		m.pid = pid
	}
}

// Answers records that the process of a run is ready.
func (m *Machine) Answers(now time.Time, run uint64) {
	if run == m.run && m.state == Starting {
		m.ready, m.last = now, nil
		m.to(now, Ready, "answers")
	}
}

// Begin records the start of a call in a run. It returns false if the run is not the current one or
// is not ready; the call must then not begin.
func (m *Machine) Begin(now time.Time, run uint64) bool {
	if run != m.run || m.state != Ready && m.state != Busy {
		return false
	}
	if m.calls++; m.state == Ready {
		m.to(now, Busy, "call")
	}
	return true
}

// End records the end of a call. It returns true if no call of the run is left. It ignores a run
// that is not the current one.
func (m *Machine) End(now time.Time, run uint64) bool {
	if run != m.run || m.calls == 0 {
		return false
	}
	if m.calls--; m.calls > 0 {
		return false
	}
	if m.state == Busy {
		m.to(now, Ready, "idle")
	}
	return true
}

// Gone records that no process of a run is left. err is the cause; it is required
// unless the end was ordered. A failed start is not counted as a crash if the server
// cannot run on this machine or another process prevents the start.
func (m *Machine) Gone(now time.Time, run uint64, err *contract.Error) {
	switch {
	case run != m.run || !m.Alive():
	case m.state == Draining:
		m.settle(now, m.after, "ended")
	case m.state == Starting:
		switch err.Type {
		case "model/unavailable":
			m.record.Unavailable(now, err)
		case "model/port-in-use":
		default:
			err = m.record.died(now, err, 0)
		}
		m.err, m.last = err, err
		m.to(now, Failed, err.Type)
	default:
		m.death(now, err)
		m.settle(now, Cold, err.Type)
	}
}

// death records the crash of a process that was ready. Crashes, also those of other servers, can
// block the next start.
func (m *Machine) death(now time.Time, err *contract.Error) {
	m.last = m.record.died(now, err, now.Sub(m.ready))
	m.err = m.record.Blocked(now)
}

// settle sets the state after the end of a process that was ready or ordered to
// end.
func (m *Machine) settle(now time.Time, next State, cause string) {
	if next == Cold && m.err != nil && m.record.Blocked(now) != nil {
		next = Failed
	}
	m.to(now, next, cause)
}

// Suspect kills the process of a run that is alive but does not respond, and
// counts that as a crash.
func (m *Machine) Suspect(now time.Time, run uint64, err *contract.Error) {
	if run != m.run || m.state != Ready && m.state != Busy {
		return
	}
	m.death(now, err)
	m.drain(now, Cold, err.Type, Kill)
}

// drain stops the process; next is the state after it.
func (m *Machine) drain(now time.Time, next State, cause string, how Do) {
	m.after = next
	m.to(now, Draining, cause)
	m.order(how, cause)
}

// end stops the process, if there is one. next is the state after it.
func (m *Machine) end(now time.Time, next State, cause string) {
	switch {
	case m.state == Draining:
		if next.rank() > m.after.rank() {
			m.after = next
		}
	case m.Alive():
		m.drain(now, next, cause, Stop)
	case next != m.state && next.rank() >= m.state.rank():
		m.err = nil
		m.to(now, next, cause)
	}
}

// Quit stops the process, if there is one; the next call starts another. A
// failed worker may start again.
func (m *Machine) Quit(now time.Time, cause string) { m.end(now, Cold, cause) }

// Freeze stops the process and prevents starts until Thaw.
func (m *Machine) Freeze(now time.Time) { m.end(now, Frozen, ManualFreeze) }

// Thaw ends Freeze: the worker becomes cold, once its process has ended. It does nothing if the
// worker is not frozen.
func (m *Machine) Thaw(now time.Time) {
	switch {
	case m.state == Frozen:
		m.to(now, Cold, "thaw")
	case m.state == Draining && m.after == Frozen:
		m.after = Cold
	}
}

// Close stops the worker permanently.
func (m *Machine) Close(now time.Time) { m.end(now, Stopped, "close") }
