package schema

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ReadForm returns the EDN form of a schema that was received as data in one of
// three forms:
//
//   - EDN, such as [:map [:path :string]]: it is returned unchanged;
//   - the JSON view of EDN (VAL-006), ["map", ["path", "string"]]: a vector whose
//     first element is a string, or a string that is a type word;
//   - EDN in a string, "[:map [:path :string]]".
//
// The first word determines the form of the whole schema, so a form of EDN may
// contain string keys. In the JSON view a string is a keyword wherever the
// grammar of schemas requires one: as a type, after ref, and under :unit. There
// it may begin with a colon. A map key is read like a member name by
// [edn.ReadJSON]: a keyword if it is a valid keyword name, otherwise a string.
// A bound of a number may be a string of digits. All other parts are JSON
// values: the members of an enum, :default and :when stay as they are, so
// ["enum", "a"] accepts the string "a" and not the keyword :a.
//
// ReadForm does not validate the form; [Compile] does. The error is an
// [*edn.SyntaxError] for a string that is not EDN.
func ReadForm(v edn.Value) (edn.Value, error) {
	if text, ok := v.AsString(); ok {
		if word := wordOfView(v); word.IsKeyword() {
			return word, nil
		}
		return edn.ReadString(text, edn.WithLimits(edn.Wire))
	}
	if head, _ := v.Nth(0); v.IsVector() && head.IsString() {
		return formOfView(v), nil
	}
	return v, nil
}

// formOfView returns the form for the JSON view v.
func formOfView(v edn.Value) edn.Value {
	if v.IsString() {
		return wordOfView(v)
	}
	if !v.IsVector() || v.Len() == 0 {
		return v
	}
	parts := slices.Collect(v.Elems())
	parts[0] = wordOfView(parts[0])
	word, _ := parts[0].AsKeyword()
	kind, _ := kindOf(word)
	first := 1
	if len(parts) > 1 && parts[1].IsMap() {
		parts[1], first = propsOfView(parts[1], kind), 2
	}
	for i := first; i < len(parts); i++ {
		switch kind {
		case KindMap:
			parts[i] = entryOfView(parts[i])
		case KindRef:
			parts[i] = wordOfView(parts[i])
		case KindEnum, KindRe:
		default:
			parts[i] = formOfView(parts[i])
		}
	}
	return edn.Vector(parts...)
}

// wordOfView returns the keyword that a string represents.
func wordOfView(v edn.Value) edn.Value {
	text, ok := v.AsString()
	if !ok {
		return v
	}
	return made(v)(edn.Keyword(strings.TrimPrefix(text, ":")))
}

// entryOfView returns the entry of a map: a key, optional properties, and a
// schema.
func entryOfView(v edn.Value) edn.Value {
	n := v.Len()
	if !v.IsVector() || n < 2 || n > 3 {
		return v
	}
	parts := slices.Collect(v.Elems())
	if parts[0].IsString() {
		parts[0] = jsonKeyOf(parts[0])
	}
	if n == 3 && parts[1].IsMap() {
		parts[1] = propsOfView(parts[1], KindAny)
	}
	parts[n-1] = formOfView(parts[n-1])
	return edn.Vector(parts...)
}

// propsOfView returns the properties of a schema of a kind, or of a map entry.
func propsOfView(m edn.Value, kind Kind) edn.Value {
	if unit := m.Key("unit"); unit.IsString() {
		m = m.AssocKey("unit", wordOfView(unit))
	}
	if s := (&Schema{kind: kind}); !s.numeric() {
		return m
	}
	for _, name := range [...]string{"min", "max"} {
		text, ok := m.Key(name).AsString()
		if !ok {
			continue
		}
		bound := integerText(m.Key(name), text)
		if kind == KindDecimal || bound.IsString() {
			bound = toDecimal(m.Key(name))
		}
		m = m.AssocKey(name, bound)
	}
	return m
}
