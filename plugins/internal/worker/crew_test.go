//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/launch"
)

// TestMain makes the test binary the worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Arg {
		os.Exit(Main(os.Stdin, os.Stdout, holdDirectory))
	}
	os.Exit(m.Run())
}

// holdDirectory confines the process to the directory that the rules name.
func holdDirectory(rules edn.Value) (Held, error) {
	dir, ok := rules.Key("dir").AsString()
	if !ok {
		return nil, errors.New("no directory")
	}
	if failed := Confine(writeTool, confine.Policy{WritePaths: []string{dir}}, true); failed != nil {
		return nil, failed
	}
	return directory(dir), nil
}

// directory writes files in a directory.
type directory string

func (d directory) Do(_ context.Context, call edn.Value) (edn.Value, *contract.Error) {
	name, _ := call.Key("name").AsString()
	content, _ := call.Key("content").AsString()
	if err := os.WriteFile(filepath.Join(string(d), name), []byte(content), 0o600); err != nil {
		return edn.Nil(), contract.Errorf("effects/scope-denied", "%w", err)
	}
	return edn.Text(content), nil
}

func (d directory) Close() {}

var writeTool, _ = effects.ToolNamed("fs/write-file")

// writing is a task that writes a file in a directory.
func writing(dir, name, content string) Task {
	return Task{
		Tool:  writeTool,
		Rules: edn.MustMap(edn.K("dir"), edn.Text(dir)),
		Call:  edn.MustMap(edn.K("name"), edn.Text(name), edn.K("content"), edn.Text(content)),
	}
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
		_, err := c.Run(t.Context(), writing(root, "f", content))
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
	_, err := c.Run(t.Context(), writing(root, "f", "four"))
	assert.ErrorContains(t, err, "shutting down")

	c = crew(t, time.Millisecond)
	write("five")
	require.Eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.spare == nil && c.tired == nil }, 20*time.Second, time.Millisecond)
	c = crew(t, 0)
	write("six")
	c.Close()
	assert.Nil(t, c.waiting())
}

// FX-003, FX-004: before the kernel confines the worker, only the rules of the
// call are sent. With these alone it is confined and waits.
func TestHeldBeforeTheCallIsRead(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	for name, row := range map[string]struct{ file, want string }{
		"inside":     {"mine", ""},
		"not inside": {"../other", "effects/scope-denied"},
	} {
		task := writing(root, row.file, "fine")
		h, err := hire(self)
		require.NoError(t, err)
		require.NoError(t, send(h.p.Stdin(), task.Rules))
		status := fmt.Sprintf("/proc/%d/status", h.p.PID())
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(status)
			return err == nil && assert.ObjectsAreEqual([]string{"NoNewPrivs:\t1", "Seccomp:\t2"}, linesWith(string(text), "NoNewPrivs:", "Seccomp:"))
		}, 20*time.Second, time.Millisecond, name)
		require.NoError(t, send(h.p.Stdin(), task.Call), name)
		reply, err := receive(h.p.Stdout())
		require.NoError(t, err, name)
		typ, _ := reply.Key("error").Key("type").AsKeyword()
		assert.Equal(t, row.want, typ, "%s: %s", name, reply)
		assert.Empty(t, h.gone(), name)
		if row.want == "" {
			assert.FileExists(t, filepath.Join(root, row.file))
		} else {
			assert.NoFileExists(t, filepath.Join(root, row.file))
		}
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

// FX-004: a confined worker has its three streams and no other descriptor, even
// if its parent had one that would be inherited.
func TestWorkerHasNoOtherDescriptor(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	const size = 1 << 20                           // more than a pipe buffer
	leak, err := unix.Open(root, unix.O_RDONLY, 0) // without O_CLOEXEC
	require.NoError(t, err)
	defer func() { _ = unix.Close(leak) }()
	p, err := launch.Start(launch.Command{Path: self, Args: []string{Arg}, Env: []string{"GORACE=atexit_sleep_ms=0"}})
	require.NoError(t, err)
	defer func() {
		_ = p.Kill()
		<-p.Settled()
		_, _ = p.CloseStdin(), p.Stderr().Close()
		_ = p.Stdout().Close()
	}()
	task := writing(root, "large", strings.Repeat("x", size))
	require.NoError(t, send(p.Stdin(), task.Rules))
	require.NoError(t, send(p.Stdin(), task.Call))
	// The answer has begun and does not fit the pipe: the worker is confined,
	// has acted, and blocks.
	_, err = io.ReadFull(p.Stdout(), make([]byte, 4))
	require.NoError(t, err)
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	streams := 0
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		if len(e.Name()) == 1 && e.Name() <= "2" {
			streams++
			assert.Regexp(t, `^(pipe|socket):`, to)
			continue
		}
		// Descriptors of the Go runtime: its poller and cgroup limits.
		assert.Regexp(t, `^(anon_inode:\[(eventpoll|eventfd)\]|/sys/fs/cgroup/.*)$`, to, "descriptor %s", e.Name())
	}
	assert.Equal(t, 3, streams)
}

// FX-004: rules that are not rules end the worker with a reason.
func TestRulesThatAreNotRules(t *testing.T) {
	t.Parallel()
	task := writing(t.TempDir(), "f", "")
	task.Rules = edn.Nil()
	_, err := crew(t, 0).Run(t.Context(), task)
	require.Error(t, err)
	e := contract.AsError(err)
	assert.Equal(t, "effects/runtime-failed", e.Type)
	assert.Contains(t, e.Message, "apply the rules of the worker: no directory")
	assert.Equal(t, ":unknown", e.Details.Key("effect/state").String(), "a call that changes something may have been made")
	task.Tool, _ = effects.ToolNamed("fs/read-file")
	_, err = crew(t, 0).Run(t.Context(), task)
	assert.True(t, contract.AsError(err).Details.Key("effect/state").IsNil(), "a read has changed nothing")
}
