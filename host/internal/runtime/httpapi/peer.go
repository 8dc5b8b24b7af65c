package httpapi

import (
	"context"
	"net"
	"os"
)

type (
	peerKey struct{}
	pidKey  struct{}
)

// withPeer stores the user id and the process id of the peer of a unix socket connection.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn()
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	if uid, err := peerUID(unix); err == nil {
		ctx = context.WithValue(ctx, peerKey{}, uid)
	}
	return context.WithValue(ctx, pidKey{}, peerPID(unix))
}

// peerOf returns the user id of the peer, as reported by the kernel.
func peerOf(ctx context.Context) (uid int, known bool) {
	uid, known = ctx.Value(peerKey{}).(int)
	return uid, known
}

func ownUID() int { return os.Geteuid() }
