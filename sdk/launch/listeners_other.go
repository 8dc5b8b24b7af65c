//go:build !linux

package launch

import "net/netip"

// Listener is a socket that takes TCP connections.
type Listener struct {
	Addr netip.Addr
	// PIDs are the processes that have it, as far as this one may see them,
	// and Sessions the sessions of these.
	PIDs, Sessions []int
}

// Listeners are those on a port. On systems that do not tell there are none.
func Listeners(uint16) []Listener { return nil }

// KilledForMemory counts the processes that the kernel has killed because
// memory had run out. ok is false if it does not tell.
func KilledForMemory() (n uint64, ok bool) { return 0, false }
