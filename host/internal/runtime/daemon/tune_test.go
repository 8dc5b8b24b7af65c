package daemon

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-010: the heap limit is half of the smallest limit of the control groups
// around the process, and at most memoryLimit; the environment overrides it.
func TestMemoryLimit(t *testing.T) {
	root := t.TempDir()
	self := filepath.Join(t.TempDir(), "cgroup")
	put := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	put(self, "12:memory:/old\n0::/system.slice/ferment.service\n")
	assert.EqualValues(t, math.MaxInt64, cgroupLimit(self, root), "no file says anything")
	put(filepath.Join(root, "system.slice", "memory.max"), "max\n")
	put(filepath.Join(root, "system.slice", "ferment.service", "memory.max"), "800000000\n")
	assert.EqualValues(t, 800_000_000, cgroupLimit(self, root))
	put(filepath.Join(root, "system.slice", "memory.max"), "600000000\n")
	assert.EqualValues(t, 600_000_000, cgroupLimit(self, root), "the group around it is narrower")
	assert.EqualValues(t, 300_000_000, chosenLimit(cgroupLimit(self, root)))
	put(self, "0::/../../etc\n")
	assert.EqualValues(t, math.MaxInt64, cgroupLimit(self, root), "not beyond the root")
	assert.EqualValues(t, math.MaxInt64, cgroupLimit(filepath.Join(root, "absent"), root))
	assert.EqualValues(t, memoryLimit, chosenLimit(math.MaxInt64))

	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	TuneCollector(250, 1<<28)
	assert.Equal(t, 250, debug.SetGCPercent(250))
	assert.EqualValues(t, 1<<28, debug.SetMemoryLimit(-1))
	t.Setenv("GOGC", "50")
	t.Setenv("GOMEMLIMIT", "1GiB")
	TuneCollector(300, 1<<27)
	assert.Equal(t, 250, debug.SetGCPercent(250), "the environment has it")
	assert.EqualValues(t, 1<<28, debug.SetMemoryLimit(-1))
}
