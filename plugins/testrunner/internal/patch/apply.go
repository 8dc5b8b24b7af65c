package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Change is the change of a patch to one file.
type Change struct {
	Path    string
	From    string // the old path of a rename or copy
	Status  Status
	Added   int
	Removed int
}

// Status is the kind of a change.
type Status string

// The kinds of changes.
const (
	Modified Status = "modified"
	New      Status = "new"
	Deleted  Status = "deleted"
	Renamed  Status = "renamed"
	Copied   Status = "copied"
)

// Apply changes the tree at dir. If the patch does not fit, it leaves the tree
// unchanged and returns a *Refusal. Any other error is that of ctx, or one of the
// file system, after which some files may be changed and others not.
func (p *Patch) Apply(ctx context.Context, dir string) ([]Change, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("apply patch: %w", err)
	}
	defer func() { _ = root.Close() }()
	stage := &stage{root: root, files: make(map[string]*file)}
	changes := make([]Change, 0, len(p.files))
	for _, f := range p.files {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("apply patch: %w", err)
		}
		change, err := stage.apply(f)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	if err := stage.write(); err != nil {
		return nil, fmt.Errorf("apply patch: %w", err)
	}
	return changes, nil
}

// stage holds the new state of every file that the patch touches until the
// whole patch is known to apply.
type stage struct {
	root  *os.Root
	files map[string]*file
	order []string
}

// file is the state of one path: its content and mode, or that it is gone.
type file struct {
	content []byte
	mode    fs.FileMode
	exists  bool
	touched bool
}

func (s *stage) apply(f *gitdiff.File) (Change, error) {
	c := Change{Path: f.NewName, Status: Modified}
	for _, frag := range f.TextFragments {
		c.Added += int(frag.LinesAdded)
		c.Removed += int(frag.LinesDeleted)
	}
	switch {
	case f.IsNew:
		c.Status = New
	case f.IsDelete:
		c.Status, c.Path = Deleted, f.OldName
	case f.IsRename:
		c.Status, c.From = Renamed, f.OldName
	case f.IsCopy:
		c.Status, c.From = Copied, f.OldName
	}
	source := &file{}
	if !f.IsNew {
		var err error
		if source, err = s.existing(f.OldName); err != nil {
			return c, err
		}
	}
	content, err := patched(source.content, f)
	if err != nil {
		return c, err
	}
	if f.IsDelete && len(content) > 0 {
		return c, &Refusal{File: f.OldName, Reason: "the file has content that the patch does not delete"}
	}
	if c.Status == New || c.Status == Renamed || c.Status == Copied {
		if err := s.absent(f.NewName); err != nil {
			return c, err
		}
	}
	mode := source.mode
	if f.NewMode != 0 {
		mode = 0o644 | f.NewMode&0o111
	} else if f.IsNew {
		mode = 0o644
	}
	if f.IsDelete || f.IsRename {
		s.put(f.OldName, &file{})
	}
	if !f.IsDelete {
		s.put(f.NewName, &file{content: content, mode: mode, exists: true})
	}
	return c, nil
}

func (s *stage) put(name string, f *file) {
	if old, ok := s.files[name]; !ok || !old.touched {
		s.order = append(s.order, name)
	}
	f.touched = true
	s.files[name] = f
}

// existing returns the current state of a file that the patch needs. The error is a *Refusal if the
// file does not exist.
func (s *stage) existing(name string) (*file, error) {
	f, err := s.load(name)
	if err != nil {
		return nil, err
	}
	if !f.exists {
		return nil, &Refusal{File: name, Reason: "the file does not exist"}
	}
	return f, nil
}

func (s *stage) absent(name string) error {
	f, err := s.load(name)
	if err != nil {
		return err
	}
	if f.exists {
		return &Refusal{File: name, Reason: "the file exists already"}
	}
	for _, other := range s.order {
		if s.files[other].exists && strings.HasPrefix(other, name+"/") {
			return &Refusal{File: name, Reason: "the patch makes a directory of this name"}
		}
	}
	return nil
}

// load returns the state of a file; it reads the tree only on the first request for the name.
func (s *stage) load(name string) (*file, error) {
	if f, ok := s.files[name]; ok {
		return f, nil
	}
	f, err := s.read(name)
	if err == nil {
		s.files[name] = f
	}
	return f, err
}

func (s *stage) read(name string) (*file, error) {
	if err := s.realPath(name); err != nil {
		return nil, err
	}
	info, err := s.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // the patch may remove a file in the path
		return &file{}, nil
	case err != nil:
		return nil, &Refusal{File: name, Reason: "the file cannot be read: " + reason(err)}
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, &Refusal{File: name, Reason: "the path is a symbolic link"}
	case !info.Mode().IsRegular():
		return nil, &Refusal{File: name, Reason: "the path is not a regular file"}
	case info.Size() > maxFileSize:
		return nil, &Refusal{File: name, Reason: fmt.Sprintf("the file is larger than %d bytes", maxFileSize)}
	}
	content, err := s.root.ReadFile(name)
	if err != nil {
		return nil, &Refusal{File: name, Reason: "the file cannot be read: " + reason(err)}
	}
	return &file{content: content, mode: info.Mode().Perm(), exists: true}, nil
}

// realPath returns an error if a directory in the path is a link or a file.
func (s *stage) realPath(name string) error {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if f, ok := s.files[at]; ok && f.touched {
			if f.exists {
				return &Refusal{File: name, Reason: at + " is not a directory"}
			}
			continue
		}
		info, err := s.root.Lstat(at)
		switch {
		case err != nil:
			continue // a missing directory is created; a missing file is rejected later
		case info.Mode()&fs.ModeSymlink != 0:
			return &Refusal{File: name, Reason: "the path goes through the symbolic link " + at}
		case !info.IsDir():
			return &Refusal{File: name, Reason: at + " is not a directory"}
		}
	}
	return nil
}

// reason returns the innermost text of a file system error, without local
// paths.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// patched returns the content of a file with its hunks applied.
func patched(content []byte, f *gitdiff.File) ([]byte, error) {
	shown := f.OldName
	if shown == "" {
		shown = f.NewName
	}
	var out bytes.Buffer
	applier := gitdiff.NewTextApplier(&out, bytes.NewReader(content))
	last := int64(0)
	for i, frag := range f.TextFragments {
		if frag.OldPosition < last {
			return nil, &Refusal{File: shown, Hunk: i + 1, Reason: "the hunks are not in the order of their lines"}
		}
		last = frag.OldPosition
		if err := applyFragment(applier, frag); err != nil {
			return nil, &Refusal{File: shown, Hunk: i + 1, Reason: why(err, frag, content)}
		}
		if out.Len() > maxFileSize {
			return nil, &Refusal{File: shown, Hunk: i + 1, Reason: fmt.Sprintf("the file would be larger than %d bytes",
				maxFileSize)}
		}
	}
	if err := applier.Close(); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Refusal{File: shown, Reason: reason(err)}
	}
	return out.Bytes(), nil
}

func applyFragment(a *gitdiff.TextApplier, frag *gitdiff.TextFragment) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed hunk: %v", p)
		}
	}()
	if frag.OldPosition < 0 || frag.NewPosition < 0 {
		return errors.New("the hunk begins before the first line")
	}
	return a.ApplyFragment(frag)
}

// why returns the reason of a conflict, with the line number and the actual line.
func why(err error, frag *gitdiff.TextFragment, content []byte) string {
	var ae *gitdiff.ApplyError
	if !errors.As(err, &ae) || !errors.Is(err, &gitdiff.Conflict{}) || ae.FragmentLine == 0 ||
		ae.FragmentLine > len(frag.Lines) {
		return strings.TrimPrefix(err.Error(), "conflict: ")
	}
	want := frag.Lines[ae.FragmentLine-1].Line
	have, ok := lineAt(content, ae.Line)
	if !ok {
		return fmt.Sprintf("line %d does not exist: the file is shorter", ae.Line)
	}
	note := ""
	switch {
	case strings.TrimRight(want, "\r\n") == strings.TrimRight(have, "\r\n"):
		note = " (the line ends differ)"
	case strings.Join(strings.Fields(want), " ") == strings.Join(strings.Fields(have), " "):
		note = " (only white space differs)"
	}
	return fmt.Sprintf("line %d is %s, the patch expects %s%s", ae.Line, quote(have), quote(want), note)
}

func lineAt(content []byte, n int64) (string, bool) {
	for line := range bytes.Lines(content) {
		if n--; n == 0 {
			return string(line), true
		}
	}
	return "", false
}

// maxQuoted is the maximum length of a quoted line in a reason.
const maxQuoted = 80

func quote(line string) string {
	line = strings.ToValidUTF8(line, "\uFFFD")
	if r := []rune(line); len(r) > maxQuoted {
		line = string(r[:maxQuoted]) + "…"
	}
	return fmt.Sprintf("%q", line)
}

// write writes the new state into the tree: removals first, so that a directory
// may replace a file.
func (s *stage) write() error {
	for _, name := range s.order {
		if s.files[name].exists {
			continue
		}
		if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.removeEmpty(path.Dir(name))
	}
	for _, name := range s.order {
		f := s.files[name]
		if !f.exists {
			continue
		}
		if err := s.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := s.root.WriteFile(name, f.content, f.mode); err != nil {
			return err
		}
		if err := s.root.Chmod(name, f.mode|0o600); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes directories that a deletion left empty, as Git does.
func (s *stage) removeEmpty(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if s.root.Remove(dir) != nil {
			return
		}
	}
}
