package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command reads its configuration once, but keeps nothing that it read in part.
func TestConfiguredOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ferment.hcl")
	require.NoError(t, os.WriteFile(file, []byte("ferment {\n  data_dir = \"one\"\n}\n"), 0o600))
	c := &command{env: Env{Dir: dir, Getenv: func(string) (string, bool) { return "", false }}}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	inPart := c.configured(canceled)
	first := c.configured(t.Context())
	assert.NotSame(t, inPart, first)
	assert.Equal(t, filepath.Join(dir, "one"), first.Host.DataDir)
	require.NoError(t, os.Remove(file))
	assert.Same(t, first, c.configured(t.Context()), "it is not read again")
}
