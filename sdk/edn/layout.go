package edn

import "strconv"

// Layout holds the keys of maps that are built often: they are validated and
// sorted once. It is immutable and safe for concurrent use.
type Layout struct {
	keys []Value // in canonical order
	from []int   // index of the value for each key
}

// NewLayout returns a layout of keyword keys, given without colon. It panics if
// a name is not a valid keyword name or repeated; it is meant for literals.
func NewLayout(names ...string) *Layout {
	l := &Layout{from: make([]int, len(names))}
	order := make([]Entry, len(names))
	for i, name := range names {
		order[i] = Entry{K(name), Int(int64(i))}
	}
	if !sortEntries(order) {
		panic(&ValueError{Kind: KindMap, Code: "duplicate-key",
			Message: "duplicate key " + order[duplicateKey(order)].Key.brief()})
	}
	for i := range order {
		l.keys = append(l.keys, order[i].Key)
		l.from[i] = int(order[i].Val.num)
	}
	return l
}

// Map returns the map with these values, in the order of the names that were
// given to NewLayout. It panics if the number of values differs from that of
// the names, and with a *ValueError if the map would nest deeper than MaxDepth.
func (l *Layout) Map(vals ...Value) Value {
	l.checkLen(vals)
	n := newNode(2 * len(vals))
	for i := range l.keys {
		n.elems[2*i], n.elems[2*i+1] = l.keys[i], vals[l.from[i]]
	}
	return sequenceSorted(n)
}

// Present is Map without the keys whose value is nil.
func (l *Layout) Present(vals ...Value) Value {
	l.checkLen(vals)
	there := 0
	for i := range vals {
		if vals[i].kind != KindNil {
			there++
		}
	}
	n := newNode(2 * there)
	at := 0
	for i := range l.keys {
		if val := &vals[l.from[i]]; val.kind != KindNil {
			n.elems[at], n.elems[at+1] = l.keys[i], *val
			at += 2
		}
	}
	return sequenceSorted(n)
}

func (l *Layout) checkLen(vals []Value) {
	if len(vals) != len(l.keys) {
		panic("edn: a layout of " + strconv.Itoa(len(l.keys)) + " keys got " + strconv.Itoa(len(vals)) + " values")
	}
}
