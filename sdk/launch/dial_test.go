package launch

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ISO-004: symbolic links in the socket directory do not lead the host to
// another socket, neither as the socket nor as a directory of its path.
func TestDialBelowFollowsNoLink(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "fd")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(base) }()
	dir, outside := filepath.Join(base, "own"), filepath.Join(base, "outside")
	for _, d := range []string{filepath.Join(dir, "deep"), outside} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	listen := func(path string) net.Listener {
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	own, other := listen(filepath.Join(dir, "deep", "s")), listen(filepath.Join(outside, "s"))
	require.NoError(t, os.Symlink(filepath.Join(outside, "s"), filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("deep", filepath.Join(dir, "inner")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))

	conn, err := dialBelow(t.Context(), dir, filepath.Join(dir, "deep", "s"))
	require.NoError(t, err)
	met, err := own.Accept()
	require.NoError(t, err)
	_, _ = conn.Close(), met.Close()

	accepted := make(chan struct{})
	go func() {
		if c, err := other.Accept(); err == nil {
			_ = c.Close()
			close(accepted)
		}
	}()
	for _, name := range []string{"link", "out/s", "inner/s", "file", "../outside/s", "deep", "nothing"} {
		_, err := dialBelow(t.Context(), dir, dir+"/"+name)
		assert.Error(t, err, name)
		rel, err := socketBelow(dir, dir+"/"+name)
		if err == nil {
			_, err = checkSocket(dir, rel)
		}
		assert.Error(t, err, name)
	}
	select {
	case <-accepted:
		assert.Fail(t, "the host connected to a socket outside")
	default:
	}
}
