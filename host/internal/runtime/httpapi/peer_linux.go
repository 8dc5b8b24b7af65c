package httpapi

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user id of the peer process.
func peerUID(conn *net.UnixConn) (int, error) {
	cred, err := peerCred(conn)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// peerPID returns the peer process id; 0 if unknown.
func peerPID(conn net.Conn) int {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	cred, err := peerCred(local)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

func peerCred(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	if cerr != nil {
		return nil, cerr
	}
	return cred, nil
}
