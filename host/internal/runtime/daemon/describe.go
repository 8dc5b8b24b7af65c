package daemon

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxDescribed is the maximum number of references in one request for descriptions.
const maxDescribed = 128

// describe returns the descriptions of capabilities and intents that a plugin can call (CNV-013).
// The handles in input must have been checked with checkHandles.
func describe(input edn.Value, reg *registry.Registry) (edn.Value, error) {
	refs := input.Key("refs")
	if !refs.IsVector() && !refs.IsList() || refs.Len() > maxDescribed {
		return edn.Nil(), contract.Errorf("input/invalid",
			"describe: :refs: expected a vector of 0 to %d handles and intents", maxDescribed).
			WithDetail("path", edn.Vector(edn.K("refs")))
	}
	d := callables{reg: reg}
	for v := range refs.Elems() {
		if err := d.add(v); err != nil {
			return edn.Nil(), err
		}
		d.index++
	}
	return contract.ValueResult(edn.MustMap(edn.K("callables"), edn.Vector(d.all...))), nil
}

type callables struct {
	reg   *registry.Registry
	index int64 // index of the current reference
	all   []edn.Value
}

func (d *callables) add(ref edn.Value) error {
	if id, ok := contract.HandleOf(ref); ok {
		return d.addCapability(id)
	}
	intent, ok := ref.AsKeyword()
	if !ok {
		return contract.Errorf("input/invalid", "describe: reference %d: expected a handle or an intent, got %.80s", d.index, ref).
			WithDetail("path", edn.Vector(edn.K("refs"), edn.Int(d.index)))
	}
	if _, known := d.reg.Intent(intent); !known {
		return contract.Errorf("invalid-request",
			"no plugin advertises the intent :%s, and no block declares it", intent).
			WithDetail("reason", edn.K("intent/not-supported")).
			DidYouMean(":" + d.reg.NearestIntent(intent))
	}
	var first *registry.Capability
	var common []string
	for _, id := range d.reg.Candidates(intent) {
		c, ok := d.reg.Capability(id)
		switch {
		case !ok:
		case first == nil:
			first, common = c, slices.Clone(c.Effects)
		default:
			common = slices.DeleteFunc(common, func(e string) bool { return !slices.Contains(c.Effects, e) })
		}
	}
	d.put(intent, first, common)
	return nil
}

func (d *callables) addCapability(id string) error {
	if a, absent := d.reg.Absent(id); absent {
		return absentError(id, a)
	}
	c, _ := d.reg.Capability(id)
	intents := c.Intents
	if len(intents) == 0 { // it serves any
		intents = []string{c.ToolIntent()}
	}
	for _, intent := range intents {
		d.put(intent, c, c.Effects)
	}
	return nil
}

// put adds one callable. c is nil for an intent without a capability.
func (d *callables) put(intent string, c *registry.Capability, effects []string) {
	in, out := d.reg.InSchema(intent, ""), d.reg.OutSchema(intent, "")
	var b edn.MapBuilder
	b.Key("index", edn.Int(d.index))
	b.Key("intent", edn.K(intent))
	if c != nil {
		b.OptKeyword("cap/kind", c.Kind)
		b.OptText("description", c.Description)
		if in == "" {
			in = c.InSchema.For(intent)
		}
		if out == "" {
			out = c.OutSchema.For(intent)
		}
	}
	b.Key("in-schema", d.form(in))
	b.Key("out-schema", d.form(out))
	b.Key("effects", edn.Keywords(effects...))
	d.all = append(d.all, b.Map())
}

// form returns the schema with a name, with all references replaced by their schemas; :map if there
// is no such schema.
func (d *callables) form(name string) edn.Value {
	if s, ok := d.reg.Schema(name); ok {
		return s.Standalone()
	}
	return edn.K("map")
}

func absentError(id string, a *registry.Absent) *contract.Error {
	return contract.Errorf("runtime/not-ready", ":%s is not ready: %s", id, a.Why.Message).
		WithCause(a.Why).WithHint(a.Why.Hint)
}
