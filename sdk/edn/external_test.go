//go:build external

package edn_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// VAL-052: a reader in another language makes the same bytes and hashes. It
// needs python3, which a machine that only builds and tests may lack; there
// TestVectors checks the file.
func TestVectorsInAnotherLanguage(t *testing.T) {
	out, err := exec.Command("python3", "testdata/reader.py", vectorFile).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "300 cases, 0 wrong\n", string(out))
}
