package store

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Tx is a transaction in progress. It must not be used after its function has
// returned.
type Tx struct {
	store   *Store
	ctx     context.Context
	seq     uint64
	records []log.Record
	err     error
	cache   *readCache
}

// Context returns a context that ends when the caller cancels, or when Close
// has waited too long for the transaction.
func (tx *Tx) Context() context.Context { return tx.ctx }

// PutContent stores text unless it is already stored, and returns its content
// id.
func (tx *Tx) PutContent(text []byte) (id.ID, error) {
	content := contentOf(tx.store.Scheme, text)
	return content, tx.putContent(content, text)
}

// putContent is PutContent for a text whose id is known.
func (tx *Tx) putContent(content id.ID, text []byte) error {
	var found int
	err := tx.store.index.conn.QueryRowContext(tx.reads(), "SELECT count(*) FROM contents WHERE id = ?", content.Sum()).
		Scan(&found)
	if err != nil || found > 0 {
		return err
	}
	return tx.addAs(log.Record{Kind: kindContent, Payload: text}, func(x *index, p log.Place) error {
		return x.applyContent(context.Background(), content, p)
	})
}

// add writes a record to the transaction and to the index.
func (tx *Tx) add(r log.Record) error {
	return tx.addAs(r, func(x *index, p log.Place) error { return x.apply(context.Background(), tx.seq, r, p) })
}

// addAs is add for a record whose effect on the index is a function of its place.
func (tx *Tx) addAs(r log.Record, apply func(*index, log.Place) error) error {
	if tx.err == nil { // else the index has a part of a record
		tx.err = apply(tx.store.index, tx.store.cursor.Next(len(r.Payload)))
	}
	tx.records = append(tx.records, r)
	return tx.err
}

// PutTree makes t the current tree and returns the changes.
func (tx *Tx) PutTree(t *tree.Tree) (*tree.Changes, error) {
	if t.Scheme != tx.store.Scheme {
		return nil, contract.Errorf("workspace/exists", "put the tree: the store has the scheme %s, the tree %s",
			tx.store.Scheme, t.Scheme)
	}
	older, err := tx.Tree()
	if err != nil {
		return nil, err
	}
	changes := tree.Diff(older, t)
	for _, r := range encodeVersions(changes) {
		if err := tx.add(r); err != nil {
			return nil, err
		}
		if err := tx.ctx.Err(); err != nil {
			return nil, err
		}
	}
	tx.store.tree = t
	return changes, nil
}

// Root returns the node id of the root as the transaction leaves it, absent if nothing was
// scanned.
func (tx *Tx) Root() (id.ID, error) {
	if t := tx.store.tree; t != nil {
		return t.Root.ID, nil
	}
	n, err := nodeAt(tx.reads(), tx.store.index.conn, tx.store.Scheme, "", tx.seq)
	if n == nil {
		return id.ID{}, readError(err)
	}
	return n.ID, readError(err)
}

// Tree returns the current tree, nil if nothing was scanned.
func (tx *Tx) Tree() (t *tree.Tree, err error) {
	s := tx.store
	if s.tree == nil {
		s.tree, err = loadTree(context.Background(), s.index.conn, s.Scheme, tx.seq)
	}
	return s.tree, err
}
