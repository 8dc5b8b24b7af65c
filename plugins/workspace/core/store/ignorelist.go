package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// MaxIgnore is the largest size of the ignore list, in bytes.
const MaxIgnore = 1 << 20

// IgnoreSource names the ignore list of the workspace where patterns are
// explained.
const IgnoreSource = "workspace"

// SetIgnore replaces the ignore list of the workspace: text in the form of a
// .gitignore file, relative to the root. The next scan follows it. It reports
// whether the text differs from the one before.
func (tx *Tx) SetIgnore(text []byte) (changed bool, err error) {
	if len(text) > MaxIgnore {
		return false, contract.Errorf("limit/exceeded", "the ignore list has %d bytes, more than %d", len(text), MaxIgnore).
			WithOp("ignore", "").WithDetail("limit", edn.K("ignore-file"))
	}
	before, err := tx.Ignore()
	if err != nil || bytes.Equal(before, text) {
		return false, err
	}
	return true, tx.add(log.Record{Kind: kindIgnore, Payload: bytes.Clone(text)})
}

// Ignore returns the ignore list that the transaction sees.
func (tx *Tx) Ignore() ([]byte, error) {
	return ignoreAt(context.Background(), tx.store.index.conn, tx.seq)
}

// Ignore returns the ignore list of the workspace, empty if it has none.
func (v *Snapshot) Ignore(ctx context.Context) ([]byte, error) {
	text, err := ignoreAt(ctx, v.tx, v.seq)
	return text, readError(err)
}

func ignoreAt(ctx context.Context, q querier, seq uint64) (text []byte, err error) {
	err = q.QueryRowContext(ctx, "SELECT text FROM ignores WHERE seq <= ? ORDER BY seq DESC LIMIT 1", int64(seq)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return text, err
}

// SetIgnoreDigest records which ignore rules the tree of the transaction follows,
// if they are others than those of the tree before.
func (tx *Tx) SetIgnoreDigest(digest id.ID) error {
	before, err := digestAt(context.Background(), tx.store.index.conn, tx.seq)
	if err != nil || before == digest.String() {
		return err
	}
	return tx.add(log.Record{Kind: kindRules, Payload: []byte(digest.String())})
}

// IgnoreDigest identifies the ignore rules that the tree follows. Trees of
// different rules differ in more than what was edited. It is empty if nothing was
// scanned.
func (v *Snapshot) IgnoreDigest(ctx context.Context) (string, error) {
	digest, err := digestAt(ctx, v.tx, v.seq)
	return digest, readError(err)
}

func digestAt(ctx context.Context, q querier, seq uint64) (digest string, err error) {
	err = q.QueryRowContext(ctx, "SELECT digest FROM rules WHERE seq <= ? ORDER BY seq DESC LIMIT 1", int64(seq)).Scan(&digest)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return digest, err
}
