//go:build darwin || freebsd

package httpapi

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID asks the kernel for the user of the process that connected.
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

// peerPID is the process that connected; 0 says that it is not known.
func peerPID(net.Conn) int { return 0 }
