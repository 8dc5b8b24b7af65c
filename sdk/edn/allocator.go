package edn

// allocator hands out memory for what a reader builds. Small pieces come from
// blocks sized by the text that is left: one block instead of a hundred small
// objects, and never much more than the text can need.
type allocator struct {
	free  []Value
	nodes []node
	text  []byte
}

const (
	valueBlock = 256 // values
	nodeBlock  = 64  // nodes
	textBlock  = 4096
)

// values returns n zero values; left is the number of bytes still to be read.
func (m *allocator) values(n, left int) []Value {
	if n > len(m.free) {
		if n >= valueBlock/4 {
			return make([]Value, n)
		}
		m.free = make([]Value, max(n, min(valueBlock, left/8)))
	}
	out := m.free[:n:n]
	m.free = m.free[n:]
	return out
}

// node returns a node with the given elements.
func (m *allocator) node(elems []Value, left int) *node {
	if len(m.nodes) == 0 {
		m.nodes = make([]node, max(1, min(nodeBlock, left/48)))
	}
	n := &m.nodes[0]
	m.nodes = m.nodes[1:]
	n.elems = elems
	return n
}

// bytes returns an empty slice with capacity n, for text that is built.
func (m *allocator) bytes(n, left int) []byte {
	if n > cap(m.text)-len(m.text) {
		if n >= textBlock/4 {
			return make([]byte, 0, n)
		}
		m.text = make([]byte, 0, max(n, min(textBlock, left)))
	}
	start := len(m.text)
	m.text = m.text[:start+n]
	return m.text[start : start : start+n]
}
