//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// writing is a task that writes a file below root.
func writing(t *testing.T, root, name, content string) *Task {
	t.Helper()
	tool, _ := contract.ToolNamed("fs/write-file")
	scope, problems := contract.ParseScope(tool.Effect, edn.MustRead(fmt.Sprintf(`{:enabled true :roots [%q] :allow ["."]}`, root)))
	require.Empty(t, problems)
	in := edn.MustMap(edn.K("path"), edn.Text(name), edn.K("content"), edn.Text(content))
	return &Task{Tool: tool, Scope: scope, Strict: true, Input: in, Key: "b3:1"}
}

func crew(t *testing.T, idle time.Duration) *Crew {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := NewCrew(self, idle)
	t.Cleanup(c.Close)
	return c
}

// waiting returns the prestarted worker; nil: there is none.
func (c *Crew) waiting() *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spare
}

// awaitSpare waits until there is a prestarted worker.
func awaitSpare(t *testing.T, c *Crew) *hand {
	t.Helper()
	var h *hand
	require.Eventually(t, func() bool { h = c.waiting(); return h != nil }, 20*time.Second, time.Millisecond)
	return h
}

func gone(h *hand) bool {
	return errors.Is(syscall.Kill(h.p.PID(), 0), syscall.ESRCH)
}

// FX-004: after a call, a worker is prestarted for the next one. It serves at
// most one call; it serves none if it dies, times out or the plugin ends.
func TestWorkerAhead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := crew(t, time.Hour)
	write := func(content string) {
		t.Helper()
		_, err := c.Run(t.Context(), writing(t, root, "f", content))
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(root, "f"))
		require.NoError(t, err)
		assert.Equal(t, content, string(text))
	}
	assert.Nil(t, c.waiting(), "who never calls has none")
	write("one")
	first := awaitSpare(t, c)
	write("two")
	second := awaitSpare(t, c)
	assert.NotEqual(t, first.p.PID(), second.p.PID())
	assert.True(t, gone(first), "it had its call")

	require.NoError(t, syscall.Kill(second.p.PID(), syscall.SIGKILL))
	<-second.p.Done()
	write("three")
	third := awaitSpare(t, c)
	c.Close()
	assert.True(t, gone(third))
	_, err := c.Run(t.Context(), writing(t, root, "f", "four"))
	assert.ErrorContains(t, err, "going down")

	c = crew(t, time.Millisecond)
	write("five")
	require.Eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.spare == nil && c.tired == nil }, 20*time.Second, time.Millisecond)
	c = crew(t, 0)
	write("six")
	c.Close()
	assert.Nil(t, c.waiting())
}

// FX-003, FX-004: before the kernel confines the worker, only the rules of the
// call are sent. With these alone it is confined and waits. It then rejects a
// call that does not match them.
func TestHeldBeforeTheCallIsRead(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	task := writing(t, root, "mine", "fine")
	rules, failed := task.rules()
	require.Nil(t, failed)
	for name, row := range map[string]struct {
		call *Task
		want string
	}{
		"its call":   {task, ""},
		"another":    {writing(t, root, "other", "x"), "runtime/internal"},
		"not inside": {&Task{Tool: task.Tool, Input: edn.MustRead(`{:path "../x" :content ""}`)}, "effects/scope-denied"},
	} {
		h, err := hire(self)
		require.NoError(t, err)
		require.NoError(t, send(h.p.Stdin(), rules))
		status := fmt.Sprintf("/proc/%d/status", h.p.PID())
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(status)
			return err == nil && assert.ObjectsAreEqual([]string{"NoNewPrivs:\t1", "Seccomp:\t2"}, linesWith(string(text), "NoNewPrivs:", "Seccomp:"))
		}, 20*time.Second, time.Millisecond, name)
		assert.NoFileExists(t, filepath.Join(root, "mine"), name)
		require.NoError(t, send(h.p.Stdin(), row.call.call()), name)
		reply, err := receive(h.p.Stdout())
		require.NoError(t, err, name)
		typ, _ := reply.Key("error").Key("type").AsKeyword()
		assert.Equal(t, row.want, typ, "%s: %s", name, reply)
		assert.Empty(t, h.gone(), name)
		entries, err := os.ReadDir(root)
		require.NoError(t, err)
		assert.Equal(t, row.want == "", len(entries) == 1, name)
		_ = os.Remove(filepath.Join(root, "mine"))
	}
}

// linesWith returns the lines of a text that begin with one of the words.
func linesWith(text string, words ...string) []string {
	var found []string
	for line := range strings.Lines(text) {
		for _, w := range words {
			if strings.HasPrefix(line, w) {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return found
}

// A worker that is not needed ends without output.
func TestDismissed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	h, err := hire(self)
	require.NoError(t, err)
	require.NoError(t, h.p.CloseStdin())
	assert.Empty(t, h.gone())
	assert.Equal(t, "exit status 0", h.p.Exit().String())
}
