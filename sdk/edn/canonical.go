package edn

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Canonical returns the canonical bytes of v. They are equal for two values
// exactly if the values are equal.
func (v Value) Canonical() []byte {
	var out []byte
	withCanonical(&v, func(b []byte) {
		if out = b; !mayKeep(b) {
			out = append([]byte(nil), b...)
		}
	})
	return out
}

// AppendCanonical appends the canonical bytes of v to dst.
func (v Value) AppendCanonical(dst []byte) []byte { return appendValue(dst, &v) }

// String returns the canonical text of v.
func (v Value) String() string {
	var s string
	withCanonical(&v, func(b []byte) {
		if mayKeep(b) {
			s = unsafe.String(unsafe.SliceData(b), len(b))
		} else {
			s = string(b)
		}
	})
	return s
}

// GoString makes %#v print canonical text; the fields of Value are not
// readable.
func (v Value) GoString() string { return "edn.MustRead(" + strconv.Quote(v.String()) + ")" }

// Write returns the canonical bytes of v.
func Write(v Value) []byte { return v.Canonical() }

func appendValue(dst []byte, v *Value) []byte {
	switch v.kind {
	case KindKeyword:
		return append(append(dst, ':'), v.text()...)
	case KindString:
		if v.flag&flagPlain != 0 {
			dst = append(append(dst, '"'), v.text()...)
			return append(dst, '"')
		}
		return appendString(dst, v.text())
	case KindMap:
		return appendMap(dst, v.elems())
	case KindVector:
		return append(appendElems(append(dst, '['), v.elems()), ']')
	case KindList:
		return append(appendElems(append(dst, '('), v.elems()), ')')
	case KindSet:
		return append(appendElems(append(dst, '#', '{'), v.elems()), '}')
	case KindTagged:
		t := v.tagged()
		dst = append(append(append(dst, '#'), t.tag...), ' ')
		return appendValue(dst, &t.val)
	}
	return appendScalar(dst, v)
}

// appendScalar writes the kinds without parts. It includes strings and keywords
// because Compare uses it for single tokens.
func appendScalar(dst []byte, v *Value) []byte {
	switch v.kind {
	case KindNil:
		return append(dst, "nil"...)
	case KindBool:
		return strconv.AppendBool(dst, v.num != 0)
	case KindInt:
		return appendInt(dst, v)
	case KindFloat:
		return appendFloat(dst, math.Float64frombits(v.num))
	case KindDecimal:
		return append(appendDecimal(dst, v), 'M')
	case KindString:
		return appendString(dst, v.text())
	case KindChar:
		return appendChar(dst, rune(v.num))
	case KindKeyword:
		return append(append(dst, ':'), v.text()...)
	case KindSymbol:
		return append(dst, v.text()...)
	case KindInst:
		dst = append(dst, `#inst "`...)
		return append(appendInst(dst, v.inst()), '"')
	case KindUUID:
		dst = append(dst, `#uuid "`...)
		return append(appendUUID(dst, v.uuid()), '"')
	}
	return dst
}

func appendMap(dst []byte, elems []Value) []byte {
	return append(appendElems(append(dst, '{'), elems), '}')
}

func appendElems(dst []byte, elems []Value) []byte {
	for i := range elems {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = appendValue(dst, &elems[i])
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// needsEscape reports whether a byte of a string is written as an escape.
func needsEscape(c byte) bool { return c < 0x20 || c == '"' || c == '\\' || c == 0x7f }

// shortEscape returns the letter of a two-byte escape, or 0.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	}
	return 0
}

// longText is the length from which a text gets its memory in one allocation.
const longText = 4 << 10

func appendString(dst []byte, s string) []byte {
	if len(s) > longText && cap(dst)-len(dst) < len(s)+len(s)/16 {
		dst = slices.Grow(dst, len(s)+len(s)/16) // as much as text with line breaks needs, at once
	}
	dst = append(dst, '"')
	for {
		n := plainRun(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, s[n])
		s = s[n+1:]
	}
}

// appendEscape writes a byte for which needsEscape is true.
func appendEscape(dst []byte, c byte) []byte {
	if e := shortEscape(c); e != 0 {
		return append(dst, '\\', e)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// charNames lists the characters that are written by name.
var charNames = [...]struct {
	r    rune
	name string
}{
	{'\n', "newline"}, {'\r', "return"}, {' ', "space"},
	{'\t', "tab"}, {'\b', "backspace"}, {'\f', "formfeed"},
}

func appendChar(dst []byte, r rune) []byte {
	dst = append(dst, '\\')
	for i := range charNames {
		if charNames[i].r == r {
			return append(dst, charNames[i].name...)
		}
	}
	if r <= 0x20 || r >= 0x7f && r <= 0xa0 || r == ',' {
		return append(dst, 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}
