package httpapi

import (
	"context"
	"net"
	"os"
)

type peerKey struct{}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn()
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	if uid, err := peerUID(unix); err == nil {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

// peerOf is the user at the other end, as the kernel says it.
func peerOf(ctx context.Context) (uid int, known bool) {
	uid, known = ctx.Value(peerKey{}).(int)
	return uid, known
}

func ownUID() int { return os.Geteuid() }
