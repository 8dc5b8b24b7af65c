package lite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/db/internal/lite"
	"github.com/fermenthq/ferment/plugins/db/internal/result"
)

// FX-012: a database is never created elsewhere because its directory is missing.
func TestDirectoryIsMissing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{dir + "/none/x.db", "none/x.db"} {
		_, _, fault := lite.Open(lite.Settings{Path: path, Write: true, DDL: true, Key: "k", Now: time.Now()})
		require.NotNil(t, fault, path)
		assert.Equal(t, result.Missing, fault.Kind, path)
		assert.Contains(t, fault.Message, "directory", path)
		assert.NoFileExists(t, dir+"/x.db")
	}
}
