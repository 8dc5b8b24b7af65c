package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Changes returns how the tree at the sequence number to differs from that at
// from. Paths that changed in between and are as they were do not count, and
// Unchanged is not computed. The nodes have no children. The work depends on
// what changed, not on the size of the tree.
func (v *Snapshot) Changes(ctx context.Context, from, to uint64) (*tree.Changes, error) {
	if from > to || to > v.seq {
		return nil, contract.Errorf("seq/unknown", "the changes from %d to %d are not known at %d", from, to, v.seq).
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
		if c.Old, err = v.nodeAt(ctx, path, from); err == nil {
			c.New, err = v.nodeAt(ctx, path, to)
		}
		if err != nil {
			return nil, readError(err)
		}
		list = append(list, c)
	}
	return tree.NewChanges(list), nil
}

// paths returns the paths that a query finds.
func (v *Snapshot) paths(ctx context.Context, query string, args ...any) (list []string, err error) {
	rows, err := v.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var path []byte
		if err := rows.Scan(&path); err != nil {
			return nil, err
		}
		list = append(list, string(path))
	}
	return list, rows.Err()
}

// RootAt returns the node id of the root at a sequence number, absent if nothing
// was scanned then.
func (v *Snapshot) RootAt(ctx context.Context, seq uint64) (id.ID, error) {
	n, err := v.nodeAt(ctx, "", seq)
	if n == nil {
		return id.ID{}, readError(err)
	}
	return n.ID, readError(err)
}

// nodeAt returns the state of a path at a sequence number, nil if it had none.
func (v *Snapshot) nodeAt(ctx context.Context, path string, seq uint64) (*tree.Node, error) {
	n := &tree.Node{}
	var sum []byte
	err := v.tx.QueryRowContext(ctx, `SELECT mode, size, content FROM versions
		WHERE path = ?1 AND since <= ?2 AND (until IS NULL OR until > ?2) ORDER BY since DESC LIMIT 1`, []byte(path), int64(seq)).
		Scan(&n.Mode, &n.Size, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		n.Content, err = id.Of(id.Content, v.store.Scheme.ContentAlg(), sum)
	}
	_, n.Name = split(path)
	n.ID = v.store.Scheme.Node(path, n.Mode, n.Content)
	return n, err
}

// Step is a transaction that changed the tree.
type Step struct {
	Seq   uint64
	Paths int // that changed, with their directories
}

// Steps returns the transactions after from that changed the tree, in order, at
// most limit of them.
func (v *Snapshot) Steps(ctx context.Context, from uint64, limit int) (list []Step, err error) {
	rows, err := v.tx.QueryContext(ctx, `SELECT seq, count(DISTINCT path) FROM (
		SELECT since AS seq, path FROM versions INDEXED BY versions_since WHERE since > ?1 AND since <= ?2
		UNION ALL SELECT until, path FROM versions INDEXED BY versions_until WHERE until > ?1 AND until <= ?2
		) GROUP BY seq ORDER BY seq LIMIT ?3`, int64(from), int64(v.seq), limit)
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s Step
		if err := rows.Scan(&s.Seq, &s.Paths); err != nil {
			return nil, readError(err)
		}
		list = append(list, s)
	}
	return list, readError(rows.Err())
}
