package contract

import (
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Capability is the metadata of one capability. Lists are sorted, names have no
// colon.
type Capability struct {
	// ID is a qualified name, Kind the kind of executor.
	ID, Kind, Version string
	// Intents are the intents that it serves; empty means any.
	Intents []string
	// CanProduce are the types of its answers: value, plan, stream.
	CanProduce []string
	// Effects lists what a call changes or reads in the user's world; only "none" means that the
	// call just computes an answer.
	Effects []string
	Tags    []string
	// InSchema and OutSchema name the schemas of input and output.
	InSchema, OutSchema SchemaRef
	Cost                Cost
	Limits              Limits
	// Deterministic promises equal answers to equal requests. Idempotent
	// promises that calls with equal effect keys have the effect only once.
	Deterministic, Idempotent bool
	// Streams is set if the capability sends deltas, Repairs if it can use the
	// findings about an earlier answer.
	Streams, Repairs bool
	// RecoveryRules derive the recovery class from the input.
	RecoveryRules []RecoveryRule

	Role, Model, Family, Stability, Description string

	// Extra are the entries of namespace x, which the host ignores; nil if
	// there are none.
	Extra edn.Value
}

// SchemaRef names a schema: Name for all intents, except those in ByIntent.
type SchemaRef struct {
	Name     string
	ByIntent map[string]string
}

// For returns the name of the schema for the intent, or "".
func (r SchemaRef) For(intent string) string {
	if name, found := r.ByIntent[intent]; found {
		return name
	}
	return r.Name
}

// Value returns the name as a keyword, or a map from intent to keyword.
func (r SchemaRef) Value() edn.Value {
	if len(r.ByIntent) == 0 {
		if r.Name == "" {
			return edn.Nil()
		}
		return edn.K(r.Name)
	}
	var b edn.MapBuilder
	for _, intent := range slices.Sorted(maps.Keys(r.ByIntent)) {
		b.Key(intent, edn.K(r.ByIntent[intent]))
	}
	return b.Map()
}

// Cost is the known cost of a call. An amount is an integer or a decimal; nil
// means unknown, not zero. Token prices are in USD.
type Cost struct {
	Latency    time.Duration // in whole milliseconds
	HasLatency bool
	USD        edn.Value // per call
	// Per million tokens.
	USDInPerMTok, USDCachedInPerMTok, USDOutPerMTok edn.Value
}

// Limits are the limits of a capability. A zero field means that the limit is
// not stated.
type Limits struct {
	Timeout       time.Duration // in whole milliseconds
	MaxInFlight   int
	MaxTokens     int
	MaxInputBytes int
	ContextTokens int
	// HeadroomTokens is the number of tokens that a model may use for reasoning in
	// addition to the limit of an answer. The host reserves both.
	HeadroomTokens int
}

// field returns the amount of a key, nil for an unknown key.
func (c *Cost) field(name string) *edn.Value {
	switch name {
	case "usd":
		return &c.USD
	case "usd-in-per-mtok":
		return &c.USDInPerMTok
	case "usd-cached-in-per-mtok":
		return &c.USDCachedInPerMTok
	case "usd-out-per-mtok":
		return &c.USDOutPerMTok
	}
	return nil
}

var costKeys = []string{"latency-ms", "usd", "usd-cached-in-per-mtok", "usd-in-per-mtok", "usd-out-per-mtok"}

// Value returns the known parts of the cost as a map.
func (c Cost) Value() edn.Value {
	var b edn.MapBuilder
	if c.HasLatency {
		b.Key("latency-ms", edn.Int(c.Latency.Milliseconds()))
	}
	for _, name := range costKeys {
		if f := c.field(name); f != nil && !f.IsNil() {
			b.Key(name, *f)
		}
	}
	return b.Map()
}

// field returns the number of a key, nil for an unknown key.
func (l *Limits) field(name string) *int {
	switch name {
	case "max-in-flight":
		return &l.MaxInFlight
	case "max-tokens":
		return &l.MaxTokens
	case "max-input-bytes":
		return &l.MaxInputBytes
	case "context-tokens":
		return &l.ContextTokens
	case "headroom-tokens":
		return &l.HeadroomTokens
	}
	return nil
}

var limitKeys = []string{"context-tokens", "headroom-tokens", "max-in-flight", "max-input-bytes", "max-tokens", "timeout-ms"}

// value returns the stated limits as a map.
func (l Limits) value() edn.Value {
	var b edn.MapBuilder
	for _, name := range limitKeys {
		if f := l.field(name); f != nil && *f > 0 {
			b.Key(name, edn.Int(int64(*f)))
		}
	}
	if l.Timeout > 0 {
		b.Key("timeout-ms", edn.Int(l.Timeout.Milliseconds()))
	}
	return b.Map()
}

// Defaults of the metadata.
const (
	defaultVersion   = "1.0.0"
	defaultStability = "stable"
)

// Value returns the metadata as a map without default values. It panics if a
// field that holds a name contains an invalid one.
func (c Capability) Value() edn.Value {
	var b edn.MapBuilder
	set := func(name string, v edn.Value, written bool) {
		if written {
			b.Key(name, v)
		}
	}
	b.Key("cap/id", edn.K(c.ID))
	b.Key("cap/kind", edn.K(c.Kind))
	b.Key("cap/intents", edn.Keywords(c.Intents...))
	b.Key("io/in-schema", c.InSchema.Value())
	b.Key("io/out-schema", c.OutSchema.Value())
	set("cap/version", edn.Text(c.Version), c.Version != "" && c.Version != defaultVersion)
	set("cap/can-produce", edn.Keywords(c.CanProduce...), !slices.Equal(c.CanProduce, []string{"value"}))
	set("cap/effects", edn.Keywords(c.Effects...), !slices.Equal(c.Effects, []string{"none"}))
	set("cap/tags", edn.Keywords(c.Tags...), len(c.Tags) > 0)
	cost, limits := c.Cost.Value(), c.Limits.value()
	set("cap/cost", cost, cost.Len() > 0)
	set("cap/limits", limits, limits.Len() > 0)
	set("cap/deterministic?", edn.Bool(true), c.Deterministic)
	set("cap/idempotent?", edn.Bool(true), c.Idempotent)
	set("cap/streams?", edn.Bool(true), c.Streams)
	set("cap/repairs?", edn.Bool(true), c.Repairs)
	if len(c.RecoveryRules) > 0 {
		rules := make([]edn.Value, len(c.RecoveryRules))
		for i, r := range c.RecoveryRules {
			rules[i] = r.Value()
		}
		b.Key("cap/recovery-rules", edn.Vector(rules...))
	}
	b.OptKeyword("cap/role", c.Role)
	set("cap/model", edn.Text(c.Model), c.Model != "")
	set("cap/family", edn.Text(c.Family), c.Family != "")
	if c.Stability != "" && c.Stability != defaultStability {
		b.Key("cap/stability", edn.K(c.Stability))
	}
	set("cap/description", edn.Text(c.Description), c.Description != "")
	for key, val := range c.Extra.Entries() {
		b.Set(key, val)
	}
	return b.Map()
}
