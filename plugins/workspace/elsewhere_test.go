package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// WS-181: with data_dir too, the refusal of a directory without a store names the nearest
// allowed one above that has one.
func TestNearestStore(t *testing.T) {
	for name, data := range map[string]string{"in the directory": "", "below data_dir": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			b := start(t, map[string]string{"w/src/inner/a.txt": "one\n", "other/b.txt": "two\n"}, func(cfg map[string]any) {
				if data != "" {
					cfg["data-dir"] = data
				}
			})
			at := func(path string) string { return `{:workspace "` + filepath.Join(b.root, path) + `"}` }
			b.call("workspace/scan", at("w"))
			nearest := func(path string) string {
				s, _ := b.failure("workspace/not-found", "workspace/status", at(path)).Details.Key("nearest").AsString()
				return s
			}
			root, err := filepath.EvalSymlinks(b.root)
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(root, "w"), nearest("w/src"))
			assert.Equal(t, filepath.Join(root, "w"), nearest("w/src/inner"))
			assert.Empty(t, nearest("other"))
			assert.Empty(t, nearest(""))
			b.fails("workspace/not-found", "workspace/validate", at("w/src"))
			b.fails("workspace/not-found", "workspace/repair", at("w/src"))
		})
	}
}

// WS-040, WS-049: a store below data_dir belongs to a path. The status warns if another
// directory than the scanned one is there, in this and in later processes.
func TestReplacedDirectoryOfStoreElsewhere(t *testing.T) {
	data := t.TempDir()
	elsewhere := func(cfg map[string]any) { cfg["data-dir"] = data }
	b := start(t, map[string]string{"g1/a.txt": "one\n", "g2/a.txt": "two\n"}, elsewhere)
	at := func(name string) string { return `{:workspace "` + filepath.Join(b.root, name) + `"}` }
	warned := func(name string) bool { return !b.call("workspace/status", at(name)).Key("warning").IsNil() }
	b.call("workspace/scan", at("g1"))
	b.call("workspace/scan", at("g2"))
	assert.False(t, warned("g1"))
	require.NoError(t, os.Rename(filepath.Join(b.root, "g1"), filepath.Join(b.root, "old")))
	require.NoError(t, os.Rename(filepath.Join(b.root, "g2"), filepath.Join(b.root, "g1")))
	assert.True(t, warned("g1"))
	b.p.Instance().Stop()

	cfg := config(b.root)
	elsewhere(cfg)
	b.again(cfg)
	assert.True(t, warned("g1"))
	b.call("workspace/scan", at("g1"))
	assert.False(t, warned("g1"))
	b.p.Instance().Stop()
	b.again(cfg)
	assert.False(t, warned("g1"))
}

// A store in the directory moves with it.
func TestMovedDirectoryHasNoWarning(t *testing.T) {
	b := start(t, map[string]string{"g1/a.txt": "one\n"})
	at := func(name string) string { return `{:workspace "` + filepath.Join(b.root, name) + `"}` }
	b.call("workspace/scan", at("g1"))
	b.p.Instance().Stop()
	require.NoError(t, os.CopyFS(filepath.Join(b.root, "g2"), os.DirFS(filepath.Join(b.root, "g1"))))
	b.again(config(b.root))
	assert.True(t, b.call("workspace/status", at("g2")).Key("warning").IsNil())
}
