//go:build darwin || freebsd

package httpapi

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user id of the peer process.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED) }); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, cerr
	}
	return int(cred.Uid), nil
}

// peerPID returns the peer process id; 0 if unknown.
func peerPID(net.Conn) int { return 0 }
