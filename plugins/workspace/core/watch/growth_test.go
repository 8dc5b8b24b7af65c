package watch

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-253: a watch that runs for long keeps nothing of the changes it has reported: with
// the build tag long, as many as there are seconds in a day.
func TestWatchDoesNotGrow(t *testing.T) {
	r := newRig(t, quick(), "d/f", "d/other", "e/f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	changes := 0
	change := func(n int) {
		for range n {
			changes++
			r.text("d/f", fmt.Sprint("change ", changes))
			s.settles(r)
		}
	}
	change(50) // pools, caches and statements are there
	before := heap()
	change(proof.Size(t, "changes of a watch", 150, 86_400))
	after := heap()
	assert.LessOrEqual(t, after, before+before/20, "%d bytes after %d changes, %d before", after, changes, before)
}

// heap returns the bytes of all objects that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers released
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
