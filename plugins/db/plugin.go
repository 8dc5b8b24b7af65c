package main

import (
	"context"
	_ "embed"
	"time"

	"github.com/fermenthq/ferment/plugins/db/internal/task"
	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// The inputs and outputs of the tools.
//
//go:embed schemas.edn
var schemaText string

// settings are the configuration. The host adds the contents of its effects
// block.
type settings struct {
	Enforcement edn.Value             `edn:"enforcement,omitempty" doc:"if nothing can confine a call: strict rejects it, best-effort runs it; set by the host"`
	Connections map[string]connection `edn:"connections,omitempty" doc:"databases that calls may name; set by the host"`
}

type connection struct {
	Driver edn.Value `edn:"driver"`
	Path   string    `edn:"path,omitempty" unit:"path" doc:"of an SQLite database"`
	DSN    string    `edn:"dsn,omitempty" secret:"true" doc:"connection string of PostgreSQL"`
}

// configSchema is written by hand: the host reads it to find the places of
// secrets.
var configSchema = edn.MustRead(`[:map {:closed true}
 [:enforcement {:optional true :doc "strict or best-effort; the host sets it from its effects block"} [:enum :strict :best-effort]]
 [:connections {:optional true :doc "the host sets them from its effects block"}
  [:map-of :string [:map {:closed true} [:driver [:enum :sqlite :postgres]] [:path {:optional true :unit :path} :string]
   [:dsn {:optional true :secret true} [:maybe :string]]]]]]`)

// grace is the time that a worker has beyond the timeout of its call to end by
// itself, with a rollback.
const grace = 2 * time.Second

// newPlugin returns the plugin; self is the binary that serves as worker.
func newPlugin(self string) sdk.Plugin {
	crew := worker.NewCrew(self, worker.Idle)
	p := sdk.Plugin{
		Name: "db", Version: version, Needs: []string{"process/self"}, Schemas: map[string]edn.Value{},
		Config: sdk.Config[settings]{Schema: configSchema},
		Close:  func(context.Context) error { crew.Close(); return nil },
	}
	for key, form := range edn.MustRead(schemaText).Entries() {
		name, _ := key.AsKeyword()
		p.Schemas[name] = form
	}
	for _, tool := range effects.ToolsOf("db") {
		p.Capabilities = append(p.Capabilities, capability(crew, tool))
	}
	return p
}

func capability(crew *worker.Crew, tool effects.Tool) sdk.Capability {
	name, description := "db.query", "Reads rows of a database of the configuration."
	if tool.ID == "db/exec" {
		name, description = "db.exec", "Changes a database of the configuration, once for each effect key."
	}
	options := []sdk.Option{
		sdk.Kind("tool"), sdk.Effects(tool.Effect), sdk.In("req/" + name), sdk.Out("res/" + name),
		sdk.Tags("embedded"), sdk.Description(description),
		sdk.Cost(contract.Cost{Latency: 20 * time.Millisecond, USD: edn.Int(0)}),
	}
	if tool.ID == "db/exec" {
		options = append(options, sdk.Idempotent())
	}
	return sdk.Func(tool.ID, sdk.Intents(tool.ID), func(ctx context.Context, in edn.Value) (edn.Value, error) {
		return call(ctx, crew, tool, in)
	}, options...)
}

// call executes one call in a worker, within the scope that came with the call.
func call(ctx context.Context, crew *worker.Crew, tool effects.Tool, in edn.Value) (edn.Value, error) {
	cfg := sdk.ConfigFrom[settings](ctx)
	from := sdk.CallFrom(ctx)
	scope, problems := effects.ParseScope(tool.Effect, scopeOf(from.Scope, tool.Effect))
	if len(problems) > 0 {
		return edn.Nil(), contract.Errorf("effects/invalid-input", ":%s: the scope of the call: %s", tool.ID, problems[0])
	}
	work := &task.Task{
		Tool:        tool,
		Input:       in,
		Scope:       scope,
		Key:         from.EffectKey,
		Strict:      !edn.Equal(cfg.Enforcement, edn.K("best-effort")),
		Connections: map[string]task.Connection{},
	}
	for name, c := range cfg.Connections {
		driver, _ := c.Driver.AsKeyword()
		work.Connections[name] = task.Connection{Driver: driver, Path: c.Path, DSN: c.DSN}
	}
	parts, failed := work.Parts()
	if failed != nil {
		return edn.Nil(), failed
	}
	ctx, cancel := context.WithTimeoutCause(ctx, work.Timeout()+grace,
		contract.Errorf("timeout/hard", ":%s: the worker did not end within %s", tool.ID, work.Timeout()+grace))
	defer cancel()
	return crew.Run(ctx, parts)
}

// scopeOf returns the scope of one effect of a call, nil if there is none; then nothing is
// permitted.
func scopeOf(scopes edn.Value, effect string) edn.Value {
	if s := scopes.Key(effect); s.IsMap() {
		return s
	}
	return edn.MustMap(edn.K("enabled"), edn.Bool(false))
}
