package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-002, CLI-003, HTTP-007: a program that deletes files below a running
// daemon affects neither the access of operators nor responses. If the whole
// data directory is gone, the daemon reports it and another one may start
// there.
func TestServeUnderACleaner(t *testing.T) {
	t.Parallel()
	w := answering(t)
	s := w.serve()
	for _, gone := range []string{"var/run/admin.sock", "var/run/admin.token", "var/run"} {
		require.NoError(t, os.RemoveAll(filepath.Join(w.dir, gone)))
		require.Eventually(t, func() bool { return w.run("status").code == 0 }, time.Minute, 50*time.Millisecond, gone)
	}
	assert.Equal(t, 200, s.request(context.Background(), "GET", "/ready", "").status)

	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "var")))
	require.Eventually(t, func() bool { return s.request(context.Background(), "GET", "/ready", "").status == 503 }, time.Minute, 20*time.Millisecond)
	ready := s.request(context.Background(), "GET", "/ready", "").value(t)
	assert.Contains(t, ready.Key("failed").String(), ":condition :data-directory")
	assert.Equal(t, 200, s.ask("mine/data", "{}").status, "what it serves goes on")
	next := w.serve()
	assert.NotEqual(t, s.pid, next.pid)
	s.stop()
	// Closing the first daemon removed nothing of the second.
	assert.Equal(t, 0, w.run("status").code)
	next.stop()
}

// OPS-004: a daemon whose log has no reader continues to serve and shuts down
// normally.
func TestServeOutlivesItsLog(t *testing.T) {
	t.Parallel()
	w := answering(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.ferment, "serve")
	cmd.Dir, cmd.Env, cmd.Stderr = w.dir, w.env, write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	lines := bufio.NewScanner(read)
	ready := false
	for !ready && lines.Scan() {
		var l logLine
		ready = json.Unmarshal(lines.Bytes(), &l) == nil && said("ready")(l)
	}
	require.True(t, ready)
	require.NoError(t, read.Close())
	assert.Equal(t, 0, w.run("admin", "reload").code, "this is logged")
	assert.Equal(t, 0, w.run("status").code)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}
