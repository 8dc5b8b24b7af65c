package sdk

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Plugin declares a plugin. Name, Version and either Capabilities or Config are
// required.
type Plugin struct {
	// Name has 1 to 64 characters of a-z 0-9 . _ + - and begins with a letter
	// or digit.
	Name string
	// Version is the author's version of the plugin, such as "1.2.0".
	Version string

	// Capabilities are always provided. Config can add more.
	Capabilities []Capability

	// Schemas are published in addition to those that the capabilities derive:
	// name without colon to schema.
	Schemas map[string]edn.Value

	// Config declares the configuration, a [Config]; nil means that the plugin
	// accepts no configuration.
	Config Configuration

	// Needs declares what the process does to compute answers: net/connect,
	// net/loopback, process/run, process/self, fs/read, fs/watch, fs/write. The host
	// grants them; an operation that was not granted fails in the process.
	Needs []string

	// Ports are the TCP ports of the needs net/connect and net/loopback. An
	// operator who grants the network without naming ports grants these;
	// without any, the host allows 443 for net/connect.
	Ports []uint16

	// Features are the optional parts of the contract that the plugin
	// implements: FeatureHostCalls and FeatureHotSwap. FeatureStreaming is
	// derived from the capabilities, FeatureMux is always set. The conformance
	// profile of the same name checks each.
	Features []string

	// MaxInFlight limits the concurrent calls of the whole plugin; 0 means no
	// limit. Calls above it are rejected with :runtime/overloaded.
	MaxInFlight int

	// Health, if set, starts after Configure and runs until the plugin ends. It
	// calls report for each change of state; until the first report the state
	// is starting. Without this hook the plugin is ready after Configure.
	Health func(ctx context.Context, report func(Status))

	// EndRun, if set, is called when a run has ended, to release what the
	// plugin holds for it.
	EndRun func(ctx context.Context, run string) error

	// Close, if set, is called once, after the last call and before the process
	// exits. The whole shutdown has one second.
	Close func(ctx context.Context) error
}

var pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)

// validate reports every problem of the static declaration.
func (p *Plugin) validate() error {
	var all []error
	if !pluginName.MatchString(p.Name) {
		all = append(all, fmt.Errorf("plugin name %q: expected a match of %s", p.Name, pluginName))
	}
	if p.Version == "" {
		all = append(all, fmt.Errorf("plugin %s: Version is empty, expected one such as 1.0.0", p.Name))
	}
	for _, f := range p.Features {
		if !slices.Contains([]string{FeatureHostCalls, FeatureHotSwap, FeatureMux, FeatureStreaming}, f) {
			all = append(all,
				fmt.Errorf("plugin %s: feature %q: expected %s or %s", p.Name, f, FeatureHostCalls, FeatureHotSwap))
		}
	}
	if p.MaxInFlight < 0 {
		all = append(all, fmt.Errorf("plugin %s: MaxInFlight is %d, expected 0 or more", p.Name, p.MaxInFlight))
	}
	if len(p.Capabilities) == 0 && p.Config == nil {
		all = append(all, fmt.Errorf("plugin %s: expected a capability, or a Config that offers some", p.Name))
	}
	all = append(all, validateCapabilities(p.Capabilities))
	return errors.Join(all...)
}

func validateCapabilities(capabilities []Capability) error {
	var all []error
	var seen []string
	for i, c := range capabilities {
		if c.handle == nil {
			all = append(all, fmt.Errorf("capability %d was not made by Func, StreamFunc, PlanFunc, AgentFunc or Raw", i))
			continue
		}
		all = append(all, c.problems...)
		if meta, _ := c.describe("0"); len(c.problems) == 0 {
			if _, err := contract.ParseCapability(meta.Value()); err != nil {
				all = append(all, err)
			}
		}
		if slices.Contains(seen, c.ID()) {
			all = append(all, fmt.Errorf("capability %s is declared twice", c.ID()))
		}
		seen = append(seen, c.ID())
	}
	return errors.Join(all...)
}
