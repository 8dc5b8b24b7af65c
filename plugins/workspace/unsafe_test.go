package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listing returns all entries below a directory: the text of a file or of a link.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[path] = d.Type().String()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			all[path] += to
			return err
		case d.Type().IsRegular():
			text, err := os.ReadFile(path)
			all[path] += string(text)
			return err
		}
		return nil
	}))
	return all
}

// WS-028, WS-040: a link in the place of the store or of a part of it is refused before
// anything is written, and the path of it is named.
func TestLinkInPlaceOfStore(t *testing.T) {
	type hostile struct{ link, to string }
	for name, h := range map[string]hostile{
		"parent to the root":        {".ferment", "."},
		"parent to a directory":     {".ferment", "src"},
		"parent to the outside":     {".ferment", "OUT"},
		"parent to nothing":         {".ferment", "OUT/none"},
		"store to the root":         {".ferment/workspace", "../.."},
		"store to the outside":      {".ferment/workspace", "OUT"},
		"lock to a file":            {".ferment/workspace/LOCK", "../../src/a.txt"},
		"lock to a new file":        {".ferment/workspace/LOCK", "OUT/new"},
		"index to a file":           {".ferment/workspace/index.db", "OUT/kept.txt"},
		"log to the outside":        {".ferment/workspace/log", "OUT"},
		"quarantine to the outside": {".ferment/workspace/quarantine", "OUT"},
		"identity to a file":        {".ferment/workspace/workspace.edn", "OUT/kept.txt"},
		"segment to a file":         {".ferment/workspace/log/00000001.seg", "OUT/kept.txt"},
		"parent is a file":          {".ferment", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, map[string]string{"src/a.txt": "one\n"})
			out := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(out, "kept.txt"), []byte("kept"), 0o644))
			plant := func() {
				link := filepath.Join(b.root, h.link)
				require.NoError(t, os.RemoveAll(filepath.Join(b.root, ".ferment")))
				require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
				to := h.to
				if rest, outside := cutOut(to); outside {
					to = filepath.Join(out, rest)
				}
				if to == "" {
					require.NoError(t, os.WriteFile(link, []byte("text"), 0o644))
				} else {
					require.NoError(t, os.Symlink(to, link))
				}
			}
			plant()
			before, outside := listing(t, b.root), listing(t, out)
			refused := func() {
				for _, call := range [][2]string{
					{"workspace/init", `{}`}, {"workspace/scan", `{}`}, {"workspace/scan", `{:dry-run? true}`},
					{"workspace/status", `{}`}, {"workspace/validate", `{}`}, {"workspace/validate", `{:fs? true}`},
					{"workspace/repair", `{:apply? true}`}, {"context/get-node", `{:path "src"}`},
					{"context/put-frame", `{:path "src" :frame/type "note" :content "x"}`},
				} {
					err := b.failure("store/unsafe", call[0], call[1])
					assert.Contains(t, err.FullMessage(), filepath.Join(b.root, h.link))
				}
				assert.Equal(t, before, listing(t, b.root))
				assert.Equal(t, outside, listing(t, out))
			}
			refused()

			require.NoError(t, os.RemoveAll(filepath.Join(b.root, ".ferment")))
			b.call("workspace/scan", `{}`)
			plant() // the open store is the one that was replaced
			refused()
		})
	}
}

func cutOut(to string) (rest string, outside bool) {
	if rest, err := filepath.Rel("OUT", to); err == nil && filepath.IsLocal(rest) {
		return rest, true
	}
	return "", false
}

// A link that takes the place of an open store is refused, also if it leads to that store.
func TestLinkToOpenStore(t *testing.T) {
	for _, moved := range []string{".ferment", ".ferment/workspace"} {
		b := start(t, map[string]string{"src/a.txt": "one\n"})
		b.call("workspace/scan", `{}`)
		out := filepath.Join(t.TempDir(), "moved")
		require.NoError(t, os.Rename(filepath.Join(b.root, moved), out))
		require.NoError(t, os.Symlink(out, filepath.Join(b.root, moved)))
		b.fails("store/unsafe", "context/put-frame", `{:path "src" :frame/type "note" :content "x"}`)
		b.fails("store/unsafe", "workspace/scan", `{}`)
	}
}

// WS-040: with data_dir, a link in the place of the store in the workspace is not followed.
func TestLinkWithDataDir(t *testing.T) {
	for _, to := range []string{".", "src", "../none"} {
		data := t.TempDir()
		b := start(t, map[string]string{"src/a.txt": "one\n"}, func(cfg map[string]any) { cfg["data-dir"] = data })
		require.NoError(t, os.Symlink(to, filepath.Join(b.root, ".ferment")))
		before := listing(t, b.root)
		b.call("workspace/scan", `{}`)
		b.call("context/put-frame", `{:path "src" :frame/type "note" :content "x"}`)
		assert.Equal(t, before, listing(t, b.root))
	}
}
