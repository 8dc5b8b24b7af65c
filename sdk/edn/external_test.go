//go:build external

package edn_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// VAL-052: a reader in another language produces the same bytes and hashes. It
// needs python3, which not every build machine has; TestVectors checks the file
// without it.
func TestVectorsInAnotherLanguage(t *testing.T) {
	out, err := exec.Command("python3", "testdata/reader.py", vectorFile).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "300 cases, 0 wrong\n", string(out))
}
