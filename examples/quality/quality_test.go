package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BIND-003, BRK-002, BRK-009: quality-aware dispatch has more answers accepted
// for less, and a capability that begins to answer badly is swapped without a
// question failing for it.
func TestQualityPays(t *testing.T) {
	t.Chdir("../..")
	bin := os.Getenv("FERMENT_BIN") // what "make test" has built
	if bin == "" {
		bin = t.TempDir()
		for target, program := range map[string]string{"ferment": "./host", "plugins/chess": "./plugins/chess", "plugins/sat": "./plugins/sat"} {
			out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, target), program).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	var out bytes.Buffer
	f, err := show(&out, bin, true)
	require.NoError(t, err, "%s", out.String())
	t.Log(out.String())
	for _, c := range []comparison{f.chess, f.sat} {
		assert.Greater(t, c.aware.rate(), c.fixed.rate())
		assert.Less(t, c.aware.cost, c.fixed.cost)
		assert.LessOrEqual(t, c.aware.attempts, c.fixed.attempts)
	}
	assert.Len(t, f.swapped.deeds, 1, "once, and nothing flaps")
	assert.Equal(t, f.fixed.accepted, f.swapped.accepted)
	assert.Less(t, f.swapped.calls["chess/quick"], f.fixed.calls["chess/quick"])
}
