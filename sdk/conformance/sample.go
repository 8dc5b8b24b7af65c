package conformance

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// sampleDepth bounds the values generated for recursive schemas.
const sampleDepth = 8

// input returns the input of a capability for its first intent.
func (b *bench) input(d contract.Description, c contract.Capability) edn.Value {
	return b.inputFor(d, c, firstIntent(c))
}

// inputFor returns the input of a capability for an intent: the sample of the
// run, or the smallest value that fits its schema.
func (b *bench) inputFor(d contract.Description, c contract.Capability, intent string) edn.Value {
	for _, name := range []string{intent, c.ID} {
		if v, ok := b.opts.Samples[name]; ok {
			return v
		}
	}
	named := schemasOf(d)
	v := made(named, named[c.InSchema.For(intent)], sampleDepth)
	if v.Kind() != edn.KindMap {
		return edn.MustMap(edn.K("prompt"), edn.Text("x"), edn.K("text"), edn.Text("x"))
	}
	return v
}

// firstIntent returns the intent of a capability where any one will do.
func firstIntent(c contract.Capability) string {
	if len(c.Intents) > 0 {
		return c.Intents[0]
	}
	return "text/respond"
}

// schemasOf returns the schemas that a description may name.
func schemasOf(d contract.Description) map[string]edn.Value {
	named := schema.Builtin()
	for name, form := range d.Schemas {
		named[strings.TrimPrefix(name, ":")] = form
	}
	return named
}

// made generates a small value that fits the schema, without support for
// regular expressions: strings are one letter.
func made(named map[string]edn.Value, form edn.Value, depth int) edn.Value {
	if depth == 0 {
		return edn.Nil()
	}
	if name, ok := form.AsKeyword(); ok {
		return madeScalar(name)
	}
	head, _ := form.Nth(0)
	kind, _ := head.AsKeyword()
	args := arguments(form)
	switch kind {
	case "map":
		return madeMap(named, args, depth)
	case "map-of":
		return edn.MustMap()
	case "set":
		return edn.SetOf()
	case "vector", "sequential", "list":
		return edn.Vector(madeSome(named, form, args, depth)...)
	case "tuple":
		var parts []edn.Value
		for _, a := range args {
			parts = append(parts, made(named, a, depth-1))
		}
		return edn.Vector(parts...)
	case "ref":
		if name, ok := first(args).AsKeyword(); ok {
			return made(named, named[name], depth-1)
		}
	case "enum":
		return first(args)
	case "or", "and", "maybe":
		return made(named, first(args), depth-1)
	case "re":
		return edn.Text("x")
	case "int", "number", "double", "string":
		if least := properties(form).Key("min"); kind != "string" && !least.IsNil() {
			return least
		}
		return madeScalar(kind)
	}
	return madeScalar(kind)
}

func madeScalar(name string) edn.Value {
	switch name {
	case "map":
		return edn.MustMap()
	case "boolean":
		return edn.Bool(true)
	case "int", "number":
		return edn.Int(1)
	case "double":
		return edn.MustFloat(1)
	case "decimal":
		return edn.MustDecimal("1")
	case "keyword":
		return edn.K("x")
	case "nil":
		return edn.Nil()
	}
	return edn.Text("x")
}

func madeMap(named map[string]edn.Value, entries []edn.Value, depth int) edn.Value {
	var m edn.MapBuilder
	for _, entry := range entries {
		key, _ := entry.Nth(0)
		if optional, _ := properties(entry).Key("optional").AsBool(); optional {
			continue
		}
		form, _ := entry.Nth(entry.Len() - 1)
		m.Set(key, made(named, form, depth-1))
	}
	return m.Map()
}

func madeSome(named map[string]edn.Value, form edn.Value, args []edn.Value, depth int) []edn.Value {
	n, _ := properties(form).Key("min").AsInt()
	var all []edn.Value
	for range min(n, 16) {
		all = append(all, made(named, first(args), depth-1))
	}
	return all
}

// properties returns the map after the head of a form or entry.
func properties(form edn.Value) edn.Value {
	if p, ok := form.Nth(1); ok && p.Kind() == edn.KindMap {
		return p
	}
	return edn.Nil()
}

func arguments(form edn.Value) []edn.Value {
	var args []edn.Value
	for i := 1; i < form.Len(); i++ {
		part, _ := form.Nth(i)
		if i == 1 && part.Kind() == edn.KindMap {
			continue
		}
		args = append(args, part)
	}
	return args
}

func first(values []edn.Value) edn.Value {
	if len(values) == 0 {
		return edn.Nil()
	}
	return values[0]
}

// request returns an envelope as a host sends it.
func request(c contract.Capability, input edn.Value) edn.Value {
	return requestFor(c, firstIntent(c), input)
}

func requestFor(c contract.Capability, intent string, input edn.Value) edn.Value {
	return edn.MustMap(
		edn.K("proto"), edn.Int(1),
		edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("conformance")),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent), edn.K("cap/id"), edn.K(c.ID)),
		edn.K("input"), input,
		edn.K("effects"), edn.MustMap(edn.K("allowed"), edn.Keywords(c.Effects...)),
	)
}

// callContext returns the context of a call with the scope of the run.
func (b *bench) callContext(c contract.Capability) wire.CallContext {
	call := callContext(c)
	call.Scope = b.opts.Scope
	return call
}

// callContext returns the context of a call in the run "conformance".
func callContext(c contract.Capability) wire.CallContext {
	return wire.CallContext{
		Run: "conformance", Node: "n", Path: edn.Vector(edn.Int(0)), Attempt: 1,
		Effects: c.Effects, EffectKey: "conformance-0", CallID: "call-1",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}
