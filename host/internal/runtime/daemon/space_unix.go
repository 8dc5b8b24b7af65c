//go:build unix

package daemon

import "golang.org/x/sys/unix"

// FreeSpace returns the number of bytes that an unprivileged process may still
// write below a directory.
func FreeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	if s.Files > 0 && s.Ffree == 0 {
		return 0, nil // no file can be created without a free inode
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil // the types differ between systems
}
