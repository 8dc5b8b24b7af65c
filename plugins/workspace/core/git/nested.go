package git

import (
	"encoding/hex"
	"io"
	"os"
	slashpath "path"
	"strings"
)

// Head returns the commit of the repository in a directory of the workspace.
// repository is false if the directory is not a repository for git, and commit
// nil if its HEAD does not resolve to a commit. Files outside of root are not
// read.
func Head(root *os.Root, dir string) (commit []byte, repository bool) {
	r := nested{root: root, dir: slashpath.Join(dir, ".git")}
	info, err := root.Lstat(r.dir)
	if err != nil {
		return nil, false
	}
	if info.Mode().IsRegular() {
		to, ok := strings.CutPrefix(r.line(r.dir), "gitdir: ")
		if !ok {
			return nil, false
		}
		if slashpath.IsAbs(to) || !r.inside(slashpath.Join(dir, to)) {
			// The directory of a worktree lies elsewhere: git would follow.
			return nil, true
		}
		r.dir = slashpath.Join(dir, to)
	}
	r.common = r.dir
	if to := r.line(slashpath.Join(r.dir, "commondir")); to != "" {
		r.common = slashpath.Join(r.dir, to)
	}
	if !r.valid() {
		return nil, false
	}
	return r.resolve("HEAD"), true
}

// nested is the repository of a directory. Its paths are relative to root.
type nested struct {
	root        *os.Root
	dir, common string
}

func (r *nested) inside(path string) bool { return path != ".." && !strings.HasPrefix(path, "../") }

const maxRefFile = 16 << 20 // packed-refs of large repositories

func (r *nested) read(path string) string {
	f, err := r.root.Open(path)
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

func (r *nested) line(path string) string { return strings.TrimRight(r.read(path), "\r\n") }

// valid reports whether git takes the directory for a repository: a HEAD that
// can be one, and directories for objects and refs.
func (r *nested) valid() bool {
	return r.validHead() && r.isDir(slashpath.Join(r.common, "objects")) && r.isDir(slashpath.Join(r.common, "refs"))
}

func (r *nested) isDir(path string) bool {
	info, err := r.root.Stat(path)
	return err == nil && info.Mode().Perm()&0o111 != 0
}

func (r *nested) validHead() bool {
	head := slashpath.Join(r.dir, "HEAD")
	if to, err := r.root.Readlink(head); err == nil {
		return strings.HasPrefix(to, "refs/")
	}
	text := r.line(head)
	if ref, ok := strings.CutPrefix(text, "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(ref, " \t"), "refs/")
	}
	return object(text) != nil
}

// resolve follows a reference to a commit, nil if there is none.
func (r *nested) resolve(ref string) []byte {
	for range 5 {
		if to, err := r.root.Readlink(slashpath.Join(r.dir, ref)); err == nil && ref == "HEAD" {
			ref = to
			continue
		}
		text := r.line(slashpath.Join(r.dir, ref))
		if text == "" {
			text = r.line(slashpath.Join(r.common, ref))
		}
		if text == "" {
			return r.packed(ref)
		}
		to, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			return object(text)
		}
		if ref = strings.TrimSpace(to); !r.inside(slashpath.Clean(ref)) {
			return nil
		}
	}
	return nil
}

func (r *nested) packed(ref string) []byte {
	for line := range strings.Lines(r.read(slashpath.Join(r.common, "packed-refs"))) {
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
