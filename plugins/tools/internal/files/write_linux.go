package files

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	slashpath "path"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

func hashOf(data []byte) string {
	sum := blake3.Sum256(data)
	return "b3:" + hex.EncodeToString(sum[:])
}

// Write replaces a file atomically, or appends to it, as the input requests. The name of the
// temporary file is derived from key, so that a repeated call finds the file that a killed call
// left. It holds a lock on the directory while it writes and waits for that of other calls. An
// error may leave the file replaced; it then has the detail :effect/state :unknown.
func (b *Base) Write(p effects.Place, input edn.Value, s *effects.Scope, key string) (edn.Value, *contract.Error) {
	content, refused := b.tool.Content(input)
	if refused != nil {
		return edn.Nil(), refused
	}
	dir, name, refused := b.parent(input.Key("mkdirs?").Truthy())
	if refused != nil {
		return edn.Nil(), refused
	}
	defer func() { _ = unix.Close(dir) }()
	appends := input.Key("append?").Truthy()
	// Concurrent appends must not lose each other, and of concurrent calls with
	// one key none may take the temporary file of another.
	if err := unix.Flock(dir, unix.LOCK_EX); err != nil {
		return edn.Nil(), b.explain("lock", err)
	}
	limit := min(s.MaxBytes.Or(MaxEncoded), 1<<40)
	old, refused := b.before(dir, name, appends, limit)
	if refused != nil {
		return edn.Nil(), refused
	}
	whole := content
	if appends {
		whole = append(old.data, content...)
	}
	if int64(len(whole)) > limit {
		return edn.Nil(), effects.Denied("max-bytes", b.tool, "%q would have %d bytes, the limit is %d", b.shown,
			len(whole), limit)
	}
	replaced, err := replace(dir, name, temporary(key), whole, old.mode)
	if err != nil {
		refused = b.explain("write", err)
		if replaced { // to repeat it would append twice
			refused = refused.WithDetail("effect/state", edn.K("unknown"))
		}
		return edn.Nil(), refused
	}
	m := b.out(p)
	m.Key("bytes", edn.Int(int64(len(content))))
	m.Key("append?", edn.Bool(appends))
	m.Key("wrote?", edn.Bool(true))
	m.Key("hash/after", edn.Text(hashOf(whole)))
	m.OptText("hash/before", old.hash)
	return m.Map(), nil
}

// parent opens the directory of the file.
func (b *Base) parent(makeDirs bool) (fd int, name string, refused *contract.Error) {
	if b.rest == "." {
		return -1, "", effects.Denied("not-regular", b.tool, "%q is a directory", b.shown)
	}
	parent, name := slashpath.Split(b.rest)
	fd, err := b.directory(b.fd, slashpath.Clean("./"+parent), makeDirs, b.links())
	if err != nil {
		return -1, "", b.explain("open the directory of", err)
	}
	if pseudo(fd) {
		_ = unix.Close(fd)
		return -1, "", effects.Denied("not-regular", b.tool, "%q is in a file system of the kernel, not on a disk",
			b.shown)
	}
	return fd, name, nil
}

// existing describes the file before a write.
type existing struct {
	hash string
	data []byte // only for an append
	mode uint32
}

// before examines the existing file, if any: a link is rejected, and so is
// everything that is not a regular file.
func (b *Base) before(dir int, name string, keep bool, limit int64) (existing, *contract.Error) {
	old := existing{mode: 0o644}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return old, nil
	}
	if err != nil {
		return old, b.explain("look at", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return old, effects.Denied("symlink", b.tool, "%q is a symbolic link", b.shown)
	default:
		return old, effects.Denied("not-regular", b.tool, "%q is not a regular file", b.shown)
	}
	old.mode = st.Mode & 0o777
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == unix.EACCES && !keep {
		return old, nil // it may be replaced without permission to read it
	}
	if err != nil {
		return old, b.explain("read", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return old, effects.Denied("not-regular", b.tool, "%q is not a regular file", b.shown)
	}
	if keep {
		if st.Nlink > 1 {
			return old, b.kind(&st)
		}
		data, refused := b.whole(f, st.Size, limit)
		if refused != nil {
			return old, refused
		}
		old.data, old.hash = data, hashOf(data)
		return old, nil
	}
	h := blake3.New(32, nil)
	if _, err := io.Copy(h, f); err != nil {
		return old, b.explain("read", err)
	}
	old.hash = "b3:" + hex.EncodeToString(h.Sum(nil))
	return old, nil
}

// temporary returns the name of the file until it is complete.
func temporary(key string) string {
	sum := blake3.Sum256([]byte(key))
	return ".ferment-" + hex.EncodeToString(sum[:8]) + ".part"
}

// syncDirectory is replaced in tests.
var syncDirectory = unix.Fsync

// replace writes a new file and renames it over the old one; file and directory
// are synced to disk when it returns without an error. replaced reports whether
// the file is the new one, which an error does not exclude. The file has its
// final mode from the start, within the process's umask: a confined process may
// not change modes.
func replace(dir int, name, part string, data []byte, mode uint32) (replaced bool, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	fd, err := open(dir, part, flags, mode, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.EEXIST) { // left by a killed call
		if err = unix.Unlinkat(dir, part, 0); err == nil {
			fd, err = open(dir, part, flags, mode, unix.RESOLVE_NO_SYMLINKS)
		}
	}
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), part)
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = unix.Unlinkat(dir, part, 0)
		}
	}()
	if _, err := f.Write(data); err != nil {
		return false, err
	}
	if err := f.Sync(); err != nil {
		return false, err
	}
	if err := unix.Renameat(dir, part, dir, name); err != nil {
		return false, err
	}
	return true, syncDirectory(dir)
}
