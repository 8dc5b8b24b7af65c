package edn

import (
	"strings"
	"unsafe"
)

// Detach returns a copy of v that shares no memory with v, so that a small part
// does not keep the whole text alive.
func (v Value) Detach() Value {
	switch v.kind {
	case KindList, KindVector, KindMap, KindSet:
		if v.p == nil {
			return v
		}
		old := v.node()
		n := newNode(len(old.elems))
		for i := range old.elems {
			n.elems[i] = old.elems[i].Detach()
		}
		n.hash.Store(old.hash.Load())
		v.p = unsafe.Pointer(n)
	case KindTagged:
		old := v.tagged()
		t := &tagged{tag: strings.Clone(old.tag), val: old.val.Detach()}
		t.hash.Store(old.hash.Load())
		v.p = unsafe.Pointer(t)
	case KindUUID:
		u := v.uuid()
		v.p = unsafe.Pointer(&u)
	case KindString, KindKeyword, KindSymbol:
		v.p = unsafe.Pointer(unsafe.StringData(strings.Clone(v.text())))
	case KindInt, KindDecimal:
		if v.flag&flagBig != 0 {
			v.p = unsafe.Pointer(unsafe.StringData(strings.Clone(v.text())))
		}
	}
	return v
}

// Size returns the approximate memory of v in bytes, including its text. Shared
// parts are counted each time; memory that v only keeps alive is not counted.
func (v Value) Size() int { return int(unsafe.Sizeof(v)) + v.held() }

// held returns the memory behind v in bytes.
func (v *Value) held() int {
	switch v.kind {
	case KindList, KindVector, KindMap, KindSet:
		if v.p == nil {
			return 0
		}
		elems := v.elems()
		size := int(unsafe.Sizeof(node{})) + len(elems)*int(unsafe.Sizeof(Value{}))
		for i := range elems {
			size += elems[i].held()
		}
		return size
	case KindTagged:
		t := v.tagged()
		return int(unsafe.Sizeof(tagged{})) + len(t.tag) + t.val.held()
	case KindUUID:
		return 16
	case KindString, KindKeyword, KindSymbol:
		return int(v.num)
	case KindInt, KindDecimal:
		if v.flag&flagBig != 0 {
			return int(v.num)
		}
	}
	return 0
}
