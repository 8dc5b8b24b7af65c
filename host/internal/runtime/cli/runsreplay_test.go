package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// JRN-050: a recorded run is replayed through the daemon, and without it from the
// files; neither starts a process for it. Package act covers what differs.
func TestRunsReplay(t *testing.T) {
	t.Parallel()
	w := answering(t, "store {\n  driver = \"sqlite\"\n}\n")
	s := w.serve()
	require.Equal(t, 200, s.ask("mine/data", "{}").status)
	before := len(processesUnder(w.dir))
	got := w.run("runs", "replay", "last", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	hash := got.value(t).Key("hash").String()
	assert.Equal(t, ":completed", got.value(t).Key("status").String())
	assert.Len(t, processesUnder(w.dir), before)
	s.stop()

	got = w.run("runs", "replay", "last", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, hash, got.value(t).Key("hash").String())
	assert.Empty(t, w.left(0), "no plugin is started")

	got = w.run("runs", "replay", "last")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, strings.Trim(hash, "\""))

	got = w.run("runs", "replay", "run_nobody")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "run/not-found")
}
