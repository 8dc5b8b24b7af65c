package store

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// mend applies the saved transactions to a replica. It finds the records that are no longer
// consistent, and the versions that complete the tree.
func (s *salvage) mend(ctx context.Context, index querier, at uint64) error {
	r, err := newReplica(ctx, s.who, s.scheme, &findings{}, &Check{})
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	err = s.each(ctx, func(t *log.Transaction) error {
		for i, rec := range t.Records {
			fits := s.fits(rec) && r.verify(t.Commit.Seq, rec, t.Places[i]) == nil
			if !fits || r.apply(ctx, t.Commit.Seq, rec, t.Places[i]) != nil {
				s.bad[recordKey{t.Commit.Seq, i}] = true
				s.spoilt(t.Commit.Seq)
			}
		}
		return r.applied(ctx, t.Commit)
	})
	if err != nil {
		return err
	}
	have, err := looseTree(ctx, r.conn, s.scheme, s.last)
	if err != nil {
		return err
	}
	want := have.whole()
	if index != nil && at == s.last { // it also has rows of records that the log lost
		if t, err := loadTree(ctx, index, s.scheme, at); err == nil && t != nil {
			want = t
		}
	}
	s.tree = encodeVersions(tree.Diff(have.tree(), want))
	return nil
}

// fits reports whether a record can be kept: heads need a frame with its text,
// lists of versions must be readable to their end.
func (s *salvage) fits(r log.Record) bool {
	switch r.Kind {
	case kindHead:
		var h headRecord
		if decodeRecord(r.Payload, &h) != nil {
			return false
		}
		f, saved := s.frames[h.Frame]
		return saved && s.hasText(f)
	case kindVersions:
		return decodeVersions(r.Payload, s.scheme, func(version) error { return nil }) == nil
	}
	return true
}

// loose holds the nodes of a tree some of whose transactions are lost. Directories can be missing,
// or their ids can differ from what their entries give.
type loose struct {
	scheme id.Scheme
	root   *tree.Node
}

// looseTree reads a tree and adds the directories that are missing.
func looseTree(ctx context.Context, q querier, scheme id.Scheme, seq uint64) (*loose, error) {
	l := &loose{scheme: scheme}
	nodes := map[string]*tree.Node{}
	var place func(path string) *tree.Node
	place = func(path string) *tree.Node {
		n := nodes[path]
		if n == nil {
			n = &tree.Node{Mode: id.Dir}
			nodes[path] = n
			var dir string
			if dir, n.Name = split(path); path == "" {
				l.root = n
			} else {
				up := place(dir)
				up.Children = append(up.Children, n)
			}
		}
		return n
	}
	err := eachNode(ctx, q, scheme, seq, func(path string, found *tree.Node) error {
		if !found.Mode.Valid() {
			return errRecord
		}
		n := place(path)
		n.Mode, n.Size, n.Content, n.ID = found.Mode, found.Size, found.Content, found.ID
		return nil
	})
	for _, n := range nodes {
		n.Sort()
	}
	return l, err
}

// tree returns the nodes as they are, nil if there are none.
func (l *loose) tree() *tree.Tree {
	if l.root == nil {
		return nil
	}
	return &tree.Tree{Scheme: l.scheme, Root: l.root}
}

// whole returns the tree of the nodes, with the ids of every directory computed from its entries.
func (l *loose) whole() *tree.Tree {
	if l.root == nil {
		return nil
	}
	t := &tree.Tree{Scheme: l.scheme}
	var seal func(path string, n *tree.Node) *tree.Node
	seal = func(path string, n *tree.Node) *tree.Node {
		c := *n
		c.Children = nil
		for _, child := range n.Children {
			c.Children = append(c.Children, seal(tree.Join(path, child.Name), child))
		}
		if len(c.Children) > 0 || c.Mode == id.Dir {
			c.Size = 0
			t.Seal(path, &c)
		}
		return &c
	}
	t.Root = seal("", l.root)
	return t
}
