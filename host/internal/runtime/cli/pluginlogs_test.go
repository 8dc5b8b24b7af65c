package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/logfile"
	"github.com/fermenthq/ferment/sdk/edn"
)

func logged(message, more string) string {
	return fmt.Sprintf(`{"@level":"warn","@message":"%s","@timestamp":"2026-01-02T03:04:05Z","generation":3,"instance":0,"pid":77,"plugin":"mine"%s}`, message, more) + "\n"
}

// SUP-009: the log of a plugin is read from its files, also without a daemon.
func TestPluginLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ferment.hcl", "plugin \"other\" {\n  command = [\"bin/none\"]\n  optional = true\n}\n")
	path := filepath.Join(w.dir, "var", "plugins", "mine", "log", "plugin.log")
	log, err := logfile.Open(path, 300, 2)
	require.NoError(t, err)
	defer func() { assert.NoError(t, log.Close()) }()
	for _, line := range []string{logged("one", ""), logged(`two \u001b[31m`, `,"run":"run_1","depth":12,"@module":"search"`), "cut off\n"} {
		_, err := log.Write([]byte(line))
		require.NoError(t, err)
	}
	got := w.run("plugin", "logs", "mine")
	require.Equal(t, 0, got.code, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, lines, 3, got.stdout)
	assert.Regexp(t, `^2026-01-0\d \d\d:04:05.000 warn  3/77 one$`, lines[0])
	assert.Regexp(t, `3/77 two \\x1b\[31m depth=12 run=run_1$`, lines[1], "a terminal is not at the mercy of a plugin")
	assert.Equal(t, "cut off", lines[2])

	got = w.run("plugin", "logs", "mine", "--lines", "2", "-o", "json")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Len(t, strings.Split(strings.TrimSpace(got.stdout), "\n"), 2)
	got = w.run("plugin", "logs", "mine", "--lines", "3", "-o", "edn")
	require.Equal(t, 0, got.code, got.stderr)
	first, err := edn.Read([]byte(strings.SplitN(got.stdout, "\n", 2)[0]))
	require.NoError(t, err, got.stdout)
	assert.True(t, first.IsMap())

	for _, row := range []struct{ name, says string }{
		{"mime", "did you mean mine?"},
		{"other", "has no log in"},
		{"../mine", "is not a plugin name"},
		{"nothing-like-it", "logs exist for mine"},
	} {
		got := w.run("plugin", "logs", row.name)
		assert.NotEqual(t, 0, got.code, row.name)
		assert.Contains(t, got.stderr, row.says, row.name)
	}
	assert.Equal(t, 2, w.run("plugin", "logs", "mine", "--lines", "-1").code)
}

// SUP-009: -f prints each line once, across rotations, until it is
// interrupted.
func TestPluginLogsFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ferment.hcl", "")
	path := filepath.Join(w.dir, "var", "plugins", "mine", "log", "plugin.log")
	log, err := logfile.Open(path, 2000, 2)
	require.NoError(t, err)
	defer func() { assert.NoError(t, log.Close()) }()
	_, err = log.Write([]byte(logged("line -1", "")))
	require.NoError(t, err)
	p := w.launch("", "/bin/sh", "-c", "exec "+built.ferment+" plugin logs mine -f >&2")
	next := func(at, n int) {
		t.Helper()
		line, ok := p.line(at)
		require.True(t, ok)
		require.True(t, strings.HasSuffix(line, fmt.Sprintf(" line %d\n", n)), line)
	}
	next(0, -1)
	for n := range 100 {
		_, err := log.Write([]byte(logged(fmt.Sprintf("line %d", n), "")))
		require.NoError(t, err)
		if n%10 == 9 { // less than the files hold, so that nothing is dropped unread
			for k := n - 9; k <= n; k++ {
				next(k+1, k)
			}
		}
	}
	p.signal(syscall.SIGINT)
	got := p.wait()
	assert.Equal(t, 130, got.code, got.stderr)
	assert.Equal(t, 101, strings.Count(got.stderr, "\n"), "each line once, and nothing else")
}
