package backup

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/fermenthq/ferment/host/internal/adapters/dirlock"
)

// The purposes of work folders, as their names have them.
const (
	forWriting = "partial"
	forReading = "open"
)

// workName is the name of a work folder: that of a backup, the purpose, and a number.
var workName = regexp.MustCompile(`^\..+\.(` + forWriting + `|` + forReading + `)-[0-9]+$`)

// workFolder makes a folder beside a backup for the time in which it is written or read,
// and removes those of processes that are gone: each may have a whole copy of the data.
// remove removes it. One that another process cannot see as held yet may be lost to it, and
// then its user fails.
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

// sweep removes the work folders that no process holds, and the archives beside them.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // its user gets the error
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || !workName.MatchString(e.Name()) || !ours(dir) {
			continue
		}
		if release, ok := dirlock.Try(dir); ok {
			_ = os.Remove(dir + archiveSuffix) // first: the folder is what leads to it
			_ = os.RemoveAll(dir)
			release()
		}
	}
}

// ours reports whether a folder has nothing but parts of a backup.
func ours(dir string) bool {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != manifestName && e.Name() != dataName {
			return false
		}
	}
	return err == nil
}
