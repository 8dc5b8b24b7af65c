package daemon

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// RUN-007: a run that needs readers is abandoned once it has had none for its patience,
// counted anew after each reader. One that has a reader, that has ended or that needs
// none goes on.
func TestReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r readers
		var mu sync.Mutex
		abandoned := []string{}
		need := func(run string) {
			r.need(run, func() time.Duration { return time.Minute }, func() {
				mu.Lock()
				defer mu.Unlock()
				abandoned = append(abandoned, run)
			})
		}
		none := []string{}
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() } // the clock is that of the bubble
		seen := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(abandoned)
		}

		first := r.enter("read")
		need("read")
		need("ended")
		r.over("ended")
		r.enter("not needed")()
		wait(time.Hour)
		assert.Equal(t, none, seen())

		second := r.enter("read")
		first()
		wait(time.Hour)
		assert.Equal(t, none, seen(), "another one reads")
		second()
		wait(59 * time.Second)
		third := r.enter("read")
		wait(time.Hour)
		third()
		wait(59 * time.Second)
		assert.Equal(t, none, seen(), "the time begins anew")
		wait(time.Second)
		assert.Equal(t, []string{"read"}, seen())
		r.over("read")
		assert.Empty(t, r.of)

		need("never read")
		wait(time.Minute)
		assert.Equal(t, []string{"read", "never read"}, seen())
		r.over("never read")
		assert.Empty(t, r.of)
	})
}
