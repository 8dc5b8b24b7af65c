//go:build !linux && !darwin && !freebsd

package httpapi

import (
	"errors"
	"net"
)

// peerUID refuses: without the word of the kernel nobody is let in.
func peerUID(*net.UnixConn) (int, error) {
	return 0, errors.New("this system does not say who connects")
}

// peerPID is the process that connected; 0 says that it is not known.
func peerPID(net.Conn) int { return 0 }
