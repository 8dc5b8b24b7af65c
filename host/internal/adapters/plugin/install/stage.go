package install

import (
	"os"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/dirlock"
)

// stageName is the prefix of the name of a tree that is not published yet.
const stageName = ".new-"

// stageAge is the minimum age of an abandoned stage. A younger stage may not be locked yet.
const stageAge = time.Minute

// newStage creates an empty directory for a tree and locks it until release is
// called, so that sweep does not remove it. It also removes abandoned stages.
func newStage(trees string) (dir string, release func(), err error) {
	sweep(trees, time.Now().Add(-stageAge))
	if dir, err = os.MkdirTemp(trees, stageName); err != nil {
		return "", nil, err
	}
	held, ok := dirlock.Try(dir)
	if !ok {
		_ = os.Remove(dir)
		return "", nil, &os.PathError{Op: "lock", Path: dir, Err: os.ErrPermission}
	}
	return dir, held, nil
}

// sweep deletes the stages of killed installations: those that are older than before and not
// locked.
func sweep(trees string, before time.Time) {
	left, _ := filepath.Glob(filepath.Join(trees, stageName+"*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.ModTime().After(before) {
			continue
		}
		if release, ok := dirlock.Try(dir); ok {
			removeTree(dir)
			release()
		}
	}
}
