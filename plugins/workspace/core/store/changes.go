package store

import (
	"context"
	"database/sql"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Changes returns how the tree at the sequence number to differs from that at
// from. Paths that changed in between but are equal at both numbers are not
// included, and Unchanged is not computed. The nodes have no children. The cost
// depends on the number of changes, not on the size of the tree.
func (v *Snapshot) Changes(ctx context.Context, from, to uint64) (*tree.Changes, error) {
	if from > to || to > v.seq {
		return nil, contract.Errorf("seq/unknown",
			"expected transactions in ascending order up to %[3]d, found %[1]d and %[2]d", from, to, v.seq).
			WithOp("store", v.store.dir).WithDetail("seq", edn.Int(int64(v.seq)))
	}
	paths, err := v.paths(ctx, `SELECT path FROM versions INDEXED BY versions_since WHERE since > ?1 AND since <= ?2
		UNION SELECT path FROM versions INDEXED BY versions_until WHERE until > ?1 AND until <= ?2`, int64(from), int64(to))
	if err != nil {
		return nil, readError(err)
	}
	list := make([]tree.Change, 0, len(paths))
	for _, path := range paths {
		c := tree.Change{Path: path}
		if c.Old, err = nodeAt(ctx, v.tx, v.store.Scheme, path, from); err == nil {
			c.New, err = nodeAt(ctx, v.tx, v.store.Scheme, path, to)
		}
		if err != nil {
			return nil, readError(err)
		}
		list = append(list, c)
	}
	return tree.NewChanges(list), nil
}

// paths returns the paths that a query finds.
func (v *Snapshot) paths(ctx context.Context, query string, args ...any) ([]string, error) {
	return collect(ctx, v.tx, scanText[string], query, args...)
}

// RootAt returns the node id of the root at a sequence number, absent if nothing
// was scanned then.
func (v *Snapshot) RootAt(ctx context.Context, seq uint64) (id.ID, error) {
	n, err := v.NodeAt(ctx, "", seq)
	if n == nil {
		return id.ID{}, err
	}
	return n.ID, err
}

// NodeAt returns the state of a path in the tree at an earlier sequence number,
// without its children, or nil if the path did not exist then.
func (v *Snapshot) NodeAt(ctx context.Context, path string, seq uint64) (*tree.Node, error) {
	n, err := nodeAt(ctx, v.tx, v.store.Scheme, path, min(seq, v.seq))
	return n, readError(err)
}

// entryNodes are the states of the entries of a directory at a sequence number.
var entryNodes = entriesBelow("versions", "path") + `
	SELECT path, mode, size, content FROM found CROSS JOIN versions ON path = value
	WHERE instr(substr(value, ?3), x'2f') = 0 AND since <= ?4 AND (until IS NULL OR until > ?4)`

// NodesIn returns the entries of a directory in the tree at an earlier number, sorted by
// name and without their children. The cost depends on their number, not on the size of
// the tree.
func (v *Snapshot) NodesIn(ctx context.Context, dir string, seq uint64) ([]*tree.Node, error) {
	prefix := prefixOf(dir)
	_, end := span(dir)
	in := &tree.Node{}
	err := nodes(ctx, v.tx, v.store.Scheme, func(_ string, n *tree.Node) error {
		in.Children = append(in.Children, n)
		return nil
	}, entryNodes, []byte(prefix), end, len(prefix)+1, int64(min(seq, v.seq)))
	in.Sort()
	return in.Children, readError(err)
}

// nodeAt returns the state of a path at a sequence number, nil if it had none.
func nodeAt(ctx context.Context, q querier, scheme id.Scheme, path string, seq uint64) (found *tree.Node, err error) {
	err = nodes(ctx, q, scheme, func(_ string, n *tree.Node) error {
		found = n
		return nil
	}, `SELECT path, mode, size, content FROM versions
		WHERE path = ?1 AND since <= ?2 AND (until IS NULL OR until > ?2) ORDER BY since DESC LIMIT 1`,
		[]byte(path), int64(seq))
	return found, err
}

// Step is a transaction that changed the tree.
type Step struct {
	Seq   uint64
	Paths int // that changed, with their directories
}

// Steps returns the transactions after from that changed the tree, in order, at
// most limit of them.
func (v *Snapshot) Steps(ctx context.Context, from uint64, limit int) (list []Step, err error) {
	list, err = collect(ctx, v.tx, func(rows *sql.Rows, s *Step) error { return rows.Scan(&s.Seq, &s.Paths) }, `SELECT seq, count(DISTINCT path) FROM (
		SELECT since AS seq, path FROM versions INDEXED BY versions_since WHERE since > ?1 AND since <= ?2
		UNION ALL SELECT until, path FROM versions INDEXED BY versions_until WHERE until > ?1 AND until <= ?2
		) GROUP BY seq ORDER BY seq LIMIT ?3`, int64(from), int64(v.seq), limit)
	return list, readError(err)
}
