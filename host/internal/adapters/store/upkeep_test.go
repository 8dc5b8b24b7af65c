package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// JRN-006, JRN-008: log and space are looked at before much was written since the last
// look, and not after each commit.
func TestUpkeepIsDueBeforeMuchIsWritten(t *testing.T) {
	s := &Store{upkeep: make(chan struct{}, 1)}
	w := &writer{s: s}
	due := func() bool {
		select {
		case <-s.upkeep:
			return true
		default:
			return false
		}
	}
	plain := newBatch()
	for range 2 {
		for range lookBatches - 1 {
			w.noteBatch(plain)
			assert.False(t, due())
		}
		w.noteBatch(plain)
		assert.True(t, due(), "many batches")
	}
	w.stored = lookBytes/2 + 1
	w.noteBatch(plain)
	assert.False(t, due())
	w.noteBatch(plain)
	assert.True(t, due(), "many bytes")
	w.stored = 0
	w.noteBatch(&batch{jobs: []*job{{}}})
	assert.True(t, due(), "a job may have removed or imported runs")
	assert.EqualValues(t, 2*lookBatches+3, s.batches.Load())
}
