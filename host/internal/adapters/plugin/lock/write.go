package lock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/fermenthq/ferment/host/internal/adapters/dirlock"
)

// mode is the file mode of a lock file, which is committed and contains no secrets.
const mode = 0o644

// Read reads the lock file at path; name is its name in errors. If there is no file, it returns
// false and no error. The error for a file that is not valid is a [*DecodeError].
func Read(name, path string) (f File, there bool, err error) {
	// Checked before Open, which would block on a pipe without a writer.
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, false, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return File{}, true, fmt.Errorf("read the lock file: %w", err)
	}
	r, err := os.Open(path)
	if err != nil {
		return File{}, true, fmt.Errorf("read the lock file: %w", err)
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1)) // one more byte, to detect a file that is too large
	if err != nil {
		return File{}, true, fmt.Errorf("read the lock file: %w", err)
	}
	f, err = Decode(name, text)
	return f, true, err
}

// Update replaces the lock file at path by the result of change; the file need not exist. Readers
// see either the old or the new content, even after a power failure. Concurrent updates of files in
// one directory are serialized. If change or the write fails, the old file is kept. A missing
// directory is created with access for this user only, because it may be the data directory
// (OPS-002).
//
// change receives the results of Read, including its error. It may return that error to keep the
// file, or ignore it to replace the file.
func Update(name, path string, change func(old File, there bool, err error) (File, error)) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	release, err := dirlock.Wait(dir)
	if err != nil {
		return fmt.Errorf("wait for other writers: %w", err)
	}
	defer release()
	f, err := change(Read(name, path))
	if err != nil {
		return err
	}
	text, err := f.Encode()
	if err != nil {
		return err
	}
	return replace(path, text, pending)
}

// newFile is a temporary file that replaces another one when it is complete.
type newFile interface {
	io.Writer
	// CloseAtomicallyReplace syncs the file and renames it to its final name.
	CloseAtomicallyReplace() error
	// Cleanup deletes the file unless it was renamed.
	Cleanup() error
}

func pending(path string) (newFile, error) {
	return renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(mode),
		renameio.WithExistingPermissions())
}

func replace(path string, text []byte, open func(string) (newFile, error)) (err error) {
	// A symbolic link is followed, so that the lock file may be stored elsewhere.
	if target, lerr := filepath.EvalSymlinks(path); lerr == nil {
		path = target
	}
	t, err := open(path)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := t.Cleanup(); err == nil {
			err = cerr
		}
	}()
	if _, err := t.Write(text); err != nil {
		return err
	}
	if err := t.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir syncs a directory, so that a rename in it survives a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
