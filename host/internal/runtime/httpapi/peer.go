package httpapi

import (
	"context"
	"net"
	"os"

	"github.com/fermenthq/ferment/sdk/confine"
)

// peerKey is the key of a peer in a context.
type peerKey struct{}

// peer is the process at the other end of a unix socket, as reported by the kernel.
type peer struct {
	uid int
	pid int // 0: unknown
	// contained reports that the process is a plugin, or was started by one.
	contained bool
}

// withPeer adds the peer of a unix socket connection to a context. If the kernel does not report
// it, ctx is returned unchanged.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn()
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := peerUID(unix)
	if err != nil {
		return ctx
	}
	pid := peerPID(unix)
	return context.WithValue(ctx, peerKey{}, peer{uid, pid, pid != 0 && confine.Foreign(pid)})
}

// peerOf returns the peer of the connection of a request.
func peerOf(ctx context.Context) (p peer, known bool) {
	p, known = ctx.Value(peerKey{}).(peer)
	return p, known
}

func ownUID() int { return os.Geteuid() }
