//go:build !linux

package confine

// NewMark is 0: processes cannot be marked on this system.
func NewMark() uint64 { return 0 }

// MarkRunning is 0: processes cannot be marked on this system.
func MarkRunning(int) uint64 { return 0 }

// Mark is 0: processes cannot be marked on this system.
func Mark(int) uint64 { return 0 }
