package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-008: a backup inside the data directory is rejected also if its path has a link and its folder
// does not exist yet; it would be part of the next backup.
func TestBackupTarget(t *testing.T) {
	root := t.TempDir()
	dir, link := filepath.Join(root, "var"), filepath.Join(root, "link")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Symlink(dir, link))
	for _, row := range []struct {
		dir, target string
		inside      bool
	}{
		{dir, filepath.Join(dir, "b.tar"), true},
		{dir, filepath.Join(link, "b.tar"), true},
		{dir, filepath.Join(link, "new", "deeper", "b.tar"), true},
		{link, filepath.Join(dir, "new", "b.tar"), true},
		{dir, filepath.Join(link, "backups", "b.tar"), false},
		{link, filepath.Join(root, "new", "b.tar"), false},
	} {
		got, err := backupTarget(row.dir, row.target, time.Now())
		if row.inside {
			require.NotNil(t, err, row.target)
			assert.Equal(t, "invalid-request", err.Type, row.target)
			continue
		}
		require.Nil(t, err, row.target)
		assert.Equal(t, row.target, got)
	}
}
