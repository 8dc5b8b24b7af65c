package files

import (
	"errors"
	"fmt"
	"os"
	slashpath "path"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Base is an open directory of an allowed prefix and a path below it.
type Base struct {
	tool effects.Tool
	fd   int
	// rest is clean and relative to the directory; "." is the directory itself.
	rest string
	// fixed means that the prefix names one file, which is then rest.
	fixed bool
	shown string // the path as the caller wrote it
}

// Open opens the directory of the prefix that allows a place. With makeDirs it creates a missing
// prefix. The caller must close the Base.
func Open(t effects.Tool, p effects.Place, makeDirs bool) (*Base, *contract.Error) {
	if !norm.NFC.IsNormalString(p.Path) {
		return nil, effects.InvalidInput("path/not-normal", t, "the path %q is not in Unicode normal form C", p.Path)
	}
	root, err := unix.Open(p.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, contract.Errorf("effects/runtime-failed", ":%s: open the root %s: %w", t.ID, p.Root, err).
			WithHint("check the roots of the scope in ferment.hcl")
	}
	b := &Base{tool: t, fd: root, rest: ".", shown: p.Path}
	if p.Allow == "." {
		b.rest = p.Path
		return b, nil
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := b.directory(root, p.Allow, makeDirs, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ENOTDIR) && p.Path == p.Allow || errors.Is(err, unix.ENOENT) && p.Path == p.Allow {
		// The prefix is one file: open its directory, with its name as rest.
		dir, name := slashpath.Split(p.Allow)
		fd, err = b.directory(root, slashpath.Clean("./"+dir), makeDirs, unix.RESOLVE_NO_SYMLINKS)
		b.rest, b.fixed = name, true
	} else {
		b.rest = strings.TrimPrefix(strings.TrimPrefix(p.Path, p.Allow), "/")
		if b.rest == "" {
			b.rest = "."
		}
	}
	if err != nil {
		b.fd = root
		return nil, b.explain("open", err)
	}
	b.fd = fd
	return b, nil
}

// Close closes the directory.
func (b *Base) Close() { _ = unix.Close(b.fd) }

// Path returns a path that always refers to the open directory, for the
// confinement of this process.
func (b *Base) Path() string { return fmt.Sprintf("/proc/self/fd/%d", b.fd) }

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// open resolves a path beneath a directory. A concurrent rename makes the
// kernel return EAGAIN; the call is then retried.
func open(dir int, path string, flags int, mode uint32, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: beneath | resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, path, &how)
		if (err == unix.EAGAIN || err == unix.EINTR) && try < 128 {
			continue
		}
		return fd, err
	}
}

// directory opens a directory beneath another, creating missing parts with
// makeDirs.
func (b *Base) directory(dir int, path string, makeDirs bool, resolve uint64) (int, error) {
	fd, err := open(dir, path, unix.O_RDONLY|unix.O_DIRECTORY, 0, resolve)
	if !makeDirs || err != unix.ENOENT {
		return fd, err
	}
	parent, name := slashpath.Split(path)
	up, err := b.directory(dir, slashpath.Clean("./"+parent), true, resolve)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(up) }()
	if err := unix.Mkdirat(up, name, 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	if err := unix.Fsync(up); err != nil {
		return -1, err
	}
	return open(up, name, unix.O_RDONLY|unix.O_DIRECTORY, 0, resolve|unix.RESOLVE_NO_SYMLINKS)
}

// links forbids links in a path whose prefix is one file.
func (b *Base) links() uint64 {
	if b.fixed {
		return unix.RESOLVE_NO_SYMLINKS
	}
	return 0
}

// explain converts an error of the kernel to the corresponding refusal.
func (b *Base) explain(doing string, err error) *contract.Error {
	t := b.tool
	switch {
	case errors.Is(err, unix.ENOENT) && t.ID == "fs/write-file":
		return effects.InvalidInput("path/not-found", t, "the directory %q does not exist", slashpath.Dir(b.shown)).
			WithHint("set :mkdirs? true in the input to create it")
	case errors.Is(err, unix.ENOENT):
		return effects.InvalidInput("path/not-found", t, "the path %q does not exist", b.shown)
	case errors.Is(err, unix.ELOOP):
		return effects.Denied("symlink", t, "%q is a symbolic link, or contains one that is not allowed here", b.shown)
	case errors.Is(err, unix.EXDEV):
		if fd, xerr := b.across(); xerr == nil {
			_ = unix.Close(fd)
			return effects.Denied("cross-mount", t, "%q leads to another file system", b.shown)
		}
		return effects.Denied("path-outside-root", t, "%q leads out of its directory through a symbolic link", b.shown)
	case errors.Is(err, unix.ENOTDIR):
		return effects.Denied("not-regular", t, "a parent of %q is not a directory", b.shown)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return effects.Denied("path-not-allowed", t, "the system refuses to %s %q: %w", doing, b.shown, err)
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL):
		return effects.InvalidInput("path/invalid", t, "the path %q is not valid on this system: %w", b.shown, err)
	}
	return contract.Errorf("effects/runtime-failed", ":%s: %s %q: %w", t.ID, doing, b.shown, err)
}

// across resolves the path with mounts allowed, to distinguish the causes of an
// error. The result is not used.
func (b *Base) across() (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(b.fd, b.rest, &how)
}

// regular opens a regular file for reading. Its type is checked before opening,
// because opening a device can have effects, and after, because the file may
// have been replaced.
func (b *Base) regular() (*os.File, unix.Stat_t, *contract.Error) {
	var st unix.Stat_t
	seen, err := open(b.fd, b.rest, unix.O_PATH, 0, b.links())
	if err != nil {
		return nil, st, b.explain("read", err)
	}
	err = unix.Fstat(seen, &st)
	_ = unix.Close(seen)
	if err != nil {
		return nil, st, b.explain("read", err)
	}
	if refused := b.kind(&st); refused != nil {
		return nil, st, refused
	}
	fd, err := open(b.fd, b.rest, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0, b.links())
	if err != nil {
		return nil, st, b.explain("read", err)
	}
	f := os.NewFile(uintptr(fd), b.shown)
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil, st, b.explain("read", err)
	}
	refused := b.kind(&st)
	if refused == nil && pseudo(fd) {
		refused = effects.Denied("not-regular", b.tool, "%q is in a file system of the kernel, not on a disk", b.shown)
	}
	if refused != nil {
		_ = f.Close()
		return nil, st, refused
	}
	return f, st, nil
}

// kind rejects everything but regular files with one name: no scope was checked
// for a second name.
func (b *Base) kind(st *unix.Stat_t) *contract.Error {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return effects.Denied("symlink", b.tool, "%q is a symbolic link", b.shown)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return effects.Denied("not-regular", b.tool, "%q is not a regular file", b.shown)
	case st.Nlink > 1:
		return effects.Denied("not-regular", b.tool, "%q has %d names (hard links), expected 1", b.shown, st.Nlink)
	}
	return nil
}

// pseudo reports whether the kernel generates the files of this file system
// when they are read.
func pseudo(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return true
	}
	switch int64(fs.Type) { // the field's size differs between machines
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC:
		return true
	}
	return false
}

// out starts the answer of a file tool.
func (b *Base) out(p effects.Place) *edn.MapBuilder {
	m := &edn.MapBuilder{}
	m.Key("tool/id", edn.K(b.tool.ID))
	m.Key("effect", edn.K(b.tool.Effect))
	m.Key("path", edn.Text(p.Path))
	m.Key("root", edn.Text(p.Root))
	return m
}
