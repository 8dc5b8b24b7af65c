package store

import (
	"context"
	"database/sql"
	"errors"
	"regexp"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// MaxSnapshots is the maximum number of named states of a workspace.
const MaxSnapshots = 1000

// snapshotNames keeps names apart from sequence numbers, ids and keywords.
var snapshotNames = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,127}$`)

// NamedState is a snapshot: a name for a state.
type NamedState struct {
	Name string
	Seq  uint64 // the state
	// Since is the transaction that gave the name.
	Since uint64
}

// SetSnapshot names a state, 0 for the latest one, and returns its number. A
// compaction does not remove a named state. Transactions that only name states
// do not count as states, so naming the latest state twice changes nothing. If
// another state has the name, SetSnapshot returns an error.
func (tx *Tx) SetSnapshot(name string, seq uint64) (uint64, error) {
	if name == "current" {
		return 0, contract.Errorf("input/invalid", "the name current is reserved for the current state").
			WithOp("snapshot", name)
	}
	if !snapshotNames.MatchString(name) {
		return 0, contract.Errorf("input/invalid",
			"expected a letter and up to 127 of A-Z a-z 0-9 . _ - as name, found %.140q", name).WithOp("snapshot", "")
	}
	latest, err := tx.latestState()
	if err != nil {
		return 0, err
	}
	if seq == 0 {
		seq = latest
	}
	if seq >= tx.seq {
		return 0, contract.Errorf("seq/unknown", "transaction %d does not exist, the last one is %d", seq, tx.seq-1).
			WithOp("snapshot", name)
	}
	if err := checkReadable(tx.ctx, tx.store.index.conn, seq); err != nil {
		return 0, err
	}
	existing, count, err := tx.named(name)
	switch {
	case err != nil:
		return 0, err
	case existing == seq:
		return seq, nil
	case existing != 0:
		return 0, contract.Errorf("input/invalid", "the snapshot exists and names the state %d, not %d", existing, seq).
			WithOp("snapshot", name).WithHint("remove it first, or use another name")
	case count >= MaxSnapshots:
		return 0, contract.Errorf("limit/exceeded", "the workspace has %d snapshots, which is the limit", count).
			WithHint("remove a snapshot first").WithOp("snapshot", name).WithDetail("limit", edn.K("snapshots"))
	}
	return seq, tx.addRecord(kindSnapshot, snapshotRecord{Name: name, Seq: seq})
}

// RemoveSnapshot removes a name and reports whether it existed. The state
// remains readable until the next compaction.
func (tx *Tx) RemoveSnapshot(name string) (bool, error) {
	existing, _, err := tx.named(name)
	if err != nil || existing == 0 {
		return false, err
	}
	return true, tx.addRecord(kindSnapshot, snapshotRecord{Name: name})
}

func (tx *Tx) addRecord(kind byte, x any) error {
	r, err := encodeRecord(kind, x)
	if err != nil {
		return err
	}
	return tx.add(r)
}

// named returns the state of a name, 0 if there is none, and the number of names.
func (tx *Tx) named(name string) (seq uint64, count int, err error) {
	err = tx.store.index.conn.QueryRowContext(context.Background(),
		"SELECT coalesce(max(CASE WHEN name = ?1 THEN seq END), 0), count(*) FROM snapshots WHERE until IS NULL", name).Scan(&seq, &count)
	return seq, count, err
}

// latestState returns the last transaction that did more than name states.
func (tx *Tx) latestState() (seq uint64, err error) {
	for seq = tx.seq - 1; seq > 1; seq-- {
		var names bool
		err := tx.store.index.conn.QueryRowContext(context.Background(), "SELECT EXISTS (SELECT 1 FROM snapshots WHERE since = ?1 OR until = ?1)", int64(seq)).Scan(&names)
		if err != nil || !names {
			return seq, err
		}
	}
	return seq, nil
}

// Snapshots returns the named states, sorted by name.
func (v *Snapshot) Snapshots(ctx context.Context) ([]NamedState, error) {
	list, err := collect(ctx, v.tx, func(rows *sql.Rows, s *NamedState) error { return rows.Scan(&s.Name, &s.Seq, &s.Since) },
		"SELECT name, seq, since FROM snapshots WHERE since <= ?1 AND (until IS NULL OR until > ?1) ORDER BY name", int64(v.seq))
	return list, readError(err)
}

// checkReadable returns an error if a state was dropped by a compaction or is
// incomplete after a repair.
func checkReadable(ctx context.Context, q querier, seq uint64) error {
	var until uint64
	err := q.QueryRowContext(ctx, "SELECT max(until) FROM dropped WHERE since <= ?1 HAVING max(until) > ?1", int64(seq)).Scan(&until)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return asStoreError("read", err)
	}
	return contract.Errorf("seq/compacted", "the state %d is no longer kept; the next one is %d", seq, until).
		WithOp("store", "").WithDetail("next", edn.Int(int64(until)))
}
