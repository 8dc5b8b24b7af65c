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

// Scanned is what is known of the scan that a tree is from.
type Scanned struct {
	// Rules identifies the ignore rules that it followed, absent if nothing was scanned.
	// Trees of different rules differ in more than what was edited.
	Rules id.ID
	// Incomplete means that it skipped what it could not read.
	Incomplete bool
}

// incomplete follows the rules in the record of an incomplete scan.
const incomplete = " incomplete"

// SetScanned records how the tree of the transaction was scanned, if that differs from
// the tree before.
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

// Scanned returns how the tree was scanned that the transaction sees.
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
