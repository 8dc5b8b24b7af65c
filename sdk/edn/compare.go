package edn

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// Equal reports whether a and b are the same kind and have the same content.
// Integers compare by number, decimals by number, floats by bits, never across
// the three; a list never equals a vector; maps and sets compare by content.
func Equal(a, b Value) bool { return equal(&a, &b) }

// Equal reports whether v and o are equal, as the function Equal does.
func (v Value) Equal(o Value) bool { return equal(&v, &o) }

func equal(a, b *Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case KindNil:
		return true
	case KindString, KindKeyword, KindSymbol:
		return a.num == b.num && (a.p == b.p || a.text() == b.text())
	case KindInt, KindDecimal:
		if a.flag&flagBig != b.flag&flagBig || a.aux != b.aux || a.num != b.num {
			return false
		}
		return a.flag&flagBig == 0 || a.text() == b.text()
	case KindInst:
		return a.num == b.num && a.sub == b.sub
	case KindUUID:
		return a.uuid() == b.uuid()
	case KindTagged:
		x, y := a.tagged(), b.tagged()
		return x == y || a.aux == b.aux && x.tag == y.tag && equal(&x.val, &y.val)
	case KindList, KindVector, KindMap, KindSet:
		if a.num != b.num || a.aux != b.aux {
			return false
		}
		if a.p == b.p {
			return true
		}
		x, y := a.elems(), b.elems()
		for i := range x {
			if !equal(&x[i], &y[i]) {
				return false
			}
		}
		return true
	}
	return a.num == b.num
}

// Compare orders values by their canonical bytes: it returns -1, 0 or 1, and 0
// exactly for equal values. It reads no more of a and b than necessary.
func Compare(a, b Value) int { return compare(&a, &b) }

// compare is Compare with the common cases of map keys first.
func compare(a, b *Value) int {
	if a.kind == b.kind {
		switch a.kind {
		case KindKeyword, KindSymbol:
			return strings.Compare(a.text(), b.text())
		case KindString:
			if a.flag&b.flag&flagPlain != 0 {
				return comparePlain(a.text(), b.text())
			}
		case KindInt:
			if (a.flag|b.flag)&flagBig == 0 {
				return compareInts(int64(a.num), int64(b.num))
			}
		}
	} else if d := cmp.Compare(firstByte(a), firstByte(b)); d != 0 {
		return d
	}
	if same(a, b) {
		return 0
	}
	return compareStreams(*a, *b)
}

// compareInts compares the digits of two integers, not the numbers.
func compareInts(a, b int64) int {
	if a == b {
		return 0
	}
	var x, y [20]byte
	return bytes.Compare(strconv.AppendInt(x[:0], a, 10), strconv.AppendInt(y[:0], b, 10))
}

// comparePlain compares two strings as if each ended in its closing quote.
func comparePlain(a, b string) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	switch {
	case len(a) > n:
		return cmp.Compare(a[n], '"')
	case len(b) > n:
		return cmp.Compare('"', b[n])
	}
	return 0
}

// firstByte returns the first canonical byte of v.
func firstByte(v *Value) byte {
	switch v.kind {
	case KindNil:
		return 'n'
	case KindBool:
		if v.num != 0 {
			return 't'
		}
		return 'f'
	case KindString:
		return '"'
	case KindChar:
		return '\\'
	case KindKeyword:
		return ':'
	case KindSymbol:
		return v.text()[0]
	case KindList:
		return '('
	case KindVector:
		return '['
	case KindMap:
		return '{'
	case KindSet, KindTagged, KindInst, KindUUID:
		return '#'
	}
	var buf [40]byte
	return appendScalarHead(buf[:0], v)[0]
}

// appendScalarHead writes the beginning of a number; only its first byte is
// used, so a big number is not written out.
func appendScalarHead(dst []byte, v *Value) []byte {
	if v.flag&flagBig == 0 {
		return appendScalar(dst, v)
	}
	if c := v.text()[0]; v.kind == KindInt || c == '-' || v.aux >= 0 || int(v.num)+int(v.aux) > 0 || v.aux < plainExpMin {
		return append(dst, c)
	}
	return append(dst, '0')
}

// compareStreams compares canonical bytes chunk by chunk, so that values which
// differ early are cheap to compare, whatever their size. It takes copies
// because cursors move their values to the heap, which must not happen to the
// arguments of compare.
func compareStreams(a, b Value) int {
	x, y := cursor{root: &a}, cursor{root: &b}
	var p, q []byte
	for {
		if len(p) == 0 {
			p = x.next()
		}
		if len(q) == 0 {
			q = y.next()
		}
		n := min(len(p), len(q))
		if n == 0 {
			return cmp.Compare(len(p), len(q))
		}
		if c := bytes.Compare(p[:n], q[:n]); c != 0 {
			return c
		}
		p, q = p[n:], q[n:]
	}
}

// cursor yields the canonical bytes of a value in chunks. It keeps its own
// stack, which is as deep as the value.
type cursor struct {
	root  *Value
	stack []cursorFrame
	buf   []byte
}

type cursorFrame struct {
	elems []Value
	next  int
	close byte
}

// next returns the following chunk, valid until the next call, or nil at the end.
func (c *cursor) next() []byte {
	c.buf = c.buf[:0]
	if c.root != nil {
		v := c.root
		c.root = nil
		c.emit(v)
		return c.buf
	}
	if len(c.stack) == 0 {
		return nil
	}
	top := &c.stack[len(c.stack)-1]
	if top.next == len(top.elems) {
		c.buf = append(c.buf, top.close)
		c.stack = c.stack[:len(c.stack)-1]
		return c.buf
	}
	if top.next > 0 {
		c.buf = append(c.buf, ' ')
	}
	top.next++
	c.emit(&top.elems[top.next-1])
	return c.buf
}

// emit writes a scalar, or the opening of a collection that is then pushed.
func (c *cursor) emit(v *Value) {
	for v.kind == KindTagged {
		t := v.tagged()
		c.buf = append(append(append(c.buf, '#'), t.tag...), ' ')
		v = &t.val
	}
	var closer byte
	switch v.kind {
	case KindList:
		c.buf, closer = append(c.buf, '('), ')'
	case KindVector:
		c.buf, closer = append(c.buf, '['), ']'
	case KindMap:
		c.buf, closer = append(c.buf, '{'), '}'
	case KindSet:
		c.buf, closer = append(c.buf, '#', '{'), '}'
	default:
		c.buf = appendScalar(c.buf, v)
		return
	}
	c.stack = append(c.stack, cursorFrame{elems: v.elems(), close: closer})
}
