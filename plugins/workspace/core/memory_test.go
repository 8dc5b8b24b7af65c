//go:build unix

package core

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// memoryRoot is the directory that the process of TestResidentMemory scans.
const memoryRoot = "FERMENT_TEST_MEMORY_ROOT"

// WS-253: a process that scans a tree, puts frames on it and reads its whole state has
// at most 200 MiB.
func TestResidentMemory(t *testing.T) {
	if root := os.Getenv(memoryRoot); root != "" {
		scanAndPut(t, root)
		return
	}
	files := proof.Size(t, "files in a process", 2000, 50_000)
	root := t.TempDir()
	for i := range files {
		write(t, root, fmt.Sprintf("area%02d/part%02d/file%d.go", i/1000, i/20%50, i%20))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestResidentMemory$")
	cmd.Env = append(os.Environ(), memoryRoot+"="+root)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	largest := usage.Maxrss
	if runtime.GOOS != "darwin" { // which counts bytes
		largest <<= 10
	}
	assert.Less(t, largest, int64(200<<20), "%d MiB", largest>>20)
}

func scanAndPut(t *testing.T, root string) {
	w := open(t, root)
	s := w.mustScan(t, scan.Options{})
	_, err := w.Store.Update(background, "tester", func(tx *store.Tx) (err error) {
		s.Result.Tree.Walk(func(path string, _ *tree.Node) bool {
			if filepath.Base(path) == "file0.go" && err == nil {
				_, err = tx.PutFrame(store.NewFrame{
					Path: path, Type: "note", Agent: "writer", Origin: store.Authored, Text: []byte(path), Recipe: edn.MustMap(),
				})
			}
			return err == nil
		})
		return err
	})
	require.NoError(t, err)
	require.NoError(t, w.Store.View(background, store.Latest, func(v *store.Snapshot) error {
		_, err := v.StateRoot(background)
		return err
	}))
	require.NoError(t, w.Close())
}
