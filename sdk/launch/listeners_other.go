//go:build !linux

package launch

import "net/netip"

// Listener is a listening TCP socket.
type Listener struct {
	Addr netip.Addr
	// PIDs are the processes that hold the socket, as far as this process may
	// see them, and Sessions their sessions.
	PIDs, Sessions []int
}

// Listeners returns nil: this system does not report them.
func Listeners(uint16) []Listener { return nil }

// KilledForMemory returns the number of processes that the kernel killed
// because memory ran out. ok is false if the system does not report it.
func KilledForMemory() (n uint64, ok bool) { return 0, false }
