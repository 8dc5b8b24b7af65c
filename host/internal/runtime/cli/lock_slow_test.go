//go:build slow

package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HCL-041: an invalid file is rejected with the place.
func TestLockFileThatIsWrong(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.mustLock()
	good := w.lockText()
	for name, tt := range map[string]struct{ text, says string }{
		"newer":    {strings.Replace(good, "format = 1", "format = 2", 1), "ferment.lock.hcl:3:12"},
		"unknown":  {strings.Replace(good, "  needs    = []", "  neds     = []", 1), "did you mean \"needs\"?"},
		"hash":     {strings.Replace(good, `hash = "b3:`, `hash = "b3:zz`, 1), "64 hexadecimal digits"},
		"template": {strings.Replace(good, `"1.0.0"`, `"${env("X")}"`, 1), "may only contain data"},
		"empty":    {"", "the lock block is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w.write("ferment.lock.hcl", tt.text)
			for _, profile := range []string{"prod", "dev"} {
				got := w.run("act", "text/render", helloInput, "--profile", profile)
				assert.Equal(t, 1, got.code, got.stderr)
				assert.Contains(t, got.stderr, "ferment.lock.hcl")
				assert.Contains(t, got.stderr, tt.says)
				assert.NotContains(t, got.stderr, "is not in the lock file")
			}
			got := w.run("plugin", "lock")
			assert.NotEqual(t, 0, got.code, "what a person wrote is not overwritten")
			assert.Equal(t, tt.text, w.lockText())
		})
	}
}

// LOCK-001, HCL-041, HTTP-008, CLI-007: a daemon approves and runs the
// approved plugin; the command line and the socket report the same.
func TestApproveThroughTheDaemon(t *testing.T) {
	t.Parallel()
	w := lockWorld(t)
	w.write("mine.edn", mine("#{:none}"))
	w.rewrite("ferment.hcl", "plugin \"text\"", "http {\n  listen = [\"127.0.0.1:0\"]\n}\n\nplugin \"text\"")
	w.mustLock()
	s := w.serve()
	before := s.pids()
	require.Len(t, before, 2)

	// An unapproved change is rejected, and running processes continue.
	w.write("mine.edn", mine("#{:fs/read}"))
	locked := w.lockText()
	got := w.run("admin", "reload")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, `the effects of capability "mine/say" go beyond what was approved (config/lock)`)
	assert.Contains(t, got.stderr, "ferment plugin approve mine")
	assert.Equal(t, before, s.pids())

	got = w.run("plugin", "approve", "mine")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Regexp(t, `^mine 1\.0\.0: updated\n  the effects of capability "mine/say": none -> fs/read\nferment\.lock\.hcl written: 1 plugin changed\n(swap .*\n)+reloaded, hash b3:[0-9a-f]{64}\n$`, got.stdout)
	assert.NotEqual(t, locked, w.lockText())
	assert.Equal(t, 0, w.run("plugin", "lock", "--check").code, "the entry is what another process writes")
	require.Eventually(t, func() bool { now := s.pids(); return len(now) == 2 && now["mine"] != before["mine"] }, runLimit, 5*time.Millisecond)
	assert.Equal(t, before["text"], s.pids()["text"], "nothing else was touched")

	// A repetition changes nothing, through either interface.
	there := s.admin(`{:action :plugin-approve :plugin "mine"}`)
	require.Equal(t, 200, there.status, "%s", there.body)
	got = w.run("plugin", "approve", "mine", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, there.value(t).Key("result").String(), got.value(t).String())
	assert.Equal(t, "false", got.value(t).Key("changed?").String())
	assert.Equal(t, "false", got.value(t).Key("reload").Key("changed?").String())

	// A program with other bytes is approved in the same way.
	w.rebuild("text")
	got = w.run("plugin", "approve", "text")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "text 1.0.0: updated\n  the program: b3:")
	require.Eventually(t, func() bool { now := s.pids(); return len(now) == 2 && now["text"] != before["text"] }, runLimit, 5*time.Millisecond)

	// Unknown names, and a reload that is refused for another reason.
	got = w.run("plugin", "approve", "txt")
	assert.Equal(t, 5, got.code, got.stderr)
	assert.Contains(t, got.stderr, "did you mean text?")
	before, locked = s.pids(), w.lockText()
	w.write("mine.edn", mine("#{:fs/read :fs/write}"))
	w.rewrite("ferment.hcl", "http {", "ferment {\n  gogc = 200\n}\n\nhttp {")
	got = w.run("plugin", "approve", "mine")
	assert.Equal(t, 6, got.code, got.stderr)
	assert.Contains(t, got.stdout, "fs/read -> fs/read, fs/write\nferment.lock.hcl written")
	assert.Contains(t, got.stderr, "plugin mine is approved in ferment.lock.hcl, but the reload failed and the daemon keeps its configuration: nothing was changed, because a restart is needed for ferment.gogc")
	assert.NotEqual(t, locked, w.lockText())
	assert.Equal(t, before, s.pids())

	// With an unreadable configuration nothing is approved.
	locked = w.lockText()
	w.write("mine.edn", mine("#{:none}"))
	w.rewrite("ferment.hcl", "  gogc = 200", "  gocg = 200")
	got = w.run("plugin", "approve", "mine")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "gocg")
	assert.Equal(t, locked, w.lockText())
	end := s.stop()
	assert.Contains(t, end.stderr, `"action":"admin/plugin-approve"`)
	assert.Empty(t, w.left(endLimit))
}
