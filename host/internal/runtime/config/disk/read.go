package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// ReadError is the error for a file that cannot be used, with the type of its diagnostic.
type ReadError struct {
	Type    string
	Message string
	Hint    string
	Nearest string // the name of the file that was probably meant
}

// Error implements error.
func (e *ReadError) Error() string { return e.Message }

// Next returns the hint.
func (e *ReadError) Next() string { return e.Hint }

// ReadConfig reads one configuration file of at most most bytes. A file that
// changes during the read is read once more.
func ReadConfig(name, path string, most int64) ([]byte, *ReadError) {
	raw, err := readStable(path, most)
	if errors.Is(err, errChanged) {
		raw, err = readStable(path, most)
	}
	if err == nil {
		return raw, nil
	}
	var re *ReadError
	if errors.As(err, &re) {
		re.Message = fmt.Sprintf("file %s %s", diag.Quote(name), re.Message)
		return nil, re
	}
	re = Unreadable(name, path, err)
	if re.Hint == nameAFile {
		re.Hint += ", or begin a configuration with: ferment init"
	}
	return nil, re
}

// nameAFile is the hint for a missing file with no similar name beside it.
const nameAFile = "name a file that exists"

// Unreadable returns the error for a file that cannot be read: err is that of the system, name the
// printed form of path.
func Unreadable(name, path string, err error) *ReadError {
	e := &ReadError{
		Type:    "config/include",
		Message: fmt.Sprintf("file %s cannot be read: %s", diag.Quote(name), Cause(err)),
		Hint:    "make it readable for the user of the host",
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		e.absent(name, path)
	}
	return e
}

// absent sets the message for a missing file: a directory is missing, it is a dangling symbolic link, or the name is
// misspelt.
func (e *ReadError) absent(name, path string) {
	e.Hint = nameAFile
	if target, err := os.Readlink(path); err == nil {
		target = PrintedName(filepath.Dir(path), target)
		e.Message = fmt.Sprintf("file %s cannot be read: it leads to %s, and there is no such file",
			diag.Quote(name), diag.Quote(target))
		e.Hint = "make that file, or correct the link"
		return
	}
	missing := ""
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			break
		}
		missing = dir
		if err == nil {
			e.Message = fmt.Sprintf("file %s cannot be read: %s is a file, not a directory",
				diag.Quote(name), diag.Quote(filepath.Base(dir)))
			return
		}
	}
	if missing != "" {
		e.Message = fmt.Sprintf("file %s cannot be read: there is no directory %s",
			diag.Quote(name), diag.Quote(filepath.Base(missing)))
		path = missing
	}
	if near := Neighbour(path, fs.ErrNotExist); near != "" {
		e.Nearest = filepath.Base(near)
		e.Hint = diag.DidYouMean(e.Nearest)
	}
}

// IrregularError is the error for a path that is not a regular file. Its text follows the path in a
// message.
type IrregularError string

// Error implements error.
func (e IrregularError) Error() string { return string(e) }

// Regular returns the results of os.Stat, with an IrregularError if the path is not a regular file: reading a pipe or a
// device may block or never end.
func Regular(info fs.FileInfo, err error) (fs.FileInfo, error) {
	switch {
	case err != nil || info.Mode().IsRegular():
		return info, err
	case info.IsDir():
		return info, IrregularError("is a directory, not a regular file")
	}
	return info, IrregularError("is not a regular file")
}

// IsFile reports whether name is a regular file.
func IsFile(name string) bool {
	_, err := Regular(os.Stat(name))
	return err == nil
}

var errChanged = errors.New("changed while it was read")

func readStable(path string, most int64) ([]byte, error) {
	before, err := Regular(os.Stat(path))
	switch {
	case errors.As(err, new(IrregularError)):
		return nil, &ReadError{Type: "config/include", Message: err.Error(), Hint: "name a regular file"}
	case err != nil:
		return nil, err
	case before.Size() > most:
		return nil, &ReadError{
			Type:    "config/limit",
			Message: fmt.Sprintf("has %d bytes, over the limit of %s", before.Size(), language.FormatBytes(most)),
			Hint:    "split the configuration",
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > most {
		return nil, &ReadError{
			Type:    "config/limit",
			Message: "grew beyond the limit of " + language.FormatBytes(most),
			Hint:    "split the configuration",
		}
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, after) || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return nil, errChanged
	}
	return raw, nil
}

// PrintedName returns the printed name of a file, with slashes: relative to the
// root, or absolute if they share no directory or the root is below the path, so
// that the name does not depend on the depth of the root.
func PrintedName(root, path string) string {
	relative, err := filepath.Rel(root, path)
	relative = filepath.ToSlash(relative)
	above := relative == ".." || strings.HasSuffix(relative, "/..")
	if err != nil || above || outermost(root) != "" && outermost(root) != outermost(path) {
		return filepath.ToSlash(path)
	}
	return relative
}

// outermost returns the first directory of an absolute path.
func outermost(path string) string {
	path = filepath.ToSlash(strings.TrimPrefix(path, filepath.VolumeName(path)))
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	first, _, _ := strings.Cut(path[1:], "/")
	return first
}

// Cause returns the text of a file error without the path, which the message already contains.
func Cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// ReadBelow reads a regular text file of at most most bytes below a directory; symbolic links must
// not leave it.
func ReadBelow(dir, name string, most int64) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	info, err := Regular(root.Stat(name))
	if err != nil {
		return "", err
	}
	if info.Size() > most {
		return "", fmt.Errorf("is larger than %s", language.FormatBytes(most))
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", err
	}
	if int64(len(raw)) > most {
		return "", fmt.Errorf("is larger than %s", language.FormatBytes(most))
	}
	if !utf8.Valid(raw) {
		return "", errors.New("is not UTF-8")
	}
	return string(raw), nil
}

// Neighbour returns the file beside a missing one that was probably meant; empty
// if there is none or err is not a missing file.
func Neighbour(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	entries, _ := os.ReadDir(filepath.Dir(name))
	var names []string
	for _, e := range entries {
		if e.Name() != filepath.Base(name) { // a link that leads nowhere
			names = append(names, e.Name())
		}
	}
	if near := diag.Nearest(filepath.Base(name), names); near != "" {
		return filepath.Join(filepath.Dir(name), near)
	}
	return ""
}
