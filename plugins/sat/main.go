package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/program"
	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
	"github.com/fermenthq/ferment/plugins/sat/internal/solve"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const version = "1.0.0"

func main() {
	if len(os.Args) == 2 && os.Args[1] == solve.WorkerArg {
		os.Exit(solve.WorkerMain(os.Stdin, os.Stdout, os.Stderr))
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sat: cannot find its own binary:", err)
		os.Exit(1)
	}
	sdk.Serve(newPlugin(self))
}

// settings are the config block of the plugin.
type settings struct {
	Solver string   `edn:"solver" enum:"builtin,cadical,minisat,picosat,competition" doc:"gophersat of this plugin, or a program; competition is any that takes a file and writes s and v lines"`
	Path   string   `edn:"path,omitempty" doc:"the program: absolute path, or a name to look up in PATH; default: its name"`
	Args   []string `edn:"args,omitempty" doc:"arguments of the program, before the formula"`
	// Timeout is in milliseconds.
	Timeout int `edn:"timeout,omitempty" unit:"ms" min:"0" max:"3600000" doc:"time for a search when the request names none, 0 for none"`
}

const builtin = "builtin"

// program returns the configured program, before it is located.
func (cfg settings) program() string {
	if cfg.Path != "" {
		return cfg.Path
	}
	return cfg.Solver
}

// quiet holds the flags that suppress unused output.
var quiet = map[string][]string{"cadical": {"-q"}, "minisat": {"-verb=0"}}

// satPlugin holds the state of the process.
type satPlugin struct {
	self    string
	solver  *solve.External // set by start, unless its program is missing
	missing error
}

// newPlugin returns the plugin; self is the binary that serves as worker.
func newPlugin(self string) sdk.Plugin {
	p := &satPlugin{self: self}
	return sdk.Plugin{
		Name:     "sat",
		Version:  version,
		Features: []string{sdk.FeatureHotSwap},
		Config: sdk.Config[settings]{
			Default: settings{Solver: builtin},
			Check:   checkSettings,
			Offer:   p.offer,
			Start:   p.start,
		},
		Health: p.health,
	}
}

func checkSettings(cfg settings) error {
	switch {
	case cfg.Solver == "competition" && cfg.Path == "":
		return sdk.Problem(`solver = "competition" needs the path of a program`, edn.K("path"))
	case cfg.Solver == builtin && (cfg.Path != "" || len(cfg.Args) > 0):
		return sdk.Problem("path and args are for a program: name it with solver", edn.K("solver"))
	}
	return nil
}

// offer declares the required programs: its own binary as a worker, or the
// configured program.
func (p *satPlugin) offer(_ context.Context, cfg settings) (sdk.Offer, error) {
	name, needs, tag := "gophersat", []string{"process/self"}, "embedded"
	if cfg.Solver != builtin {
		name, needs, tag = cfg.program(), []string{"process/run"}, "external"
	}
	return sdk.Offer{Needs: needs, Capabilities: []sdk.Capability{
		sdk.Func("sat/solver", sdk.Intents("sat/solve"),
			decider(p.decide).within(time.Duration(cfg.Timeout)*time.Millisecond).solve,
			sdk.Kind("solver"), sdk.Tags(tag),
			sdk.Cost(contract.Cost{Latency: 50 * time.Millisecond, USD: edn.Int(0)}),
			sdk.Description("Finds a model of a formula or shows that there is none, by "+name+".")),
		sdk.Func("sat/verifier", sdk.Intents("sat/verify"), verify,
			sdk.Kind("checker"), sdk.Tags("embedded"), sdk.Deterministic(), sdk.Cost(contract.Cost{USD: edn.Int(0)}),
			sdk.Description("Evaluates a formula under a model.")),
	}}, nil
}

func (p *satPlugin) decide(ctx context.Context, f *dimacs.Formula, timeout time.Duration) (solve.Answer, error) {
	if p.solver == nil {
		return solve.Answer{}, contract.Errorf("provider/not-configured", "sat/solver: %w", p.missing)
	}
	return p.solver.Run(ctx, f, timeout)
}

// start finds the program. A missing program is not an error of the
// configuration, which may name a solver that only some machines have: the
// plugin then runs and reports that it is not ready.
func (p *satPlugin) start(ctx context.Context, cfg settings) error {
	if cfg.Solver == builtin {
		solver := solve.Builtin(p.self)
		p.solver = &solver
		return nil
	}
	path, err := program.Locate(cfg.program())
	if err != nil {
		p.missing = fmt.Errorf("%w; install the solver, or set path to its program", err)
		return nil
	}
	e := &solve.External{
		Path:  path,
		Args:  append(slices.Clone(quiet[cfg.Solver]), cfg.Args...),
		Style: solve.Competition,
		Dir:   sdk.Root(ctx),
	}
	if cfg.Solver == "minisat" {
		e.Style = solve.MiniSat
	}
	p.solver = e
	return nil
}

func (p *satPlugin) health(ctx context.Context, report func(sdk.Status)) {
	if p.missing != nil {
		report(sdk.NotReady(p.missing.Error()))
	} else {
		report(sdk.Ready())
	}
	<-ctx.Done()
}
