package report

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// ExportSide returns the state in an export, for Diff. It imports the export
// into a temporary store below temp, so that heads have the states that they
// would have in a store with the configuration of like.
func ExportSide(ctx context.Context, b *store.Bundle, temp string, like *store.Store) (side *Side, err error) {
	made, err := os.MkdirTemp(temp, "export-")
	if err != nil {
		return nil, contract.Errorf("store/io", "%w", err).WithOp("diff", "")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	dir := filepath.Join(made, "workspace")
	if err := store.Create(dir, store.Identity{ID: "export", Scheme: b.Scheme.String()}); err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, dir, store.Options{Now: func() int64 { return 0 }, Unsynced: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.ResolveLike(like)
	_, err = s.Update(ctx, "", func(tx *store.Tx) error {
		if len(b.Nodes) > 0 {
			if _, err := tx.PutTree(treeOf(b)); err != nil {
				return err
			}
		}
		_, err := tx.Import(b, store.ConflictFail)
		return err
	})
	if err != nil {
		return nil, err
	}
	if side, err = StoreSide(ctx, s, store.Latest); err != nil {
		return nil, err
	}
	side.Seq, side.Export, side.Range = 0, true, b.Head.Range()
	if side.Root = (id.ID{}); side.Range.IsWhole() {
		side.Root = b.Head.StateRoot
	}
	side.forgetStates(b)
	side.Text = func(_ context.Context, frame id.ID) ([]byte, error) {
		f := b.Frame(frame)
		if f == nil {
			return nil, contract.Errorf("frame/not-found", "the export has no frame %s", frame).WithOp("diff", "")
		}
		return b.Text(f), nil
	}
	return side, nil
}

// forgetStates removes the states that depend on frames which the export may not have.
func (s *Side) forgetStates(b *store.Bundle) {
	selective := len(s.Range.Types)+len(s.Range.Agents) > 0
	for key, h := range s.Heads {
		f := b.Frame(h.Frame)
		_, ofDir, _ := f.SelectionOf()
		if ofDir && selective || slices.ContainsFunc(f.Inputs, func(in store.Input) bool {
			return in.Kind == id.InputFrame && b.Frame(in.ID) == nil
		}) {
			h.State = ""
			s.Heads[key] = h
		}
	}
}

// treeOf returns the tree of an export. Directories above a part of a workspace
// have only that part in it.
func treeOf(b *store.Bundle) *tree.Tree {
	t := &tree.Tree{Scheme: b.Scheme}
	nodes := map[string]*tree.Node{}
	var add func(path string) *tree.Node
	add = func(path string) *tree.Node {
		if n := nodes[path]; n != nil {
			return n
		}
		n := &tree.Node{Name: filepath.Base(path), Mode: id.Dir}
		if known := b.Nodes[path]; known != nil {
			copied := *known
			n = &copied
			n.Children = nil
		}
		nodes[path] = n
		if path == "" {
			n.Name = ""
			t.Root = n
			return n
		}
		up := add(tree.Parent(path))
		up.Children = append(up.Children, n)
		return n
	}
	for path := range b.Nodes {
		add(path)
	}
	for _, n := range nodes {
		n.Sort()
	}
	complete(t, b, "", t.Root)
	return t
}

// complete computes the ids of directories that the export does not have.
func complete(t *tree.Tree, b *store.Bundle, path string, n *tree.Node) {
	if b.Nodes[path] != nil {
		return
	}
	for _, c := range n.Children {
		complete(t, b, tree.Join(path, c.Name), c)
	}
	t.Seal(path, n)
}
