package edn

import (
	"slices"
	"strconv"
)

func wrongKind(op string, v *Value) *ValueError {
	return &ValueError{Kind: v.kind, Code: "wrong-kind", Message: op + " is not defined for this kind"}
}

// Assoc returns v with val under key. On a map it adds or replaces the entry, on
// nil it makes a map, on a vector it replaces the element at an integer index,
// or appends at the index Len. It panics with a *ValueError on another kind,
// on an index out of range and beyond MaxDepth.
func (v Value) Assoc(key, val Value) Value {
	switch v.kind {
	case KindNil:
		return sequenceSorted(copyNode([]Value{key, val}))
	case KindMap:
		return v.assocEntry(key, val)
	case KindVector:
		i, ok := key.AsInt()
		if !ok || i < 0 || i > int64(v.num) {
			panic(&ValueError{Kind: KindVector, Code: "wrong-index",
				Message: "no index " + key.brief() + " in a vector of " + strconv.Itoa(int(v.num))})
		}
		n := newNode(max(int(v.num), int(i)+1))
		copy(n.elems, v.elems())
		n.elems[i] = val
		return sequence(KindVector, n)
	}
	panic(wrongKind("assoc", &v))
}

func (v *Value) assocEntry(key, val Value) Value {
	old := v.elems()
	i := searchEntry(entries(old), &key)
	if 2*i < len(old) && equal(&old[2*i], &key) {
		n := copyNode(old)
		n.elems[2*i+1] = val
		return sequenceSorted(n)
	}
	n := newNode(len(old) + 2)
	copy(n.elems, old[:2*i])
	n.elems[2*i], n.elems[2*i+1] = key, val
	copy(n.elems[2*i+2:], old[2*i:])
	return sequenceSorted(n)
}

// AssocKey is Assoc with a keyword key, given without colon. It also panics if
// name is not a valid keyword name; it is meant for literals.
func (v Value) AssocKey(name string, val Value) Value { return v.Assoc(K(name), val) }

// Dissoc returns the map v without the given keys; absent keys are ignored, and
// nil stays nil. It panics with a *ValueError on another kind.
func (v Value) Dissoc(keys ...Value) Value {
	if v.kind == KindNil {
		return v
	}
	if v.kind != KindMap {
		panic(wrongKind("dissoc", &v))
	}
	for i := range keys {
		elems := v.elems()
		at := findEntry(entries(elems), &keys[i])
		if at < 0 {
			continue
		}
		v = sequenceSorted(joinNode(elems[:2*at], elems[2*at+2:]))
	}
	return v
}

// AssocIn returns v with val at path, making maps where a step finds nothing.
// An empty path returns val. It returns a *ValueError, because paths often come
// from data, for a step into a kind that Assoc does not support, an index out
// of range, and a result deeper than MaxDepth.
func (v Value) AssocIn(path []Value, val Value) (out Value, err error) {
	defer catch(&err)
	return v.assocIn(path, val), nil
}

func (v Value) assocIn(path []Value, val Value) Value {
	if len(path) == 0 {
		return val
	}
	if len(path) > MaxDepth {
		panic(depthError(v.kind))
	}
	inner, _ := v.Get(path[0])
	return v.Assoc(path[0], inner.assocIn(path[1:], val))
}

// catch converts the panic of an invalid argument to an error result.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *ValueError:
		*err = r
	default:
		panic(r)
	}
}

// Conj returns v with elements added: at the end of a vector, at the front of a
// list one after the other (so the last argument comes first), or into a set.
// The elements for a map are maps, or vectors of a key and a value. Nil becomes
// a vector. It panics with a *ValueError on another kind and beyond MaxDepth.
func (v Value) Conj(elems ...Value) Value {
	switch v.kind {
	case KindNil:
		return Vector(elems...)
	case KindVector:
		return sequence(KindVector, joinNode(v.elems(), elems))
	case KindList:
		n := joinNode(elems, v.elems())
		slices.Reverse(n.elems[:len(elems)])
		return sequence(KindList, n)
	case KindSet:
		return setOf(joinNode(v.elems(), elems))
	case KindMap:
		for i := range elems {
			e := &elems[i]
			if e.kind == KindVector && e.num == 2 {
				v = v.assocEntry(e.elems()[0], e.elems()[1])
			} else {
				v = v.Merge(*e)
			}
		}
		return v
	}
	panic(wrongKind("conj", &v))
}

// Merge returns the entries of both maps; where both have a key, that of o wins.
// Values are not merged further. Nil counts as an empty map. It panics with a
// *ValueError on another kind.
func (v Value) Merge(o Value) Value {
	for _, m := range []*Value{&v, &o} {
		if m.kind != KindMap && m.kind != KindNil {
			panic(wrongKind("merge", m))
		}
	}
	switch {
	case o.num == 0 && v.kind == KindMap:
		return v
	case v.num == 0:
		return o
	}
	a, b := v.elems(), o.elems()
	n := newNode(len(a) + len(b))
	out := n.elems[:0]
	for len(a) > 0 && len(b) > 0 {
		switch c := compare(&a[0], &b[0]); {
		case c < 0:
			out, a = append(out, a[0], a[1]), a[2:]
		case c > 0:
			out, b = append(out, b[0], b[1]), b[2:]
		default:
			out = append(out, b[0], b[1])
			a, b = a[2:], b[2:]
		}
	}
	n.elems = append(append(out, a...), b...)
	return sequenceSorted(n)
}

// MapValues returns v with f applied to each value of a map, element of a list
// or vector, or member of a set (equal results are merged); keys stay. Other
// kinds are returned as they are. It panics with a *ValueError beyond MaxDepth.
func (v Value) MapValues(f func(Value) Value) Value {
	if !v.kind.isCollection() || v.num == 0 {
		return v
	}
	n := copyNode(v.elems())
	first, step := 0, 1
	if v.kind == KindMap {
		first, step = 1, 2
	}
	for i := first; i < len(n.elems); i += step {
		n.elems[i] = f(n.elems[i])
	}
	return v.with(n)
}

// Walk rebuilds v: pre is applied to a value before its parts are visited, post
// after; either may be nil. Parts are the elements of lists, vectors and sets,
// the values (not the keys) of maps, and the values of tags. Parts that did not
// change are shared. A result deeper than MaxDepth, or a value that its tag
// rejects, returns a *ValueError.
func (v Value) Walk(pre, post func(Value) Value) (out Value, err error) {
	defer catch(&err)
	return walk(v, pre, post, 0), nil
}

func walk(v Value, pre, post func(Value) Value, depth int) Value {
	if depth > MaxDepth {
		panic(depthError(v.kind))
	}
	if pre != nil {
		v = pre(v)
	}
	switch {
	case v.kind == KindTagged:
		t := v.tagged()
		if val := walk(t.val, pre, post, depth+1); !same(&val, &t.val) {
			v = must(Tagged(t.tag, val))
		}
	case v.kind.isCollection() && v.num > 0:
		v = v.walkElems(pre, post, depth)
	}
	if post != nil {
		v = post(v)
	}
	return v
}

func (v *Value) walkElems(pre, post func(Value) Value, depth int) Value {
	old := v.elems()
	var changed *node
	step := 1
	if v.kind == KindMap {
		step = 2
	}
	for i := step - 1; i < len(old); i += step {
		e := walk(old[i], pre, post, depth+1)
		if changed == nil && same(&e, &old[i]) {
			continue
		}
		if changed == nil {
			changed = copyNode(old)
		}
		changed.elems[i] = e
	}
	if changed == nil {
		return *v
	}
	return v.with(changed)
}

// with returns a collection of the kind of v with the elements of n, whose
// ownership it takes; a map keeps the keys of v.
func (v *Value) with(n *node) Value {
	switch v.kind {
	case KindMap:
		return sequenceSorted(n)
	case KindSet:
		return setOf(n)
	}
	return sequence(v.kind, n)
}

// same reports whether a and b are the same value in memory, which proves that
// nothing changed.
func same(a, b *Value) bool {
	return a.kind == b.kind && a.p == b.p && a.num == b.num && a.aux == b.aux && a.sub == b.sub
}
