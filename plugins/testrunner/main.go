package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/testrunner/internal/scratch"
	"github.com/fermenthq/ferment/plugins/testrunner/internal/suite"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/schema"
)

const version = "1.0.0"

func main() {
	sdk.Serve(newPlugin())
}

// settings are the config block of the plugin.
type settings struct {
	Timeout  int               `edn:"timeout" unit:"ms" min:"100" max:"3600000" doc:"time for a suite when the request names none"`
	Memory   int64             `edn:"memory" unit:"bytes" min:"0" doc:"data that each process of a suite may have when the request names none, 0 for no limit"`
	Env      map[string]string `edn:"env,omitempty" doc:"environment of the tests"`
	PassEnv  []string          `edn:"pass-env,omitempty" doc:"variables of the plugin's environment that the tests get too"`
	MaxFiles int               `edn:"max-files" min:"1" max:"10000000" doc:"files that a scratch copy may have"`
	MaxBytes int64             `edn:"max-bytes" unit:"bytes" min:"1" doc:"size that a scratch copy may have"`
	Parallel int               `edn:"parallel" min:"1" max:"256" doc:"suites that run at one time"`
}

var defaults = settings{
	Timeout:  60_000,
	Memory:   2 << 30,
	MaxFiles: 50_000,
	MaxBytes: 512 << 20,
	Parallel: 2,
}

// runner holds the state of the process.
type runner struct {
	schemas *schema.Registry

	// Set once, by start.
	cfg    settings
	env    []string
	store  *scratch.Store
	reaper *launch.Reaper // kills the sessions of suites if this process is killed
}

func newPlugin() sdk.Plugin {
	r := &runner{schemas: registry()}
	return sdk.Plugin{
		Name:     "testrunner",
		Version:  version,
		Features: []string{sdk.FeatureHotSwap},
		Needs:    []string{"process/run", "process/self", "fs/read", "fs/write"},
		Schemas:  schemas(),
		Config: sdk.Config[settings]{
			Default: defaults,
			Check:   checkSettings,
			Offer:   r.offer,
			Start:   r.start,
		},
		EndRun: r.endRun,
		Close:  r.close,
	}
}

func checkSettings(cfg settings) error {
	var problems []error
	for name := range cfg.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			problems = append(problems, sdk.Problem(fmt.Sprintf("%q is not the name of a variable", name), edn.K("env"),
				edn.Text(name)))
		}
	}
	for i, name := range cfg.PassEnv {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			problems = append(problems, sdk.Problem(fmt.Sprintf("%q is not the name of a variable", name), edn.K("pass-env"),
				edn.Int(int64(i))))
		}
	}
	return errors.Join(problems...)
}

func (r *runner) offer(_ context.Context, cfg settings) (sdk.Offer, error) {
	return sdk.Offer{Capabilities: []sdk.Capability{
		sdk.Func("code/testrunner", sdk.Intents("code/test", "code/patch-verdict"), r.try,
			sdk.Kind("checker"), sdk.Tags("embedded"), sdk.MaxInFlight(cfg.Parallel),
			sdk.InFor("code/test", "req/code.test"), sdk.OutFor("code/test", "res/code.test"),
			sdk.InFor("code/patch-verdict", "req/code.patch-verdict"),
			sdk.OutFor("code/patch-verdict", "res/code.patch-verdict"),
			sdk.Cost(contract.Cost{Latency: 5 * time.Second, USD: edn.Int(0)}),
			sdk.Description("Runs a test suite, on a patched copy if a patch is given.")),
		sdk.Func("code/patcher", sdk.Intents("code/apply-patch"), r.applyPatch,
			sdk.Kind("checker"), sdk.Tags("embedded"),
			sdk.In("req/code.apply-patch"), sdk.Out("res/code.apply-patch"),
			sdk.Cost(contract.Cost{Latency: 100 * time.Millisecond, USD: edn.Int(0)}),
			sdk.Description("Applies a unified diff strictly to a scratch copy of a directory.")),
	}}, nil
}

// start opens the scratch space: in the plugin's own directory, or below the
// temporary directory if it has none.
func (r *runner) start(ctx context.Context, cfg settings) error {
	base := sdk.Root(ctx)
	if base == "" {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("ferment-testrunner-%d", os.Getuid()))
	}
	store, err := scratch.Open(filepath.Join(base, "scratch"), scratch.Limits{Files: cfg.MaxFiles, Bytes: cfg.MaxBytes})
	if err != nil {
		return fmt.Errorf("start testrunner: %w", err)
	}
	r.cfg, r.store, r.reaper = cfg, store, launch.NewReaper("")
	r.env = suite.Environment(cfg.Env, cfg.PassEnv, os.LookupEnv, base)
	return nil
}

func (r *runner) endRun(_ context.Context, run string) error {
	if r.store == nil {
		return nil
	}
	return r.store.End(run)
}

func (r *runner) close(context.Context) error {
	if r.store == nil {
		return nil
	}
	return errors.Join(r.reaper.Close(), r.store.Close())
}
