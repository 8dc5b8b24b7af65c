package schema

import (
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// CoerceJSON converts the parts of a value read from JSON to the kinds that the
// schema requires: strings become keywords, symbols, characters, decimals,
// instants and UUIDs, arrays become sets and lists, and object keys follow
// :map-of. Parts that the schema does not type, or that cannot be converted,
// stay unchanged for Validate to report. Of several alternatives the first that
// fits after coercion is used.
//
// It is meant only for JSON: a value written as EDN already has its kinds.
func (s *Schema) CoerceJSON(v edn.Value) edn.Value {
	m := meter{left: maxSteps}
	return s.coerce(v, &m)
}

// coerces reports whether the schema itself, without its inner schemas, may
// change a value.
func (s *Schema) coerces() bool {
	switch s.kind {
	case KindInt, KindDouble, KindDecimal, KindChar, KindKeyword, KindSymbol, KindInst, KindUUID, KindMapOf, KindList,
		KindSet:
		return true
	}
	return len(s.images) > 0
}

func (s *Schema) coerce(v edn.Value, m *meter) edn.Value {
	if m.left--; m.left < 0 || !s.rewrites {
		return v
	}
	switch s.kind {
	case KindRef:
		return s.target.coerce(v, m)
	case KindMaybe:
		if v.IsNil() {
			return v
		}
		return s.kids[0].coerce(v, m)
	case KindAnd:
		for _, kid := range s.kids {
			v = kid.coerce(v, m)
		}
		return v
	case KindOr:
		return s.coerceAlternatives(v, m)
	case KindMap:
		return s.coerceMap(v, m)
	case KindMapOf:
		return s.coerceMapOf(v, m)
	case KindVector, KindList, KindSequential, KindSet, KindTuple:
		return s.coerceSequence(v, m)
	case KindEnum:
		return s.coerceEnum(v)
	case KindNot:
		return v
	}
	return s.coerceScalar(v)
}

// coerceAlternatives uses the first branch that fits. If none does, the branch
// that gets furthest coerces the value for the report.
func (s *Schema) coerceAlternatives(v edn.Value, m *meter) edn.Value {
	best, bestPassed := v, -1
	for _, kid := range s.kids {
		c := kid.coerce(v, m)
		if kid.accepts(c, m) {
			return c
		}
		branch := explainer{meter: m, secret: true}
		if passed := branch.value(kid, c); passed > bestPassed {
			best, bestPassed = c, passed
		}
		if m.left < 0 {
			return v
		}
	}
	return best
}

func (s *Schema) coerceMap(v edn.Value, m *meter) edn.Value {
	if v.Kind() != edn.KindMap {
		return v
	}
	for i := range s.entries {
		e := &s.entries[i]
		if e.jsonDiff && !v.Has(e.Key) {
			if val, ok := v.Get(e.jsonKey); ok {
				v = v.Dissoc(e.jsonKey).Assoc(e.Key, val)
			}
		}
		if !e.Schema.rewrites {
			continue
		}
		if val, ok := v.Get(e.Key); ok {
			if c := e.Schema.coerce(val, m); !edn.Equal(c, val) {
				v = v.Assoc(e.Key, c)
			}
		}
	}
	return v
}

// coerceMapOf coerces keys and values. If two names become the same key, the
// map stays unchanged and the key schema rejects it.
func (s *Schema) coerceMapOf(v edn.Value, m *meter) edn.Value {
	if v.Kind() != edn.KindMap {
		return v
	}
	var b edn.MapBuilder
	for key, val := range v.Entries() {
		b.Set(s.kids[0].coerceKey(key, m), s.kids[1].coerce(val, m))
	}
	if out := b.Map(); out.Len() == v.Len() {
		return out
	}
	return v
}

// coerceKey converts the member name of a JSON object to the kind that the key
// schema requires: the name itself, its text coerced like any string, or the
// value whose canonical text it is.
func (s *Schema) coerceKey(key edn.Value, m *meter) edn.Value {
	if s.accepts(key, m) {
		return key
	}
	name := jsonName(key)
	if c := s.coerce(edn.Text(name), m); s.accepts(c, m) {
		return c
	}
	if read, err := edn.ReadString(name); err == nil && s.accepts(read, m) {
		return read
	}
	return key
}

func (s *Schema) coerceSequence(v edn.Value, m *meter) edn.Value {
	if k := v.Kind(); k != edn.KindVector && !s.rightCollection(k) {
		return v
	}
	changed := false
	members := make([]edn.Value, 0, v.Len())
	for member := range v.Elems() {
		c := member
		if kid := s.element(len(members)); kid != nil {
			c = kid.coerce(member, m)
			changed = changed || !edn.Equal(c, member)
		}
		members = append(members, c)
	}
	switch {
	case s.kind == KindSet:
		if set, err := edn.Set(members); err == nil {
			return set
		}
		return v
	case s.kind == KindList:
		return edn.List(members...)
	case !changed:
		return v
	case v.Kind() == edn.KindList:
		return edn.List(members...)
	}
	return edn.Vector(members...)
}

func (s *Schema) coerceEnum(v edn.Value) edn.Value {
	if s.isMember(v) {
		return v
	}
	if member, ok := s.images[edn.Hash(v)]; ok {
		return member
	}
	if text, ok := v.AsString(); ok && strings.HasPrefix(text, ":") {
		if kw, err := edn.Keyword(text[1:]); err == nil && s.isMember(kw) {
			return kw
		}
	}
	return v
}

func (s *Schema) coerceScalar(v edn.Value) edn.Value {
	text, isText := v.AsString()
	switch s.kind {
	case KindInt:
		if isText {
			return integerText(v, text)
		}
	case KindDouble:
		if v.Kind() == edn.KindInt {
			return toFloat(v)
		}
	case KindDecimal:
		return toDecimal(v)
	case KindKeyword:
		if isText {
			return made(v)(edn.Keyword(strings.TrimPrefix(text, ":")))
		}
	case KindSymbol:
		if isText {
			return made(v)(edn.Symbol(text))
		}
	case KindChar:
		if r, n := utf8.DecodeRuneInString(text); isText && n > 0 && n == len(text) {
			return made(v)(edn.Char(r))
		}
	case KindInst:
		return tagged(v, "#inst ", edn.KindInst)
	case KindUUID:
		return tagged(v, "#uuid ", edn.KindUUID)
	}
	return v
}

// made keeps v if a constructor returns an error.
func made(v edn.Value) func(edn.Value, error) edn.Value {
	return func(c edn.Value, err error) edn.Value {
		if err != nil {
			return v
		}
		return c
	}
}

// integerText reads a string of digits: the JSON form of integers that JSON
// numbers cannot represent.
func integerText(v edn.Value, text string) edn.Value {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return v
	}
	read, err := edn.ReadString(text)
	if err != nil || read.Kind() != edn.KindInt {
		return v
	}
	return read
}

func toFloat(v edn.Value) edn.Value {
	n, ok := v.AsBigInt()
	if !ok {
		return v
	}
	f, _ := new(big.Float).SetInt(n).Float64()
	return made(v)(edn.Float(f))
}

// toDecimal reads the text of a number, or the digits of a number token.
func toDecimal(v edn.Value) edn.Value {
	switch v.Kind() {
	case edn.KindString:
		text, _ := v.AsString()
		return made(v)(edn.ParseDecimal(text))
	case edn.KindInt:
		return made(v)(edn.ParseDecimal(strings.TrimSuffix(v.String(), "N")))
	case edn.KindFloat:
		return made(v)(edn.ParseDecimal(v.String()))
	}
	return v
}

// tagged reads a string as the value of a built-in tag.
func tagged(v edn.Value, tag string, want edn.Kind) edn.Value {
	if v.Kind() != edn.KindString {
		return v
	}
	read, err := edn.ReadString(tag + v.String())
	if err != nil || read.Kind() != want {
		return v
	}
	return read
}

// jsonName returns the JSON name of a map key: the name of a keyword, a string
// itself, the canonical text of any other key.
func jsonName(key edn.Value) string {
	if name, ok := key.AsKeyword(); ok {
		return name
	}
	if name, ok := key.AsString(); ok {
		return name
	}
	return key.String()
}

// jsonKeyOf returns the key after writing and reading it as JSON.
func jsonKeyOf(key edn.Value) edn.Value {
	name := jsonName(key)
	if kw, err := edn.Keyword(name); err == nil {
		return kw
	}
	return edn.Text(name)
}

// jsonImage returns a value after writing and reading it as JSON.
func jsonImage(v edn.Value) (edn.Value, bool) {
	text, err := edn.WriteJSON(v)
	if err != nil {
		return edn.Nil(), false
	}
	image, err := edn.ReadJSON(text)
	return image, err == nil
}
