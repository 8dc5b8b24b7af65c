package decode

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// elementSchema returns the schema of element i of a list; nil if unknown.
func elementSchema(s *schema.Schema, i int) *schema.Schema {
	if s == nil {
		return nil
	}
	switch s = s.Deref(); s.Kind() {
	case schema.KindMaybe:
		return elementSchema(s.Children()[0], i)
	case schema.KindVector, schema.KindList, schema.KindSequential, schema.KindSet:
		if kids := s.Children(); len(kids) > 0 {
			return kids[0]
		}
	case schema.KindTuple:
		if kids := s.Children(); i < len(kids) {
			return kids[i]
		}
	}
	return nil
}

// keyOf returns the EDN key for a map key in a file, and the schema of its value. If the schema has
// named keys, it is the key with that HCL name; if it has string keys, it is a string. Otherwise an
// unquoted key becomes a keyword and a quoted one a string.
func keyOf(s *schema.Schema, text string, bare bool) (edn.Value, *schema.Schema) {
	if s != nil {
		switch s = s.Deref(); s.Kind() {
		case schema.KindMaybe:
			return keyOf(s.Children()[0], text, bare)
		case schema.KindMap:
			for _, e := range s.Entries() {
				if name := language.ScalarText(e.Key); name == text || language.HCLName(name) == text {
					return e.Key, e.Schema
				}
			}
		case schema.KindMapOf:
			kids := s.Children()
			if kids[0].Deref().Kind() != schema.KindAny {
				return Fit(kids[0], edn.Text(text)), kids[1]
			}
			if bare {
				return language.KeyOf(text), kids[1]
			}
			return edn.Text(text), kids[1]
		}
	}
	if bare {
		return language.KeyOf(text), nil
	}
	return edn.Text(text), nil
}

// Fit converts the parts of a value to the EDN kinds that the schema requires, because HCL has only
// strings, numbers, lists and maps, but EDN also keywords, sets, floats and others. A part that
// does not fit is not changed, and validation reports it. A string never becomes a number.
func Fit(s *schema.Schema, v edn.Value) edn.Value {
	s = s.Deref()
	switch s.Kind() {
	case schema.KindMaybe:
		if v.IsNil() {
			return v
		}
		return Fit(s.Children()[0], v)
	case schema.KindAnd:
		for _, kid := range s.Children() {
			v = Fit(kid, v)
		}
		return v
	case schema.KindOr:
		for _, kid := range s.Children() {
			if c := Fit(kid, v); kid.Valid(c) {
				return c
			}
		}
		return fitTagged(s, v)
	case schema.KindKeyword, schema.KindSymbol, schema.KindChar, schema.KindInst, schema.KindUUID:
		if v.Kind() == edn.KindString {
			return s.CoerceJSON(v)
		}
	case schema.KindEnum:
		if v.Kind() == edn.KindString && !s.Valid(v) {
			return s.CoerceJSON(v)
		}
	case schema.KindDouble, schema.KindDecimal:
		return fitNumber(s, v)
	case schema.KindVector, schema.KindSequential, schema.KindList, schema.KindSet, schema.KindTuple:
		return fitSequence(s, v)
	case schema.KindMap, schema.KindMapOf:
		return fitMap(s, v)
	}
	return v
}

// fitTagged fits an invalid map to the alternative that its discriminator selects, so that only the
// actual mistake is reported.
func fitTagged(s *schema.Schema, v edn.Value) edn.Value {
	key, ok := s.Discriminator()
	tag, has := v.Get(key)
	if !ok || !has {
		return v
	}
	for _, kid := range s.Children() {
		if e, _ := kid.Deref().Entry(key); e.Schema.Valid(Fit(e.Schema, tag)) {
			return Fit(kid, v)
		}
	}
	return v
}

func fitNumber(s *schema.Schema, v edn.Value) edn.Value {
	if v.Kind() != edn.KindInt && v.Kind() != edn.KindDecimal {
		return v
	}
	if s.Kind() == schema.KindDecimal {
		if i, ok := v.AsBigInt(); ok {
			if d, err := edn.Decimal(i, 0); err == nil {
				return d
			}
		}
		return v
	}
	r, _ := v.AsNumber()
	f, _ := r.Float64()
	if d, err := edn.Float(f); err == nil {
		return d
	}
	return v
}

func fitSequence(s *schema.Schema, v edn.Value) edn.Value {
	if v.Kind() != edn.KindVector {
		return v
	}
	items := make([]edn.Value, 0, v.Len())
	for i := range v.Len() {
		x, _ := v.Nth(i)
		if inner := elementSchema(s, i); inner != nil {
			x = Fit(inner, x)
		}
		items = append(items, x)
	}
	switch s.Kind() {
	case schema.KindSet:
		if set, err := edn.Set(items); err == nil {
			return set
		}
	case schema.KindList:
		return edn.List(items...)
	}
	return edn.Vector(items...)
}

func fitMap(s *schema.Schema, v edn.Value) edn.Value {
	if v.Kind() != edn.KindMap {
		return v
	}
	var b edn.MapBuilder
	for k, x := range v.Entries() {
		key, inner := keyOf(s, language.ScalarText(k), false)
		if inner == nil {
			key = k
		} else {
			x = Fit(inner, x)
		}
		b.Set(key, x)
	}
	return b.Map()
}

// InWords describes a scalar schema form in words; other forms are returned as text.
func InWords(form edn.Value) string {
	if s, err := schema.Compile(form); err == nil && scalarKind(s) {
		return Takes(schema.Entry{Schema: s})
	}
	return form.String()
}

// scalarKind reports whether Takes describes the schema completely.
func scalarKind(s *schema.Schema) bool {
	return numeric(s) ||
		slices.Contains([]schema.Kind{schema.KindString, schema.KindBoolean, schema.KindKeyword}, s.Kind())
}

// HCLNames returns the names of keys as written in HCL.
func HCLNames(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = language.HCLName(key)
	}
	return out
}
