package backup

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/fermenthq/ferment/host/internal/adapters/dirlock"
)

// Purposes of work folders, which are part of their names.
const (
	forWriting = "partial"
	forReading = "open"
)

// workName matches the name of a work folder: the name of the backup, the purpose, and a number.
var workName = regexp.MustCompile(`^\..+\.(` + forWriting + `|` + forReading + `)-[0-9]+$`)

// workFolder creates a temporary folder beside a backup that is being written or read. It also
// deletes the work folders of processes that are gone, because each may hold a full copy of the
// data. remove deletes the new folder. In the short time before the folder is locked another
// process may delete it; the operation then fails.
func workFolder(target, purpose string) (dir string, remove func() error, err error) {
	sweep(filepath.Dir(target))
	dir, err = os.MkdirTemp(filepath.Dir(target), "."+filepath.Base(target)+"."+purpose+"-")
	if err != nil {
		return "", nil, err
	}
	release, held := dirlock.Try(dir)
	return dir, func() error {
		if held {
			defer release()
		}
		return os.RemoveAll(dir)
	}, nil
}

// sweep deletes the work folders that no process has locked, and the archives beside them.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // creating a work folder returns the same error
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || !workName.MatchString(e.Name()) || !ours(dir) {
			continue
		}
		if release, ok := dirlock.Try(dir); ok {
			_ = os.Remove(dir + archiveSuffix) // first, because it is found by its folder
			_ = os.RemoveAll(dir)
			release()
		}
	}
}

// ours reports whether a folder contains only parts of a backup.
func ours(dir string) bool {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != manifestName && e.Name() != dataName {
			return false
		}
	}
	return err == nil
}
