package schema

import (
	"context"
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
	m := newMeter(context.Background(), v)
	v, _ = s.coerce(v, &m)
	return v
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

// coerce returns the converted value and whether it differs from v.
func (s *Schema) coerce(v edn.Value, m *meter) (out edn.Value, changed bool) {
	if !m.spend(1) || !s.rewrites {
		return v, false
	}
	switch s.kind {
	case KindRef:
		return s.target.coerce(v, m)
	case KindMaybe:
		if v.IsNil() {
			return v, false
		}
		return s.kids[0].coerce(v, m)
	case KindAnd:
		for _, kid := range s.kids {
			c, differs := kid.coerce(v, m)
			v, changed = c, changed || differs
		}
		return v, changed
	case KindOr:
		return s.coerceAlternatives(v, m)
	case KindMap:
		return s.coerceMap(v, m)
	case KindMapOf:
		return s.coerceMapOf(v, m)
	case KindVector, KindList, KindSequential, KindSet, KindTuple:
		return s.coerceSequence(v, m)
	case KindEnum:
		return s.coerceEnum(v, m)
	case KindNot:
		return v, false
	}
	out = s.coerceScalar(v)
	return out, out.Kind() != v.Kind()
}

// coerceAlternatives uses the first branch that fits. If none does, the branch
// that gets furthest coerces the value for the report.
func (s *Schema) coerceAlternatives(v edn.Value, m *meter) (best edn.Value, changed bool) {
	best, bestPassed := v, -1
	for _, kid := range s.kids {
		c, differs := kid.coerce(v, m)
		if kid.accepts(c, m) {
			return c, differs
		}
		branch := explainer{meter: m, secret: true}
		if passed := branch.value(kid, c); passed > bestPassed {
			best, changed, bestPassed = c, differs, passed
		}
		if m.left < 0 {
			return v, false
		}
	}
	return best, changed
}

func (s *Schema) coerceMap(v edn.Value, m *meter) (out edn.Value, changed bool) {
	if v.Kind() != edn.KindMap || !m.spend(len(s.entries)/8) {
		return v, false
	}
	for i := range s.entries { // each change of an entry copies the map
		e := &s.entries[i]
		if e.jsonDiff && !v.Has(e.Key) {
			if val, ok := v.Get(e.jsonKey); ok && m.spend(v.Len()/8) {
				v, changed = v.Dissoc(e.jsonKey).Assoc(e.Key, val), true
			}
		}
		if !e.Schema.rewrites {
			continue
		}
		if val, ok := v.Get(e.Key); ok {
			if c, differs := e.Schema.coerce(val, m); differs && m.spend(v.Len()/16) {
				v, changed = v.Assoc(e.Key, c), true
			}
		}
	}
	return v, changed
}

// coerceMapOf coerces keys and values. If two names become the same key, the
// map stays unchanged and the key schema rejects it.
func (s *Schema) coerceMapOf(v edn.Value, m *meter) (out edn.Value, changed bool) {
	if v.Kind() != edn.KindMap {
		return v, false
	}
	var b edn.MapBuilder
	for key, val := range v.Entries() {
		k, keyDiffers := s.kids[0].coerceKey(key, m)
		c, differs := s.kids[1].coerce(val, m)
		b.Set(k, c)
		changed = changed || keyDiffers || differs
	}
	if out = b.Map(); changed && out.Len() == v.Len() {
		return out, true
	}
	return v, false
}

// coerceKey converts the member name of a JSON object to the kind that the key
// schema requires: the name itself, its text coerced like any string, or the
// value whose canonical text it is.
func (s *Schema) coerceKey(key edn.Value, m *meter) (out edn.Value, changed bool) {
	if s.accepts(key, m) {
		return key, false
	}
	name := jsonName(key)
	if !m.spend(len(name) / bytesPerUnit) {
		return key, false
	}
	if c, _ := s.coerce(edn.Text(name), m); s.accepts(c, m) {
		return c, true
	}
	if read, err := edn.ReadString(name); err == nil && s.accepts(read, m) {
		return read, true
	}
	return key, false
}

func (s *Schema) coerceSequence(v edn.Value, m *meter) (out edn.Value, changed bool) {
	if k := v.Kind(); k != edn.KindVector && !s.rightCollection(k) {
		return v, false
	}
	members := make([]edn.Value, 0, v.Len())
	for member := range v.Elems() {
		c := member
		if kid := s.element(len(members)); kid != nil {
			var differs bool
			c, differs = kid.coerce(member, m)
			changed = changed || differs
		}
		members = append(members, c)
	}
	switch {
	case !changed && s.rightCollection(v.Kind()):
		return v, false
	case s.kind == KindSet:
		if !m.spend(len(members)) {
			return v, false
		}
		if set, err := edn.Set(members); err == nil {
			return set, true
		}
		return v, false
	case s.kind == KindList, v.Kind() == edn.KindList:
		return edn.List(members...), true
	}
	return edn.Vector(members...), true
}

func (s *Schema) coerceEnum(v edn.Value, m *meter) (out edn.Value, changed bool) {
	if !m.spend(s.memberSize/64+sizeOf(v, maxSteps)) || s.isMember(v) {
		return v, false
	}
	if member, ok := s.images[edn.Hash(v)]; ok {
		return member, true
	}
	if text, ok := v.AsString(); ok && strings.HasPrefix(text, ":") {
		if kw, err := edn.Keyword(text[1:]); err == nil && s.isMember(kw) {
			return kw, true
		}
	}
	return v, false
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
