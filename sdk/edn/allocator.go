package edn

// allocator allocates memory for the values of a reader. Small pieces come from
// shared blocks instead of many small objects. Each block is twice as large as
// the previous one, but not much larger than the unread text can need: a request
// that is one long string has few values.
type allocator struct {
	free  []Value
	nodes []node
	text  []byte

	valueBlock, nodeBlock int // sizes of the last blocks
}

const (
	firstValues, valueBlock = 16, 256 // values
	firstNodes, nodeBlock   = 4, 64   // nodes
	textBlock               = 4096
)

// values returns n zero values; left is the number of bytes still to be read.
func (m *allocator) values(n, left int) []Value {
	if n > len(m.free) {
		if n >= valueBlock/4 {
			return make([]Value, n)
		}
		m.valueBlock = min(max(firstValues, 2*m.valueBlock), valueBlock)
		m.free = make([]Value, max(n, min(m.valueBlock, left/8)))
	}
	out := m.free[:n:n]
	m.free = m.free[n:]
	return out
}

// node returns a node with the given elements.
func (m *allocator) node(elems []Value, left int) *node {
	if len(m.nodes) == 0 {
		m.nodeBlock = min(max(firstNodes, 2*m.nodeBlock), nodeBlock)
		m.nodes = make([]node, max(1, min(m.nodeBlock, left/48)))
	}
	n := &m.nodes[0]
	m.nodes = m.nodes[1:]
	n.elems = elems
	return n
}

// bytes returns an empty slice with capacity n, for text that is assembled.
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
