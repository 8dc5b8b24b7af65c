package httpapi

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// RUN-040: an event is encoded once for all readers of its run and each form. One that
// is not recorded, and those of a run with one reader, are encoded for each.
func TestFramesAreShared(t *testing.T) {
	var s streams
	encoded := atomic.Int64{}
	encode := func(e journal.Event) []byte {
		encoded.Add(1)
		return []byte(strconv.Itoa(e.Seq))
	}
	one, leaveOne, err := s.enter(ofRun, "run_a", 2)
	require.Nil(t, err)
	one.frames.of(journal.Event{Seq: 7}, typeEDN, encode)
	one.frames.of(journal.Event{Seq: 7}, typeEDN, encode)
	assert.EqualValues(t, 2, encoded.Swap(0), "one reader")

	other, leaveOther, err := s.enter(ofRun, "run_a", 2)
	require.Nil(t, err)
	require.Same(t, one, other)
	_, _, err = s.enter(ofRun, "run_a", 2)
	require.NotNil(t, err)
	assert.Equal(t, "stream/too-many-subscribers", err.Type)
	const events = 3*keptFrames + 1
	var readers sync.WaitGroup
	step := make(chan int)
	for _, form := range []mediaType{typeEDN, typeJSON} {
		for range 8 {
			readers.Go(func() {
				for seq := range step {
					assert.Equal(t, strconv.Itoa(seq), string(other.frames.of(journal.Event{Seq: seq}, form, encode)))
				}
			})
		}
	}
	for seq := 1; seq <= events; seq++ {
		step <- seq
	}
	close(step)
	readers.Wait()
	encoded.Store(0)
	for _, form := range []mediaType{typeEDN, typeJSON, typeEDN, typeJSON} {
		for seq := 1001; seq <= 1000+keptFrames; seq++ {
			assert.Equal(t, strconv.Itoa(seq), string(one.frames.of(journal.Event{Seq: seq}, form, encode)))
		}
	}
	assert.EqualValues(t, 2*keptFrames, encoded.Swap(0), "once for each form")
	one.frames.of(journal.Event{}, typeEDN, encode)
	one.frames.of(journal.Event{}, typeEDN, encode)
	assert.EqualValues(t, 2, encoded.Swap(0), "they are not recorded")

	leaveOther()
	one.frames.of(journal.Event{Seq: 1001}, typeEDN, encode)
	one.frames.of(journal.Event{Seq: 1001}, typeEDN, encode)
	assert.EqualValues(t, 2, encoded.Load(), "one reader is left")
	leaveOne()
	assert.Empty(t, s.by, fmt.Sprint(s.by))
}
