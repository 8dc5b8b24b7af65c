package tree

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// Changes are the differences between two trees. Each list is sorted by path
// and includes directories.
type Changes struct {
	Added, Modified, Removed []Change
	// Renamed are pairs of a removed and an added file with the same content,
	// which is not empty and occurs once on each side. Both files are in the
	// other lists too.
	Renamed   []Rename
	Unchanged int // nodes in both trees with equal ids
}

// Empty reports whether the trees were equal.
func (c *Changes) Empty() bool { return len(c.Added)+len(c.Modified)+len(c.Removed) == 0 }

// Change is one path with its old and new node.
type Change struct {
	Path     string
	Old, New *Node // nil if there was or is none
}

// Rename is a file that has another path in the new tree.
type Rename struct{ From, To string }

// Diff returns the differences between two trees of the same scheme. Either may
// be nil.
func Diff(older, newer *Tree) *Changes {
	c := &Changes{}
	c.compare("", rootOf(older), rootOf(newer))
	c.renames()
	return c
}

// NewChanges sorts list in place by path, drops changes whose nodes have equal ids
// and finds renames. Paths must be unique. Unchanged stays 0.
func NewChanges(list []Change) *Changes {
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	c := &Changes{}
	for _, x := range list {
		switch {
		case x.Old == nil && x.New == nil:
		case x.Old == nil:
			c.Added = append(c.Added, x)
		case x.New == nil:
			c.Removed = append(c.Removed, x)
		case x.Old.ID != x.New.ID:
			c.Modified = append(c.Modified, x)
		}
	}
	c.renames()
	return c
}

func rootOf(t *Tree) *Node {
	if t == nil {
		return nil
	}
	return t.Root
}

func (c *Changes) compare(path string, a, b *Node) {
	switch {
	case a == nil && b == nil:
		return
	case a == b:
		c.Unchanged += b.Count()
		return
	case a == nil:
		c.Added = append(c.Added, Change{Path: path, New: b})
	case b == nil:
		c.Removed = append(c.Removed, Change{Path: path, Old: a})
	case a.ID != b.ID:
		c.Modified = append(c.Modified, Change{Path: path, Old: a, New: b})
	default:
		// A directory of git can have other empty directories under an equal id.
		c.Unchanged++
	}
	c.entries(path, children(a), children(b))
}

func children(n *Node) []*Node {
	if n == nil {
		return nil
	}
	return n.Children
}

// entries compares two sorted lists of entries.
func (c *Changes) entries(path string, as, bs []*Node) {
	for len(as) > 0 || len(bs) > 0 {
		var a, b *Node
		switch {
		case len(bs) == 0 || len(as) > 0 && as[0].Name < bs[0].Name:
			a, as = as[0], as[1:]
			c.compare(Join(path, a.Name), a, nil)
		case len(as) == 0 || bs[0].Name < as[0].Name:
			b, bs = bs[0], bs[1:]
			c.compare(Join(path, b.Name), nil, b)
		default:
			a, as, b, bs = as[0], as[1:], bs[0], bs[1:]
			c.compare(Join(path, a.Name), a, b)
		}
	}
}

// renames pairs a removed with an added file if no other removed or added file has
// their content, so that a pair is never a guess. Package report pairs by git's rule
// instead, because its diff must list the renames that git lists.
func (c *Changes) renames() {
	from, to := once(c.Removed, func(x Change) *Node { return x.Old }), once(c.Added, func(x Change) *Node { return x.New })
	for _, added := range c.Added {
		if !renamable(added.New) || to[added.New.Content] == "" {
			continue
		}
		if old := from[added.New.Content]; old != "" {
			c.Renamed = append(c.Renamed, Rename{From: old, To: added.Path})
		}
	}
}

// once returns the paths of contents that occur once, and an empty path for
// those that occur several times.
func once(list []Change, node func(Change) *Node) map[id.ID]string {
	paths := map[id.ID]string{}
	for _, x := range list {
		n := node(x)
		if !renamable(n) {
			continue
		}
		if _, again := paths[n.Content]; again {
			paths[n.Content] = ""
		} else {
			paths[n.Content] = x.Path
		}
	}
	return paths
}

func renamable(n *Node) bool { return (n.Mode == id.File || n.Mode == id.Exec) && n.Size > 0 }
