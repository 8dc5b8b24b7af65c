package git

import (
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	slashpath "path"
	"path/filepath"
	"strings"
)

// Head returns the commit of the repository in a directory of the workspace, whose .git is a
// directory, a link, or a file that names a directory, as for submodules and worktrees. repository
// is false if the directory is not a repository for git, and commit nil if its HEAD does not
// resolve to a commit. The error says that a repository outside of root cannot be read.
func Head(root *os.Root, dir string) (commit []byte, repository bool, err error) {
	r := nested{root: root}
	defer r.close()
	at := slashpath.Join(dir, ".git")
	info, err := root.Lstat(at)
	if err != nil {
		return nil, false, nil
	}
	r.dir = place{root, at}
	if info.Mode()&fs.ModeSymlink != 0 { // to a directory or to a file
		if r.dir, info, err = r.follow(filepath.Join(root.Name(), filepath.FromSlash(at))); err != nil || info == nil {
			return nil, err != nil, err
		}
		own, _ := locate(root.Name())
		if is, err := os.Stat(own); err == nil && os.SameFile(info, is) {
			return nil, false, nil // git takes a link to its own repository for none
		}
	}
	if info.Mode().IsRegular() {
		to, ok := strings.CutPrefix(r.dir.line(""), "gitdir: ")
		if !ok {
			return nil, false, nil
		}
		if !filepath.IsAbs(to) { // relative to the directory of the link, as for git
			to = filepath.Join(root.Name(), filepath.FromSlash(dir), to)
		}
		if r.dir, info, err = r.follow(to); err != nil || info == nil {
			return nil, err != nil, err
		}
	}
	r.common = r.dir
	if to := r.dir.line("commondir"); to != "" {
		if !filepath.IsAbs(to) {
			to = filepath.Join(r.dir.root.Name(), filepath.FromSlash(r.dir.at), to)
		}
		if r.common, info, err = r.follow(to); err != nil || info == nil {
			return nil, err != nil, err
		}
	}
	if !r.valid() {
		return nil, false, nil
	}
	return r.resolve("HEAD"), true, nil
}

// nested is the repository of a directory.
type nested struct {
	root        *os.Root
	dir, common place
	opened      []*os.Root
}

// place is a path below an open directory.
type place struct {
	root *os.Root
	at   string
}

func (r *nested) close() {
	for _, root := range r.opened {
		_ = root.Close()
	}
}

// follow returns the place of a path with all links resolved. The information is nil if nothing is
// there. Outside of the workspace that is an error: a sandbox can hide what git sees.
func (r *nested) follow(path string) (p place, info fs.FileInfo, err error) {
	top, err := filepath.EvalSymlinks(r.root.Name())
	if err != nil {
		return p, nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		rel, outside := filepath.Rel(top, path)
		if outside == nil && filepath.IsLocal(rel) && errors.Is(err, fs.ErrNotExist) {
			return p, nil, nil
		}
		return p, nil, err
	}
	if rel, err := filepath.Rel(top, real); err == nil && filepath.IsLocal(rel) {
		p = place{r.root, filepath.ToSlash(rel)}
	} else {
		dir, name := real, "."
		if info, err := os.Stat(real); err == nil && !info.IsDir() {
			dir, name = filepath.Split(real)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return p, nil, err
		}
		r.opened = append(r.opened, root)
		p = place{root, name}
	}
	info, err = p.root.Stat(p.at)
	return p, info, err
}

func inside(path string) bool { return path != ".." && !strings.HasPrefix(path, "../") }

const maxRefFile = 16 << 20 // packed-refs of large repositories

// read returns the text of a regular file, empty if it cannot be read.
func (p place) read(path string) string {
	f, err := p.root.Open(slashpath.Join(p.at, path))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRefFile))
	if err != nil {
		return ""
	}
	return string(text)
}

func (p place) line(path string) string { return strings.TrimRight(p.read(path), "\r\n") }

// valid reports whether git takes the directory for a repository: a HEAD that
// can be one, and directories for objects and refs.
func (r *nested) valid() bool {
	return r.validHead() && r.common.isDir("objects") && r.common.isDir("refs")
}

func (p place) isDir(path string) bool {
	info, err := p.root.Stat(slashpath.Join(p.at, path))
	return err == nil && info.Mode().Perm()&0o111 != 0
}

func (p place) readlink(path string) (string, error) {
	return p.root.Readlink(slashpath.Join(p.at, path))
}

func (r *nested) validHead() bool {
	if to, err := r.dir.readlink("HEAD"); err == nil {
		return strings.HasPrefix(to, "refs/")
	}
	text := r.dir.line("HEAD")
	if ref, ok := strings.CutPrefix(text, "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(ref, " \t"), "refs/")
	}
	return object(text) != nil
}

// resolve follows a reference to a commit, nil if there is none.
func (r *nested) resolve(ref string) []byte {
	for range 5 {
		if to, err := r.dir.readlink(ref); err == nil && ref == "HEAD" {
			ref = to
			continue
		}
		text := r.dir.line(ref)
		if text == "" {
			text = r.common.line(ref)
		}
		if text == "" {
			return r.packed(ref)
		}
		to, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			return object(text)
		}
		if ref = strings.TrimSpace(to); !inside(slashpath.Clean(ref)) {
			return nil
		}
	}
	return nil
}

func (r *nested) packed(ref string) []byte {
	for line := range strings.Lines(r.common.read("packed-refs")) {
		if sum, name, ok := strings.Cut(strings.TrimRight(line, "\n"), " "); ok && name == ref {
			return object(sum)
		}
	}
	return nil
}

// object parses the id of an object.
func object(text string) []byte {
	text = strings.TrimRight(text, " \t\r\n")
	if len(text) != 40 && len(text) != 64 {
		return nil
	}
	sum, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return sum
}

// RefusedName reports whether git refuses a path with this component, on any
// system: a spelling that some file system takes for .git, or a link in place
// of .gitmodules.
func RefusedName(name string, link bool) bool {
	for part := range strings.SplitSeq(strings.ToLower(name), `\`) { // a separator on NTFS
		rest, ok := strings.CutPrefix(part, ".git")
		if !ok {
			rest, ok = strings.CutPrefix(part, "git~1")
		}
		// NTFS drops blanks and dots at the end; a stream is named behind a colon.
		stem, _, _ := strings.Cut(rest, ":")
		if ok && strings.Trim(stem, " .") == "" || link && modules(part) {
			return true
		}
	}
	return false
}

// modules reports whether NTFS can take the lower-case name for .gitmodules.
func modules(lower string) bool {
	stem, _, _ := strings.Cut(lower, ":")
	stem = strings.TrimRight(stem, " .")
	return stem == ".gitmodules" || strings.HasPrefix(stem, "gitmod~") || strings.HasPrefix(stem, "gi7eba~")
}
