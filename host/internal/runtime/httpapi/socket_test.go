package httpapi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// OPS-002, CLI-003: a deleted admin socket is bound again each time; an
// existing one is left alone.
func TestSocketIsBoundAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bound, err := w.server.RestoreSocket(t.Context())
	require.NoError(t, err)
	assert.False(t, bound, "nothing was amiss")
	for range 3 {
		require.NoError(t, os.Remove(w.socket))
		bound, err = w.server.RestoreSocket(t.Context())
		require.NoError(t, err)
		assert.True(t, bound)
		assert.Equal(t, 200, w.operator("POST /v1/admin", `{"action":"plugin-list"}`).status)
		info, err := os.Stat(w.socket)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	// A file in the way is reported and not removed.
	require.NoError(t, os.Remove(w.socket))
	require.NoError(t, os.WriteFile(w.socket, nil, 0o600))
	_, err = w.server.RestoreSocket(t.Context())
	assert.ErrorContains(t, err, "is not a socket")
	require.NoError(t, os.Remove(w.socket))
	_, err = w.server.RestoreSocket(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	w.server.Shutdown(ctx)
	assert.NoFileExists(t, w.socket)
	bound, err = w.server.RestoreSocket(t.Context())
	assert.False(t, bound, "it has ended")
	assert.NoError(t, err)
}

// OPS-002: a socket on which another daemon listens is not replaced, and
// closing one daemon does not remove the file of another.
func TestSocketOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := httpapi.New(w, nil).Bind(t.Context(), httpapi.Binding{AdminSocket: w.socket, Token: token}, w.Settings())
	require.Error(t, err)
	assert.True(t, errors.Is(err, syscall.EADDRINUSE), "%v", err)
	assert.ErrorContains(t, err, "http.admin_socket")
	assert.Equal(t, 200, w.operator("GET /health", "").status)

	// A socket file that refuses connections is the leftover of a killed
	// daemon.
	stale := filepath.Join(filepath.Dir(w.socket), "stale.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: stale}))
	require.NoError(t, syscall.Close(fd))
	first, err := httpapi.New(w, nil).Bind(t.Context(), httpapi.Binding{AdminSocket: stale, Token: token}, w.Settings())
	require.NoError(t, err)
	require.NoError(t, os.Remove(stale))
	second, err := httpapi.New(w, nil).Bind(t.Context(), httpapi.Binding{AdminSocket: stale, Token: token}, w.Settings())
	require.NoError(t, err)
	first.Close()
	assert.FileExists(t, stale, "it is that of the second")
	second.Close()
	assert.NoFileExists(t, stale)
}
