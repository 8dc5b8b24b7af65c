package contract

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Proto is the version of the envelope.
const Proto = 1

// resultTypes are the types of an answer.
var resultTypes = []string{"plan", "stream", "value"}

// ResultRules are the conditions on an answer. The zero value accepts every
// well-formed answer.
type ResultRules struct {
	// CanProduce are the types that the capability declares; empty allows all.
	CanProduce []string
	// ResultType is the type that the request requires, or "".
	ResultType string
	// OutSchema is the schema for the output of a value; nil accepts any
	// output.
	OutSchema *schema.Schema
	// OutName is the name of OutSchema for messages.
	OutName string
	// Kind is the kind of the capability. It determines the source of the error
	// for an output that does not fit its schema.
	Kind string
	// Recorded is set for an answer from a record of the host. The host checked it when
	// it arrived and may have replaced secrets in it by reserved tags, so these tags are
	// accepted.
	Recorded bool
	// Dropped, if not nil, is called with the path of every key that is removed
	// from the answer because only the host sets it or because it is unknown.
	Dropped func(path []edn.Value)
}

// CheckResponse validates the answer of a plugin and returns its normal form:
// one of :result and :error, older spellings rewritten, a stream folded into a
// value, and without keys that only the host sets.
//
// An answer that breaks the envelope is runtime/invalid-result with a reason,
// an output that does not fit is schema/invalid. If the answer is a well-formed
// error, CheckResponse returns it together with that error, as [ErrorFromValue]
// reads it from a plugin.
func CheckResponse(v edn.Value, want ResultRules) (edn.Value, *Error) {
	if !want.Recorded && hasReservedTag(v) {
		return edn.Value{}, reservedFault(v, nil)
	}
	if v.Kind() != edn.KindMap {
		return edn.Value{}, invalidResult(reasonNotMap, "the answer is not a map", nil).Expecting(kMap, v).Err()
	}
	result, _ := v.Get(kResult)
	failure, _ := v.Get(kError)
	if isErrorResult(result) && failure.IsNil() {
		failure, result = result.Key("error"), edn.Value{}
		v = v.Dissoc(kResult).Assoc(kError, failure)
	}
	if result.IsNil() == failure.IsNil() {
		return edn.Value{}, invalidResult(reasonShape, "the answer needs one of :result and :error", nil).Err()
	}
	if proto, found := v.Get(kProto); found {
		if n, ok := proto.AsInt(); !ok || n != Proto {
			return edn.Value{}, invalidResult(reasonShape, "the answer is in another version of the envelope", path(kProto)).
				Expecting(edn.Int(Proto), proto).Err()
		}
	}
	if !failure.IsNil() {
		return checkFailure(v, failure, want)
	}
	return checkResult(v, result, want)
}

// isErrorResult reports whether the result is an error.
func isErrorResult(result edn.Value) bool {
	if result.Kind() != edn.KindMap {
		return false
	}
	typ, _ := result.Get(kType)
	name, _ := typ.AsKeyword()
	return name == "error"
}

func checkFailure(v, failure edn.Value, want ResultRules) (edn.Value, *Error) {
	if failure.Kind() != edn.KindMap {
		return edn.Value{}, invalidResult(reasonShape, "the error of the answer is not a map", path(kError)).
			Expecting(kMap, failure).Err()
	}
	typ, _ := failure.Get(kType)
	if typ.Kind() != edn.KindKeyword {
		return edn.Value{}, invalidResult(reasonErrorType, "the type of the error is not a keyword", path(kError, kType)).
			Expecting(kKeyword, typ).Err()
	}
	if where, _ := failure.Get(kWhere); where.Kind() == edn.KindKeyword {
		failure = failure.Assoc(kWhere, whereFrom(where))
		v = v.Assoc(kError, failure)
	}
	return normal(v, kError, want), ErrorFromValue(failure, SourcePlugin)
}

func checkResult(v, result edn.Value, want ResultRules) (edn.Value, *Error) {
	if result.Kind() != edn.KindMap {
		return edn.Value{}, invalidResult(reasonShape, "the result of the answer is not a map", path(kResult)).
			Expecting(kMap, result).Err()
	}
	typ, _ := result.Get(kType)
	name, _ := typ.AsKeyword()
	if !allowed(name, want.CanProduce) {
		return edn.Value{}, invalidResult(reasonTypeNotAllowed, "the type of the result is not allowed here",
			path(kResult, kType)).
			Expecting(producible(want.CanProduce), typ).Err()
	}
	if want.ResultType != "" && want.ResultType != name && (!flows(want.ResultType) || !flows(name)) {
		return edn.Value{}, invalidResult(reasonTypeMismatch, "the result is not of the type that the request demands",
			path(kResult, kType)).
			Expecting(edn.K(want.ResultType), typ).Err()
	}
	switch name {
	case "plan":
		return checkPlan(v, result, want)
	case "stream":
		folded, err := foldStream(result)
		if err != nil {
			return edn.Value{}, err
		}
		return checkValue(v.Assoc(kResult, folded), folded, want)
	}
	return checkValue(v, result, want)
}

// flows reports whether answers of the type can be sent whole or in parts: a
// stream ends in a value.
func flows(resultType string) bool { return resultType == "value" || resultType == "stream" }

func allowed(name string, canProduce []string) bool {
	if name != "value" && name != "plan" && name != "stream" {
		return false
	}
	if len(canProduce) == 0 {
		return true
	}
	for _, p := range canProduce {
		if p == name || flows(p) && flows(name) {
			return true
		}
	}
	return false
}

func producible(canProduce []string) edn.Value {
	if len(canProduce) == 0 {
		canProduce = resultTypes
	}
	return enumOf(canProduce)
}

func checkPlan(v, result edn.Value, want ResultRules) (edn.Value, *Error) {
	if plan, _ := result.Get(kPlan); plan.IsNil() {
		return edn.Value{}, invalidResult(reasonPayload, "a result of type :plan needs a :plan", path(kResult, kPlan)).Err()
	}
	if bindings, _ := result.Get(kBindings); !bindings.IsNil() && bindings.Kind() != edn.KindMap {
		return edn.Value{}, invalidResult(reasonBindings, "the bindings are not a map", path(kResult, kBindings)).
			Expecting(kMap, bindings).Err()
	}
	return normal(v, kResult, want), nil
}

func checkValue(v, result edn.Value, want ResultRules) (edn.Value, *Error) {
	out, found := result.Get(kOut)
	if !found {
		return edn.Value{}, invalidResult(reasonPayload, "a result of type :value needs an :out", path(kResult, kOut)).Err()
	}
	if want.OutSchema != nil {
		if findings := want.OutSchema.Validate(out); len(findings) > 0 {
			return edn.Value{}, misfit(want, findings)
		}
	}
	return normal(v, kResult, want), nil
}

func misfit(want ResultRules, findings []schema.Finding) *Error {
	name := "its schema"
	if want.OutName != "" {
		name = ":" + strings.TrimPrefix(want.OutName, ":")
	}
	f := Fault{
		Type:     "schema/invalid",
		Reason:   "output/schema-invalid",
		Message:  "the output does not fit " + name + ": " + findings[0].String(),
		Path:     path(kResult, kOut),
		Findings: schema.Findings(findings),
	}
	return f.Err().WithSource(GateSource(want.Kind))
}

// foldStream converts the events of a simple plugin to a value: the
// concatenated texts of the deltas up to the event :done.
func foldStream(result edn.Value) (edn.Value, *Error) {
	events, _ := result.Get(kStreamKey)
	if events.IsNil() {
		return edn.Value{}, invalidResult(reasonPayload, "a result of type :stream needs a :stream",
			path(kResult, kStreamKey)).Err()
	}
	if events.Kind() != edn.KindVector && events.Kind() != edn.KindList {
		return edn.Value{}, badEvent(edn.Vector(kResult, kStreamKey), "the stream is not a sequence of events")
	}
	var whole strings.Builder
	done := false
	i := int64(0)
	for event := range events.Elems() {
		at := edn.Vector(kResult, kStreamKey, edn.Int(i))
		name, _ := event.Key("event").AsKeyword()
		switch {
		case done:
			return edn.Value{}, badEvent(at, "the stream continues after its last event")
		case name == "done":
			done = true
		case name == "delta" && event.Key("text").Kind() == edn.KindString:
			text, _ := event.Key("text").AsString()
			whole.WriteString(text)
		default:
			return edn.Value{}, badEvent(at, "an event of the stream is neither a :delta with a :text nor :done")
		}
		i++
	}
	if !done {
		return edn.Value{}, Errorf("stream/truncated", "the stream ends after %d events without :done", i).
			WithSource(SourcePlugin)
	}
	var b edn.MapBuilder
	b.Set(kType, kValue)
	b.Set(kOut, edn.MustMap(kText, edn.Text(whole.String())))
	if usage, _ := result.Get(kUsage); !usage.IsNil() {
		b.Set(kUsage, usage)
	}
	return b.Map(), nil
}

func badEvent(at edn.Value, message string) *Error {
	return Errorf("stream/malformed", "%s at %s", message, at).WithSource(SourcePlugin).WithDetail("path", at)
}

// hasReservedTag reports whether v contains a tag of the namespace ferment.
// Plugins must not send one; references to blobs are resolved before an answer
// is validated.
func hasReservedTag(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindTagged:
		tag, inner, _ := v.AsTagged()
		return strings.HasPrefix(tag, "ferment/") || hasReservedTag(inner)
	case edn.KindMap:
		if v.Depth() == 1 {
			return false // contains only scalars
		}
		for key, val := range v.Entries() {
			if val.Depth() > 0 && hasReservedTag(val) || key.Depth() > 0 && hasReservedTag(key) {
				return true
			}
		}
	case edn.KindList, edn.KindVector, edn.KindSet:
		if v.Depth() == 1 {
			return false
		}
		for member := range v.Elems() {
			if member.Depth() > 0 && hasReservedTag(member) {
				return true
			}
		}
	}
	return false
}

// findReservedTag returns the first reserved tag and its path.
func findReservedTag(v edn.Value, at []edn.Value) (string, []edn.Value) {
	if tag, inner, ok := v.AsTagged(); ok {
		if strings.HasPrefix(tag, "ferment/") {
			return tag, at
		}
		return findReservedTag(inner, at)
	}
	for key, val := range v.All() {
		if hasReservedTag(key) {
			// A path with the key would repeat hidden content.
			tag, _ := findReservedTag(key, nil)
			return tag, at
		}
		if hasReservedTag(val) {
			return findReservedTag(val, append(at, key))
		}
	}
	return "", at
}

// reservedFault reports a reserved tag without its content.
func reservedFault(v edn.Value, at []edn.Value) *Error {
	tag, found := findReservedTag(v, at)
	return invalidResult(reasonShape, "the answer has the reserved tag #"+tag, found).Err()
}

// ValueResult returns an answer with a value.
func ValueResult(out edn.Value) edn.Value {
	return edn.MustMap(kProto, edn.Int(Proto), kResult, edn.MustMap(kType, kValue, kOut, out))
}

// EmitOut returns the output for an emitted value: the map under :out of a map
// that has one, any other map unchanged, a string as :text, nil as the empty
// map, and any other value as :value.
func EmitOut(v edn.Value) edn.Value {
	switch v.Kind() {
	case edn.KindNil:
		return edn.MustMap()
	case edn.KindMap:
		if out, _ := v.Get(kOut); out.Kind() == edn.KindMap {
			return out
		}
		return v
	case edn.KindString:
		return edn.MustMap(kText, v)
	}
	return edn.MustMap(kValue, v)
}
