package scratch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Limits bound one copy.
type Limits struct {
	// Files counts files, links and directories; zero means 50,000.
	Files int
	// Bytes counts the contents of files; zero means 512 MiB.
	Bytes int64
}

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = 50_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 512 << 20
	}
	return l
}

// LimitError means that a tree is too large to copy.
type LimitError struct {
	Dir  string
	What string // "files" or "bytes"
	Max  int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("copy %s: more than %d %s", e.Dir, e.Max, e.What)
}

// TreeError means that a tree cannot be read.
type TreeError struct {
	Dir  string
	Path string // inside the tree
	Err  error
}

func (e *TreeError) Error() string { return fmt.Sprintf("copy %s: read %s: %v", e.Dir, e.Path, e.Err) }
func (e *TreeError) Unwrap() error { return e.Err }

// Copied is a copy of a tree.
type Copied struct {
	Dir string
	// LeftOut names the entries that were not copied: links out of the tree,
	// devices, sockets, pipes. At most 100 paths.
	LeftOut []string
}

const maxLeftOut = 100

// Copy copies the tree at dir for a run. The copy exists until Drop or End. The error wraps a
// *LimitError for a tree that is too large, a *TreeError for one that cannot be read, that of ctx,
// or one of the file system; a copy that fails is removed.
func (s *Store) Copy(ctx context.Context, run, dir string) (Copied, error) {
	target, err := s.Dir(run, "tree")
	if err != nil {
		return Copied{}, err
	}
	c := copier{ctx: ctx, dir: dir, limits: s.limits, out: Copied{Dir: target}}
	if err := c.copy(); err != nil {
		return Copied{}, errors.Join(err, s.Drop(run, target))
	}
	return c.out, nil
}

// copier reads and writes through os.Root, so that nothing in the tree, even if
// it changes while it is copied, leads out of it.
type copier struct {
	ctx      context.Context
	dir      string
	limits   Limits
	from, to *os.Root
	files    int
	bytes    int64
	out      Copied
}

func (c *copier) copy() error {
	var err error
	if c.from, err = os.OpenRoot(c.dir); err != nil {
		return &TreeError{Dir: c.dir, Path: ".", Err: err}
	}
	defer func() { _ = c.from.Close() }()
	if c.to, err = os.OpenRoot(c.out.Dir); err != nil {
		return fmt.Errorf("open scratch directory: %w", err)
	}
	defer func() { _ = c.to.Close() }()
	return fs.WalkDir(c.from.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		err = c.visit(path, e, err)
		// An entry may vanish after it was listed: the copy is then of the tree after that.
		if gone := new(TreeError); path != "." && errors.As(err, &gone) && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

var versionControl = []string{".git", ".hg", ".svn"}

func (c *copier) visit(path string, e fs.DirEntry, err error) error {
	if err != nil {
		return &TreeError{Dir: c.dir, Path: path, Err: err}
	}
	if err := c.ctx.Err(); err != nil {
		return fmt.Errorf("copy %s: %w", c.dir, err)
	}
	if path == "." {
		return nil
	}
	if slices.Contains(versionControl, e.Name()) {
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if c.files++; c.files > c.limits.Files {
		return &LimitError{Dir: c.dir, What: "files", Max: int64(c.limits.Files)}
	}
	switch e.Type() {
	case fs.ModeDir:
		if err := c.to.Mkdir(path, 0o755); err != nil {
			return fmt.Errorf("write scratch copy: %w", err)
		}
		return nil
	case fs.ModeSymlink:
		return c.link(path)
	case 0:
		return c.file(path)
	}
	c.leaveOut(path)
	return nil
}

func (c *copier) leaveOut(path string) {
	if len(c.out.LeftOut) < maxLeftOut {
		c.out.LeftOut = append(c.out.LeftOut, path)
	}
}

// link copies a relative link whose target is lexically inside the tree. Every
// link on the way obeys the same rule in the copy, so none leads out of it.
func (c *copier) link(path string) error {
	target, err := c.from.Readlink(path)
	if err != nil {
		return &TreeError{Dir: c.dir, Path: path, Err: err}
	}
	if filepath.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(path), target)) ||
		c.crossesLink(path, target) {
		c.leaveOut(path)
		return nil
	}
	if err := c.to.Symlink(target, path); err != nil {
		return fmt.Errorf("write scratch copy: %w", err)
	}
	return nil
}

// crossesLink reports whether ".." steps of the target come after a step that
// is itself a link: such a target is not where its text says.
func (c *copier) crossesLink(path, target string) bool {
	at := filepath.Dir(path)
	for _, step := range strings.Split(filepath.ToSlash(target), "/") {
		if step == ".." {
			if info, err := c.from.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return true
			}
		}
		at = filepath.Join(at, step)
	}
	return false
}

func (c *copier) file(path string) error {
	// Avoid blocking on a pipe that has replaced the file since it was listed.
	src, err := c.from.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return &TreeError{Dir: c.dir, Path: path, Err: err}
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return &TreeError{Dir: c.dir, Path: path, Err: err}
	}
	if !info.Mode().IsRegular() {
		c.leaveOut(path)
		return nil
	}
	// The owner must be able to change files in the copy.
	mode := info.Mode().Perm() | 0o600
	dst, err := c.to.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("write scratch copy: %w", err)
	}
	left := c.limits.Bytes - c.bytes
	n, err := io.Copy(dst, io.LimitReader(src, left+1))
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	c.bytes += n
	switch {
	case n > left:
		return &LimitError{Dir: c.dir, What: "bytes", Max: c.limits.Bytes}
	case err != nil:
		return fmt.Errorf("write scratch copy: %w", err)
	}
	return nil
}
