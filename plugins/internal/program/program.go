package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Find returns the absolute path of an executable file. A name with a separator
// is relative to dir; any other name is looked up in the absolute directories
// of PATH in env. The error is a *fs.PathError; if a file was found that cannot
// be executed, it names that file.
func Find(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return executable(name)
	}
	var failed error = &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	for _, place := range path(env) {
		if !filepath.IsAbs(place) {
			continue // the working directory is not searched
		}
		found, err := executable(filepath.Join(place, name))
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
	}
	return "", failed
}

// path returns the directories of the last PATH in an environment.
func path(env []string) []string {
	for _, entry := range slices.Backward(env) {
		if list, ok := strings.CutPrefix(entry, "PATH="); ok {
			return filepath.SplitList(list)
		}
	}
	return nil
}

func executable(file string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", &fs.PathError{Op: "find", Path: file, Err: syscall.EISDIR}
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", &fs.PathError{Op: "find", Path: file, Err: errors.New("is not executable")}
	}
	return filepath.Abs(file)
}

// usual are the directories of programs, also of games, on common systems.
const usual = "/usr/local/bin:/usr/bin:/bin:/usr/games:/usr/local/games:/opt/homebrew/bin"

// Locate finds a program in PATH or in the usual directories. A plugin has a
// PATH only if its block in the configuration passes it. A name with a
// separator is relative to the working directory.
func Locate(name string) (string, error) {
	found, err := Find(name, "", []string{"PATH=" + os.Getenv("PATH") + ":" + usual})
	if err != nil {
		return "", fmt.Errorf("search for the program in PATH and %s: %w", usual, err)
	}
	return found, nil
}
