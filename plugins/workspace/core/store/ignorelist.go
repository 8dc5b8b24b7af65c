package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// MaxIgnore is the largest size of the ignore list, in bytes.
const MaxIgnore = 1 << 20

// IgnoreSource is the source name of the workspace's ignore list in
// explanations.
const IgnoreSource = "workspace"

// SetIgnore replaces the ignore list of the workspace: text in the form of a
// .gitignore file, relative to the root. It takes effect with the next scan. It
// reports whether the text differs from the one before.
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

// Ignore returns the ignore list as the transaction leaves it.
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

// Scanned describes the scan from which a tree comes.
type Scanned struct {
	// Rules identifies the ignore rules of the scan, absent if nothing was scanned. Two
	// trees with different rules also differ in files that were not edited.
	Rules id.ID
	// Incomplete means that the scan skipped unreadable entries.
	Incomplete bool
}

// incomplete follows the rules in the record of an incomplete scan.
const incomplete = " incomplete"

// SetScanned records how the tree of the transaction was scanned. It writes nothing if
// that is equal to the recorded value.
func (tx *Tx) SetScanned(now Scanned) error {
	before, err := tx.Scanned()
	if err != nil || before == now {
		return err
	}
	text := now.Rules.String()
	if now.Incomplete {
		text += incomplete
	}
	return tx.add(log.Record{Kind: kindScanned, Payload: []byte(text)})
}

// Scanned returns how the current tree of the transaction was scanned.
func (tx *Tx) Scanned() (Scanned, error) {
	return scannedAt(context.Background(), tx.store.index.conn, tx.seq)
}

// Scanned returns how the tree was scanned.
func (v *Snapshot) Scanned(ctx context.Context) (Scanned, error) {
	s, err := scannedAt(ctx, v.tx, v.seq)
	return s, readError(err)
}

func scannedAt(ctx context.Context, q querier, seq uint64) (s Scanned, err error) {
	var text string
	err = q.QueryRowContext(ctx, "SELECT scan FROM scans WHERE seq <= ? ORDER BY seq DESC LIMIT 1", int64(seq)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	if err == nil {
		text, s.Incomplete = strings.CutSuffix(text, incomplete)
		err = s.Rules.UnmarshalText([]byte(text))
	}
	return s, err
}
