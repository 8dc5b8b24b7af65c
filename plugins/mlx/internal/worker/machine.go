package worker

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// State is where a worker stands.
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
	Frozen   State = "frozen" // stopped by hand, until it is thawed
)

// Why a worker is stopped.
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
	// Took is how long the state lasted that ended.
	Took time.Duration
	PID  int // of the process that it is about; 0: none yet
	Run  uint64
}

// Do is what has to be done.
type Do string

// The orders.
const (
	// Spawn starts a process for the run and tells Spawned, then Answers, Failed
	// or Gone.
	Spawn Do = "spawn"
	// Stop ends the process of the run, by the ladder; Kill at once. Gone or
	// Failed follows.
	Stop Do = "stop"
	Kill Do = "kill"
)

// Action is one order. It is about the run that it names and no other.
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
	ready  time.Time // since when the process of the run answers
	run    uint64
	pid    int
	alive  bool // a process was ordered, and its end is not known
	calls  int
	after  State // what follows draining
	err    *contract.Error
	last   *contract.Error // what the last run died of

	transitions []Transition
	actions     []Action
}

// New is a cold worker.
func New(record *Record, now time.Time) *Machine {
	return &Machine{record: record, state: Cold, since: now}
}

// State is where the worker stands, and since when.
func (m *Machine) State() (State, time.Time) { return m.state, m.since }

// Run is the number of the last run, PID its process (0: none), Calls how many
// calls it answers.
func (m *Machine) Run() uint64 { return m.run }

// PID is the process of the run that is under way; 0: there is none.
func (m *Machine) PID() int { return m.pid }

// Calls are how many calls are being answered.
func (m *Machine) Calls() int { return m.calls }

// Alive tells whether there may be a process.
func (m *Machine) Alive() bool { return m.alive }

// Died is what the last run ended of, if nobody had asked it to end and none has
// answered since.
func (m *Machine) Died() *contract.Error { return m.last }

// Take gives what has happened and what has to be done since the last Take.
func (m *Machine) Take() ([]Transition, []Action) {
	t, a := m.transitions, m.actions
	m.transitions, m.actions = nil, nil
	return t, a
}

// Pending tells whether Take would give something.
func (m *Machine) Pending() bool { return len(m.transitions)+len(m.actions) > 0 }

func (m *Machine) to(now time.Time, next State, cause string) {
	m.transitions = append(m.transitions, Transition{From: m.state, To: next, Cause: cause, At: now, Took: now.Sub(m.since), PID: m.pid, Run: m.run})
	m.state, m.since = next, now
}

func (m *Machine) order(do Do, cause string) {
	m.actions = append(m.actions, Action{do, m.run, cause})
}

// Verdict is what a call may do.
type Verdict int

// The verdicts.
const (
	Go     Verdict = iota + 1 // ask the server
	Wait                      // until something changes
	Refuse                    // take the error
)

// Want says what a call may do that needs the server, and starts one if that is
// what it takes. waited is the run that the call has waited for, 0 if none: if
// that one failed, the call fails, and does not start the next.
func (m *Machine) Want(now time.Time, waited uint64, cause string) (Verdict, *contract.Error) {
	switch m.state {
	case Ready, Busy:
		return Go, nil
	case Starting:
		return Wait, nil
	case Draining:
		switch m.after {
		case Stopped:
			return Refuse, ending()
		case Frozen:
			return Refuse, frozen()
		}
		return Wait, nil
	case Frozen:
		return Refuse, frozen()
	case Stopped:
		return Refuse, ending()
	case Failed:
		if waited != 0 && waited == m.run {
			return Refuse, m.err
		}
	}
	if err := m.record.Blocked(now); err != nil {
		return Refuse, err
	}
	m.run++
	m.alive, m.pid, m.err = true, 0, nil
	m.to(now, Starting, cause)
	m.order(Spawn, cause)
	return Wait, nil
}

func frozen() *contract.Error {
	return contract.Errorf("model/frozen", "the model server was frozen by hand")
}

func ending() *contract.Error {
	return contract.Errorf("runtime/not-ready", "the plugin of the model server is ending").WithSource(contract.SourceDownstream)
}

// Spawned notes the process of a run.
func (m *Machine) Spawned(run uint64, pid int) {
	if run == m.run && m.alive {
		m.pid = pid
	}
}

// Answers notes that the process of a run answers.
func (m *Machine) Answers(now time.Time, run uint64) {
	if run == m.run && m.state == Starting {
		m.ready, m.last = now, nil
		m.to(now, Ready, "answers")
	}
}

// Begin and End count a call of a run. Begin is false if it may not begin.
func (m *Machine) Begin(now time.Time, run uint64) bool {
	if run != m.run || m.state != Ready && m.state != Busy {
		return false
	}
	if m.calls++; m.state == Ready {
		m.to(now, Busy, "call")
	}
	return true
}

// End notes the end of a call. It is true if the last one of a run has ended.
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

// Failed notes that a run came to nothing: no process of it is left. What
// cannot run here, and what another process keeps from running, is no death.
func (m *Machine) Failed(now time.Time, run uint64, err *contract.Error) {
	if run != m.run || !m.alive {
		return
	}
	m.alive, m.calls = false, 0
	if m.state == Draining {
		m.drained(now)
		return
	}
	switch err.Type {
	case "model/unavailable":
		m.record.Unavailable(now, err)
	case "model/port-in-use":
	default:
		err, _ = m.record.died(now, err, 0)
	}
	m.err, m.last = err, err
	m.to(now, Failed, err.Type)
	m.pid = 0
}

// Gone notes that the process of a run has ended, and of what if nobody had
// asked for it.
func (m *Machine) Gone(now time.Time, run uint64, err *contract.Error) {
	if run != m.run || !m.alive {
		return
	}
	if m.state == Starting {
		m.Failed(now, run, err)
		return
	}
	m.alive, m.calls = false, 0
	if m.state == Draining {
		m.drained(now)
		return
	}
	m.death(now, err)
	m.land(now, err.Type)
}

// death counts what a process that answered died of.
func (m *Machine) death(now time.Time, err *contract.Error) {
	looping := false
	if m.last, looping = m.record.died(now, err, now.Sub(m.ready)); looping {
		m.err = m.last
	}
}

// land is where a worker gets whose process ended by itself.
func (m *Machine) land(now time.Time, cause string) {
	next := Cold
	if err := m.record.Blocked(now); err != nil { // perhaps by the deaths of others
		next, m.err = Failed, err
	}
	m.to(now, next, cause)
	m.pid = 0
}

func (m *Machine) drained(now time.Time) {
	next := m.after
	m.after = ""
	if next == Cold && m.err != nil && m.record.Blocked(now) != nil {
		next = Failed
	}
	m.to(now, next, "ended")
	m.pid = 0
}

// Suspect gives a process up that lives and does not answer. It counts as dead.
func (m *Machine) Suspect(now time.Time, run uint64, err *contract.Error) {
	if run != m.run || m.state != Ready && m.state != Busy {
		return
	}
	m.death(now, err)
	m.drain(now, Cold, err.Type, Kill)
}

// drain stops the process; next follows.
func (m *Machine) drain(now time.Time, next State, cause string, how Do) {
	m.after = next
	m.to(now, Draining, cause)
	m.order(how, cause)
}

// Quit stops the process, if there is one; the next call starts another. A
// worker that failed gets a new chance.
func (m *Machine) Quit(now time.Time, cause string) {
	switch m.state {
	case Starting, Ready, Busy:
		m.drain(now, Cold, cause, Stop)
	case Failed:
		m.err = nil
		m.to(now, Cold, cause)
	}
}

// Freeze stops the process and keeps others from being started until Thaw.
func (m *Machine) Freeze(now time.Time) {
	switch m.state {
	case Starting, Ready, Busy:
		m.drain(now, Frozen, ManualFreeze, Stop)
	case Draining:
		if m.after != Stopped {
			m.after = Frozen
		}
	case Cold, Failed:
		m.err = nil
		m.to(now, Frozen, ManualFreeze)
	}
}

// Thaw ends Freeze.
func (m *Machine) Thaw(now time.Time) {
	switch {
	case m.state == Frozen:
		m.to(now, Cold, "thaw")
	case m.state == Draining && m.after == Frozen:
		m.after = Cold
	}
}

// Close stops the worker for good.
func (m *Machine) Close(now time.Time) {
	switch m.state {
	case Stopped:
	case Draining:
		m.after = Stopped
	case Starting, Ready, Busy:
		m.drain(now, Stopped, "close", Stop)
	default:
		m.to(now, Stopped, "close")
	}
}
