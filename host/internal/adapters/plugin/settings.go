package plugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Settings is one plugin of the configuration, finished: every value has its
// default or what the operator wrote.
type Settings struct {
	// Name is the label of the plugin block.
	Name string
	// Command is the program and its arguments; the program is a path.
	Command []string
	// Files are what an interpreter in Command runs. They are part of the
	// binary as far as its hash is concerned.
	Files []string

	// Approved is the hash of the program and its Files that the lock file
	// approved ([HashProgram]); a program with another one is not run. Empty:
	// nobody said anything about it.
	Approved string

	// Env is the environment of the process, EnvPass the names of variables
	// taken over from the host. There are no others.
	Env     map[string]string
	EnvPass []string
	// Workdir is the working directory; empty: a scratch directory of its own.
	Workdir string

	StartTimeout     time.Duration // from start to the end of Describe
	ConfigureTimeout time.Duration
	StopGrace        time.Duration // from the end of the drain to SIGKILL
	DrainTimeout     time.Duration // for calls in flight

	// MaxInFlight is the most calls at once; 0: what the plugin says. A figure
	// of the plugin that is lower holds.
	MaxInFlight int
	// Queue is how many calls may wait for a place.
	Queue int
	// MaxMessage bounds a message in either direction; 0: the contract's limit.
	MaxMessage int
	// NoMux gives each call a stream of its own, whatever the plugin offers.
	NoMux bool
	// Encoding is "edn" or "json"; empty: as the plugin answers Describe.
	Encoding string
	// CallDepth is how many calls may wait for each other through this plugin.
	CallDepth int
	LogLevel  string

	// Config is the finished configuration, every secret nil; nil is an empty
	// map. Secrets is a map from the path of a secret (a vector) to its
	// text. ConfigFiles are the files that Config names: their content is part
	// of the configuration as far as its hash is concerned.
	Config      edn.Value
	Secrets     edn.Value
	ConfigFiles []string

	// Needs are those that the operator leaves to the plugin, out of those that
	// it describes; nil: all of them. Isolation grants them.
	Needs     []string
	Isolation Isolation

	Restart   Restart
	Health    Health
	Instances Instances
	Swap      Swap

	// Described is the description that the registry was made of: a process
	// that describes itself otherwise is refused. Nil: the first answer holds.
	Described edn.Value
}

// Instances is how many processes a plugin has.
type Instances struct {
	// Min processes take calls at all times, and up to Max as long as calls
	// wait. With Min 0 the first call starts one.
	Min, Max int
	// Standby processes are ready beside those and take no calls until one of
	// them ends or is not enough.
	Standby int
	// IdleTTL is how long a process above Min lives without a call; 0: for ever.
	IdleTTL time.Duration
	// MaxCalls is how many calls a process answers before another takes its
	// place; 0: no limit, 1: a process for each call.
	MaxCalls int
	Pin      Pin
}

// Pin says which calls go to the same process as long as it lives.
type Pin string

// The pins.
const (
	PinNone    Pin = "none"
	PinSession Pin = "session" // those of one session
)

// SwapMode is how a new edition of a plugin takes over from the old one.
type SwapMode string

// The modes.
const (
	// SwapDirect: as soon as it is ready.
	SwapDirect SwapMode = "direct"
	// SwapShadow: after it has been asked, beside the old edition, calls without
	// effects. Its answers are judged and thrown away.
	SwapShadow SwapMode = "shadow"
	// SwapCanary: after it has answered a share of the calls.
	SwapCanary SwapMode = "canary"
)

// Swap is how a new edition of a plugin takes over.
type Swap struct {
	Mode SwapMode
	// Share of the calls that a trial gets, in (0, 1].
	Share float64
	// MinSamples is how many judged answers decide a trial. When Timeout is over
	// before, those that there are decide; nothing against the new edition means
	// that it takes over.
	MinSamples int
	Timeout    time.Duration
}

// RestartPolicy says which exits are followed by a start.
type RestartPolicy string

// The policies.
const (
	OnFailure RestartPolicy = "on-failure"
	Always    RestartPolicy = "always"
	Never     RestartPolicy = "never"
)

// Restart is what happens when a process ends by itself.
type Restart struct {
	Policy RestartPolicy
	// Max restarts within Window; one more failure is quarantine.
	Max    int
	Window time.Duration
	// Backoff doubles with each failure in a row up to MaxBackoff, and differs
	// by the share Jitter in both directions.
	Backoff, MaxBackoff time.Duration
	Jitter              float64
	// ResetAfter is the time in service after which earlier failures are
	// forgotten.
	ResetAfter time.Duration
}

// Health is how a process is watched.
type Health struct {
	// Interval lies between two probes, each of which may take Timeout. Misses
	// in a row mean that the process does not respond.
	Interval, Timeout time.Duration
	Misses            int
	// ReadyTimeout is how long a configured plugin may take to say that it is
	// ready before somebody is told. It is not restarted for it.
	ReadyTimeout time.Duration
}

// DefaultSettings are those of a block that names nothing but a command.
func DefaultSettings(name string, command ...string) Settings {
	return Settings{
		Name: name, Command: command,
		StartTimeout: 10 * time.Second, ConfigureTimeout: 10 * time.Second,
		StopGrace: 2 * time.Second, DrainTimeout: 10 * time.Second,
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

// Validate reports what would make the supervisor misbehave. The configuration
// has finer rules and better places to point at.
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
	wrong(s.Instances.Min < 0 || s.Instances.Standby < 0 || s.Instances.MaxCalls < 0 || s.Instances.IdleTTL < 0, "the figures of instances must not be negative")
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
