package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const summary = `{:text "Bees dance to tell where food is. Other bees read the dance. They fly."}`

// byHand starts a plugin as for debugging, and waits until it has written its
// address.
func byHand(t *testing.T, w *world, file string) *os.Process {
	t.Helper()
	cmd := exec.Command(filepath.Join(built.plugins, "text"))
	cmd.Dir, cmd.Env = w.dir, append(w.env, "FERMENT_ATTACH="+file, "TMPDIR="+t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(w.dir, file))
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	return cmd.Process
}

func alive(p *os.Process) bool { return p.Signal(syscall.Signal(0)) == nil }

// SDK-006: a manually started plugin serves several commands in sequence;
// errors are one sentence.
func TestAttachToACommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+shipped("text", "text"))
	cache := t.TempDir()
	w.env = append(w.env, "XDG_CACHE_HOME="+cache)
	p := byHand(t, w, "text.attach")
	info, err := os.Stat(filepath.Join(w.dir, "text.attach"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	for range 2 {
		got := w.run("act", "context/summarize", summary, "--attach", "text=text.attach")
		assert.Zero(t, got.code, got.stderr)
		assert.Contains(t, got.stdout, "Bees dance")
		assert.Contains(t, got.stderr, "attached: text; no restarts, no timeouts and no sandbox")
		assert.True(t, alive(p), "it is not the host's to end")
	}
	kept, err := filepath.Glob(filepath.Join(cache, "ferment", "plugins", "describe", "*.edn"))
	require.NoError(t, err)
	assert.Empty(t, kept, "nobody asks at this socket again")
	assert.Zero(t, w.run("act", "context/summarize", summary).code)
	kept, err = filepath.Glob(filepath.Join(cache, "ferment", "plugins", "describe", "*.edn"))
	require.NoError(t, err)
	assert.NotEmpty(t, kept, "what the program of the configuration says is kept")
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"prod", []string{"--attach", "text=text.attach", "--profile", "prod"}, 1, "profile prod does not allow an attached process"},
		{"no such plugin", []string{"--attach", "txt=text.attach"}, 5, `there is no plugin "txt" in the configuration`},
		{"no such file", []string{"--attach", "text=other.attach"}, 2, "start the plugin with FERMENT_ATTACH="},
		{"no record", []string{"--attach", "text=ferment.hcl"}, 2, "expected a file with access for its owner only"},
		{"no file", []string{"--attach", "text"}, 2, "expected NAME=VALUE"},
	} {
		got := w.run(append([]string{"act", "context/summarize", summary}, tt.args...)...)
		assert.Equal(t, tt.code, got.code, "%s: %s", tt.name, got.stderr)
		assert.Contains(t, got.stderr, tt.says, tt.name)
	}
	require.NoError(t, p.Kill())
	got := w.run("act", "context/summarize", summary, "--attach", "text=text.attach")
	assert.NotZero(t, got.code)
	assert.Contains(t, got.stderr, "the plugin no longer waits")
}

// SDK-006: a daemon uses it instead of its own process, without timeouts and
// restarts, and returns to its own afterwards.
func TestAttachToADaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+strings.Replace(shipped("text", "text"), "\n}\n", "\n  health {\n    interval = \"200ms\"\n    timeout  = \"100ms\"\n    misses   = 1\n  }\n}\n", 1))
	s := w.serve()
	p := byHand(t, w, "text.attach")
	for _, args := range [][]string{{"dev", "attach", "nope", "text.attach"}, {"dev", "attach", "text", "nope.attach"}} {
		refused := w.run(args...)
		assert.NotZero(t, refused.code, refused.stdout)
		assert.NotContains(t, refused.stderr, "runtime/internal")
	}
	got := w.run("dev", "attach", "text", "text.attach")
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.stdout, `until "ferment dev detach text"`)
	answers := func() ended { return w.run("act", "context/summarize", summary) }
	assert.Zero(t, answers().code)

	// It is stopped for many times the timeouts of the block.
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	slow := w.start("", "act", "context/summarize", summary)
	assert.Never(t, func() bool {
		select {
		case <-slow.over:
			return true
		default:
			return false
		}
	}, 1500*time.Millisecond, 20*time.Millisecond)
	require.NoError(t, p.Signal(syscall.SIGCONT))
	assert.Zero(t, slow.wait().code)
	list := w.run("plugin", "list", "--json")
	assert.NotContains(t, list.stdout, "quarantined")

	require.NoError(t, p.Kill())
	require.Eventually(t, func() bool { return answers().code != 0 }, 20*time.Second, 50*time.Millisecond, "nothing is started in its place")
	got = w.run("dev", "detach", "text")
	require.Zero(t, got.code, got.stderr)
	back := answers()
	assert.Zero(t, back.code, back.stderr)
	s.stop()
}
