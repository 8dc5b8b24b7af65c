package plugins

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Plugin is one plugin block with its defaults and the description of the plugin. It is immutable
// after the load.
type Plugin struct {
	Name    string
	Where   string // "file:line:column" of the block
	Command []string
	Files   []string // absolute
	Enabled bool
	// Disabled is the reason why the plugin is disabled; nil if it is enabled.
	Disabled *contract.Error
	Optional bool
	Env      map[string]string
	EnvPass  []string
	Workdir  string // absolute; empty: a private scratch directory

	StartTimeout, ConfigureTimeout time.Duration
	StopGrace, DrainTimeout        time.Duration
	MaxInFlight                    int // 0: the advertised limit
	Queue                          int
	MaxMessage                     int    // bytes; 0: the default of the protocol
	Encoding                       string // "edn", "json" or empty
	Mux                            bool   // concurrent calls use one stream
	CallDepth                      int
	LogLevel                       string
	Restart                        Restart
	Health                         Health
	Instances                      Instances
	Swap                           Swap
	Needs                          []string // needs that the block permits; nil: all
	Operations                     []string // permitted to its calls and plans
	Isolation                      plugin.Isolation

	// Config is the resolved configuration, with nil for every secret; nil if the plugin has no
	// configuration or was not described.
	Config  edn.Value
	Secrets []decode.SecretAt
	// Reads are the files that Config names.
	Reads []string
	// Binary is the hash of the program and of Files, as "b3:..."; empty if they cannot be read.
	Binary string
	Hashes Hashes
	// Wanted is the version constraint; empty: any version.
	Wanted string
	// Lock is the result of the comparison with the lock file. Startable reports whether the
	// program may be started.
	Lock      lock.State
	Startable bool
	// Description is the result of Describe with Config. Described is false if Describe was not
	// called or failed.
	Description contract.Description
	Described   bool
	// Undescribed is the reason why Describe was not called or failed; nil if it was not tried.
	Undescribed *contract.Error
	// Unusable is the reason why an optional plugin is not started, so that its capabilities are
	// registered but not ready; nil: none.
	Unusable *contract.Error

	// Attached is the file that describes the running process of an attached plugin; empty: the
	// host starts the plugin.
	Attached string

	env     func(string) (string, bool)
	places  func(path []edn.Value) *diag.Range
	Lowered *decode.Lowering  // how Config was decoded
	priced  bool              // its models have prices
	key     string            // see Key
	hashes  map[string]string // of Reads
}

// Restart has the restart settings of a plugin (SUP-005).
type Restart struct {
	Policy                      string
	Max                         int
	Window, Backoff, MaxBackoff time.Duration
	Jitter                      float64
	ResetAfter                  time.Duration
}

// Instances has the settings of the processes of a plugin (SUP-007).
type Instances struct {
	Min, Max, Standby int
	IdleTTL           time.Duration // 0: not stopped when idle
	MaxCalls          int           // 0: no limit
	Pin               string        // "none" or "session"
}

// Swap has the settings for replacing a plugin by a new version (SUP-006).
type Swap struct {
	Mode       string // "direct", "shadow" or "canary"
	Share      float64
	MinSamples int
	Timeout    time.Duration
}

// Health has the settings of the health probes of a plugin (SUP-003).
type Health struct {
	Interval, Timeout time.Duration
	Misses            int
	ReadyTimeout      time.Duration
}

// Place returns the place of a part of the plugin's configuration; nil if it is unknown.
func (p Plugin) Place(path []edn.Value) *diag.Range {
	if p.places == nil {
		return nil
	}
	return p.places(path)
}

// Names returns the capabilities in the settings of the configuration that have the unit
// :capability.
func (p *Plugin) Names() []string {
	if p.Lowered == nil {
		return nil
	}
	var names []string
	for _, c := range p.Lowered.Capabilities {
		names = append(names, c.Name)
	}
	return names
}

// Starts reports whether the host starts processes of the plugin.
func (p *Plugin) Starts() bool { return p.Enabled && p.Described && p.Unusable == nil }

// Runs reports whether the plugin is enabled and its program exists.
func (p *Plugin) Runs() bool { return p.Enabled && p.Binary != "" }
