package edn

import (
	"iter"
	"sort"
	"strings"
)

// Get returns the value of v under key: the value of a map's key, the member of
// a set that equals key, the element of a list or vector at an integer index.
// For other kinds, including nil, ok is false.
func (v Value) Get(key Value) (val Value, ok bool) {
	switch v.kind {
	case KindMap:
		if i := findEntry(entries(v.elems()), &key); i >= 0 {
			return v.elems()[2*i+1], true
		}
	case KindSet:
		elems := v.elems()
		i := sort.Search(len(elems), func(i int) bool { return compare(&elems[i], &key) >= 0 })
		if i < len(elems) && equal(&elems[i], &key) {
			return elems[i], true
		}
	case KindList, KindVector:
		if i, isInt := key.AsInt(); isInt && i >= 0 && i < int64(v.num) {
			return v.elems()[i], true
		}
	}
	return Value{}, false
}

// Key returns the value of a keyword key, given without colon. It returns nil
// if v does not have the key or is not a map. It does not allocate.
func (v Value) Key(name string) Value {
	if v.kind == KindMap {
		list := entries(v.elems())
		if i := findKeyword(list, name); i >= 0 {
			return list[i].Val
		}
	}
	return Value{}
}

// Has reports whether Get finds key in v.
func (v Value) Has(key Value) bool {
	_, ok := v.Get(key)
	return ok
}

// HasKey reports whether v is a map with the keyword key name, given without
// colon; its value may be nil.
func (v Value) HasKey(name string) bool {
	return v.kind == KindMap && findKeyword(entries(v.elems()), name) >= 0
}

// GetIn follows path with Get, one step per element. ok is false if a step finds
// nothing; the empty path gives v.
func (v Value) GetIn(path ...Value) (val Value, ok bool) {
	for _, key := range path {
		if v, ok = v.Get(key); !ok {
			return Value{}, false
		}
	}
	return v, true
}

// Nth returns the element of a list or vector, or the member of a set in
// canonical order, at index i. ok is false for other kinds and out of range.
func (v Value) Nth(i int) (val Value, ok bool) {
	if v.kind != KindList && v.kind != KindVector && v.kind != KindSet || i < 0 || uint64(i) >= v.num {
		return Value{}, false
	}
	return v.elems()[i], true
}

// Elems iterates the elements of a list or vector in order and the members of a
// set in canonical order; other kinds have none.
func (v Value) Elems() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.kind != KindList && v.kind != KindVector && v.kind != KindSet {
			return
		}
		for _, e := range v.elems() {
			if !yield(e) {
				return
			}
		}
	}
}

// Entries iterates keys and values of a map in canonical order of the keys;
// other kinds have none.
func (v Value) Entries() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		if v.kind != KindMap {
			return
		}
		elems := v.elems()
		for i := 0; i < len(elems); i += 2 {
			if !yield(elems[i], elems[i+1]) {
				return
			}
		}
	}
}

// All iterates a collection with the keys that Get accepts: index and element
// of a list or vector, key and value of a map; each member of a set is both.
// Other kinds have none.
func (v Value) All() iter.Seq2[Value, Value] {
	switch v.kind {
	case KindMap:
		return v.Entries()
	case KindSet:
		return func(yield func(Value, Value) bool) {
			for _, e := range v.elems() {
				if !yield(e, e) {
					return
				}
			}
		}
	}
	return func(yield func(Value, Value) bool) {
		i := int64(0)
		for e := range v.Elems() {
			if !yield(Int(i), e) {
				return
			}
			i++
		}
	}
}

// scanLimit is the size up to which a linear scan for a keyword beats bisection.
const scanLimit = 8

// findKeyword returns the index of a keyword key in sorted entries, or -1.
func findKeyword(list []Entry, name string) int {
	if len(list) <= scanLimit {
		for i := range list {
			k := &list[i].Key
			if k.kind == KindKeyword && k.num == uint64(len(name)) && k.text() == name {
				return i
			}
		}
		return -1
	}
	lo, hi := 0, len(list)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch c := compareToKeyword(&list[mid].Key, name); {
		case c == 0:
			return mid
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return -1
}

// compareToKeyword compares a key with the keyword of the given name. Only
// keywords begin with a colon, so the first byte decides for other kinds.
func compareToKeyword(k *Value, name string) int {
	if k.kind == KindKeyword {
		return strings.Compare(k.text(), name)
	}
	if firstByte(k) < ':' {
		return -1
	}
	return 1
}

// findEntry returns the index of key in sorted entries, or -1.
func findEntry(list []Entry, key *Value) int {
	if key.kind == KindKeyword {
		return findKeyword(list, key.text())
	}
	i := searchEntry(list, key)
	if i < len(list) && equal(&list[i].Key, key) {
		return i
	}
	return -1
}

// searchEntry returns the index of the first entry whose key is not before key.
func searchEntry(list []Entry, key *Value) int {
	return sort.Search(len(list), func(i int) bool { return compare(&list[i].Key, key) >= 0 })
}
