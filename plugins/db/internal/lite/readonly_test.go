package lite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/sdk/effects"
)

// OPS-006: a call that may write and meets a read-only file did not leave its scope: the file
// system is the cause, and a second call has the same end.
func TestReadOnlyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	tool, ok := effects.ToolNamed("db/exec")
	require.True(t, ok)
	for flags, want := range map[int32]string{
		sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE: "effects/runtime-failed",
		sqlite3.SQLITE_OPEN_READONLY:                               "effects/scope-denied",
	} {
		n, rc := connect(path, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_CREATE)
		require.EqualValues(t, sqlite3.SQLITE_OK, rc)
		n.close()
		n, rc = connect(path, flags)
		require.EqualValues(t, sqlite3.SQLITE_OK, rc)
		err := n.fault(sqlite3.SQLITE_READONLY_DIRECTORY).Error(tool, "notes")
		n.close()
		assert.Equal(t, want, err.Type)
		assert.False(t, err.Retryable)
	}
	assert.Equal(t, "effects/runtime-failed", (&result.Fault{Kind: result.Unwritable}).Error(tool, "notes").Type)
}
