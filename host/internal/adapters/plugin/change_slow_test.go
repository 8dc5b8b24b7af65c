//go:build linux && slow

package plugin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SUP-006, plugins.md section 8: another binary is swapped in under steady
// load, and no call fails or is cut.
func TestSwapBinaryUnderLoad(t *testing.T) {
	s := as("good")
	s.Command[0] = copySelf(t)
	b := run(t, s).ready()
	first := b.Status()[0]
	l := b.load(4, "p/echo")
	l.more(t, 50)
	for n := range 3 {
		grown(t, s.Command[0])
		require.NoError(t, b.Swap(within(t), "p", CauseSwap))
		l.more(t, 50)
		st := b.Status()
		require.Len(t, st, 1, "the old edition is gone")
		assert.Equal(t, n+2, st[0].Edition)
	}
	assert.Empty(t, l.stop())
	t.Logf("%d calls, the slowest took %s", l.answered.Load(), time.Duration(l.slowest.Load()))
	last := b.Status()[0]
	assert.NotEqual(t, first.Binary, last.Binary)
	assert.NotEqual(t, first.PID, last.PID)
	gone(t, first.PID, patience)
	old := b.until(t, "end of the first edition", func(tr Transition) bool { return tr.Edition == 1 && tr.To == Draining })
	assert.Equal(t, CauseSwap, old.Cause, "the trigger is recorded")
	began := b.until(t, "start of the second", func(tr Transition) bool { return tr.Edition == 2 && tr.To == Starting })
	assert.Equal(t, CauseSwap, began.Cause)
}
