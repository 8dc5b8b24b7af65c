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

// ReadError is the error for a file that cannot be used. Type is the type of its diagnostic.
type ReadError struct {
	Type    string
	Message string
	Hint    string
	Nearest string // the name of the file that was probably meant
}

// Error implements error.
func (e *ReadError) Error() string { return e.Message }

// Next returns the next step for the operator.
func (e *ReadError) Next() string { return e.Hint }

// ReadConfig reads one configuration file of at most most bytes. name is its name in errors. A file
// that changes during the read is read once more.
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

// nameAFile is the hint for a missing file if no similar name exists.
const nameAFile = "name a file that exists"

// Unreadable returns the error for a file that cannot be read. err is the error of the system, name
// the display name of path.
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

// absent sets the message for a missing file: a missing directory, a dangling symbolic link, or a
// misspelt name.
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

// IrregularError is the error for a path that is not a regular file. Its text is a predicate, such
// as "is a directory", for use after the path.
type IrregularError string

// Error implements error.
func (e IrregularError) Error() string { return string(e) }

// Regular returns its arguments, which are the results of os.Stat, but with an IrregularError if
// the path is not a regular file: reading a pipe or a device may block or never end.
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

// PrintedName returns the display name of a file, with slashes. It is relative to the root, but
// absolute if path is a parent of the root or shares no directory with it, so that the name does
// not depend on the depth of the root.
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

// ReadBelow reads a regular UTF-8 file of at most most bytes below a directory. Symbolic links that
// leave the directory are an error.
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

// Neighbour returns the existing file in the same directory that name probably means; empty if
// there is none, or if err is not that of a missing file.
func Neighbour(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	entries, _ := os.ReadDir(filepath.Dir(name))
	var names []string
	for _, e := range entries {
		if e.Name() != filepath.Base(name) { // it exists as a dangling link
			names = append(names, e.Name())
		}
	}
	if near := diag.Nearest(filepath.Base(name), names); near != "" {
		return filepath.Join(filepath.Dir(name), near)
	}
	return ""
}
