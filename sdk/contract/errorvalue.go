package contract

import (
	"github.com/fermenthq/ferment/sdk/edn"
)

// whereKeys are the keys of :where in display order.
var whereKeys = []string{"at", "run", "path", "node", "cap/id", "attempt", "line", "column"}

// Value returns the error as data. Operation and object are part of the
// message; Err and causes beyond the eighth are left out.
func (e *Error) Value() edn.Value { return e.value(maxCauseDepth) }

func (e *Error) value(causes int) edn.Value {
	typ, err := edn.Keyword(e.Type)
	if err != nil {
		typ = edn.K("runtime/internal")
	}
	var b edn.MapBuilder
	if e.Cause != nil && causes > 0 {
		b.Set(kCause, e.Cause.value(causes-1))
	}
	b.Set(kClass, edn.K(e.Class.String()))
	if e.Details.Len() > 0 {
		b.Set(kDetails, e.Details)
	}
	if e.Hint != "" {
		b.Set(kHint, edn.Text(oneLine(e.Hint)))
	}
	b.Set(kMessage, edn.Text(e.FullMessage()))
	b.Set(kRetryable, edn.Bool(e.Retryable))
	if e.Source != 0 {
		b.Set(kSource, edn.K(e.Source.String()))
	}
	b.Set(kType, typ)
	if e.Where.Len() > 0 {
		b.Set(kWhere, e.Where)
	}
	return b.Map()
}

// ErrorFromValue reads an error from data that came from the source.
//
// Data of the host ([SourceHost]: records, answers of a daemon) is accepted as
// it is. Data of any other source is checked: an alias becomes its type, an
// unknown type of a reserved namespace becomes runtime/invoke-failed, and a class
// or source that the catalogue does not allow for the type is replaced by the
// default. A value that is not an error, or has a tag of the namespace ferment,
// becomes runtime/invalid-result. The result is never nil.
func ErrorFromValue(v edn.Value, from Source) *Error {
	if from != SourceHost && hasReservedTag(v) {
		return reservedFault(v, path(kError))
	}
	return errorFromValue(v, from, maxCauseDepth)
}

func errorFromValue(v edn.Value, from Source, causes int) *Error {
	if v.Kind() != edn.KindMap {
		return invalidResult(reasonShape, "the error of the answer is not a map", path(kError)).Expecting(kMap, v).Err()
	}
	name, ok := v.Key("type").AsKeyword()
	if !ok {
		return invalidResult(reasonErrorType, "the error of the answer has no type", path(kError, kType)).
			Expecting(kKeyword, v.Key("type")).Err()
	}
	e := &Error{Type: name, Where: whereFrom(v.Key("where")), Details: detailsFrom(v.Key("details"))}
	if from != SourceHost {
		e.Type = ResolveAlias(name)
		if _, known := Lookup(e.Type); !known && Reserved(Namespace(e.Type)) {
			e.Type = "runtime/invoke-failed"
			e.Details = put(e.Details, "type", v.Key("type"))
		}
	}
	r := rowOf(e.Type)
	e.Message, _ = v.Key("message").AsString()
	if e.Message = oneLine(e.Message); e.Message == "" {
		e.Message = r.Help
	}
	if e.Hint, ok = v.Key("hint").AsString(); !ok && from != SourceHost {
		e.Hint = r.Hint
	}
	e.Hint = oneLine(e.Hint)
	e.Source = sourceFrom(v.Key("source"), r, from)
	e.Class = classFrom(v.Key("class"), r, e.Source, from)
	if e.Retryable, ok = v.Key("retryable?").AsBool(); !ok {
		e.Retryable = r.For(e.Source).Retryable
	}
	if cause := v.Key("cause"); causes > 0 && cause.Kind() == edn.KindMap {
		e.Cause = errorFromValue(cause, from, causes-1)
	}
	return e
}

// sourceFrom reads the source if the row allows it. An error from a plugin
// cannot have the source host: if the row also lists the plugin as a source,
// the plugin is used.
func sourceFrom(v edn.Value, r Row, from Source) Source {
	name, _ := v.AsKeyword()
	said, ok := ParseSource(name)
	if from == SourceHost {
		return said
	}
	if ok && r.Sources.Has(said) && (said != SourceHost || !r.Sources.Has(SourcePlugin)) {
		return said
	}
	if r.Source == SourceHost && r.Sources.Has(SourcePlugin) {
		return SourcePlugin
	}
	return r.Source
}

// classFrom reads the class if the row allows it.
func classFrom(v edn.Value, r Row, source, from Source) Class {
	name, isKeyword := v.AsKeyword()
	said, ok := ParseClass(name)
	ok = ok && isKeyword
	_, known := Lookup(r.Type)
	switch {
	case ok && from == SourceHost:
		return said
	case ok && known && r.Allows(said, source):
		return said
	case ok && !known && said != ClassNone:
		return said
	}
	return r.For(source).Class
}

// whereFrom keeps the known entries of :where. A bare keyword is an older
// spelling of {:at keyword}.
func whereFrom(v edn.Value) edn.Value {
	if v.Kind() == edn.KindKeyword {
		return edn.MustMap(edn.K("at"), v)
	}
	if v.Kind() != edn.KindMap || v.Len() == 0 {
		return edn.Nil()
	}
	var b edn.MapBuilder
	n := 0
	for _, key := range whereKeys {
		if entry := v.Key(key); !entry.IsNil() {
			b.Key(key, entry)
			n++
		}
	}
	switch n {
	case 0:
		return edn.Nil()
	case v.Len():
		return v
	}
	return b.Map()
}

// detailsFrom returns the details as a map. A value of another kind is kept
// under :value.
func detailsFrom(v edn.Value) edn.Value {
	switch {
	case v.IsNil(), v.Kind() == edn.KindMap && v.Len() == 0:
		return edn.Nil()
	case v.Kind() == edn.KindMap:
		return v
	}
	return edn.MustMap(edn.K("value"), v)
}
