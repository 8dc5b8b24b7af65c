//go:build unix

package scan

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// hashAll hashes a group of files of a directory.
func (w *worker) hashAll(t task) {
	defer t.dir.handle.release()
	for _, n := range t.files {
		if w.stopped.Load() {
			return
		}
		w.hash(t.dir, n)
	}
	w.done(t.dir)
}

// hash reads a file or link and computes its ids.
func (w *worker) hash(d *directory, n *tree.Node) {
	path := tree.Join(d.path, n.Name)
	var err error
	if n.Mode == id.Link {
		err = w.readLink(d, n)
	} else {
		err = w.read(d, n, nil)
	}
	switch {
	case err == nil:
		n.ID = w.Scheme.Node(path, n.Mode, n.Content)
	case errors.Is(err, unix.ENOENT), errors.Is(err, errReplaced):
		w.unstable(path)
		d.lose(n)
	default:
		w.unreadable(path, err)
		d.lose(n)
	}
}

// errReplaced means that a file was replaced by something else after it was
// listed.
var errReplaced = errors.New("it was replaced while it was read")

// errStopped means that the scan ended.
var errStopped = errors.New("the scan was stopped")

// read hashes a file. It reads again if the file changed meanwhile; one that
// keeps changing is recorded and not trusted. text, if not nil, receives the
// first bytes, as many as a rule file may have.
func (w *worker) read(d *directory, n *tree.Node, text *[]byte) error {
	fd, err := openAt(d.handle.fd, n.Name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	w.opened.Add(1)
	var before, after unix.Stat_t
	path := tree.Join(d.path, n.Name)
	if err := unix.Fstat(fd, &before); err != nil {
		return err
	}
	if kindOf(&before) != unix.DT_REG {
		return errReplaced
	}
	for try := 1; ; try++ {
		if err := w.fault("read", path); err != nil {
			return err
		}
		size, err := w.readOnce(fd, before.Size, text)
		if err != nil {
			return err
		}
		if err := unix.Fstat(fd, &after); err != nil {
			return err
		}
		steady := size == before.Size && after.Size == size && after.Mtim == before.Mtim && after.Ctim == before.Ctim
		if !steady && try < tries || size != before.Size && try < 5*tries {
			before = after
			if _, err := unix.Seek(fd, 0, 0); err != nil {
				return err
			}
			continue
		}
		if size != before.Size {
			return errors.New("it was truncated again at every attempt to read it")
		}
		n.Content, n.Size, n.Mode = w.blob.ID(), size, fileMode(&before)
		n.Stat = w.statOf(&before)
		if !steady {
			n.Stat.Trusted = false
			w.unstable(path)
		}
		return nil
	}
}

// readOnce hashes at most size bytes and returns how many there were.
func (w *worker) readOnce(fd int, size int64, text *[]byte) (int64, error) {
	w.blob.Reset(size)
	if text != nil {
		*text = (*text)[:0]
	}
	var total int64
	for total < size {
		if w.stopped.Load() {
			return 0, errStopped
		}
		n, err := unix.Read(fd, w.buffer[:min(int64(len(w.buffer)), size-total)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		_, _ = w.blob.Write(w.buffer[:n])
		if text != nil {
			*text = append(*text, w.buffer[:min(n, maxRuleFile-len(*text))]...)
		}
		total += int64(n)
	}
	w.hashed.Add(total)
	return total, nil
}

// readLink hashes the target of a link.
func (w *worker) readLink(d *directory, n *tree.Node) error {
	var st unix.Stat_t
	if err := unix.Fstatat(d.handle.fd, n.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	size, err := unix.Readlinkat(d.handle.fd, n.Name, w.buffer)
	if errors.Is(err, unix.EINVAL) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	w.blob.Reset(int64(size))
	_, _ = w.blob.Write(w.buffer[:size])
	w.hashed.Add(int64(size))
	n.Content, n.Size, n.Stat = w.blob.ID(), int64(size), w.statOf(&st)
	n.Stat.Trusted = n.Stat.Trusted && int64(size) == st.Size
	return nil
}

// stat reads the file information of an entry. It returns false if the entry does not exist any
// more or cannot be read.
func (w *worker) stat(d *directory, name string, st *unix.Stat_t) bool {
	err := unix.Fstatat(d.handle.fd, name, st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil:
		return true
	case errors.Is(err, unix.ENOENT):
		if _, selected := d.selected.name(name); !selected {
			w.unstable(tree.Join(d.path, name))
		}
	default:
		w.unreadable(tree.Join(d.path, name), err)
	}
	return false
}

func (w *worker) statOf(st *unix.Stat_t) tree.Stat {
	s := tree.Stat{MTime: st.Mtim.Nano(), CTime: st.Ctim.Nano(), Inode: st.Ino, Mode: uint32(st.Mode)}
	s.Trusted = s.MTime <= w.settled && s.CTime <= w.settled
	return s
}

// unchanged reports whether a file still has the state that the last scan read.
func unchanged(was *tree.Node, st *unix.Stat_t) bool {
	return was.Stat.Trusted && was.Size == st.Size && sameStat(was.Stat, st) && was.Mode != id.Dir
}

func sameStat(s tree.Stat, st *unix.Stat_t) bool {
	return s.CTime == st.Ctim.Nano() && s.MTime == st.Mtim.Nano() && s.Inode == st.Ino && s.Mode == uint32(st.Mode)
}

// fileMode returns git's mode of a regular file: only the owner's permission to
// execute counts.
func fileMode(st *unix.Stat_t) id.Mode {
	if uint32(st.Mode)&unix.S_IXUSR != 0 {
		return id.Exec
	}
	return id.File
}

func kindOf(st *unix.Stat_t) byte {
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.DT_DIR
	case unix.S_IFREG:
		return unix.DT_REG
	case unix.S_IFLNK:
		return unix.DT_LNK
	}
	return unix.DT_BLK
}

// openAt opens an entry of a directory and follows no link.
func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// list returns the entries of a directory in the order of the system.
func (w *worker) list(fd int) ([]entry, error) {
	w.entries = w.entries[:0]
	for {
		n, err := unix.ReadDirent(fd, w.listing)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return slices.Clip(w.entries), nil
		}
		w.entries = appendEntries(w.entries, w.listing[:n])
	}
}
