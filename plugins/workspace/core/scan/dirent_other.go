//go:build unix && !linux

package scan

import "golang.org/x/sys/unix"

// appendEntries parses directory entries in the form that the system writes. It leaves the types
// unknown; they are read from each entry.
func appendEntries(entries []entry, b []byte) []entry {
	_, _, names := unix.ParseDirent(b, -1, nil)
	for _, name := range names {
		entries = append(entries, entry{name: name})
	}
	return entries
}
