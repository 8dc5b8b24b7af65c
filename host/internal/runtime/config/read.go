package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What is read when nothing is named.
const (
	DefaultFile      = "ferment.hcl"
	DefaultDirectory = "config"
)

// readError is a file that cannot be used, with the type of its diagnostic.
type readError struct {
	typ     string
	message string
	hint    string
}

func (e *readError) Error() string { return e.message }

// readConfig reads one configuration file within the limits. A file that
// changes under the reader is read once more.
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
	re = &readError{typ: "config/include", message: fmt.Sprintf("file %s cannot be read: %s", quote(name), cause(err)), hint: "make it readable for the user of the host"}
	if errors.Is(err, fs.ErrNotExist) {
		re.hint = "name the configuration with --config, or begin one with: ferment init"
	}
	return nil, re
}

var errChanged = errors.New("changed while it was read")

func readStable(path string, most int64) ([]byte, error) {
	before, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case before.IsDir():
		return nil, &readError{typ: "config/include", message: "is a directory"}
	case !before.Mode().IsRegular():
		return nil, &readError{typ: "config/include", message: "is not a regular file"}
	case before.Size() > most:
		return nil, &readError{typ: "config/limit", message: fmt.Sprintf("has %d bytes, over the limit of %s", before.Size(), formatBytes(most)), hint: "split the configuration"}
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
		return nil, &readError{typ: "config/limit", message: "grew over the limit of " + formatBytes(most)}
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

// printedName is how a file is shown, with slashes: relative to the root, or
// absolute where the two share no directory, so that the name does not depend on
// how deep the root lies.
func printedName(root, path string) string {
	relative, err := filepath.Rel(root, path)
	if err != nil || outermost(root) != "" && outermost(root) != outermost(path) {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(relative)
}

// outermost is the first directory of an absolute path.
func outermost(path string) string {
	path = filepath.ToSlash(strings.TrimPrefix(path, filepath.VolumeName(path)))
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	first, _, _ := strings.Cut(path[1:], "/")
	return first
}
