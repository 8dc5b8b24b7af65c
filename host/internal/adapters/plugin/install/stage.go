package install

import (
	"os"
	"path/filepath"
	"time"
)

// stageName begins the name of a tree that has no place yet.
const stageName = ".new-"

// stageAge is how old a tree without a place has to be before it may be one that
// nobody fills any more. It covers the moment in which a new one is not held yet.
const stageAge = time.Minute

// newStage makes an empty directory for a tree and holds it until release is
// called, so that nobody takes it for one that was left behind; those that were
// it removes.
func newStage(trees string) (dir string, release func(), err error) {
	sweep(trees, time.Now().Add(-stageAge))
	if dir, err = os.MkdirTemp(trees, stageName); err != nil {
		return "", nil, err
	}
	held, ok := hold(dir)
	if !ok {
		_ = os.Remove(dir)
		return "", nil, &os.PathError{Op: "lock", Path: dir, Err: os.ErrPermission}
	}
	return dir, held, nil
}

// sweep removes the trees of installations that were killed: they were made
// before a time, and nobody holds them.
func sweep(trees string, before time.Time) {
	left, _ := filepath.Glob(filepath.Join(trees, stageName+"*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.ModTime().After(before) {
			continue
		}
		if release, ok := hold(dir); ok {
			removeTree(dir)
			release()
		}
	}
}
