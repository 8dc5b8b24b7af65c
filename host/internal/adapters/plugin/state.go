package plugin

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// State is the state of an instance.
type State string

// States of an instance.
const (
	Stopped     State = "stopped"     // no process, no start planned
	Starting    State = "starting"    // a process is being started and described
	Configuring State = "configuring" // not reported ready yet
	Ready       State = "ready"       // accepts calls
	Degraded    State = "degraded"    // running with a problem; may or may not accept calls
	Draining    State = "draining"    // accepts no more calls and is being stopped
	Backoff     State = "backoff"     // no process; restarts after a delay
	Quarantined State = "quarantined" // no process; only an operator starts it
)

// live reports whether a configured process may exist in the state.
func (s State) live() bool {
	return s == Configuring || s == Ready || s == Degraded
}

// Cause is the reason for a transition.
type Cause string

// Causes of a transition.
const (
	CauseStart        Cause = "start"         // first start
	CauseStarted      Cause = "started"       // handshake and description succeeded
	CauseReady        Cause = "ready"         // reported ready
	CauseReadyTimeout Cause = "ready-timeout" // did not report ready in time
	CauseDegraded     Cause = "degraded"      // reported a problem
	CauseNotReady     Cause = "not-ready"     // reported that it must not be called
	CauseCrashed      Cause = "crashed"       // the process ended unexpectedly
	CauseExited       Cause = "exited"        // the process ended with status 0 and no call was in flight
	CauseUnresponsive Cause = "unresponsive"  // the process is running but does not answer probes
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
	CauseSwap    Cause = "swap"    // an operator requested it
	CauseReload  Cause = "reload"  // the configuration changed
	CauseQuality Cause = "quality" // the answers of the old edition were rejected
)

// Causes of a change of the pool.
const (
	CauseLoad    Cause = "load"    // calls wait
	CauseIdle    Cause = "idle"    // no calls for IdleTTL
	CauseRecycle Cause = "recycle" // the process has answered MaxCalls
	CauseOverdue Cause = "overdue" // canceled calls continue in the process
	CauseStandby Cause = "standby" // a standby is configured
	CauseShrink  Cause = "shrink"  // the configuration has fewer processes
	CauseRemove  Cause = "remove"  // the plugin was removed from the configuration
	CauseAbandon Cause = "abandon" // the change was rolled back
	CauseTrial   Cause = "trial"   // the new edition failed its trial
)

// Role is the purpose of a process.
type Role string

// Values of Role.
const (
	Working Role = "working" // accepts calls
	Standby Role = "standby" // ready to replace a working process
	Staged  Role = "staged"  // its edition gets no calls yet
	Trial   Role = "trial"   // its edition is on trial
	Leaving Role = "leaving" // ends its calls and stops
)

// Transition is one change of the state of an instance. A crash is one transition, however many
// calls it interrupts.
type Transition struct {
	Plugin   string
	Instance int
	// Edition is the number of the edition within the plugin. Generation is the incarnation number,
	// which counts the processes of the plugin over all editions and instances.
	Edition    int
	Generation int
	From, To   State
	Cause      Cause
	At         time.Time
	PID        int
	// Callable reports whether the instance accepts calls after the transition.
	Callable bool
	// Err is the failure, nil if the transition is not one.
	Err *contract.Error
	// Report describes the process that ended; nil if none did.
	Report *launch.Report
	// Calls is the number of calls in flight that the exit interrupted.
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
	// Run is the id of the run that the line belongs to; empty if unknown.
	Run    string
	At     time.Time
	Level  string // trace, debug, info, warn or error
	Stream launch.Stream
	// Stray reports that the line was printed instead of logged.
	Stray   bool
	Message string
	Fields  map[string]any

	size int // size of the line as the plugin wrote it, in bytes
}

// Statement is a report of a process about the health of its single capabilities.
type Statement struct {
	Plugin       string
	Generation   int
	At           time.Time
	Capabilities []wire.CapabilityHealth
}

// Sink receives the events of plugins. Its methods are called from the goroutines that own
// instances and read output: in order per instance, but concurrently for several instances. They
// must return quickly and must not call Restart, Drain, Release or Quarantine of the supervisor.
type Sink interface {
	Transition(Transition)
	// Health receives the reports of processes of the current edition about single capabilities.
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
	// Err is the reason why the instance is not ready; nil if it is.
	Err *contract.Error
	// Health is the last health report of the plugin.
	Health wire.Health
	// capHealth is the health of single capabilities by advertised id.
	capHealth map[string]wire.CapabilityHealth
	// Restarts is the number of restarts within the window of the policy.
	Restarts int
	// Misses is the number of consecutive probes without an answer.
	Misses int
	// NextStart is the end of a Backoff; zero in other states.
	NextStart time.Time
	// InFlight is the number of calls in flight of the current process, Served the number of all
	// calls that it was given.
	InFlight, Served int
	// Queued is the number of calls that wait for a place in any process of the plugin; it is the
	// same in each of its statuses.
	Queued int
	// Name, Version, Binary and Features are from the description; empty before
	// the first Describe.
	Name, Version, Binary string
	Features              []string
	Command               []string
	// Confinement describes the enforcement for the process; nil before the first Describe.
	Confinement *Confinement
}

// respawning reports whether the instance will become ready again without an operator.
func (s Status) respawning() bool {
	switch s.State {
	case Starting, Configuring, Backoff:
		return true
	case Draining:
		return s.Cause == CauseRestart || s.Cause == CauseUnresponsive || s.Cause == CauseQuality
	}
	return false
}

// comesBack is respawning for a plugin that does not accept calls now. A process that has just
// ended may still be Callable, because the next state is not determined yet; the caller should wait
// then too.
func (s Status) comesBack() bool { return s.Callable || s.respawning() }

// enforcement returns the enforcement that the answers of the process report: "port-only" if its
// network is restricted only by port (FX-005), else "".
func (s Status) enforcement() string {
	if c := s.Confinement; c != nil && c.Enforcement == enforcedPorts {
		return c.Enforcement
	}
	return ""
}
