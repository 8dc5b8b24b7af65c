package scan

import (
	"bytes"
	"encoding/binary"
)

// appendEntries parses directory entries in the form that the system writes: per entry inode and
// position with 8 bytes each, its length with 2, its type with 1, and the name up to a NUL.
func appendEntries(entries []entry, b []byte) []entry {
	const nameAt = 19
	for len(b) > nameAt {
		length := int(binary.NativeEndian.Uint16(b[16:]))
		if length < nameAt || length > len(b) {
			break
		}
		name := b[nameAt:length]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if text := string(name); text != "." && text != ".." {
			entries = append(entries, entry{name: text, kind: b[18]})
		}
		b = b[length:]
	}
	return entries
}
