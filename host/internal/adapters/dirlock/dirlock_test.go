package dirlock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/dirlock"
)

// TestMain runs the test binary as the other process of TestLockEndsWithItsProcess.
func TestMain(m *testing.M) {
	if dir := os.Getenv("DIRLOCK_TRY"); dir != "" {
		if _, ok := dirlock.Try(dir); !ok {
			os.Exit(7)
		}
		os.Exit(0) // without release
	}
	os.Exit(m.Run())
}

func other(t *testing.T, dir string) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DIRLOCK_TRY="+dir)
	_ = cmd.Run()
	require.NotNil(t, cmd.ProcessState)
	return cmd.ProcessState.ExitCode()
}

// A lock excludes other processes and other callers until it is released, or its
// process ends.
func TestLockEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	release, ok := dirlock.Try(dir)
	require.True(t, ok)
	assert.Equal(t, 7, other(t, dir))
	_, ok = dirlock.Try(dir)
	assert.False(t, ok)
	release()
	assert.Equal(t, 0, other(t, dir), "it is free again")
	assert.Equal(t, 0, other(t, dir), "the process that held it has ended")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Waiting callers follow one another.
func TestWait(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	entered := make(chan bool)
	for range 8 {
		go func() {
			release, err := dirlock.Wait(dir)
			if err != nil {
				entered <- false
				return
			}
			alone := inside.Add(1) == 1
			runtime.Gosched()
			inside.Add(-1)
			release()
			entered <- alone
		}()
	}
	for range 8 {
		assert.True(t, <-entered)
	}
	_, err := dirlock.Wait(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
