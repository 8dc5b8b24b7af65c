//go:build !linux

package worker

// closeInherited does nothing: workers run on Linux.
func closeInherited() {}

// wholeModes does nothing: workers run on Linux.
func wholeModes() {}
