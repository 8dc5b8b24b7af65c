package store

import (
	"context"
	"database/sql"
	"sync"

	_ "modernc.org/sqlite" // the driver of the index

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// keptTrees is the number of trees that are cached for readers: the current one and one for
// requests about an earlier state.
const keptTrees = 2

// trees caches the trees that were read last. A tree is identified by the transaction that made it
// the current one.
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

// Tree returns the tree of the snapshot, nil if nothing had been scanned. It
// must not be modified.
func (v *Snapshot) Tree(ctx context.Context) (*tree.Tree, error) { return v.treeAt(ctx, v.seq) }

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

// eachNode calls visit for every node at a sequence number, without its children.
func eachNode(ctx context.Context, q querier, scheme id.Scheme, seq uint64, visit visitNode) error {
	return nodes(ctx, q, scheme, visit, `SELECT path, mode, size, content FROM versions
		WHERE since <= ?1 AND (until IS NULL OR until > ?1)`, int64(seq))
}

// visitNode is called with a node without its children. It may retain the node.
type visitNode func(path string, n *tree.Node) error

// nodes calls visit for every node that a query finds: path, mode, size and content.
func nodes(ctx context.Context, q querier, scheme id.Scheme, visit visitNode, query string, args ...any) error {
	return eachRow(ctx, q, func(rows *sql.Rows) (err error) {
		n := &tree.Node{}
		var path, sum []byte
		if err := rows.Scan(&path, &n.Mode, &n.Size, &sum); err != nil {
			return err
		}
		if n.Content, err = id.Of(id.Content, scheme.ContentAlg(), sum); err != nil {
			return err
		}
		_, n.Name = split(string(path))
		n.ID = scheme.Node(string(path), n.Mode, n.Content)
		return visit(string(path), n)
	}, query, args...)
}

// loadTree returns the tree at a sequence number, nil if there is none.
func loadTree(ctx context.Context, q querier, scheme id.Scheme, seq uint64) (*tree.Tree, error) {
	t := &tree.Tree{Scheme: scheme}
	nodes := map[string]*tree.Node{}
	err := eachNode(ctx, q, scheme, seq, func(path string, n *tree.Node) error {
		nodes[path] = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	for path, n := range nodes {
		if path == "" {
			t.Root = n
			continue
		}
		dir, _ := split(path)
		up := nodes[dir]
		if up == nil {
			return nil, corrupt(indexFile, "the directory of %q is missing", path)
		}
		up.Children = append(up.Children, n)
	}
	for _, n := range nodes {
		n.Sort()
	}
	if t.Root == nil {
		return nil, nil
	}
	t.Count()
	return t, nil
}
