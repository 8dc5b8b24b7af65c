package plugin

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// State is where an instance stands.
type State string

// The states of an instance.
const (
	Stopped     State = "stopped"     // no process, none wanted
	Starting    State = "starting"    // a process is being started and described
	Configuring State = "configuring" // it has not said yet that it is ready
	Ready       State = "ready"       // it takes calls
	Degraded    State = "degraded"    // it lives, with a problem; it may or may not take calls
	Draining    State = "draining"    // it takes no calls any more and is on its way out
	Backoff     State = "backoff"     // no process, the next one comes by itself
	Quarantined State = "quarantined" // no process, the next one comes with an operator
)

// live reports whether a configured process may exist in the state.
func (s State) live() bool {
	return s == Configuring || s == Ready || s == Degraded
}

// Cause is why a state was left for another.
type Cause string

// The causes.
const (
	CauseStart        Cause = "start"         // somebody wants it to run
	CauseStarted      Cause = "started"       // the handshake is done, it is described
	CauseReady        Cause = "ready"         // it says that it is ready
	CauseReadyTimeout Cause = "ready-timeout" // it did not say so in time
	CauseDegraded     Cause = "degraded"      // it says that it has a problem
	CauseNotReady     Cause = "not-ready"     // it says that it must not be called
	CauseCrashed      Cause = "crashed"       // the process ended and should not have
	CauseExited       Cause = "exited"        // the process ended with status 0
	CauseUnresponsive Cause = "unresponsive"  // it lives and does not answer
	CauseStartFailed  Cause = "start-failed"  // no usable process came of the start
	CauseConfig       Cause = "config"        // it refuses its configuration: permanent
	CauseProtocol     Cause = "protocol"      // it does not speak the protocol: permanent
	CauseIntegrity    Cause = "integrity"     // it is not the program that it was: permanent
	CauseMissing      Cause = "missing"       // the program cannot be executed: permanent
	CauseCrashLoop    Cause = "crash-loop"    // more failures than the policy allows
	CauseBackoffOver  Cause = "backoff-over"
	CauseStop         Cause = "stop"
	CauseStopped      Cause = "stopped"
	CauseRestart      Cause = "restart"
	CauseRelease      Cause = "release"
	CauseQuarantine   Cause = "quarantine"
	CauseIsolation    Cause = "isolation" // it needs what its isolation does not grant
)

// Causes for which an edition of a plugin takes the place of another.
const (
	CauseSwap    Cause = "swap"    // an operator wants it
	CauseReload  Cause = "reload"  // the configuration is another
	CauseHealth  Cause = "health"  // the old one is not well
	CauseQuality Cause = "quality" // its answers are not good
)

// Causes for which a pool grows, shrinks and renews itself.
const (
	CauseLoad    Cause = "load"    // calls wait
	CauseIdle    Cause = "idle"    // no calls came
	CauseRecycle Cause = "recycle" // the process has answered its share of calls
	CauseStandby Cause = "standby" // a warm process is to be there
	CauseShrink  Cause = "shrink"  // the configuration wants fewer
	CauseRemove  Cause = "remove"  // the configuration does not name the plugin any more
	CauseAbandon Cause = "abandon" // the change that it was started for is not made
	CauseTrial   Cause = "trial"   // it was tried and found worse than the old one
)

// Role is what a process is there for.
type Role string

// The roles.
const (
	Working Role = "working" // it takes calls
	Standby Role = "standby" // it is ready to take over
	Staged  Role = "staged"  // it belongs to an edition that does not take calls yet
	Trial   Role = "trial"   // it belongs to an edition that is being tried
	Leaving Role = "leaving" // it ends what it works on and goes
)

// Transition is one change of state. One crash is one transition, however many
// calls it cut.
type Transition struct {
	Plugin   string
	Instance int
	// Edition counts the programs and configurations that the plugin has had,
	// Generation its processes over all editions and instances.
	Edition    int
	Generation int
	From, To   State
	Cause      Cause
	At         time.Time
	PID        int
	// Callable says whether the instance takes calls after the transition.
	Callable bool
	// Err explains a failure; nil if nothing is wrong.
	Err *contract.Error
	// Report is what is known of a process that ended, nil otherwise.
	Report *launch.Report
	// Calls is how many calls in flight the end of the process cut.
	Calls int
	// Delay is how long a Backoff lasts.
	Delay time.Duration
}

// Line is one line of a plugin's log.
type Line struct {
	Plugin     string
	Instance   int
	Generation int
	PID        int
	// Run is the run that the line belongs to, if that is known.
	Run    string
	At     time.Time
	Level  string // trace, debug, info, warn or error
	Stream launch.Stream
	// Stray marks what was printed and not logged.
	Stray   bool
	Message string
	Fields  map[string]any

	size int // bytes that the plugin wrote
}

// Statement is what a process said about single capabilities.
type Statement struct {
	Plugin       string
	Generation   int
	At           time.Time
	Capabilities []wire.CapabilityHealth
}

// Sink is told what happens to plugins. Its methods are called from the
// goroutines that own instances and read output, in order per instance, and
// must be quick.
type Sink interface {
	Transition(Transition)
	// Health is told what a process of the edition that takes calls says of
	// single capabilities, each time that it says something.
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
	// Err is why it is not ready, nil if it is.
	Err *contract.Error
	// Health is the last thing that the plugin said about itself.
	Health wire.Health
	// told is what it said of single capabilities, by their advertised names.
	told map[string]wire.CapabilityHealth
	// Restarts counts those within the window of the policy.
	Restarts int
	// Misses counts probes without an answer in a row.
	Misses int
	// NextStart is when a Backoff ends.
	NextStart time.Time
	// InFlight and Served count the calls of the process that runs now.
	InFlight, Served int
	// Queued is how many calls wait for a place in any process of the plugin:
	// the same in each of its rows.
	Queued int
	// Version, Binary and Features are those of the described program; empty
	// before the first Describe.
	Name, Version, Binary string
	Features              []string
	Command               []string
	// Confinement is what holds for the process; nil before the first Describe.
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
// have ended a moment ago, before it is known what follows: whoever asks then
// has to wait for that moment at least.
func (s Status) comesBack() bool { return s.Callable || s.respawning() }

// enforcement is what the answers of the process say of what holds it: only
// that its network is held to ports alone (FX-005).
func (s Status) enforcement() string {
	if c := s.Confinement; c != nil && c.Enforcement == enforcedPorts {
		return c.Enforcement
	}
	return ""
}
