package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// standardOutput is the name of a file that stands for standard output.
const standardOutput = "-"

// outFile is a file that was named on the command line and is being written. A regular file
// appears complete when Commit is called; to a device, a pipe or a descriptor the content is
// written as it comes.
type outFile struct {
	io.Writer
	name    string
	pending *renameio.PendingFile // nil: the file is written in its place
	file    *os.File              // nil with pending, and for standard output
}

// createOut begins to write the file with a name. A regular file, also at the end of symbolic
// links, is replaced at Commit; to another kind of file the content is written. The caller must
// close the result. The errors are of type *fileError.
func (c *command) createOut(name string, mode renameio.Option) (*outFile, error) {
	if name == standardOutput {
		return &outFile{Writer: c.env.Stdout, name: name}, nil
	}
	out := &outFile{name: name}
	path, regular, err := outPlace(c.path(name))
	switch {
	case err != nil:
	case regular:
		beside := renameio.WithTempDir(filepath.Dir(path))
		if out.pending, err = renameio.NewPendingFile(path, beside, mode); err == nil {
			out.Writer = out.pending
		}
	default:
		if out.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			out.Writer = out.file
		}
	}
	if err != nil {
		return nil, out.unwritten(err)
	}
	return out, nil
}

// maxLinks bounds the symbolic links of a path.
const maxLinks = 40

// outPlace follows the symbolic links of a path to the place of a file. regular: there is a regular
// file, or none. A link of /proc stands for a descriptor that is open: it is not followed.
func outPlace(path string) (place string, regular bool, err error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, true, nil
		case err != nil:
			return "", false, err
		case info.IsDir():
			return "", false, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
		case info.Mode()&fs.ModeSymlink == 0:
			return path, info.Mode().IsRegular(), nil
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", false, err
		}
		if strings.HasPrefix(dir, "/proc/") || dir == "/dev/fd" {
			return path, false, nil
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", false, err
		}
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(dir, target)
		}
	}
	return "", false, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

func (f *outFile) unwritten(err error) error {
	return &fileError{err: fmt.Errorf("write %s: %w", f.name, cause(err)), written: true}
}

// Commit completes the file.
func (f *outFile) Commit() (err error) {
	switch {
	case f.pending != nil:
		err = f.pending.CloseAtomicallyReplace()
	case f.file != nil:
		err = f.file.Close()
	}
	if err != nil {
		return f.unwritten(err)
	}
	return nil
}

// Close discards what was not completed. It does nothing after Commit.
func (f *outFile) Close() {
	switch {
	case f.pending != nil:
		_ = f.pending.Cleanup()
	case f.file != nil:
		_ = f.file.Close()
	}
}

// writeOut writes the content of a file that was named on the command line.
func (c *command) writeOut(name string, content []byte) error {
	f, err := c.createOut(name, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return f.unwritten(err)
	}
	return f.Commit()
}
