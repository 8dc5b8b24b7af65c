//go:build slow

package cli_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInterruptedAnytime: an interrupt at any time ends the command with 130
// and leaves no process.
func TestInterruptedAnytime(t *testing.T) {
	t.Parallel()
	w := busy(t)
	random := rand.New(rand.NewPCG(killSeed, 3))
	for i := range 6 {
		p := w.start("", "run", "plan.edn", "--progress", "edn")
		// Some time between the first event and the middle of the run.
		p.must("a plugin", 0, func(e event) bool { return e.word("event") == "plugin" })
		pause := time.NewTimer(time.Duration(random.IntN(400)) * time.Millisecond)
		<-pause.C
		p.signal(syscall.SIGINT)
		got := p.wait()
		require.Equal(t, 130, got.code, "round %d: %s", i, got.stderr)
		left := w.left(endLimit)
		require.Empty(t, left, "round %d: %s", i, describe(left))
	}
}
