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
