package lock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// mode of a lock file: it is committed and holds no secret.
const mode = 0o644

// Read reads the file at a path. there is false if there is none. name stands
// for the file in errors.
func Read(name, path string) (f File, there bool, err error) {
	// Looked at before it is opened: that would wait for the other end of a pipe.
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
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1)) // one byte more tells that there are too many
	if err != nil {
		return File{}, true, fmt.Errorf("read the lock file: %w", err)
	}
	f, err = Decode(name, text)
	return f, true, err
}

// Update replaces the lock file at a path by what change makes of it; the file
// need not exist. Readers see the old content or the new one, also after a
// power cut. Updates of one directory wait for each other. If change fails or
// the disk does, the old file stays as it was.
//
// The file that change gets is empty if there is none; the error is that of
// reading it, which change may pass on or put a new file in its place for.
func Update(name, path string, change func(old File, there bool, err error) (File, error)) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	release, err := hold(dir)
	if err != nil {
		return fmt.Errorf("write the lock file: wait for other writers: %w", err)
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
	if err := replace(path, text, pending); err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// newFile is a file that takes the place of another when it is whole.
type newFile interface {
	io.Writer
	// CloseAtomicallyReplace syncs the file and renames it.
	CloseAtomicallyReplace() error
	// Cleanup removes the file unless it was renamed.
	Cleanup() error
}

func pending(path string) (newFile, error) {
	return renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(mode), renameio.WithExistingPermissions())
}

func replace(path string, text []byte, open func(string) (newFile, error)) (err error) {
	// A link is followed, so that a lock file may lie elsewhere.
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

// syncDir makes a rename survive a power cut.
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
