package config

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
)

// readError is a file that cannot be used, with the type of its diagnostic.
type readError struct {
	typ     string
	message string
	hint    string
	nearest string // the name of the file that was probably meant
}

func (e *readError) Error() string { return e.message }

// Next returns the hint.
func (e *readError) Next() string { return e.hint }

// readConfig reads one configuration file of at most most bytes. A file that
// changes during the read is read once more.
func readConfig(name, path string, most int64) ([]byte, *readError) {
	raw, err := readStable(path, most)
	if errors.Is(err, errChanged) {
		raw, err = readStable(path, most)
	}
	if err == nil {
		return raw, nil
	}
	var re *readError
	if errors.As(err, &re) {
		re.message = fmt.Sprintf("file %s %s", quote(name), re.message)
		return nil, re
	}
	re = &readError{
		typ:     "config/include",
		message: fmt.Sprintf("file %s cannot be read: %s", quote(name), cause(err)),
		hint:    "make it readable for the user of the host",
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		re.absent(name, path)
	}
	return nil, re
}

// absent sets the message for a missing file: a directory is missing, it is a dangling symbolic link, or the name is
// misspelt.
func (e *readError) absent(name, path string) {
	e.hint = "name a file that exists, or begin a configuration with: ferment init"
	if target, err := os.Readlink(path); err == nil {
		target = printedName(filepath.Dir(path), target)
		e.message = fmt.Sprintf("file %s cannot be read: it leads to %s, and there is no such file",
			quote(name), quote(target))
		e.hint = "make that file, or correct the link"
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
			e.message = fmt.Sprintf("file %s cannot be read: %s is a file, not a directory",
				quote(name), quote(filepath.Base(dir)))
			return
		}
	}
	if missing != "" {
		e.message = fmt.Sprintf("file %s cannot be read: there is no directory %s",
			quote(name), quote(filepath.Base(missing)))
		path = missing
	}
	if near := Neighbour(path, fs.ErrNotExist); near != "" {
		e.nearest = filepath.Base(near)
		e.hint = meant(e.nearest)
	}
}

// irregularError describes a path that is not a regular file; the text follows the path in a message.
type irregularError string

func (e irregularError) Error() string { return string(e) }

// regular returns the results of os.Stat, with an irregularError if the path is not a regular file: reading a pipe or a
// device may block or never end.
func regular(info fs.FileInfo, err error) (fs.FileInfo, error) {
	switch {
	case err != nil || info.Mode().IsRegular():
		return info, err
	case info.IsDir():
		return info, irregularError("is a directory, not a regular file")
	}
	return info, irregularError("is not a regular file")
}

// isFile reports whether name is a regular file.
func isFile(name string) bool {
	_, err := regular(os.Stat(name))
	return err == nil
}

var errChanged = errors.New("changed while it was read")

func readStable(path string, most int64) ([]byte, error) {
	before, err := regular(os.Stat(path))
	switch {
	case errors.As(err, new(irregularError)):
		return nil, &readError{typ: "config/include", message: err.Error(), hint: "name a regular file"}
	case err != nil:
		return nil, err
	case before.Size() > most:
		return nil, &readError{
			typ:     "config/limit",
			message: fmt.Sprintf("has %d bytes, over the limit of %s", before.Size(), formatBytes(most)),
			hint:    "split the configuration",
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
		return nil, &readError{
			typ:     "config/limit",
			message: "grew over the limit of " + formatBytes(most),
			hint:    "split the configuration",
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

// printedName returns the printed name of a file, with slashes: relative to the
// root, or absolute if they share no directory or the root is below the path, so
// that the name does not depend on the depth of the root.
func printedName(root, path string) string {
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

// cause returns a file error without its path, which the message already contains.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// readBelow reads a regular text file below a directory; symbolic links must not
// leave it.
func readBelow(dir, name string, most int64) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	info, err := regular(root.Stat(name))
	if err != nil {
		return "", err
	}
	if info.Size() > most {
		return "", fmt.Errorf("is larger than %s", formatBytes(most))
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
		return "", fmt.Errorf("is larger than %s", formatBytes(most))
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
		names = append(names, e.Name())
	}
	if near := nearest(filepath.Base(name), names); near != "" {
		return filepath.Join(filepath.Dir(name), near)
	}
	return ""
}
