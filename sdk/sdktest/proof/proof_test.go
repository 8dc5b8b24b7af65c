package proof_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Each proof records one line with its size, verdict and test.
func TestSizeIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proofs")
	t.Setenv("FERMENT_PROOFS", path)
	n := 0
	for range 2 {
		t.Run("walk", func(t *testing.T) { n = proof.Size(t, "steps", 8, 500) })
	}
	want := proof.Of(8, 500)
	if proof.Detector && !proof.Long {
		want = 2
	}
	assert.Equal(t, want, n)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 2)
	fields := strings.Fields(lines[0])
	require.Len(t, fields, 6)
	got := []string{fields[0], fields[2], fields[4], fields[5]}
	assert.Equal(t, []string{"holds", "steps", "proof", "TestSizeIsRecorded/walk"}, got)
}
