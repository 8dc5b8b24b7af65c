package edn

// noElems is the node of empty collections; no value points to it.
var noElems node

// roomy is a node followed by an array of values for its elements.
type roomy[A any] struct {
	node
	room A
}

func (n *node) holding(elems []Value) *node {
	n.elems = elems
	return n
}

// newNode returns a node with n nil elements. The elements of a small
// collection are in the same allocation as the node.
func newNode(n int) *node {
	switch {
	case n == 0:
		return &noElems
	case n <= 1:
		m := new(roomy[[1]Value])
		return m.holding(m.room[:n:n])
	case n <= 2:
		m := new(roomy[[2]Value])
		return m.holding(m.room[:n:n])
	case n <= 4:
		m := new(roomy[[4]Value])
		return m.holding(m.room[:n:n])
	case n <= 6:
		m := new(roomy[[6]Value])
		return m.holding(m.room[:n:n])
	case n <= 8:
		m := new(roomy[[8]Value])
		return m.holding(m.room[:n:n])
	case n <= 10:
		m := new(roomy[[10]Value])
		return m.holding(m.room[:n:n])
	case n <= 12:
		m := new(roomy[[12]Value])
		return m.holding(m.room[:n:n])
	case n <= 16:
		m := new(roomy[[16]Value])
		return m.holding(m.room[:n:n])
	case n <= 20:
		m := new(roomy[[20]Value])
		return m.holding(m.room[:n:n])
	}
	return &node{elems: make([]Value, n)}
}

// copyNode returns a node with a copy of elems.
func copyNode(elems []Value) *node {
	n := newNode(len(elems))
	copy(n.elems, elems)
	return n
}

// joinNode returns a node with the elements of both.
func joinNode(a, b []Value) *node {
	n := newNode(len(a) + len(b))
	copy(n.elems[copy(n.elems, a):], b)
	return n
}
