package edn

// noElems is the node of what holds nothing; no value points to it.
var noElems node

// newNode makes a node with n nil elements. Those of a small collection lie
// right behind the node: one piece of memory instead of two.
func newNode(n int) *node {
	switch {
	case n == 0:
		return &noElems
	case n <= 1:
		m := new(struct {
			node
			room [1]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 2:
		m := new(struct {
			node
			room [2]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 4:
		m := new(struct {
			node
			room [4]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 6:
		m := new(struct {
			node
			room [6]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 8:
		m := new(struct {
			node
			room [8]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 10:
		m := new(struct {
			node
			room [10]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 12:
		m := new(struct {
			node
			room [12]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 16:
		m := new(struct {
			node
			room [16]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	case n <= 20:
		m := new(struct {
			node
			room [20]Value
		})
		m.elems = m.room[:n:n]
		return &m.node
	}
	return &node{elems: make([]Value, n)}
}

// copyNode makes a node with a copy of elems.
func copyNode(elems []Value) *node {
	n := newNode(len(elems))
	copy(n.elems, elems)
	return n
}

// joinNode makes a node with the elements of both.
func joinNode(a, b []Value) *node {
	n := newNode(len(a) + len(b))
	copy(n.elems[copy(n.elems, a):], b)
	return n
}
