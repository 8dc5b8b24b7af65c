package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/contract"
)

// inTree reports whether a data directory is the default one inside a workspace. What lies
// in a workspace can come from elsewhere, such as a repository.
func inTree(dir string) bool { return dir == DataDir(filepath.Dir(filepath.Dir(dir))) }

// openDir opens a data directory. One inside a workspace is reached without following a
// symbolic link and contains only directories and regular files; otherwise the error is
// store/unsafe. If create is true, directories that are missing are made.
func openDir(dir string, create bool) (*os.Root, error) {
	if !inTree(dir) {
		if create {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
		}
		return os.OpenRoot(dir)
	}
	parent := filepath.Dir(dir)
	top, err := os.OpenRoot(filepath.Dir(parent))
	if err != nil {
		return nil, err
	}
	defer func() { _ = top.Close() }()
	within, err := enter(top, parent, create)
	if err != nil {
		return nil, err
	}
	defer func() { _ = within.Close() }()
	if create {
		if err := ignoreAll(within); err != nil {
			return nil, err
		}
	}
	at, err := enter(within, dir, create)
	if err != nil {
		return nil, err
	}
	if err := checkFiles(at, dir); err != nil {
		_ = at.Close()
		return nil, err
	}
	return at, nil
}

// enter opens the directory with a path in the one that has it. The entry that was opened is
// compared with the entry that was examined, so a link that takes its place meanwhile is not
// followed.
func enter(in *os.Root, path string, create bool) (*os.Root, error) {
	name := filepath.Base(path)
	if create {
		if err := in.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	want, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !want.IsDir() {
		return nil, unsafe(path, want.Mode(), "a directory")
	}
	at, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if have, err := at.Stat("."); err != nil || !os.SameFile(have, want) {
		_ = at.Close()
		return nil, errReplaced(path)
	}
	return at, nil
}

// checkFiles returns an error if a data directory contains anything but directories and
// regular files.
func checkFiles(at *os.Root, dir string) error {
	return fs.WalkDir(at.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return nil
		case err != nil:
			return err
		case !d.IsDir() && !d.Type().IsRegular():
			return unsafe(filepath.Join(dir, filepath.FromSlash(name)), d.Type(), "a directory or a regular file")
		}
		return nil
	})
}

// unsafe is the error of an entry that a store inside a workspace must not have.
func unsafe(path string, found fs.FileMode, expected string) error {
	kind := "a special file"
	switch {
	case found&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case found.IsRegular():
		kind = "a file"
	}
	return contract.Errorf("store/unsafe", "the path is %s, expected %s: nothing is read or written through it",
		kind, expected).WithOp("store", path).
		WithHint("remove " + path + ", or set data_dir in the config block of the plugin for stores outside of the workspace")
}

// checkDir returns the error of openDir.
func checkDir(dir string) error {
	at, err := openDir(dir, false)
	if err != nil {
		return asOpenError(dir, err)
	}
	return at.Close()
}

// asOpenError returns the error of opening a data directory.
func asOpenError(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return contract.Errorf("workspace/not-found", "the directory does not exist").WithOp("store", dir)
	}
	var typed *contract.Error
	if errors.As(err, &typed) {
		return err
	}
	return contract.Errorf("store/io", "%w", err).WithOp("store", dir)
}

// writeFile writes a file in one step. It follows no symbolic link.
func writeFile(at *os.Root, name string, data []byte, perm os.FileMode) error {
	made := "." + name + rand.Text()
	f, err := at.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = at.Rename(made, name)
	}
	if err != nil {
		return errors.Join(err, at.Remove(made))
	}
	return nil
}
