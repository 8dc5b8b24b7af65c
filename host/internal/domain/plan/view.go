package plan

import (
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// FromJSON converts the JSON view v to its plan (VAL-006). A string becomes a keyword where a node,
// a slot, a condition or a handle has one; the input of a call or a tool is coerced by the schema
// of its intent. All other values are kept. A string that is the input of an emit, or is under its
// :final, names a slot if it begins with a colon and is text otherwise. Elements of a slot path
// become keywords, which also match the string keys of a JSON answer. A value that is not a plan is
// returned unchanged, for Parse to report.
func FromJSON(v edn.Value, reg *registry.Registry) edn.Value {
	if !v.IsMap() {
		return v
	}
	w := viewer{env: Env{Registry: reg}}
	return w.plan(v)
}

type viewer struct{ env Env }

// planView and nodeView give types to the parts of plans that are keywords,
// sets and decimals in EDN.
var planView = viewForm(`[:map [:mode :keyword]]`)

var nodeView = viewForm(`
 [:map
  [:op :keyword] [:as :keyword] [:intent :keyword] [:cap/id :keyword] [:tool/id :keyword] [:role :keyword]
  [:result/type :keyword] [:item :keyword] [:on-item-error :keyword]
  [:output [:map [:schema :keyword]]] [:expect [:map [:result/type :keyword]]]
  [:requires [:map [:in-schema :keyword] [:out-schema :keyword] [:result/type :keyword] [:cap/kind :keyword]
                   [:cap/tags [:set :keyword]] [:effects/allowed [:set :keyword]]]]
  [:constraints [:map [:language :keyword] [:style :keyword]]]
  [:done [:map [:must [:set :keyword]] [:should [:set :keyword]]]]
  [:effects [:map [:allowed [:set :keyword]] [:scope [:map-of :keyword :any]]]]
  [:budget [:map [:max-usd [:or :int :decimal]] [:usd [:or :int :decimal]]]]
  [:dispatch [:map [:candidates [:sequential [:or :keyword :map]]] [:exclude [:sequential :keyword]]
                   [:policy :keyword] [:strategy :keyword]
                   [:switch-on [:set :keyword]] [:switch-on/replace [:set :keyword]]
                   [:checks [:sequential :keyword]] [:checks/hard [:set :keyword]]
                   [:checks/soft [:sequential :keyword]]]]]`)

func viewForm(form string) func() *schema.Schema {
	return sync.OnceValue(func() *schema.Schema { return schema.MustCompile(edn.MustRead(form)) })
}

// templatesOfView are the keys of a node that may contain slots and handles.
var templatesOfView = [...]edn.Value{
	kInput, kValue, kSystem, kOver, kFn, kDispatch, edn.K("context"), edn.K("constraints"),
}

func (w *viewer) plan(v edn.Value) edn.Value {
	if !v.IsMap() {
		return v
	}
	return with(planView().CoerceJSON(v), kNodes, w.nodes)
}

// with replaces the value under a key if the key exists.
func with(m, key edn.Value, f func(edn.Value) edn.Value) edn.Value {
	v, ok := m.Get(key)
	if !ok {
		return m
	}
	return m.Assoc(key, f(v))
}

func (w *viewer) nodes(v edn.Value) edn.Value {
	if !v.IsVector() {
		return v
	}
	return v.MapValues(w.node)
}

func (w *viewer) node(v edn.Value) edn.Value {
	if !v.IsMap() {
		return v
	}
	v = nodeView().CoerceJSON(v)
	for _, key := range templatesOfView {
		v = with(v, key, slotsOfView)
	}
	v = with(v, kWhen, condOfView)
	v = with(v, kOver, wordOfView)
	if op, _ := v.Key("op").AsKeyword(); op == OpEmit.String() {
		v = with(v, kInput, emitOfView)
	}
	v = with(v, kBody, w.nodes)
	v = with(v, kPlan, w.plan)
	in := w.inputSchema(v)
	if in == nil {
		return v
	}
	return with(v, kInput, func(input edn.Value) edn.Value { return coerceAround(in, input) })
}

// inputSchema returns the schema of the input of a call or a tool, nil if there is none.
func (w *viewer) inputSchema(v edn.Value) *schema.Schema {
	n := Node{}
	n.Intent, _ = v.Key("intent").AsKeyword()
	n.ToolID, _ = v.Key("tool/id").AsKeyword()
	name := ""
	switch op, _ := v.Key("op").AsKeyword(); op {
	case OpCall.String():
		required, _ := v.Key("requires").Key("in-schema").AsKeyword()
		name = w.env.Registry.InSchema(n.Intent, required)
	case OpTool.String():
		n.Op = OpTool
		name = w.env.inSchema(&n)
	}
	s, _ := w.env.Registry.Schema(name)
	return s
}

// coerceAround coerces a template. Its slots are set aside first, as a schema
// would treat them as ordinary maps.
func coerceAround(s *schema.Schema, template edn.Value) edn.Value {
	var slots []edn.Value
	aside := replaceParts(template, func(v edn.Value) (edn.Value, bool) {
		if isSlot, _ := slotShape(v); !isSlot {
			return v, false
		}
		held, err := edn.Tagged("ferment/slot", edn.Int(int64(len(slots))))
		if err != nil {
			return v, true
		}
		slots = append(slots, v)
		return held, true
	})
	return replaceParts(s.CoerceJSON(aside), func(v edn.Value) (edn.Value, bool) {
		if tag, inner, ok := v.AsTagged(); ok && tag == "ferment/slot" {
			if i, ok := inner.AsInt(); ok && i >= 0 && i < int64(len(slots)) {
				return slots[i], true
			}
		}
		return v, false
	})
}

// replaceParts replaces the parts of a value for which f reports true, outermost first.
func replaceParts(v edn.Value, f func(edn.Value) (edn.Value, bool)) edn.Value {
	if x, done := f(v); done {
		return x
	}
	return v.MapValues(func(v edn.Value) edn.Value { return replaceParts(v, f) })
}

// slotsOfView converts the slots and handles in a template to keywords.
func slotsOfView(v edn.Value) edn.Value {
	return replaceParts(v, func(v edn.Value) (edn.Value, bool) {
		if isSlot, _ := slotShape(v); isSlot {
			return slotOfView(v), true
		}
		if v.IsMap() && v.Len() == 1 && v.Key("cap/ref").IsString() {
			return with(v, kCapRef, wordOfView), true
		}
		return v, false
	})
}

func slotOfView(v edn.Value) edn.Value {
	for _, key := range [...]edn.Value{kSlotID, kSlotPath} {
		v = with(v, key, func(target edn.Value) edn.Value {
			if target.IsVector() {
				return target.MapValues(wordOfView)
			}
			return wordOfView(target)
		})
	}
	return v
}

// emitOfView returns the input of an emit: a string with a colon names a slot, as the whole input
// or under :final.
func emitOfView(v edn.Value) edn.Value {
	if v.IsMap() {
		return with(v, kFinal, func(final edn.Value) edn.Value {
			if final.IsMap() {
				return final
			}
			return emitOfView(final)
		})
	}
	if text, ok := v.AsString(); ok && strings.HasPrefix(text, ":") {
		return wordOfView(v)
	}
	return v
}

// condOfView converts a condition to keywords.
func condOfView(v edn.Value) edn.Value {
	if isSlot, _ := slotShape(v); isSlot {
		return slotOfView(v)
	}
	if !v.IsMap() {
		return wordOfView(v)
	}
	return v.MapValues(func(inner edn.Value) edn.Value {
		if inner.IsVector() {
			return inner.MapValues(condOfView)
		}
		return condOfView(inner)
	})
}

// wordOfView returns the keyword that a string names, with or without a leading colon. Any other
// value is returned unchanged.
func wordOfView(v edn.Value) edn.Value {
	text, ok := v.AsString()
	if !ok {
		return v
	}
	word, err := edn.Keyword(strings.TrimPrefix(text, ":"))
	if err != nil {
		return v
	}
	return word
}
