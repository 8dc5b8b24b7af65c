//go:build unix

package scan

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// directory is a directory whose entries are being read.
type directory struct {
	up       *directory
	path     string
	depth    int
	node     *tree.Node
	previous *tree.Node // what the last scan found here, nil if nothing
	selected *scope
	ignore   *ignore.Dir
	handle   *handle
	// pending counts the parts that are not finished: the reading of the
	// directory, its subdirectories, and groups of files.
	pending atomic.Int32
	// gone are entries that turned out not to exist, or not to be readable.
	mu   sync.Mutex
	gone []*tree.Node
}

// done finishes a part of a directory. The last part computes its id and then
// finishes it as a part of the directory above.
func (w *walker) done(d *directory) {
	for d != nil && d.pending.Add(-1) == 0 && !w.stopped.Load() {
		w.complete(d)
		d = d.up
	}
}

// complete computes the id of a directory whose entries are known. What did not
// change is replaced by the nodes of the last scan, so that unchanged parts of
// two trees are the same nodes.
func (w *walker) complete(d *directory) {
	if d.node.Mode == id.Repo {
		return
	}
	if len(d.gone) > 0 {
		d.node.Children = slices.DeleteFunc(d.node.Children, func(n *tree.Node) bool { return slices.Contains(d.gone, n) })
	}
	if w.Force || d.previous == nil || !slices.EqualFunc(d.node.Children, d.previous.Children, sameEntry) {
		d.adopt()
		w.result.Tree.Seal(d.path, d.node)
		return
	}
	d.adopt()
	d.node.Counted()
	d.node.Content, d.node.ID = d.previous.Content, d.previous.ID
	if slices.Equal(d.node.Children, d.previous.Children) {
		d.node.Children = d.previous.Children
	}
}

// adopt replaces directories and nested repositories that did not change by the
// nodes of the last scan.
func (d *directory) adopt() {
	was := previousIn(d)
	for i, n := range d.node.Children {
		if old := was(n.Name); old != nil && old.ID == n.ID && (n.Mode == id.Repo || n.Mode == id.Dir && sameSlice(n.Children, old.Children)) {
			d.node.Children[i] = old
		}
	}
}

// sameSlice reports whether two lists share their memory.
func sameSlice(a, b []*tree.Node) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func sameEntry(a, b *tree.Node) bool {
	return a.Name == b.Name && a.Mode == b.Mode && a.Content == b.Content
}

// lose removes from its directory an entry that does not exist or cannot be read.
func (d *directory) lose(n *tree.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = append(d.gone, n)
}
