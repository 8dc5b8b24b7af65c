package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Write creates the folder dir with the files. The folder must not exist. After an error nothing
// remains, because the files are written to a temporary folder that is renamed at the end.
func Write(dir string, files []File) error {
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return taken(dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("new plugin: %w", err)
	}
	beside, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return fmt.Errorf("new plugin: %w", err)
	}
	defer func() { _ = os.RemoveAll(beside) }()
	for _, f := range files {
		if err := put(beside, f); err != nil {
			return fmt.Errorf("new plugin: %w", err)
		}
	}
	if err := os.Chmod(beside, 0o755); err != nil { // readable by other users
		return fmt.Errorf("new plugin: %w", err)
	}
	switch err := os.Rename(beside, dir); {
	case errors.Is(err, fs.ErrExist):
		return taken(dir) // another process created it
	case err != nil:
		return fmt.Errorf("new plugin: %w", err)
	}
	return nil
}

func taken(dir string) error {
	return contract.Errorf("admin/conflict", "new plugin: %s already exists", dir).
		WithHint("name another folder with --dir, or remove it")
}

func put(root string, f File) error {
	path := filepath.Join(root, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Run {
		mode = 0o755
	}
	return os.WriteFile(path, f.Text, mode)
}
