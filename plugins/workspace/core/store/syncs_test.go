package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// WS-252: whatever a transaction writes, it is durable with at most two fsyncs: one of
// the log, and one of its directory if it begins a segment. Reading makes none.
func TestSyncsPerTransaction(t *testing.T) {
	syncs := 0
	s := open(t, create(t, id.B3), func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == log.OpSync || op == log.OpSyncDir {
				syncs++
			}
			return nil
		}
	})
	put := func(tx *Tx, path, text string) error {
		_, err := tx.PutFrame(NewFrame{Path: path, Type: "note", Agent: "writer", Origin: Authored, Text: []byte(text)})
		return err
	}
	var export bytes.Buffer
	for i, write := range []func(*Tx) error{
		func(tx *Tx) error { return second(tx.PutTree(grow(id.B3, map[string]string{"a": "1", "d/b": "2"}))) },
		func(tx *Tx) error { return put(tx, "a", "about a") },
		func(tx *Tx) error { // a batch
			for n := range 100 {
				if err := put(tx, "d/b", fmt.Sprint("about b ", n)); err != nil {
					return err
				}
			}
			return nil
		},
		func(tx *Tx) error { return second(tx.Invalidate("", true, nil)) },
		func(tx *Tx) error { return second(tx.SetSnapshot("one", tx.seq-1)) },
		func(tx *Tx) error { return second(tx.SetIgnore([]byte("*.log\n"))) },
		func(tx *Tx) error { return second(tx.Delete("d")) },
		func(tx *Tx) error { return second(tx.Restore("d")) },
		func(tx *Tx) error {
			b, err := ReadExport(bytes.NewReader(export.Bytes()))
			if err != nil {
				return err
			}
			return second(tx.Import(b, ConflictFail))
		},
	} {
		syncs = 0
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			export.Reset()
			return second(v.Export(background, &export, ExportRange{}))
		}))
		require.Zero(t, syncs, "reading before transaction %d", i)
		update(t, s.Store, write)
		assert.LessOrEqual(t, syncs, 2, "transaction %d", i)
	}
}
