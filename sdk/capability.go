package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Capability is one operation of a plugin: metadata and a function. Create it
// with [Func], [StreamFunc], [PlanFunc] or [Raw].
type Capability struct {
	meta     contract.Capability
	in, out  edn.Value // derived schemas, used if no schema is named
	handle   handler
	problems []error
}

// handler answers one call with a response envelope. A nil value means that the
// answer was already sent.
type handler func(ctx context.Context, c *call) (edn.Value, error)

// ID is the capability's id without colon, such as "demo/greeter".
func (c Capability) ID() string { return c.meta.ID }

// IntentNames are the intents that a capability serves.
type IntentNames []string

// Intents returns the names of the intents that a capability serves, without
// colon. Without names, the capability serves every intent.
func Intents(names ...string) IntentNames { return names }

// Option sets metadata of a capability.
type Option func(*Capability)

// Kind sets the kind of executor: llm, solver, judge, checker, tool, agent,
// human or a word of your own. The default is tool.
func Kind(kind string) Option { return func(c *Capability) { c.meta.Kind = kind } }

// In names the input schema instead of deriving it, for example "req/text".
func In(schema string) Option { return func(c *Capability) { c.meta.InSchema.Name = schema } }

// Out names the output schema instead of deriving it, for example "res/text".
func Out(schema string) Option { return func(c *Capability) { c.meta.OutSchema.Name = schema } }

// InFor names the input schema for one intent; other intents keep the schema of
// [In].
func InFor(intent, schema string) Option {
	return func(c *Capability) { setFor(&c.meta.InSchema, intent, schema) }
}

// OutFor names the output schema for one intent; other intents keep the schema
// of [Out].
func OutFor(intent, schema string) Option {
	return func(c *Capability) { setFor(&c.meta.OutSchema, intent, schema) }
}

func setFor(ref *contract.SchemaRef, intent, schema string) {
	if ref.ByIntent == nil {
		ref.ByIntent = map[string]string{}
	}
	ref.ByIntent[intent] = schema
}

// Effects declares what a call changes or reads in the user's world, such as
// "fs/write". The default is "none": the call only computes an answer. A second
// Effects replaces the first.
func Effects(names ...string) Option { return func(c *Capability) { c.meta.Effects = sorted(names) } }

// Tags sets the words by which requests can select the capability.
func Tags(names ...string) Option { return func(c *Capability) { c.meta.Tags = sorted(names) } }

// Cost sets the known cost of a call.
func Cost(cost contract.Cost) Option { return func(c *Capability) { c.meta.Cost = cost } }

// Limits sets the limits of the capability: time, concurrency, tokens, input size.
func Limits(limits contract.Limits) Option { return func(c *Capability) { c.meta.Limits = limits } }

// MaxInFlight limits the concurrent calls of the capability. Calls above it are
// rejected with :runtime/overloaded.
func MaxInFlight(n int) Option { return func(c *Capability) { c.meta.Limits.MaxInFlight = n } }

// Timeout sets the longest duration of one call.
func Timeout(d time.Duration) Option { return func(c *Capability) { c.meta.Limits.Timeout = d } }

// Deterministic promises that equal requests get equal answers.
func Deterministic() Option { return func(c *Capability) { c.meta.Deterministic = true } }

// Idempotent promises that repeated calls with the same effect key have the
// effect only once.
func Idempotent() Option { return func(c *Capability) { c.meta.Idempotent = true } }

// Repairs declares that the capability can correct its answer when the request
// contains the findings about it (:context :repair).
func Repairs() Option { return func(c *Capability) { c.meta.Repairs = true } }

// Streams declares that a Raw capability sends deltas. StreamFunc implies it.
func Streams() Option { return func(c *Capability) { c.meta.Streams = true } }

// Produces sets the result types of a Raw capability: "value", "plan" or both.
func Produces(types ...string) Option {
	return func(c *Capability) { c.meta.CanProduce = sorted(types) }
}

// Description sets the description of the capability: one sentence, at most 500
// characters.
func Description(text string) Option { return func(c *Capability) { c.meta.Description = text } }

// Metadata lets change set the fields of the metadata that have no Option of their
// own. change is called once, while the capability is created.
func Metadata(change func(*contract.Capability)) Option {
	return func(c *Capability) { change(&c.meta) }
}

func sorted(names []string) []string {
	all := slices.Clone(names)
	slices.Sort(all)
	return slices.Compact(all)
}

func newCapability(id string, intents IntentNames, produces string, in, out edn.Value, opts []Option) Capability {
	c := Capability{
		meta: contract.Capability{
			ID:         strings.TrimPrefix(id, ":"),
			Kind:       "tool",
			Intents:    sorted(intents),
			CanProduce: []string{produces},
			Effects:    []string{"none"},
			Stability:  "stable",
		},
		in:  in,
		out: out,
	}
	for i, name := range c.meta.Intents {
		c.meta.Intents[i] = strings.TrimPrefix(name, ":")
	}
	for _, option := range opts {
		option(&c)
	}
	for _, name := range append([]string{c.meta.ID}, c.meta.Intents...) {
		if _, err := edn.Keyword(name); err != nil || !strings.Contains(name, "/") {
			c.problems = append(c.problems,
				fmt.Errorf("capability %q: %q is not a qualified name such as demo/greeter", id, name))
		}
	}
	return c
}

// describe returns the metadata as the plugin advertises it, and the schemas
// derived for it. A derived schema is published under a name made from the
// intent, req/<ns>.<name> or res/<ns>.<name>; if the intent is declared with a
// schema, the host uses that one.
func (c Capability) describe(version string) (contract.Capability, map[string]edn.Value) {
	meta := c.meta
	if meta.Version == "" {
		meta.Version = version
	}
	derived := map[string]edn.Value{}
	meta.InSchema = c.reference(meta.InSchema, "req", c.in, derived)
	meta.OutSchema = c.reference(meta.OutSchema, "res", c.out, derived)
	return meta, derived
}

func (c Capability) reference(
	ref contract.SchemaRef, prefix string, shape edn.Value, derived map[string]edn.Value,
) contract.SchemaRef {
	if ref.Name != "" && ref.ByIntent == nil {
		return ref
	}
	full := contract.SchemaRef{ByIntent: map[string]string{}}
	for _, intent := range c.meta.Intents {
		switch named := ref.ByIntent[intent]; {
		case named != "":
			full.ByIntent[intent] = named
		case ref.Name != "":
			full.ByIntent[intent] = ref.Name
		default:
			name := prefix + "/" + strings.ReplaceAll(intent, "/", ".")
			full.ByIntent[intent] = name
			derived[name] = shape
		}
	}
	switch len(full.ByIntent) {
	case 0:
		return contract.SchemaRef{Name: prefix + "/any"}
	case 1:
		return contract.SchemaRef{Name: full.ByIntent[c.meta.Intents[0]]}
	}
	return full
}
