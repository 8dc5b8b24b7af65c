//go:build unix && !linux

package scan

import "golang.org/x/sys/unix"

// appendEntries parses what the system wrote about the entries of a directory.
// The types are read from each entry.
func appendEntries(entries []entry, b []byte) []entry {
	_, _, names := unix.ParseDirent(b, -1, nil)
	for _, name := range names {
		entries = append(entries, entry{name: name})
	}
	return entries
}
