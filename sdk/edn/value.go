package edn

import (
	"math"
	"math/big"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Limits of every value, however it was made.
const (
	// MaxDepth is the deepest nesting of collections and tags a value may have.
	MaxDepth = 512
	// MaxDigits is the largest number of digits of an integer or decimal, and the
	// largest absolute exponent of a decimal.
	MaxDigits = 1000
)

// Value is one immutable EDN value. The zero Value is nil. Use Equal to compare
// values; == does not compile.
//
// A value has a kind, a number and at most one pointer. Their meaning depends
// on the kind:
//
//	bool, int, float, char   num
//	int beyond 64 bits       p and num: its decimal digits, with sign
//	decimal                  num and aux: coefficient and exponent; a
//	                         coefficient beyond 64 bits is digits in p and num
//	string                   p and num: its bytes
//	keyword, symbol          p and num: the name; aux: index of its slash, or 0
//	inst                     num and sub: Unix seconds and nanoseconds
//	uuid                     p: *[16]byte
//	collection               p: *node, num: number of elements; aux: depth
//	tagged                   p: *tagged; aux: depth
//
// With a single pointer to either text or a node a value has 24 bytes, which
// allows the reader's limit of 64 bytes per node. Every conversion of p is in
// this file.
type Value struct {
	_    [0]func() // not comparable: == would compare addresses
	p    unsafe.Pointer
	num  uint64
	kind Kind
	flag uint8
	aux  int16
	sub  uint32
}

const (
	// flagPlain marks a string whose canonical text has no escapes.
	flagPlain uint8 = 1 << iota
	// flagBig marks an integer or decimal coefficient kept as digits.
	flagBig
)

// node is the shared body of a list, vector, set or map. The elements of a set
// and the entries of a map are in canonical order; a map alternates keys and
// values.
type node struct {
	elems []Value
	hash  atomic.Pointer[digest]
}

// tagged is the shared body of a tagged literal.
type tagged struct {
	tag  string
	val  Value
	hash atomic.Pointer[digest]
}

// Entry is an entry of a map.
type Entry struct{ Key, Val Value }

func textValue(k Kind, s string) Value {
	return Value{kind: k, p: unsafe.Pointer(unsafe.StringData(s)), num: uint64(len(s))}
}

// text returns the bytes of a string, name or number kept as digits.
func (v *Value) text() string { return unsafe.String((*byte)(v.p), int(v.num)) }

func (v *Value) node() *node { return (*node)(v.p) }

func (v *Value) tagged() *tagged { return (*tagged)(v.p) }

// elems returns the elements of a collection; the caller must not write to it.
func (v *Value) elems() []Value {
	if v.p == nil {
		return nil
	}
	return v.node().elems
}

// entries returns the alternating keys and values of a map as entries.
func entries(elems []Value) []Entry {
	if len(elems) == 0 {
		return nil
	}
	return unsafe.Slice((*Entry)(unsafe.Pointer(unsafe.SliceData(elems))), len(elems)/2)
}

// Nil returns nil, the zero Value.
func Nil() Value { return Value{} }

// Bool returns true or false.
func Bool(b bool) Value {
	v := Value{kind: KindBool}
	if b {
		v.num = 1
	}
	return v
}

// Int returns an integer.
func Int(i int64) Value { return Value{kind: KindInt, num: uint64(i)} }

// BigInt returns an integer of any size up to MaxDigits digits. It copies i. It
// panics with a *ValueError if i is nil or has more digits.
func BigInt(i *big.Int) Value {
	if i == nil {
		panic(&ValueError{Kind: KindInt, Code: "invalid-number", Message: "big integer is a nil pointer"})
	}
	if i.IsInt64() {
		return Int(i.Int64())
	}
	digits := ""
	if i.BitLen() <= maxBits {
		digits = i.String()
	}
	if digits == "" || len(strings.TrimPrefix(digits, "-")) > MaxDigits {
		panic(&ValueError{Kind: KindInt, Code: "limit-digits", Message: "integer has more than 1000 digits"})
	}
	v := textValue(KindInt, digits)
	v.flag = flagBig
	return v
}

// maxBits is the size of the largest number of MaxDigits digits; a larger one
// is rejected before it is written out.
const maxBits = 3322

// Float returns a 64-bit float. NaN and infinities return a *ValueError; -0.0
// becomes 0.0.
func Float(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, &ValueError{Kind: KindFloat, Code: "invalid-number", Message: "NaN and infinities are not values"}
	}
	return floatValue(f), nil
}

func floatValue(f float64) Value {
	if f == 0 {
		f = 0 // drops the sign of negative zero
	}
	return Value{kind: KindFloat, num: math.Float64bits(f)}
}

// String returns a string. Invalid UTF-8 returns a *ValueError.
func String(s string) (Value, error) {
	if !utf8.ValidString(s) {
		return Value{}, &ValueError{Kind: KindString, Code: "invalid-utf8", Message: "string is not valid UTF-8"}
	}
	return stringValue(s), nil
}

// Text returns a string in which invalid UTF-8 is replaced by U+FFFD. It is
// meant for external text, such as the output of a process.
func Text(s string) Value {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return stringValue(s)
}

func stringValue(s string) Value {
	v := textValue(KindString, s)
	if plainRun(s) == len(s) {
		v.flag = flagPlain
	}
	return v
}

// Char returns a character. Surrogates and numbers beyond U+10FFFF return a
// *ValueError.
func Char(r rune) (Value, error) {
	if !utf8.ValidRune(r) {
		return Value{}, &ValueError{Kind: KindChar, Code: "invalid-character", Message: "not a Unicode scalar value"}
	}
	return Value{kind: KindChar, num: uint64(r)}, nil
}

// Keyword returns the keyword with the given name, without colon: "a" or
// "ns/a". An invalid name returns a *ValueError.
func Keyword(name string) (Value, error) {
	slash, problem := checkName(name)
	if problem == "" && name == "/" {
		problem = "a keyword cannot be a slash alone"
	}
	if problem != "" {
		return Value{}, &ValueError{Kind: KindKeyword, Code: "invalid-name", Message: nameMessage("keyword", name, problem)}
	}
	return nameValue(KindKeyword, name, slash), nil
}

// Symbol returns the symbol with the given name. An invalid symbol name, such
// as "nil" or "a b", returns a *ValueError.
func Symbol(name string) (Value, error) {
	slash, problem := checkName(name)
	if problem == "" && isReservedWord(name) {
		problem = "it is a literal"
	}
	if problem != "" {
		return Value{}, &ValueError{Kind: KindSymbol, Code: "invalid-name", Message: nameMessage("symbol", name, problem)}
	}
	return nameValue(KindSymbol, name, slash), nil
}

func nameValue(k Kind, name string, slash int) Value {
	v := textValue(k, name)
	v.aux = int16(slash)
	return v
}

// Inst returns an instant with nanosecond precision in UTC; the zone and the
// monotonic reading of t are dropped. It panics with a *ValueError if the year
// in UTC is outside 1 to 9999.
func Inst(t time.Time) Value {
	v, ok := instValue(t)
	if !ok {
		panic(&ValueError{Kind: KindInst, Code: "invalid-inst", Message: "year is outside 1 to 9999"})
	}
	return v
}

func instValue(t time.Time) (Value, bool) {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return Value{}, false
	}
	return Value{kind: KindInst, num: uint64(t.Unix()), sub: uint32(t.Nanosecond())}, true
}

func (v *Value) inst() time.Time { return time.Unix(int64(v.num), int64(v.sub)).UTC() }

// UUID returns a UUID.
func UUID(u [16]byte) Value {
	return Value{kind: KindUUID, p: unsafe.Pointer(&u)}
}

func (v *Value) uuid() [16]byte { return *(*[16]byte)(v.p) }

// collection takes ownership of a node. The elements of maps and sets must be
// sorted and distinct, and depth must be that of the collection.
func collection(k Kind, n *node, depth int) Value {
	v := Value{kind: k, num: uint64(len(n.elems)), aux: int16(depth)}
	if len(n.elems) > 0 {
		v.p = unsafe.Pointer(n)
	}
	return v
}

func taggedValue(tag string, val Value) Value {
	return Value{kind: KindTagged, p: unsafe.Pointer(&tagged{tag: tag, val: val}), aux: int16(val.Depth() + 1)}
}

// Depth returns the nesting depth of v: 0 for scalars, 1 for a collection of
// scalars. Tags count, and so do instants and UUIDs, which are written with a
// tag.
func (v Value) Depth() int {
	switch v.kind {
	case KindList, KindVector, KindMap, KindSet, KindTagged:
		return int(v.aux)
	case KindInst, KindUUID:
		return 1
	}
	return 0
}
