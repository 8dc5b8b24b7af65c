package store

import (
	"context"
	"database/sql"
	"sync"

	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// keptTrees is how many trees of readers are kept: the current one and one for
// requests about an earlier state.
const keptTrees = 2

// trees keeps the trees that were read last. A tree is known by the transaction
// that made it the current one.
type trees struct {
	mu   sync.Mutex
	list []keptTree // the last used first
}

type keptTree struct {
	since uint64
	tree  *tree.Tree
}

func (k *trees) get(since uint64) *tree.Tree {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, t := range k.list {
		if t.since == since {
			copy(k.list[1:i+1], k.list[:i])
			k.list[0] = t
			return t.tree
		}
	}
	return nil
}

func (k *trees) put(since uint64, t *tree.Tree) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append([]keptTree{{since, t}}, k.list[:min(len(k.list), keptTrees-1)]...)
}

// Tree returns the tree, nil if nothing was scanned then. It must not be
// modified.
func (v *Snapshot) Tree(ctx context.Context) (*tree.Tree, error) { return v.treeAt(ctx, v.seq) }

// TreeAt returns the tree at an earlier number.
func (v *Snapshot) TreeAt(ctx context.Context, seq uint64) (*tree.Tree, error) {
	return v.treeAt(ctx, min(seq, v.seq))
}

func (v *Snapshot) treeAt(ctx context.Context, seq uint64) (*tree.Tree, error) {
	var since sql.Null[int64]
	err := v.tx.QueryRowContext(ctx, "SELECT max(seq) FROM trees WHERE seq <= ?", int64(seq)).Scan(&since)
	if err != nil {
		return nil, asStoreError("read", err)
	}
	if !since.Valid {
		return nil, nil
	}
	if t := v.store.trees.get(uint64(since.V)); t != nil {
		return t, nil
	}
	t, err := loadTree(ctx, v.tx, v.store.Scheme, seq)
	if err != nil {
		return nil, asStoreError("read", err)
	}
	if t != nil {
		v.store.trees.put(uint64(since.V), t)
	}
	return t, nil
}
