package id

import "math/bits"

// FrameTree is the set of the frames of a node as a binary Merkle tree. An inner
// node holds all frames whose ids share a bit prefix: those with a following 0 on
// its left, those with a 1 on its right. The shape therefore depends only on the
// set, and adding a frame changes only the nodes above it. The zero value is not
// usable: see [Scheme.NewFrameTree]. A FrameTree is not safe for concurrent use.
type FrameTree struct {
	alg  Alg
	root setNode
	size int
}

// setNode is a frame, or an inner node of two.
type setNode struct {
	first ID          // the frame; of an inner node any of its frames
	sum   ID          // absent until it is computed
	bit   int         // in which the frames of an inner node differ first
	kids  *[2]setNode // nil for a frame
}

// NewFrameTree returns the set of some frames.
func (s Scheme) NewFrameTree(frames ...ID) *FrameTree {
	t := &FrameTree{alg: s.other}
	for _, f := range frames {
		t.Add(f)
	}
	return t
}

// Size returns the number of frames.
func (t *FrameTree) Size() int { return t.size }

// Add adds a frame; it does nothing if the set has the frame. The cost is
// proportional to the depth of the tree, which is logarithmic in the number of
// frames for hashes.
func (t *FrameTree) Add(frame ID) {
	if t.size == 0 {
		t.root, t.size = setNode{first: frame}, 1
		return
	}
	n := &t.root
	for n.kids != nil {
		n = &n.kids[frame.bit(n.bit)]
	}
	at := frame.differs(n.first)
	if at < 0 {
		return
	}
	n = &t.root
	for n.kids != nil && n.bit < at {
		n.sum = ID{}
		n = &n.kids[frame.bit(n.bit)]
	}
	kids := &[2]setNode{}
	kids[frame.bit(at)], kids[1-frame.bit(at)] = setNode{first: frame}, *n
	*n = setNode{first: frame, bit: at, kids: kids}
	t.size++
}

// Root returns the id of the set. It hashes only the nodes that changed since
// the last call.
func (t *FrameTree) Root() ID {
	top := ID{}
	if t.size > 0 {
		top = t.sum(&t.root)
	}
	e := begin(t.alg, domainSetRoot)
	e.number(uint64(t.size))
	e.id(top)
	return e.sum(State)
}

func (t *FrameTree) sum(n *setNode) ID {
	if !n.sum.IsZero() {
		return n.sum
	}
	if n.kids == nil {
		e := begin(t.alg, domainSetLeaf)
		e.id(n.first)
		n.sum = e.sum(State)
		return n.sum
	}
	left, right := t.sum(&n.kids[0]), t.sum(&n.kids[1])
	e := begin(t.alg, domainSetInner)
	e.id(left)
	e.id(right)
	n.sum = e.sum(State)
	return n.sum
}

// bit returns a bit of the sum, the first one being the highest of the first byte.
func (x ID) bit(n int) int { return int(x.sum[n/8]>>(7-n%8)) & 1 }

// differs returns the first bit in which two sums differ, -1 if they are equal.
func (x ID) differs(y ID) int {
	for i := range x.sum {
		if d := x.sum[i] ^ y.sum[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return -1
}
