package tree

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// Node is one state of one path.
type Node struct {
	Name    string // last component of the path; empty for the root
	Mode    id.Mode
	Size    int64 // bytes of a file or of the target of a link
	Content id.ID
	ID      id.ID
	Stat    Stat
	// Children are the entries of a directory, sorted bytewise by name.
	Children []*Node

	below int // nodes below a directory; 0 if they were not counted
}

// Count returns the number of nodes in the subtree.
func (n *Node) Count() int {
	if n.below == 0 {
		return n.count()
	}
	return 1 + n.below
}

func (n *Node) count() int {
	total := 1
	for _, c := range n.Children {
		total += c.Count()
	}
	return total
}

// Counted stores the number of nodes below n, whose children must be complete.
func (n *Node) Counted() { n.below = n.count() - 1 }

// Stat is the file information of the system at the time when a file was read.
// A later scan reuses the content id if the information is equal.
type Stat struct {
	MTime, CTime int64 // nanoseconds since 1970
	Inode        uint64
	Mode         uint32
	// Trusted means that both times were old enough when the file was read for
	// any later change to be visible in them.
	Trusted bool
}

// Child returns the entry with the name, nil if there is none.
func (n *Node) Child(name string) *Node {
	if n == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(n.Children, name, func(c *Node, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return n.Children[i]
}

// Tree is a whole workspace in one state.
type Tree struct {
	Scheme id.Scheme
	Root   *Node
}

// Lookup returns the node at a path, nil if there is none. The root has the
// empty path.
func (t *Tree) Lookup(path string) *Node {
	n := t.Root
	for path != "" && n != nil {
		var name string
		name, path, _ = strings.Cut(path, "/")
		n = n.Child(name)
	}
	return n
}

// Count stores the number of nodes below every directory of a tree that was
// built in any order.
func (t *Tree) Count() { countAll(t.Root) }

func countAll(n *Node) {
	for _, c := range n.Children {
		countAll(c)
	}
	n.Counted()
}

// Walk calls visit for every node, directories before their entries, in the
// order of names, until visit returns false.
func (t *Tree) Walk(visit func(path string, n *Node) bool) bool { return t.WalkFrom("", visit) }

// WalkFrom is Walk for the node at a path and what is below it; nothing is
// visited if there is none.
func (t *Tree) WalkFrom(path string, visit func(path string, n *Node) bool) bool {
	n := t.Lookup(path)
	return n == nil || walk(path, n, visit)
}

func walk(path string, n *Node, visit func(string, *Node) bool) bool {
	if !visit(path, n) {
		return false
	}
	for _, c := range n.Children {
		if !walk(Join(path, c.Name), c, visit) {
			return false
		}
	}
	return true
}

// Seal computes content and node id of a directory from its children.
func (t *Tree) Seal(path string, dir *Node) {
	entries := make([]id.Entry, len(dir.Children))
	for i, c := range dir.Children {
		entries[i] = id.Entry{Mode: c.Mode, Name: c.Name, Content: c.Content}
	}
	dir.Counted()
	dir.Mode = id.Dir
	dir.Content = t.Scheme.Directory(entries)
	dir.ID = t.Scheme.Node(path, id.Dir, dir.Content)
}

// Sort sorts the children of a node that was built in another order.
func (n *Node) Sort() {
	slices.SortFunc(n.Children, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
}
