package plugin

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// State is the state of an instance.
type State string

// The states of an instance.
const (
	Stopped     State = "stopped"     // no process, no start planned
	Starting    State = "starting"    // a process is being started and described
	Configuring State = "configuring" // not reported ready yet
	Ready       State = "ready"       // it takes calls
	Degraded    State = "degraded"    // running with a problem; it may or may not take calls
	Draining    State = "draining"    // takes no more calls and is being stopped
	Backoff     State = "backoff"     // no process; restarts after a delay
	Quarantined State = "quarantined" // no process; only an operator starts it
)

// live reports whether a configured process may exist in the state.
func (s State) live() bool {
	return s == Configuring || s == Ready || s == Degraded
}

// Cause is the reason for a transition.
type Cause string

// The causes.
const (
	CauseStart        Cause = "start"         // first start
	CauseStarted      Cause = "started"       // handshake and description succeeded
	CauseReady        Cause = "ready"         // reported ready
	CauseReadyTimeout Cause = "ready-timeout" // did not report ready in time
	CauseDegraded     Cause = "degraded"      // reported a problem
	CauseNotReady     Cause = "not-ready"     // reported that it must not be called
	CauseCrashed      Cause = "crashed"       // the process ended unexpectedly
	CauseExited       Cause = "exited"        // the process ended with status 0
	CauseUnresponsive Cause = "unresponsive"  // the process runs but does not answer
	CauseStartFailed  Cause = "start-failed"  // the start failed
	CauseConfig       Cause = "config"        // rejects its configuration; permanent
	CauseProtocol     Cause = "protocol"      // violates the protocol; permanent
	CauseIntegrity    Cause = "integrity"     // not the approved or described program; permanent
	CauseMissing      Cause = "missing"       // the program cannot be executed; permanent
	CauseCrashLoop    Cause = "crash-loop"    // more failures than the policy allows
	CauseBackoffOver  Cause = "backoff-over"
	CauseStop         Cause = "stop"
	CauseStopped      Cause = "stopped"
	CauseRestart      Cause = "restart"
	CauseRelease      Cause = "release"
	CauseQuarantine   Cause = "quarantine"
	CauseIsolation    Cause = "isolation" // the isolation does not permit the start
)

// Causes of the replacement of an edition.
const (
	CauseSwap    Cause = "swap"    // requested by an operator
	CauseReload  Cause = "reload"  // the configuration changed
	CauseQuality Cause = "quality" // the answers of the old edition are bad
)

// Causes of a change of the pool.
const (
	CauseLoad    Cause = "load"    // calls wait
	CauseIdle    Cause = "idle"    // no calls for IdleTTL
	CauseRecycle Cause = "recycle" // the process has answered MaxCalls
	CauseOverdue Cause = "overdue" // canceled calls go on in the process
	CauseStandby Cause = "standby" // a standby is configured
	CauseShrink  Cause = "shrink"  // the configuration has fewer processes
	CauseRemove  Cause = "remove"  // the plugin was removed from the configuration
	CauseAbandon Cause = "abandon" // its change was rolled back
	CauseTrial   Cause = "trial"   // it failed its trial
)

// Role is the purpose of a process.
type Role string

// The roles.
const (
	Working Role = "working" // takes calls
	Standby Role = "standby" // ready to take over
	Staged  Role = "staged"  // its edition takes no calls yet
	Trial   Role = "trial"   // its edition is on trial
	Leaving Role = "leaving" // finishes its calls and stops
)

// Transition is one change of state of an instance. A crash is one transition, however many calls
// it interrupts.
type Transition struct {
	Plugin   string
	Instance int
	// Edition numbers the editions of the plugin. Generation is the incarnation
	// number: it numbers the processes over all editions and instances.
	Edition    int
	Generation int
	From, To   State
	Cause      Cause
	At         time.Time
	PID        int
	// Callable reports whether the instance takes calls after the transition.
	Callable bool
	// Err explains a failure; nil if nothing is wrong.
	Err *contract.Error
	// Report describes the process that ended, nil otherwise.
	Report *launch.Report
	// Calls is the number of calls in flight that the exit cut.
	Calls int
	// Delay is the duration of a Backoff.
	Delay time.Duration
}

// Line is one line of a plugin's log.
type Line struct {
	Plugin     string
	Instance   int
	Generation int
	PID        int
	// Run is the run of the line, if known.
	Run    string
	At     time.Time
	Level  string // trace, debug, info, warn or error
	Stream launch.Stream
	// Stray marks output that was printed instead of logged.
	Stray   bool
	Message string
	Fields  map[string]any

	size int // bytes written by the plugin
}

// Statement is the health of single capabilities as reported by a process.
type Statement struct {
	Plugin       string
	Generation   int
	At           time.Time
	Capabilities []wire.CapabilityHealth
}

// Sink receives the events of plugins. Its methods are called from the
// goroutines that own instances and read output, in order per instance, and
// must return quickly.
type Sink interface {
	Transition(Transition)
	// Health receives each report of a process of the current edition about
	// single capabilities.
	Health(Statement)
	Log(Line)
}

// Status is a snapshot of one instance.
type Status struct {
	Plugin     string
	Instance   int
	Edition    int
	Generation int
	Role       Role
	State      State
	Cause      Cause
	Since      time.Time
	Callable   bool
	PID        int
	// Err is why the instance is not ready, nil if it is.
	Err *contract.Error
	// Health is the last health report of the plugin.
	Health wire.Health
	// capHealth is the health of single capabilities by advertised id.
	capHealth map[string]wire.CapabilityHealth
	// Restarts counts the restarts within the window of the policy.
	Restarts int
	// Misses counts consecutive missed probes.
	Misses int
	// NextStart is when a Backoff ends.
	NextStart time.Time
	// InFlight and Served count the calls of the current process.
	InFlight, Served int
	// Queued is the number of calls that wait for a place in any process of the
	// plugin: the same in each of its rows.
	Queued int
	// Name, Version, Binary and Features are from the description; empty before
	// the first Describe.
	Name, Version, Binary string
	Features              []string
	Command               []string
	// Confinement is what is enforced for the process; nil before the first
	// Describe.
	Confinement *Confinement
}

// respawning reports whether the instance gets ready again without an operator.
func (s Status) respawning() bool {
	switch s.State {
	case Starting, Configuring, Backoff:
		return true
	case Draining:
		return s.Cause == CauseRestart || s.Cause == CauseUnresponsive || s.Cause == CauseQuality
	}
	return false
}

// comesBack is respawning for a plugin that takes no calls now. Its process may
// have ended a moment ago, before the next state is known: then the caller
// should wait too.
func (s Status) comesBack() bool { return s.Callable || s.respawning() }

// enforcement is the enforcement that answers of the process report: only that
// its network is restricted by port (FX-005).
func (s Status) enforcement() string {
	if c := s.Confinement; c != nil && c.Enforcement == enforcedPorts {
		return c.Enforcement
	}
	return ""
}
