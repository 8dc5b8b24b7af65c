package schema

import (
	"context"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Valid reports whether v fits the schema. It does not allocate.
func (s *Schema) Valid(v edn.Value) bool { return s.ValidContext(context.Background(), v) }

// ValidContext is Valid for values that a peer made: it ends when ctx does and
// then returns false. A nil ctx never ends.
func (s *Schema) ValidContext(ctx context.Context, v edn.Value) bool {
	m := newMeter(ctx, v)
	return s.accepts(v, &m) && m.left >= 0
}

// Validate returns the reasons why v does not fit: nil if it fits, otherwise at
// most 100 findings ordered by path, followed by one with the number of the
// others.
func (s *Schema) Validate(v edn.Value) []Finding { return s.ValidateContext(context.Background(), v) }

// ValidateContext is Validate for values that a peer made: it ends when ctx
// does and then returns at least one finding. A nil ctx never ends.
func (s *Schema) ValidateContext(ctx context.Context, v edn.Value) []Finding {
	m := newMeter(ctx, v)
	if s.accepts(v, &m) && m.left >= 0 {
		return nil
	}
	return explain(s, v, m)
}

// accepts validates without explanation. When the meter is used up, the result
// is meaningless, also under :not; the caller checks the meter.
func (s *Schema) accepts(v edn.Value, m *meter) bool {
	if !m.spend(1) {
		return false
	}
	if s.hidesSecret && v.Kind() == edn.KindTagged && s.Props().Secret && IsSecretHash(v) {
		return true
	}
	switch s.kind {
	case KindAny:
		return true
	case KindNil:
		return v.IsNil()
	case KindBoolean:
		return v.Kind() == edn.KindBool
	case KindInt, KindDouble, KindDecimal, KindNumber:
		return s.acceptsNumber(v)
	case KindString:
		return s.acceptsString(v, m)
	case KindRe:
		text, ok := v.AsString()
		return ok && s.matches(text, m)
	case KindChar:
		return v.Kind() == edn.KindChar
	case KindKeyword:
		return v.Kind() == edn.KindKeyword
	case KindSymbol:
		return v.Kind() == edn.KindSymbol
	case KindInst:
		return v.Kind() == edn.KindInst
	case KindUUID:
		return v.Kind() == edn.KindUUID
	case KindEnum:
		return m.spend(s.memberSize/64) && s.isMember(v)
	case KindRef:
		return s.target.accepts(v, m)
	case KindMaybe:
		return v.IsNil() || s.kids[0].accepts(v, m)
	case KindNot:
		return !s.kids[0].accepts(v, m)
	case KindOr:
		for _, kid := range s.kids {
			if kid.accepts(v, m) {
				return true
			}
		}
		return false
	case KindAnd:
		for _, kid := range s.kids {
			if !kid.accepts(v, m) {
				return false
			}
		}
		return true
	}
	return s.acceptsCollection(v, m)
}

func (s *Schema) acceptsNumber(v edn.Value) bool {
	return s.rightNumber(v.Kind()) &&
		(s.min == nil || s.min.compare(v) >= 0) &&
		(s.max == nil || s.max.compare(v) <= 0)
}

func (s *Schema) rightNumber(k edn.Kind) bool {
	switch s.kind {
	case KindInt:
		return k == edn.KindInt
	case KindDouble:
		return k == edn.KindFloat
	case KindDecimal:
		return k == edn.KindDecimal
	}
	return k == edn.KindInt || k == edn.KindFloat || k == edn.KindDecimal
}

func (s *Schema) acceptsString(v edn.Value, m *meter) bool {
	text, ok := v.AsString()
	if !ok {
		return false
	}
	// A code point has one to four bytes, so most lengths need no counting.
	if n := len(text); n >= utf8.UTFMax*s.minLen && (s.maxLen < 0 || n <= s.maxLen) {
		return true
	}
	return m.spend(len(text)/1024) && s.fitsLength(utf8.RuneCountInString(text))
}

func (s *Schema) fitsLength(n int) bool {
	return n >= s.minLen && (s.maxLen < 0 || n <= s.maxLen)
}

// matches tests the pattern. Non-blank text, by far the most frequent pattern,
// is tested without a regexp.
func (s *Schema) matches(text string, m *meter) bool {
	if !s.nonBlank {
		return s.match(text, m)
	}
	for i := 0; i < len(text) && (i%1024 < 1023 || m.spend(1)); i++ {
		switch text[i] {
		case ' ', '\t', '\n', '\f', '\r':
		default:
			return true
		}
	}
	return false
}

func (s *Schema) isMember(v edn.Value) bool {
	for i := range s.members {
		if edn.Equal(s.members[i], v) {
			return true
		}
	}
	return false
}

// rightCollection reports whether kind k is the kind of collection that the
// schema requires.
func (s *Schema) rightCollection(k edn.Kind) bool {
	switch s.kind {
	case KindMap, KindMapOf:
		return k == edn.KindMap
	case KindVector, KindTuple:
		return k == edn.KindVector
	case KindList:
		return k == edn.KindList
	case KindSequential:
		return k == edn.KindVector || k == edn.KindList
	case KindSet:
		return k == edn.KindSet
	}
	return false
}

func (s *Schema) acceptsCollection(v edn.Value, m *meter) bool {
	if !s.rightCollection(v.Kind()) || !s.fitsLength(v.Len()) {
		return false
	}
	switch s.kind {
	case KindMap:
		return s.acceptsMap(v, m)
	case KindMapOf:
		for key, val := range v.Entries() {
			if !s.kids[0].accepts(key, m) || !s.kids[1].accepts(val, m) {
				return false
			}
		}
	case KindTuple:
		if v.Len() != len(s.kids) {
			return false
		}
		for i, kid := range s.kids {
			e, _ := v.Nth(i)
			if !kid.accepts(e, m) {
				return false
			}
		}
	default:
		if len(s.kids) == 0 {
			return true
		}
		for i := range v.Len() {
			if e, _ := v.Nth(i); !s.kids[0].accepts(e, m) {
				return false
			}
		}
	}
	return true
}

// accepts reports whether a value fits the entry.
func (e *Entry) accepts(v edn.Value, m *meter) bool {
	return e.Schema.accepts(v, m) || e.Props.Secret && IsSecretHash(v)
}

func (s *Schema) acceptsMap(v edn.Value, m *meter) bool {
	if !m.spend(len(s.entries) / 8) {
		return false
	}
	if n := len(s.sorted); n > 4 && v.Len() <= 2*n {
		return s.acceptsSorted(v, m)
	}
	known := 0
	for i := range s.entries {
		e := &s.entries[i]
		val, ok := v.Get(e.Key)
		if !ok {
			if !e.Optional {
				return false
			}
			continue
		}
		known++
		if !e.accepts(val, m) {
			return false
		}
	}
	// Every known key was found, so any further key has no entry.
	return !s.closed || known == v.Len()
}

// acceptsSorted walks the sorted entries of the schema and of the value in
// parallel, instead of searching the value for each key.
func (s *Schema) acceptsSorted(v edn.Value, m *meter) bool {
	left := s.sorted
	for key, val := range v.Entries() {
		name, isKeyword := key.AsKeyword()
		for isKeyword && len(left) > 0 && left[0].name < name {
			if !left[0].optional {
				return false
			}
			left = left[1:]
		}
		if !isKeyword || len(left) == 0 || left[0].name != name {
			if s.closed {
				return false
			}
			continue
		}
		if !left[0].schema.accepts(val, m) && !(left[0].secret && IsSecretHash(val)) {
			return false
		}
		left = left[1:]
	}
	for i := range left {
		if !left[i].optional {
			return false
		}
	}
	return true
}
