package edn

import (
	"math"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"
)

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// IsNil reports whether v is nil.
func (v Value) IsNil() bool { return v.kind == KindNil }

// IsBool reports whether v is a boolean.
func (v Value) IsBool() bool { return v.kind == KindBool }

// IsInt reports whether v is an integer of any size.
func (v Value) IsInt() bool { return v.kind == KindInt }

// IsFloat reports whether v is a float.
func (v Value) IsFloat() bool { return v.kind == KindFloat }

// IsDecimal reports whether v is a decimal.
func (v Value) IsDecimal() bool { return v.kind == KindDecimal }

// IsNumber reports whether v is an integer, a float or a decimal.
func (v Value) IsNumber() bool { return v.kind >= KindInt && v.kind <= KindDecimal }

// IsString reports whether v is a string.
func (v Value) IsString() bool { return v.kind == KindString }

// IsChar reports whether v is a character.
func (v Value) IsChar() bool { return v.kind == KindChar }

// IsKeyword reports whether v is a keyword.
func (v Value) IsKeyword() bool { return v.kind == KindKeyword }

// IsSymbol reports whether v is a symbol.
func (v Value) IsSymbol() bool { return v.kind == KindSymbol }

// IsList reports whether v is a list.
func (v Value) IsList() bool { return v.kind == KindList }

// IsVector reports whether v is a vector.
func (v Value) IsVector() bool { return v.kind == KindVector }

// IsMap reports whether v is a map.
func (v Value) IsMap() bool { return v.kind == KindMap }

// IsSet reports whether v is a set.
func (v Value) IsSet() bool { return v.kind == KindSet }

// IsTagged reports whether v is a tagged literal other than an instant or UUID.
func (v Value) IsTagged() bool { return v.kind == KindTagged }

// IsInst reports whether v is an instant.
func (v Value) IsInst() bool { return v.kind == KindInst }

// IsUUID reports whether v is a UUID.
func (v Value) IsUUID() bool { return v.kind == KindUUID }

// Truthy reports whether v is neither nil nor false.
func (v Value) Truthy() bool {
	return v.kind != KindNil && (v.kind != KindBool || v.num != 0)
}

// AsBool returns the boolean v; ok is false for other kinds.
func (v Value) AsBool() (b, ok bool) { return v.kind == KindBool && v.num != 0, v.kind == KindBool }

// AsInt returns the integer v; ok is false for other kinds and for integers
// outside 64 bits.
func (v Value) AsInt() (i int64, ok bool) {
	if v.kind != KindInt || v.flag&flagBig != 0 {
		return 0, false
	}
	return int64(v.num), true
}

// AsBigInt returns a copy of the integer v of any size; ok is false for other
// kinds.
func (v Value) AsBigInt() (i *big.Int, ok bool) {
	if v.kind != KindInt {
		return nil, false
	}
	return v.bigInt(), true
}

// AsFloat returns the float v; ok is false for other kinds, also for integers.
func (v Value) AsFloat() (f float64, ok bool) {
	if v.kind != KindFloat {
		return 0, false
	}
	return math.Float64frombits(v.num), true
}

// AsDecimal returns coefficient and exponent of the decimal v, without trailing
// zeros: v = coef x 10^exp. ok is false for other kinds.
func (v Value) AsDecimal() (coef *big.Int, exp int, ok bool) {
	if v.kind != KindDecimal {
		return nil, 0, false
	}
	return v.bigInt(), int(v.aux), true
}

// AsNumber returns the exact number that v spells: an integer, a decimal, or a
// float by its shortest decimal, so that 0.1 is one tenth. ok is false for
// other kinds. It allocates; it is meant for comparisons across kinds.
func (v Value) AsNumber() (r *big.Rat, ok bool) {
	switch v.kind {
	case KindInt:
		return new(big.Rat).SetInt(v.bigInt()), true
	case KindDecimal:
		return scaled(v.bigInt(), int(v.aux)), true
	case KindFloat:
		text := strconv.FormatFloat(math.Float64frombits(v.num), 'e', -1, 64)
		n, _ := parseNumber(text)
		digits := n.whole + n.frac
		if n.neg {
			digits = "-" + digits
		}
		coef, _ := new(big.Int).SetString(digits, 10)
		return scaled(coef, n.exp-len(n.frac)), true
	}
	return nil, false
}

func scaled(coef *big.Int, exp int) *big.Rat {
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	if exp >= 0 {
		return new(big.Rat).SetInt(pow.Mul(pow, coef))
	}
	return new(big.Rat).SetFrac(coef, pow)
}

// AsString returns the string v; ok is false for other kinds.
func (v Value) AsString() (s string, ok bool) {
	if v.kind != KindString {
		return "", false
	}
	return v.text(), true
}

// AsChar returns the character v; ok is false for other kinds.
func (v Value) AsChar() (r rune, ok bool) {
	if v.kind != KindChar {
		return 0, false
	}
	return rune(v.num), true
}

// AsKeyword returns the name of the keyword v without colon, "ns/name" or
// "name"; ok is false for other kinds.
func (v Value) AsKeyword() (name string, ok bool) {
	if v.kind != KindKeyword {
		return "", false
	}
	return v.text(), true
}

// AsSymbol returns the name of the symbol v; ok is false for other kinds.
func (v Value) AsSymbol() (name string, ok bool) {
	if v.kind != KindSymbol {
		return "", false
	}
	return v.text(), true
}

// AsTagged returns tag, without #, and value of the tagged literal v; ok is
// false for other kinds, also for instants and UUIDs.
func (v Value) AsTagged() (tag string, val Value, ok bool) {
	if v.kind != KindTagged {
		return "", Value{}, false
	}
	t := v.tagged()
	return t.tag, t.val, true
}

// AsInst returns the instant v in UTC; ok is false for other kinds.
func (v Value) AsInst() (t time.Time, ok bool) {
	if v.kind != KindInst {
		return time.Time{}, false
	}
	return v.inst(), true
}

// AsUUID returns the UUID v; ok is false for other kinds.
func (v Value) AsUUID() (u [16]byte, ok bool) {
	if v.kind != KindUUID {
		return u, false
	}
	return v.uuid(), true
}

// Len returns the number of elements, members or entries of a collection, the
// number of code points of a string, and 0 for other kinds.
func (v Value) Len() int {
	switch v.kind {
	case KindMap:
		return int(v.num / 2)
	case KindList, KindVector, KindSet:
		return int(v.num)
	case KindString:
		return utf8.RuneCountInString(v.text())
	}
	return 0
}

// Name returns the part after the slash of a keyword or symbol, the whole name
// if there is no slash, and "" for other kinds.
func (v Value) Name() string {
	if v.kind != KindKeyword && v.kind != KindSymbol {
		return ""
	}
	if v.aux == 0 {
		return v.text()
	}
	return v.text()[v.aux+1:]
}

// Namespace returns the part before the slash of a keyword or symbol, or "".
func (v Value) Namespace() string {
	if v.kind != KindKeyword && v.kind != KindSymbol {
		return ""
	}
	return v.text()[:v.aux]
}
