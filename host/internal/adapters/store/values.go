package store

import (
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Sizes of the value store.
const (
	maxValue   = 64 << 20  // bytes of the text of one value
	maxRow     = 256 << 10 // bytes of the body in a row; a larger body is a file
	separate   = 256       // bytes of text above which an element is a value of its own
	treeWidth  = 32        // maximum number of children of a tree node
	maxNesting = 2 * edn.MaxDepth
)

// sum is a BLAKE3-256 sum: the hash of a value or a chain value.
type sum [32]byte

// Scan implements sql.Scanner.
func (s *sum) Scan(from any) error {
	b, ok := from.([]byte)
	if !ok || len(b) != len(s) {
		return fmt.Errorf("%w: a hash has %d bytes, expected %d", errDamaged, len(b), len(s))
	}
	copy(s[:], b)
	return nil
}

// Value implements driver.Valuer.
func (s sum) Value() (driver.Value, error) { return s[:], nil }

// hash returns the text form that records use: "b3:" and hexadecimal digits.
func (s sum) hash() string { return "b3:" + hex.EncodeToString(s[:]) }

func parseSum(hash string) (s sum, err error) {
	text, ok := strings.CutPrefix(hash, "b3:")
	if !ok || len(text) != 2*len(s) {
		return s, fmt.Errorf("%.80q is not a hash: expected b3: and %d hexadecimal digits", hash, 2*len(s))
	}
	_, err = hex.Decode(s[:], []byte(text))
	return s, err
}

func hexSum(text string) string { return sum(blake3.Sum256([]byte(text))).hash() }

// hashOf returns the hash of a value, as edn.Hash does in text form.
func hashOf(v edn.Value) sum {
	s, _ := parseSum(edn.Hash(v))
	return s
}

// form is the encoding of the body of a value.
type form int

const (
	formWhole form = iota // canonical bytes
	formParts             // canonical bytes with elements replaced by #store/part n
	formTree              // numbers of the vectors to concatenate, as varints
)

// partTag marks an element of a formParts body that is a value of its own. An
// element of that tag in user data is always made a value of its own, so every
// such tag in a body was written by the store.
const partTag = "store/part"

// content is a stored value.
type content struct {
	n     int64
	hash  sum
	owner int64 // number of the run that stored it first
	form  form
	size  int // of the body
	body  []byte
}

// layout returns the encoding and the body of a value. It calls put to store each part; put returns
// the number of the part.
func layout(v edn.Value, put func(edn.Value) (int64, error)) (form, []byte, error) {
	switch {
	case v.IsVector() && v.Len() > treeWidth && longer(v, separate):
		return layoutTree(v, put)
	case v.IsVector(), v.IsMap():
		body, parts, err := layoutParts(v, put)
		if err != nil || !parts {
			return formWhole, v.Canonical(), err
		}
		return formParts, body, nil
	}
	return formWhole, v.Canonical(), nil
}

func layoutTree(v edn.Value, put func(edn.Value) (int64, error)) (form, []byte, error) {
	width := treeWidth
	for width*treeWidth < v.Len() {
		width *= treeWidth
	}
	elems := make([]edn.Value, 0, v.Len())
	for e := range v.Elems() {
		elems = append(elems, e)
	}
	var body []byte
	for len(elems) > 0 {
		size := min(width, len(elems))
		n, err := put(edn.Vector(elems[:size]...))
		if err != nil {
			return 0, nil, err
		}
		body = binary.AppendUvarint(body, uint64(n))
		elems = elems[size:]
	}
	return formTree, body, nil
}

func layoutParts(v edn.Value, put func(edn.Value) (int64, error)) (body []byte, parts bool, err error) {
	replaced := v.MapValues(func(e edn.Value) edn.Value {
		if err != nil || !separated(e) {
			return e
		}
		var n int64
		n, err = put(e)
		parts = true
		return partOf(edn.Int(n))
	})
	if err != nil || !parts {
		return nil, false, err
	}
	return replaced.Canonical(), true, nil
}

func partOf(ref edn.Value) edn.Value { return edn.MustTagged(partTag, ref) }

// partNumber returns the number of the value that an element refers to; false if e is not such a
// reference.
func partNumber(e edn.Value) (int64, bool) {
	tag, ref, ok := e.AsTagged()
	n, _ := ref.AsInt()
	return n, ok && tag == partTag
}

// separated reports whether an element is stored as a value of its own.
func separated(e edn.Value) bool {
	if tag, _, ok := e.AsTagged(); ok && tag == partTag {
		return true
	}
	return longer(e, separate)
}

// longer reports whether the canonical text of v has more than limit bytes, not counting escapes.
// It stops counting at the limit.
func longer(v edn.Value, limit int) bool { return room(v, limit) < 0 }

// room returns left minus the size of the text of v. It stops counting below 0.
func room(v edn.Value, left int) int {
	switch v.Kind() {
	case edn.KindString:
		s, _ := v.AsString()
		return left - len(s) - 2
	case edn.KindKeyword, edn.KindSymbol:
		return left - len(v.Name()) - len(v.Namespace()) - 2
	case edn.KindInt:
		if _, ok := v.AsInt(); ok {
			return left - 8
		}
		return left - len(v.Canonical())
	case edn.KindTagged:
		tag, val, _ := v.AsTagged()
		return room(val, left-len(tag)-2)
	case edn.KindMap:
		left -= 2
		for k, e := range v.Entries() {
			if left = room(k, left-2); left >= 0 {
				left = room(e, left)
			}
			if left < 0 {
				return left
			}
		}
		return left
	case edn.KindVector, edn.KindList, edn.KindSet:
		left -= 2
		for e := range v.Elems() {
			if left = room(e, left-1); left < 0 {
				return left
			}
		}
		return left
	case edn.KindDecimal:
		return left - len(v.Canonical())
	}
	return left - 8
}

// errDamaged is the error for a body that the store did not write.
var errDamaged = errors.New("the stored value is damaged")

var storedLimits = edn.WithLimits(edn.Limits{
	Bytes:  maxValue,
	Depth:  edn.MaxDepth,
	Nodes:  edn.Stored.Nodes,
	String: maxValue,
})

// assembler builds values from their parts.
type assembler struct {
	fetch func(n int64) (content, error)
	left  int // number of bytes of bodies that may still be read
}

// assemble builds the value of a body and verifies its hash. The error wraps errDamaged if it does
// not match.
func assemble(c content, fetch func(n int64) (content, error)) (v edn.Value, err error) {
	a := assembler{fetch: fetch, left: 2 * maxValue}
	if v, err = a.value(c, maxNesting); err != nil {
		return edn.Nil(), err
	}
	if hashOf(v) != c.hash {
		return edn.Nil(), fmt.Errorf("%w: its content has the hash %s", errDamaged, edn.Hash(v))
	}
	return v, nil
}

func (a *assembler) value(c content, depth int) (edn.Value, error) {
	if a.left -= len(c.body) + 1; a.left < 0 || depth == 0 {
		return edn.Nil(), fmt.Errorf("%w: it exceeds the limits on the size or depth of a value", errDamaged)
	}
	if c.form == formTree {
		return a.tree(c, depth)
	}
	if c.form != formWhole && c.form != formParts {
		return edn.Nil(), fmt.Errorf("%w: unknown form %d", errDamaged, c.form)
	}
	v, err := edn.Read(c.body, storedLimits)
	if err != nil {
		return edn.Nil(), fmt.Errorf("%w: %w", errDamaged, err)
	}
	if c.form == formWhole {
		return v, nil
	}
	if !v.IsMap() && !v.IsVector() {
		return edn.Nil(), fmt.Errorf("%w: a %s has no parts", errDamaged, v.Kind())
	}
	v = v.MapValues(func(e edn.Value) edn.Value {
		if n, ok := partNumber(e); ok && err == nil {
			e, err = a.part(c, n, depth)
		}
		return e
	})
	return v, err
}

func (a *assembler) tree(c content, depth int) (edn.Value, error) {
	parts, err := c.parts()
	if err != nil {
		return edn.Nil(), err
	}
	var elems []edn.Value
	for _, n := range parts {
		v, err := a.part(c, n, depth)
		switch {
		case err != nil:
			return edn.Nil(), err
		case !v.IsVector():
			return edn.Nil(), fmt.Errorf("%w: a part of the tree is a %s", errDamaged, v.Kind())
		}
		for e := range v.Elems() {
			elems = append(elems, e)
		}
	}
	return edn.Vector(elems...), nil
}

// part builds a part of c. Parts are stored before the values that contain them, so a part with a
// higher number is damage, and cycles are impossible.
func (a *assembler) part(c content, n int64, depth int) (edn.Value, error) {
	if n <= 0 || n >= c.n {
		return edn.Nil(), fmt.Errorf("%w: part %d is not older than value %d", errDamaged, n, c.n)
	}
	p, err := a.fetch(n)
	if err != nil {
		return edn.Nil(), err
	}
	v, err := a.value(p, depth-1)
	if err == nil && v.Depth() >= edn.MaxDepth {
		err = fmt.Errorf("%w: it is nested too deeply", errDamaged)
	}
	return v, err
}

// parts returns the numbers of the parts of c.
func (c content) parts() (out []int64, err error) {
	switch c.form {
	case formTree:
		for rest := c.body; len(rest) > 0; {
			n, size := binary.Uvarint(rest)
			if size <= 0 {
				return nil, fmt.Errorf("%w: a number of the tree is malformed", errDamaged)
			}
			out, rest = append(out, int64(n)), rest[size:]
		}
	case formParts:
		v, err := edn.Read(c.body, storedLimits)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		v.MapValues(func(e edn.Value) edn.Value {
			if n, ok := partNumber(e); ok {
				out = append(out, n)
			}
			return e
		})
	}
	return out, nil
}
