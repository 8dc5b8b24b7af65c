package request

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// IsV03 reports whether v is a request of version 0.3: a map with :messages and
// without :proto. Its sender expects an answer in the form of [AnswerV03].
func IsV03(v edn.Value) bool {
	return v.Kind() == edn.KindMap && !v.Has(kProto) && v.Has(kMessages)
}

// v03Intents are the three intents of version 0.3.
var v03Intents = map[string]string{"coding": "code/patch", "chat": "text/respond", "analysis": "problem/solve"}

// v03Steps are the steps that every request of version 0.3 has. They carry no
// information and are dropped.
var v03Steps = []string{"build-prompt", "call-capability", "postprocess"}

// v03 converts a request of version 0.3 to the form of the contract. Unknown
// keys are kept and validated later.
func (t *translation) v03(v edn.Value) (edn.Value, *contract.Error) {
	if steps, found := v.Get(edn.K("steps")); found {
		if err := checkSteps(steps); err != nil {
			return edn.Value{}, err
		}
	}
	messages, prompt, err := v03Messages(v.Key("messages"))
	if err != nil {
		return edn.Value{}, err
	}
	t.warn("v0.3", "the request is in the form of version 0.3", kMessages)

	input := edn.MustMap(kMessages, messages)
	if given := v.Key("input"); given.Kind() == edn.KindMap {
		input = given.Merge(input)
	}
	if !prompt.IsNil() {
		input = input.Assoc(kPrompt, prompt)
	}
	task := edn.MustMap(kIntent, v03Intent(v.Key("intent")))
	if dispatch, found := v.Get(kDispatch); found {
		task = task.Assoc(kDispatch, dispatch)
	}
	out := v.Dissoc(kMessages, kIntent, kRequires, kDispatch, edn.K("opts"), edn.K("steps"))
	if requires, found := v.Get(kRequires); found {
		var done edn.Value
		requires, done = v03Requires(requires)
		task = task.Assoc(kRequires, requires)
		if given := v.Key("done"); !done.IsNil() && (given.IsNil() || given.Kind() == edn.KindMap) {
			out = out.Assoc(kDone, given.Merge(edn.MustMap(kMust, done)))
		}
	}
	if opts, found := v.Get(edn.K("opts")); found {
		out = out.Assoc(kBudget, opts)
	}
	out = v03Language(out)
	if id, ok := v.Key("request/id").AsString(); ok && !v.Has(kTrace) {
		out = out.Assoc(kTrace, edn.MustMap(kID, edn.Text(id)))
	}
	return traced(out.Assoc(kProto, edn.Int(contract.Proto)).Assoc(kTask, task).Assoc(kInput, input), t.trace), nil
}

func checkSteps(steps edn.Value) *contract.Error {
	at := edn.K("steps")
	if steps.Kind() != edn.KindVector && steps.Kind() != edn.KindList {
		return invalidRequest("shape/wrong-type", ":steps is not a vector", path(at)).
			Expecting(edn.K("vector"), steps).Err()
	}
	for i, step := range steps.All() {
		if name, ok := step.Key("op").AsKeyword(); !ok || step.Len() != 1 || !slices.Contains(v03Steps, name) {
			return invalidRequest("shape/unknown-key",
				"the request of version 0.3 has a step that is not supported", path(at, i)).
				Named(step.Key("op"), v03Steps).Err()
		}
	}
	return nil
}

// v03Messages returns the messages with their roles as keywords, and the text
// of the last user message.
func v03Messages(v edn.Value) (messages, prompt edn.Value, err *contract.Error) {
	if v.Kind() != edn.KindVector && v.Kind() != edn.KindList {
		return v, prompt, invalidRequest("shape/wrong-type", ":messages is not a vector", path(kMessages)).
			Expecting(edn.K("vector"), v).Err()
	}
	role := edn.K("role")
	list := make([]edn.Value, 0, v.Len())
	for i, m := range v.All() {
		if m.Kind() != edn.KindMap {
			return v, prompt, invalidRequest("shape/wrong-type", "a message is not a map", path(kMessages, i)).
				Expecting(kMap, m).Err()
		}
		m = update(m, role, word)
		if who, _ := m.Key("role").AsKeyword(); who == "user" && m.Key("content").Kind() == edn.KindString {
			prompt = m.Key("content")
		}
		list = append(list, m)
	}
	return edn.Vector(list...), prompt, nil
}

func v03Intent(v edn.Value) edn.Value {
	if v.IsNil() {
		return edn.K("text/respond")
	}
	name, _ := word(v).AsKeyword()
	if intent, found := v03Intents[name]; found {
		return edn.K(intent)
	}
	return v
}

// v03Requires splits the requirements of version 0.3 into those on the
// capability and the checks that an answer must pass.
func v03Requires(v edn.Value) (requires, must edn.Value) {
	if v.Kind() != edn.KindMap {
		return v, edn.Value{}
	}
	schema, gates := edn.K("out/schema"), edn.K("quality/must")
	requires = v.Dissoc(schema, gates)
	if s, found := v.Get(schema); found {
		requires = requires.Assoc(kOutSchema, s)
	}
	if m, found := v.Get(gates); found {
		must = words(m)
		if isColl(must) {
			must = edn.SetOf(slices.Collect(must.Elems())...)
		}
	}
	return requires, must
}

// v03Language moves the language from the context to the constraints.
func v03Language(v edn.Value) edn.Value {
	lang, language := edn.K("lang"), edn.K("language")
	context := v.Key("context")
	if context.Kind() != edn.KindMap || !context.Has(lang) {
		return v
	}
	constraints := v.Key("constraints")
	if constraints.IsNil() {
		constraints = emptyMap
	}
	if constraints.Kind() == edn.KindMap && !constraints.Has(language) {
		v = v.Assoc(kConstraints, constraints.Assoc(language, word(context.Key("lang"))))
	}
	return v.Assoc(kContext, context.Dissoc(lang))
}

// AnswerV03 returns a finished response in the form of version 0.3, for the
// sender of a request in that form.
func AnswerV03(r Request, response edn.Value) edn.Value {
	var b edn.MapBuilder
	if r.RequestID != "" {
		b.Set(kRequestID, edn.Text(r.RequestID))
	}
	result, failure := response.Key("result"), response.Key("error")
	out := result.Key("out")
	switch {
	case !failure.IsNil():
		b.Key("status", kError)
		b.Key("errors", edn.Vector(failure))
		out = emptyMap
	default:
		b.Key("status", edn.K("ok"))
		b.Key("errors", edn.Vector())
	}
	b.Key("output", contract.EmitOut(out))
	usage := response.Key("usage")
	if usage.IsNil() {
		usage = result.Key("usage")
	}
	b.Set(kUsage, contract.EmitOut(usage))
	b.Key("quality", contract.EmitOut(response.Key("quality")))
	return b.Map()
}
