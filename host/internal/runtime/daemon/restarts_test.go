package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TEL-004: every start after the first counts as a restart, whatever its cause and
// the state before it.
func TestRestartsAreCounted(t *testing.T) {
	var f figures
	f.restarts.Expect(restartCauses...)
	for _, change := range []struct{ from, to, cause string }{
		{"stopped", "starting", "start"},
		{"starting", "ready", "ready"},
		{"ready", "backoff", "crashed"},
		{"backoff", "starting", "backoff-over"},
		{"ready", "draining", "restart"},
		{"draining", "starting", "restart"},
		{"backoff", "starting", "restart"},
		{"ready", "draining", "quality"},
		{"draining", "starting", "quality"},
		{"ready", "draining", "stop"},
		{"draining", "stopped", "stopped"},
	} {
		f.transition(Transition{From: change.from, To: change.to, Cause: change.cause})
	}
	assert.Equal(t, "{:backoff-over 1 :quality 1 :restart 2}", countsOf(f.restarts.All()).String())
}
