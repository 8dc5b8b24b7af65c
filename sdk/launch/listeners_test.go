//go:build linux

package launch

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// MLX-003: listeners on a port are reported with address, process and session.
func TestListeners(t *testing.T) {
	session, err := unix.Getsid(0)
	require.NoError(t, err)
	for _, address := range []string{"127.0.0.1", "0.0.0.0", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if address == "::1" && err != nil {
			continue // a machine without IPv6
		}
		require.NoError(t, err)
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		all := Listeners(port)
		require.Len(t, all, 1, address)
		if address == "0.0.0.0" {
			assert.True(t, all[0].Addr.IsUnspecified())
		} else {
			assert.Equal(t, address, all[0].Addr.String())
		}
		assert.Equal(t, []int{os.Getpid()}, all[0].PIDs)
		assert.Equal(t, []int{session}, all[0].Sessions)
		require.NoError(t, l.Close())
		assert.Empty(t, Listeners(port))
	}
	_, ok := KilledForMemory()
	assert.True(t, ok)
}
