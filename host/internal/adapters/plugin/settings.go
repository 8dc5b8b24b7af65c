package plugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Settings are the settings of one plugin, with all defaults applied.
type Settings struct {
	// Name is the label of the plugin block.
	Name string
	// Command is the program and its arguments; the program is a path.
	Command []string
	// Files are interpreted by the program in Command. They are included in the hash of the
	// program.
	Files []string

	// Approved is the hash of the program and its Files ([HashProgram]) in the lock file. A program
	// with another hash is not started. Empty: any program is started.
	Approved string
	// ApprovedParts are the hashes in the lock file of the program and of each of Files. They are
	// used to name the changed file in an error.
	ApprovedParts []string

	// Env is the environment of the process, EnvPass the names of variables
	// passed on from the host. The process gets no others.
	Env     map[string]string
	EnvPass []string
	// Workdir is the working directory; empty: a scratch directory of the
	// instance.
	Workdir string

	StartTimeout     time.Duration // from the start to the end of Describe
	ConfigureTimeout time.Duration
	StopGrace        time.Duration // from the end of the drain to SIGKILL
	DrainTimeout     time.Duration // maximum time for calls in flight to end
	CancelGrace      time.Duration // time for a canceled call to end; then the process is replaced

	// MaxInFlight is the maximum number of concurrent calls of a process; 0: the limit of the
	// plugin. The lower of the two limits applies.
	MaxInFlight int
	// Queue is the maximum number of calls that wait for a place.
	Queue int
	// MaxMessage is the maximum size of a message in either direction in bytes; 0: the limit of the
	// protocol.
	MaxMessage int
	// NoMux opens one stream per call, even if the plugin supports
	// multiplexing.
	NoMux bool
	// Encoding is "edn" or "json"; empty: the one in the description.
	Encoding string
	// CallDepth is the maximum depth of nested calls through this plugin.
	CallDepth int
	LogLevel  string

	// Config is the complete configuration with nil for every secret; nil is an empty map. Secrets
	// is a map from the path of a secret (a vector) to its text. ConfigFiles are the files that
	// Config names; their content is part of the hash of the configuration.
	Config      edn.Value
	Secrets     edn.Value
	ConfigFiles []string
	// Names are the capabilities that Config names, which the plugin may therefore call.
	Names []string

	// Needs are the described needs that the operator has not removed; nil: all of them. Isolation
	// grants them.
	Needs     []string
	Isolation Isolation

	Restart   Restart
	Health    Health
	Instances Instances
	Swap      Swap

	// Described is the description in the registry: a process with another description is rejected.
	// Nil: the first description is accepted.
	Described edn.Value
}

// Instances configures the number of processes of a plugin.
type Instances struct {
	// Min is the number of processes that always accept calls; up to Max do while calls wait. With
	// Min 0 the first call starts a process.
	Min, Max int
	// Standby is the number of additional processes that are ready but get no calls until they
	// replace or reinforce the others.
	Standby int
	// IdleTTL is the time without calls after which a process above Min is stopped; 0: never.
	IdleTTL time.Duration
	// MaxCalls is the number of calls after which a process is replaced; 0: unlimited, 1: one
	// process per call.
	MaxCalls int
	Pin      Pin
}

// Pin selects the calls that go to the same process while it exists.
type Pin string

// Values of Pin.
const (
	PinNone    Pin = "none"
	PinSession Pin = "session" // all calls of one session
)

// SwapMode selects how a new edition of a plugin replaces the old one.
type SwapMode string

// Values of SwapMode.
const (
	// SwapDirect replaces the old edition as soon as the new one is ready.
	SwapDirect SwapMode = "direct"
	// SwapShadow first sends copies of calls without effects to the new edition. Its answers are
	// judged and discarded.
	SwapShadow SwapMode = "shadow"
	// SwapCanary first sends a share of the calls to the new edition, which answers them.
	SwapCanary SwapMode = "canary"
)

// Swap configures how a new edition of a plugin replaces the old one.
type Swap struct {
	Mode SwapMode
	// Share is the share of the calls that a trial gets, in (0, 1].
	Share float64
	// MinSamples is the number of judged answers after which a trial is decided. After Timeout it
	// is decided with the answers so far; if they do not show that the new edition is worse, it is
	// promoted.
	MinSamples int
	Timeout    time.Duration
}

// RestartPolicy selects the exits after which a process is restarted.
type RestartPolicy string

// Values of RestartPolicy.
const (
	OnFailure RestartPolicy = "on-failure"
	Always    RestartPolicy = "always"
	Never     RestartPolicy = "never"
)

// Restart configures the restarts of processes that end by themselves.
type Restart struct {
	Policy RestartPolicy
	// Max is the maximum number of restarts within Window. One more failure leads to quarantine.
	Max    int
	Window time.Duration
	// Backoff is the wait after the first failure; it doubles with each consecutive failure up to
	// MaxBackoff. Jitter is the share by which each wait varies in both directions.
	Backoff, MaxBackoff time.Duration
	Jitter              float64
	// ResetAfter is the time in service after which earlier failures no longer count.
	ResetAfter time.Duration
}

// Health configures the probes of a process.
type Health struct {
	// Interval is the time between two probes, Timeout the time limit of each. After Misses
	// consecutive probes without an answer the process is unresponsive.
	Interval, Timeout time.Duration
	Misses            int
	// ReadyTimeout is the time for a configured plugin to report ready before its state is
	// Degraded. It is not restarted then.
	ReadyTimeout time.Duration
}

// DefaultSettings returns the settings of a plugin block that has only a command.
func DefaultSettings(name string, command ...string) Settings {
	return Settings{
		Name: name, Command: command,
		StartTimeout: 10 * time.Second, ConfigureTimeout: 10 * time.Second,
		StopGrace: 2 * time.Second, DrainTimeout: 10 * time.Second, CancelGrace: 2 * time.Second,
		Queue: 32, CallDepth: 8, LogLevel: "info", Isolation: DefaultIsolation(),
		Restart: Restart{
			Policy: OnFailure, Max: 5, Window: time.Minute,
			Backoff: 100 * time.Millisecond, MaxBackoff: 30 * time.Second, Jitter: 0.2, ResetAfter: 5 * time.Minute,
		},
		Health:    Health{Interval: 5 * time.Second, Timeout: time.Second, Misses: 3, ReadyTimeout: 30 * time.Second},
		Instances: Instances{Min: 1, Max: 1, Pin: PinNone},
		Swap:      Swap{Mode: SwapDirect, Share: 0.1, MinSamples: 20, Timeout: 5 * time.Minute},
	}
}

// Validate returns an error, with all problems joined, for settings that the supervisor cannot use.
// The check of the configuration has more rules and reports positions.
func (s Settings) Validate() error {
	var all []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Errorf("plugin %q: "+format, append([]any{s.Name}, args...)...))
		}
	}
	wrong(s.Name == "", "it has no name")
	wrong(len(s.Command) == 0 || s.Command[0] == "", "it has no command")
	for name, d := range map[string]time.Duration{
		"start_timeout": s.StartTimeout, "configure_timeout": s.ConfigureTimeout,
		"health interval": s.Health.Interval, "health timeout": s.Health.Timeout, "ready_timeout": s.Health.ReadyTimeout,
		"restart window": s.Restart.Window,
	} {
		wrong(d <= 0, "%s must be positive", name)
	}
	wrong(s.StopGrace < 0 || s.DrainTimeout < 0, "stop_grace and drain_timeout must not be negative")
	wrong(s.Health.Misses < 1, "health misses must be at least 1")
	wrong(s.Restart.Max < 0, "restart max must not be negative")
	wrong(s.Restart.Jitter < 0 || s.Restart.Jitter > 1, "restart jitter must lie between 0 and 1")
	wrong(s.Restart.MaxBackoff < s.Restart.Backoff, "restart max_backoff is less than backoff")
	wrong(s.MaxInFlight < 0 || s.Queue < 0, "max_in_flight and queue must not be negative")
	wrong(s.CallDepth < 1, "call_depth must be at least 1")
	wrong(s.Instances.Min < 0 || s.Instances.Standby < 0 || s.Instances.MaxCalls < 0 || s.Instances.IdleTTL < 0,
		"the figures of instances must not be negative")
	wrong(s.Instances.Max < 1 || s.Instances.Max < s.Instances.Min, "instances max must be at least 1 and at least min")
	wrong(s.Instances.Pin != PinNone && s.Instances.Pin != PinSession, "unknown pin %q", s.Instances.Pin)
	switch s.Swap.Mode {
	case SwapDirect:
	case SwapShadow, SwapCanary:
		wrong(s.Swap.Share <= 0 || s.Swap.Share > 1, "swap share must lie above 0 and at most 1")
		wrong(s.Swap.MinSamples < 1 || s.Swap.Timeout <= 0, "swap min_samples and timeout must be positive")
	default:
		wrong(true, "unknown swap mode %q", s.Swap.Mode)
	}
	switch s.Restart.Policy {
	case OnFailure, Always, Never:
	default:
		wrong(true, "unknown restart policy %q", s.Restart.Policy)
	}
	switch s.Encoding {
	case "", "edn", "json":
	default:
		wrong(true, "unknown encoding %q", s.Encoding)
	}
	return errors.Join(all...)
}
