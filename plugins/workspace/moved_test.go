package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

const putNote = `{:path "top.txt" :frame/type "note" :content "kept"}`

// movable is a bench whose workspace can be moved: the directory above it is allowed.
func movable(t *testing.T) (b *bench, in func(string) string) {
	b = start(t, map[string]string{"w/top.txt": "one\n", "other/top.txt": "two\n"})
	b.root = filepath.Join(b.root, "w")
	return b, func(input string) string { return `{:workspace "` + b.root + `" ` + input[1:] }
}

// noted fails the test unless a process that starts now finds the note in the directory.
func noted(t *testing.T, dir string, want bool) {
	t.Helper()
	b := &bench{T: t, root: dir, p: startOn(t, dir)}
	assert.True(t, b.call("workspace/validate", `{}`).Key("valid?").Truthy())
	assert.Equal(t, want, b.call("context/list-frames", `{:path "top.txt"}`).Key("frames").Len() > 0, dir)
	b.p.Instance().Stop()
}

// WS-025, WS-043, WS-049: requests use the store that is at the path, also if another
// directory has taken the place of the one that was opened.
func TestReplacedDirectoryIsOpenedAgain(t *testing.T) {
	remove := func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(path)) }
	rename := func(t *testing.T, from, to string) { require.NoError(t, os.Rename(from, to)) }
	for name, replace := range map[string]func(t *testing.T, root string){
		"store removed": func(t *testing.T, root string) { remove(t, filepath.Join(root, store.DataParent)) },
		"directory renewed": func(t *testing.T, root string) {
			rename(t, root, root+".old")
			require.NoError(t, os.Mkdir(root, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "top.txt"), []byte("three\n"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, in := movable(t)
			b.call("workspace/scan", in(`{}`))
			replace(t, b.root)
			b.fails("workspace/not-found", "context/get-node", in(`{:path "top.txt"}`))
			b.fails("workspace/not-found", "workspace/validate", in(`{}`))
			b.fails("workspace/not-found", "context/put-frame", in(putNote))
			assert.NoDirExists(t, filepath.Join(b.root, store.DataParent), "a read leaves nothing")
			assert.Equal(t, "2", b.call("workspace/scan", in(`{}`)).Key("added").String())
			assert.FileExists(t, filepath.Join(b.root, store.DataParent, ".gitignore"))
			b.call("context/put-frame", in(putNote))
			b.p.Instance().Stop()
			noted(t, b.root, true)
		})
	}
	t.Run("exchanged for another workspace", func(t *testing.T) {
		b, in := movable(t)
		other := filepath.Join(filepath.Dir(b.root), "other")
		b.call("workspace/scan", `{:workspace "`+other+`"}`)
		b.call("workspace/scan", in(`{}`))
		rename(t, b.root, b.root+".old")
		rename(t, other, b.root)
		b.call("context/put-frame", in(putNote))
		b.p.Instance().Stop()
		noted(t, b.root, true)
		noted(t, b.root+".old", false)
	})
	t.Run("restored from a copy", func(t *testing.T) {
		b, in := movable(t)
		b.call("workspace/scan", in(`{}`))
		data := filepath.Join(b.root, store.DataParent)
		require.NoError(t, os.CopyFS(b.root+".copy", os.DirFS(data)))
		b.call("context/put-frame", in(`{:path "top.txt" :frame/type "other" :content "not in the copy"}`))
		remove(t, data)
		rename(t, b.root+".copy", data)
		b.call("context/put-frame", in(putNote))
		b.p.Instance().Stop()
		noted(t, b.root, true)
	})
}

// WS-162: a watch whose store is removed ends as if its directory was lost.
func TestWatchLosesItsStore(t *testing.T) {
	for name, after := range map[string]func(b *bench){
		"noticed by the watch":       func(b *bench) { b.write(map[string]string{"top.txt": "changed\n"}) },
		"noticed by another request": func(b *bench) { b.fails("workspace/not-found", "workspace/status", `{}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := scannedBench(t, fourFiles)
			var events []string
			response, err := b.p.Do(t.Context(), callOf("workspace/watch", `{:workspace "`+b.root+`" :debounce 5 :batch 5}`,
				func(e wire.Event) {
					if e.Kind != wire.Delta {
						return
					}
					kind := e.Value.Key("event").String()
					if events = append(events, kind); kind == ":ready" {
						require.NoError(t, os.RemoveAll(filepath.Join(b.root, store.DataParent)))
						after(b)
					}
				}))
			if err == nil {
				err = contract.ErrorFromValue(response.Key("error"), contract.SourcePlugin)
			}
			require.ErrorIs(t, err, contract.OfType("watch/root-lost"))
			assert.Equal(t, []string{":ready", ":root-lost"}, events)
			assert.NoDirExists(t, filepath.Join(b.root, store.DataParent))
			b.call("workspace/scan", `{}`)
		})
	}
}
