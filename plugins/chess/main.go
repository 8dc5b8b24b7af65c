package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/plugins/chess/internal/engine"
	"github.com/fermenthq/ferment/plugins/chess/internal/uci"
	"github.com/fermenthq/ferment/plugins/internal/program"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

const version = "1.0.0"

func main() { sdk.Serve(newPlugin()) }

// settings are the config block of the plugin.
type settings struct {
	Engine   string            `edn:"engine" enum:"builtin,uci" doc:"the engine of this plugin, or a UCI program"`
	Depth    int               `edn:"depth" min:"1" max:"64" doc:"search depth in plies when the request names none; below 4 forced mates are not looked for any deeper either"`
	Path     string            `edn:"path,omitempty" doc:"UCI program: absolute path, or a name to look up in PATH"`
	Args     []string          `edn:"args,omitempty" doc:"arguments of the UCI program"`
	Options  map[string]string `edn:"options,omitempty" doc:"UCI options to set, by name"`
	MoveTime int               `edn:"movetime,omitempty" unit:"ms" min:"0" max:"600000" doc:"UCI program: time for a move when the request names no limit, 0 for none"`
}

// chessPlugin holds the state of the process.
type chessPlugin struct {
	external *uci.Engine // set by Start when a UCI program is configured
	missing  error       // error of finding that program
}

func newPlugin() sdk.Plugin {
	p := new(chessPlugin)
	return sdk.Plugin{
		Name:     "chess",
		Version:  version,
		Features: []string{sdk.FeatureHotSwap},
		Schemas: map[string]edn.Value{
			"req/chess.position":    edn.MustRead(`[:map [:fen :string] [:want {:optional true} :map] [:depth {:optional true} :int] [:movetime-ms {:optional true} :int]]`),
			"req/chess.verify-move": schema.For[verifyIn](),
			"res/chess.verify-move": schema.For[verifyOut](),
			"req/chess.perft":       schema.For[perftIn](),
			"res/chess.perft":       schema.For[perftOut](),
		},
		Config: sdk.Config[settings]{
			Default: settings{Engine: "builtin", Depth: engine.DefaultOptions().Depth, MoveTime: 0},
			Check:   checkSettings,
			Offer:   p.offer,
			Start:   p.start,
		},
		Health: p.health,
		Close:  p.close,
	}
}

func checkSettings(cfg settings) error {
	if cfg.Engine == "uci" && cfg.Path == "" {
		return sdk.Problem(`engine = "uci" needs the path of a program`, edn.K("path"))
	}
	return nil
}

func (p *chessPlugin) offer(_ context.Context, cfg settings) (sdk.Offer, error) {
	name, needs, tag := "alpha-beta engine of this plugin", []string(nil), "embedded"
	if cfg.Engine == "uci" {
		name, needs, tag = "UCI program "+cfg.Path, []string{"process/run"}, "external"
	}
	return sdk.Offer{
		Needs: needs,
		Capabilities: []sdk.Capability{
			sdk.Func("chess/engine", sdk.Intents("chess/best-move"),
				func(ctx context.Context, in bestMoveIn) (bestMoveOut, error) {
					return bestMove(ctx, p.searcher(cfg), in)
				}, sdk.Kind("solver"), sdk.Tags(tag), sdk.In("req/chess.position"), sdk.Out("res/chess.move+pv+eval"),
				sdk.Cost(contract.Cost{Latency: 300 * time.Millisecond, USD: edn.Int(0)}),
				sdk.Description("Best move of a position, by the "+name+".")),
			sdk.Func("chess/rules", sdk.Intents("chess/verify-move", "chess/perft"), answerRules,
				sdk.Kind("checker"), sdk.Tags("embedded"), sdk.Deterministic(), sdk.Cost(contract.Cost{USD: edn.Int(0)}),
				sdk.InFor("chess/verify-move", "req/chess.verify-move"), sdk.OutFor("chess/verify-move", "res/chess.verify-move"),
				sdk.InFor("chess/perft", "req/chess.perft"), sdk.OutFor("chess/perft", "res/chess.perft"),
				sdk.Description("Says whether a move is legal, and counts the leaves of the tree of legal moves.")),
		},
	}, nil
}

func (p *chessPlugin) searcher(cfg settings) searcher {
	if cfg.Engine != "uci" {
		options := engine.DefaultOptions()
		if cfg.Depth < options.Depth { // as for a depth in a request
			options.MateMoves = min(options.MateMoves, (cfg.Depth+1)/2)
		}
		options.Depth = cfg.Depth
		return embedded{options: options}
	}
	return external{engine: p.external, depth: cfg.Depth, time: time.Duration(cfg.MoveTime) * time.Millisecond}
}

// start finds the UCI program. A missing program is not an error of the
// configuration, which may name an engine that only some machines have: the
// plugin then runs and reports that it is not ready.
func (p *chessPlugin) start(_ context.Context, cfg settings) error {
	if cfg.Engine != "uci" {
		return nil
	}
	path, err := program.Locate(cfg.Path)
	if err != nil {
		p.missing = fmt.Errorf("%w; install the engine, or set path to its program", err)
		return nil
	}
	p.external = uci.New(path, cfg.Args, cfg.Options)
	return nil
}

func (p *chessPlugin) health(ctx context.Context, report func(sdk.Status)) {
	if p.missing != nil {
		report(sdk.NotReady(p.missing.Error()))
	} else {
		report(sdk.Ready())
	}
	<-ctx.Done()
}

func (p *chessPlugin) close(context.Context) error {
	if p.external != nil {
		p.external.Close()
	}
	return nil
}
