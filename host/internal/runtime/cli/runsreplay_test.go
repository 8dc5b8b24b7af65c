package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
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
	got = w.run("runs", "export", "last", "daemon.edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Empty(t, got.stderr)
	s.stop()

	got = w.run("runs", "replay", "last", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, hash, got.value(t).Key("hash").String())
	assert.Empty(t, w.left(0), "no plugin is started")

	got = w.run("runs", "replay", "last")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, strings.Trim(hash, "\""))

	cold := *w // it does not know what the plugin provides, and does not ask it
	cold.env = append(slices.Clone(w.env), "HOME="+t.TempDir())
	got = cold.run("runs", "replay", "last")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "\"ferment validate --describe\" asks it")
	got = cold.run("runs", "replay", "run_absent")
	assert.Equal(t, 5, got.code, got.stderr)
	assert.Contains(t, got.stderr, "run/not-found", "what is not known of the plugin is not the cause")
	got = cold.run("runs", "export", "last", "cold.edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stderr, "plugin mine")
	got = cold.run("runs", "replay", "cold.edn")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "the file does not say what plugin mine provides")
	got = cold.run("validate", "--describe")
	require.Equal(t, 0, got.code, got.stderr)
	got = cold.run("runs", "replay", "last")
	assert.Equal(t, 0, got.code, got.stderr)

	got = w.run("runs", "replay", "run_absent")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "run/not-found")

	for _, name := range []string{"last", "warm.edn"} {
		got = w.run("runs", "export", "last", name)
		require.Equal(t, 0, got.code, got.stderr)
		assert.Empty(t, got.stderr)
	}
	for _, name := range []string{"daemon.edn", "warm.edn"} {
		got = w.run("runs", "replay", name, "--edn")
		require.Equal(t, 0, got.code, got.stderr)
		assert.Equal(t, hash, got.value(t).Key("hash").String())
	}
	got = w.run("runs", "replay", "last", "--mode", "fill")
	assert.Contains(t, got.stderr, "runtime/not-ready", "the run, not the file of that name")
	got = w.run("--server", "https://127.0.0.1:1", "runs", "replay", "warm.edn")
	assert.Equal(t, 2, got.code, got.stderr)
}

// JRN-051, CLI-002, CLI-007: a replay with --mode fill is a new run of the daemon,
// which calls what is not recorded; another capability is called in place of one.
func TestRunsReplayFills(t *testing.T) {
	t.Parallel()
	w := comparing(t)
	s := w.serve()
	got := w.run("run", "plan.edn")
	require.Equal(t, 0, got.code, got.stderr)
	recorded := w.listed("run")[0]

	got = w.run("runs", "replay", "last", "--mode", "fill", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	v := got.value(t)
	assert.Equal(t, "[1 0 :completed true]", edn.Vector(v.Key("recorded"), v.Key("made"), v.Key("status"), v.Key("diff").Key("equal?")).String())
	replay, _ := v.Key("run").AsString()
	require.Equal(t, []string{replay, recorded}, w.listed("run"))
	records := ednValues(t, w.run("runs", "records", replay, "--edn").stdout)
	assert.Equal(t, edn.Text(recorded).String(), records[0].Key("replay/of").String())

	got = w.run("runs", "replay", recorded, "--swap", "mine/first=mine/second")
	assert.Equal(t, 1, got.code, got.stderr)
	for _, part := range []string{"0 attempts recorded, 1 made", "mine/first", "mine/second", recorded} {
		assert.Contains(t, got.stdout, part)
	}
	got = w.run("runs", "replay", recorded, "--swap", ":mine/first=:mine/second", "--effects", "fs/write", "--json")
	assert.Equal(t, 1, got.code, got.stderr)
	assert.EqualValues(t, 1, jsonValues(t, got.stdout)[0].(map[string]any)["made"])
	same := w.run("runs", "replay", recorded)
	assert.Equal(t, 0, same.code, same.stderr)

	got = w.run("runs", "replay", recorded, "--swap", "mine/first=mine/third")
	assert.Contains(t, got.stderr, "cap/not-found")
	a := s.admin(`{"action":"runs-replay","run":"last","swap":{"mine/first":"mine/second"}}`)
	assert.Equal(t, 400, a.status, "a strict replay has no swaps: %s", a.body)
	for _, args := range [][]string{
		{"--mode", "loose"}, {"--mode", "strict", "--swap", "mine/first=mine/second"}, {"--effects", ":", "--mode", "fill"}, {"--swap", "mine/first=:"},
	} {
		assert.Equal(t, 2, w.run(append([]string{"runs", "replay", recorded}, args...)...).code, "%v", args)
	}
	s.stop()
	got = w.run("runs", "replay", recorded, "--mode", "fill")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "runtime/not-ready")
}
