package main

import (
	"context"
	_ "embed"
	"os"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/plugins/tools/internal/process"
	"github.com/fermenthq/ferment/plugins/tools/internal/task"
	"github.com/fermenthq/ferment/plugins/tools/internal/web"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/launch"
)

// The inputs and outputs of the tools.
//
//go:embed schemas.edn
var schemaText string

// settings are the configuration. The host adds the contents of its effects
// block.
type settings struct {
	Enforcement edn.Value         `edn:"enforcement,omitempty" doc:"if the kernel cannot confine a call: strict rejects it, best-effort runs it; set by the host"`
	Secrets     map[string]secret `edn:"secrets,omitempty" doc:"secrets that requests may name; set by the host"`
	CAFile      string            `edn:"ca-file,omitempty" unit:"path" doc:"certificates that requests trust besides those of the system"`
}

type secret struct {
	Value  string   `edn:"value,omitempty" secret:"true"`
	Hosts  []string `edn:"hosts,omitempty" doc:"that the secret may go to"`
	Header string   `edn:"header,omitempty" doc:"the only header that may contain it"`
}

// tools serves the capabilities.
type tools struct {
	crew   *worker.Crew
	reaper *launch.Reaper // kills programs if this process dies
}

// newPlugin returns the plugin; self is the binary that serves as worker.
func newPlugin(self string) sdk.Plugin {
	t := &tools{crew: worker.NewCrew(self, worker.Idle), reaper: launch.NewReaper("")}
	p := sdk.Plugin{
		Name: "tools", Version: version, Needs: []string{"process/self"}, Schemas: map[string]edn.Value{},
		Config: sdk.Config[settings]{Schema: configSchema},
		Close:  func(context.Context) error { return t.close() },
	}
	for key, form := range edn.MustRead(schemaText).Entries() {
		name, _ := key.AsKeyword()
		p.Schemas[name] = form
	}
	for _, tool := range effects.ToolsOf("tools") {
		p.Capabilities = append(p.Capabilities, t.capability(tool))
	}
	return p
}

// configSchema is written by hand: the host reads it to find the places of
// secrets.
var configSchema = edn.MustRead(`[:map {:closed true}
 [:enforcement {:optional true :doc "strict or best-effort; the host sets it from its effects block"} [:enum :strict :best-effort]]
 [:secrets {:optional true :doc "the host sets them from its effects block"}
  [:map-of :string [:map {:closed true} [:value {:optional true :secret true} [:maybe :string]] [:hosts {:optional true} [:vector :string]] [:header {:optional true} :string]]]]
 [:ca-file {:optional true :unit :path :doc "certificates that requests trust besides those of the system"} :string]]`)

var described = map[string]string{
	"fs/read-file":     "Reads a file below an allowed prefix.",
	"fs/list":          "Lists a directory below an allowed prefix.",
	"fs/write-file":    "Writes a file below an allowed prefix, whole or not at all.",
	"process/run":      "Runs an allowed program in an allowed directory.",
	"net/http-request": "Makes an HTTP request to an allowed host.",
}

func (t *tools) capability(tool effects.Tool) sdk.Capability {
	name := schemaName(tool)
	options := []sdk.Option{
		sdk.Kind("tool"), sdk.Effects(tool.Effect), sdk.In("req/" + name), sdk.Out("res/" + name),
		sdk.Tags("embedded"), sdk.Description(described[tool.ID]),
		sdk.Cost(contract.Cost{Latency: 20 * time.Millisecond, USD: edn.Int(0)}),
		sdk.Metadata(func(c *contract.Capability) { c.RecoveryRules = recovery(tool) }),
	}
	if tool.ID == "fs/write-file" {
		options = append(options, sdk.Idempotent())
	}
	return sdk.Func(tool.ID, sdk.Intents(tool.ID), func(ctx context.Context, in edn.Value) (edn.Value, error) {
		return t.call(ctx, tool, in)
	}, options...)
}

func schemaName(t effects.Tool) string {
	return map[string]string{
		"fs/read-file": "fs.read-file", "fs/list": "fs.list", "fs/write-file": "fs.write-file", "process/run": "process.run", "net/http-request": "net.http-request",
	}[t.ID]
}

// recovery returns the rules for the error classes of a tool that depend on the input (ENV-024).
func recovery(t effects.Tool) []contract.RecoveryRule {
	rule := func(key string, match edn.Value, class contract.RecoveryClass) contract.RecoveryRule {
		return contract.RecoveryRule{Path: []edn.Value{edn.K(key)}, Match: match, Class: class}
	}
	switch t.ID {
	case "fs/write-file":
		return []contract.RecoveryRule{rule("append?", edn.Bool(true), contract.RecoveryOnce)}
	case "net/http-request":
		return []contract.RecoveryRule{
			rule("method", edn.Text("GET"), contract.RecoveryNone),
			rule("method", edn.Text("HEAD"), contract.RecoveryNone),
			rule("method", edn.Nil(), contract.RecoveryNone),
		}
	}
	return nil
}

// call executes one call, within the scope that came with the call.
func (t *tools) call(ctx context.Context, tool effects.Tool, in edn.Value) (edn.Value, error) {
	cfg := sdk.ConfigFrom[settings](ctx)
	call := sdk.CallFrom(ctx)
	scope, problems := effects.ParseScope(tool.Effect, scopeOf(call.Scope, tool.Effect))
	if len(problems) > 0 {
		return edn.Nil(), contract.Errorf("effects/invalid-input", ":%s: the scope of the call: %s", tool.ID, problems[0])
	}
	strict := !edn.Equal(cfg.Enforcement, edn.K("best-effort"))
	if err := tool.Permit(in, &scope); err != nil {
		return edn.Nil(), err
	}
	if tool.ID == "process/run" {
		r := process.Runner{Tool: tool, Strict: strict, Reaper: t.reaper, Env: os.LookupEnv}
		out, failed := r.Run(ctx, in, &scope)
		if failed != nil {
			return edn.Nil(), failed
		}
		return out, nil
	}
	work := &task.Task{
		Tool:    tool,
		Input:   in,
		Scope:   scope,
		Key:     call.EffectKey,
		Strict:  strict,
		CAFile:  cfg.CAFile,
		Secrets: map[string]web.Secret{},
	}
	for _, name := range web.Named(in) {
		if s, ok := cfg.Secrets[name]; ok {
			work.Secrets[name] = web.Secret{Value: s.Value, Hosts: s.Hosts, Header: s.Header}
		}
	}
	parts, failed := work.Parts()
	if failed != nil {
		return edn.Nil(), failed
	}
	return t.crew.Run(ctx, parts)
}

// scopeOf returns the scope of one effect of a call, nil if there is none; then nothing is
// permitted.
func scopeOf(scopes edn.Value, effect string) edn.Value {
	if s := scopes.Key(effect); s.IsMap() {
		return s
	}
	return edn.MustMap(edn.K("enabled"), edn.Bool(false))
}

func (t *tools) close() error {
	t.crew.Close()
	return t.reaper.Close()
}
