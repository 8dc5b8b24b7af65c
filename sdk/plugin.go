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

// Plugin is what a program serves.
type Plugin struct {
	// Name is 1 to 64 of a-z 0-9 . _ + -, beginning with a letter or digit.
	Name string
	// Version is the author's version of the plugin, such as "1.2.0".
	Version string

	// Capabilities are what the plugin provides whatever its configuration
	// says. Config may add more.
	Capabilities []Capability

	// Schemas are published beside those that the capabilities name or derive:
	// name without colon to schema.
	Schemas map[string]edn.Value

	// Config says how the plugin is configured; nil: it takes no
	// configuration. Use a [Config].
	Config Configuration

	// Needs are what the process does to compute answers, out of net/connect,
	// net/loopback, process/run, process/self, fs/read and fs/write. The host
	// grants them; what was not granted fails in the process.
	Needs []string

	// Ports are the TCP ports that the needs net/connect and net/loopback are
	// about. An operator who grants the network without naming ports grants
	// these; without any the host takes 443 for net/connect.
	Ports []uint16

	// Features are the optional parts of the contract that the plugin keeps:
	// FeatureHostCalls and FeatureHotSwap. FeatureStreaming follows from the
	// capabilities, and FeatureMux is always there. What is named here is checked by the conformance profile of
	// that name.
	Features []string

	// MaxInFlight is the most calls of the whole plugin at once; 0: no limit.
	// The excess is refused as :runtime/overloaded.
	MaxInFlight int

	// Health, if set, runs from Configure until the plugin ends and reports
	// each change of its state; before the first report the plugin counts as
	// starting. Without it the plugin is ready once it is configured.
	Health func(ctx context.Context, report func(Status))

	// EndRun is called when a run is over, so that what was kept for it can
	// go.
	EndRun func(ctx context.Context, run string) error

	// Close is called once before the process ends, after the last call. It
	// has about a second.
	Close func(ctx context.Context) error
}

var pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)

// validate reports everything that is wrong with the static part.
func (p *Plugin) validate() error {
	var all []error
	if !pluginName.MatchString(p.Name) {
		all = append(all, fmt.Errorf("plugin name %q: want %s", p.Name, pluginName))
	}
	if p.Version == "" {
		all = append(all, fmt.Errorf("plugin %s: no version", p.Name))
	}
	for _, f := range p.Features {
		if !slices.Contains([]string{FeatureHostCalls, FeatureHotSwap, FeatureMux, FeatureStreaming}, f) {
			all = append(all, fmt.Errorf("plugin %s: feature %q: want %s or %s", p.Name, f, FeatureHostCalls, FeatureHotSwap))
		}
	}
	if p.MaxInFlight < 0 {
		all = append(all, fmt.Errorf("plugin %s: MaxInFlight is negative", p.Name))
	}
	if len(p.Capabilities) == 0 && p.Config == nil {
		all = append(all, fmt.Errorf("plugin %s: no capability and no Config that could give one", p.Name))
	}
	all = append(all, validateCapabilities(p.Capabilities))
	return errors.Join(all...)
}

func validateCapabilities(capabilities []Capability) error {
	var all []error
	var seen []string
	for _, c := range capabilities {
		if c.handle == nil {
			all = append(all, errors.New("a Capability was not made by Func, StreamFunc, PlanFunc or Raw"))
			continue
		}
		all = append(all, c.problems...)
		if meta, _ := c.describe("0"); len(c.problems) == 0 {
			if _, err := contract.ParseCapability(meta.Value()); err != nil {
				all = append(all, err)
			}
		}
		if slices.Contains(seen, c.ID()) {
			all = append(all, fmt.Errorf("capability %s is there twice", c.ID()))
		}
		seen = append(seen, c.ID())
	}
	return errors.Join(all...)
}
