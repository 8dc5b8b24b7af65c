package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// WS-046: a follower reads what the writer committed, also while a transaction runs, does
// not wait for it, and writes nothing.
func TestFollow(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	files(t, s.Store, "d/a", "1", "b", "1")
	mustPut(t, s.Store, "d/a", "note", "first")
	f, err := Follow(background, dir, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	assert.True(t, f.Follows())
	roots := func() (seqs [2]uint64, states [2]id.ID) {
		for i, s := range []*Store{s.Store, f} {
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) (err error) {
				seqs[i] = v.Seq()
				states[i], err = v.StateRoot(background)
				return err
			}))
		}
		return seqs, states
	}
	same := func(seq uint64) {
		t.Helper()
		seqs, states := roots()
		assert.Equal(t, [2]uint64{seq, seq}, seqs)
		assert.Equal(t, states[0], states[1])
	}
	same(3)
	text := func() (text string) {
		require.NoError(t, f.View(background, Latest, func(v *Snapshot) error {
			h, err := v.Head(background, "d/a", "note")
			require.NoError(t, err)
			b, err := v.Content(background, h.Frame.Content)
			text = string(b)
			return err
		}))
		return text
	}
	assert.Equal(t, "first", text())
	_, err = s.Update(background, "tester", func(tx *Tx) error {
		_, err := tx.PutFrame(NewFrame{Path: "d/a", Type: "note", Agent: "w", Origin: Authored, Text: []byte("second")})
		assert.Equal(t, "first", text(), "in the middle of the transaction of the writer")
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, "second", text())
	same(4)

	_, err = f.Update(background, "tester", func(tx *Tx) error { _, err := tx.PutContent([]byte("x")); return err })
	typed(t, err, "store/locked")
	_, err = f.Compact(background, "tester", Compaction{})
	typed(t, err, "store/locked")
	report, err := f.Validate(background, Check{})
	require.NoError(t, err)
	assert.True(t, report.Valid, report.Errors)
	assert.True(t, InUse(dir))
	require.NoError(t, s.Close())
	assert.False(t, InUse(dir), "a follower has no lock")
	assert.Equal(t, "second", text(), "after the writer has gone")
	require.NoError(t, f.Close())
	again := open(t, dir)
	_, err = again.Update(background, "tester", func(tx *Tx) error { _, err := tx.PutContent([]byte("x")); return err })
	require.NoError(t, err)
}

// WS-046: an index that the writer has not built yet cannot be followed. Another reason
// why an index cannot be used is in the error.
func TestFollowWithoutAnIndex(t *testing.T) {
	dir := create(t, id.B3)
	path := filepath.Join(dir, indexFile)
	_, err := Follow(background, dir, Options{})
	typed(t, err, "store/locked")
	missing := err.Error()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = Follow(background, dir, Options{})
	typed(t, err, "store/locked")
	assert.Equal(t, missing, err.Error(), "an empty index")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("damage ", 1000)), 0o600))
	_, err = Follow(background, dir, Options{})
	typed(t, err, "store/locked")
	assert.Contains(t, err.Error(), "not a database")
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = Follow(ctx, dir, Options{})
	typed(t, err, "canceled")
	_, err = Follow(background, t.TempDir(), Options{})
	typed(t, err, "workspace/not-found")
}
