//go:build !linux && !darwin && !freebsd

package httpapi

import (
	"errors"
	"net"
)

// peerUID returns an error, so that every caller of the admin socket is rejected.
func peerUID(*net.UnixConn) (int, error) {
	return 0, errors.New("peer credentials are not supported on this system")
}

// peerPID returns the peer process id; 0 if unknown.
func peerPID(net.Conn) int { return 0 }
