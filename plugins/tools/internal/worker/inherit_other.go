//go:build !linux

package worker

// closeInherited has nothing to go by here: workers run on Linux.
func closeInherited() {}

// wholeModes does nothing where no worker writes.
func wholeModes() {}
