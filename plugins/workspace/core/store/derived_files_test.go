package store

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// copyDir copies a data directory.
func copyDir(t testing.TB, from, to string) {
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

// filled is a closed store with a few transactions, and its last state.
func filled(t testing.TB, name string) (dir string, end uint64, nodes map[string]string) {
	dir = createAs(t, id.B3, name)
	s := open(t, dir, func(o *Options) { o.SegmentSize = 2000 })
	for i := range 8 {
		tr := grow(id.B3, map[string]string{"a": "1", "d/b": fmt.Sprint(i), fmt.Sprintf("e/%d", i): "x"})
		putTree(t, s.Store, tr)
		nodes = ids(tr)
		_, end = put(t, s.Store, strings.Repeat(fmt.Sprint(i), 100))
	}
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "f"), nil, 0o644))
	r, err := scan.Run(background, scan.Options{Root: root, Scheme: id.B3})
	require.NoError(t, err)
	require.NoError(t, s.SaveCache(r))
	require.NoError(t, s.Close())
	require.Empty(t, s.warnings)
	return dir, end, nodes
}

// WS-042, WS-045: index, cache and seal can be deleted, replaced or damaged: the
// next open rebuilds them, says so, and has the same state.
func TestDerivedFiles(t *testing.T) {
	dir, end, nodes := filled(t, "w1")
	other, _, _ := filled(t, "w2")
	write := func(path string, text string) func(dir string) {
		return func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600)) }
	}
	remove := func(paths ...string) func(dir string) {
		return func(dir string) {
			for _, p := range paths {
				require.NoError(t, os.Remove(filepath.Join(dir, p)))
			}
		}
	}
	for name, c := range map[string]struct {
		change func(dir string)
		warns  bool
	}{
		"none":             {func(string) {}, false},
		"no seal":          {remove(sealFile), false},
		"no index":         {remove(indexFile), true},
		"nothing derived":  {remove(indexFile, sealFile, cacheFile), true},
		"index is garbage": {write(indexFile, "garbage"), true},
		"garbage, no seal": {func(dir string) { write(indexFile, "garbage")(dir); remove(sealFile)(dir) }, true},
		"index is empty":   {write(indexFile, ""), true},
		"seal is garbage":  {write(sealFile, "garbage"), true},
		"seal is empty":    {write(sealFile, ""), true},
		"cache is garbage": {write(cacheFile, "garbage"), true},
		"index of another workspace": {func(dir string) {
			b, err := os.ReadFile(filepath.Join(other, indexFile))
			require.NoError(t, err)
			write(indexFile, string(b))(dir)
			remove(sealFile)(dir)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			work := filepath.Join(t.TempDir(), "w")
			copyDir(t, dir, work)
			c.change(work)
			s := open(t, work)
			require.Nil(t, s.Damage())
			assert.Equal(t, nodes, treeAt(t, s.Store, end))
			s.LoadCache()
			assert.Equal(t, c.warns, len(s.warnings) > 0, s.warnings)
			text := id.B3.Bytes([]byte(strings.Repeat("3", 100)))
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
				_, err := v.Content(background, text)
				return err
			}))
			_, next := put(t, s.Store, "new")
			assert.Equal(t, end+1, next)
			require.NoError(t, s.Close())
			findings, err := verifyDir(work)
			require.NoError(t, err)
			if name != "cache is garbage" {
				assert.Empty(t, findings)
			}
		})
	}
}

// WS-042: an index of an older copy of the same store is brought up to date; one
// whose transactions the log does not have is rebuilt if the log is whole.
func TestIndexOfAnotherCopy(t *testing.T) {
	dir, end, nodes := filled(t, "w1")
	old, err := os.ReadFile(filepath.Join(dir, indexFile))
	require.NoError(t, err)
	work := filepath.Join(t.TempDir(), "w")
	copyDir(t, dir, work)
	s := open(t, work)
	put(t, s.Store, "newer")
	require.NoError(t, s.Close())
	newer, err := os.ReadFile(filepath.Join(work, indexFile))
	require.NoError(t, err)

	require.NoError(t, os.Remove(filepath.Join(work, sealFile)))
	require.NoError(t, os.WriteFile(filepath.Join(work, indexFile), old, 0o600))
	s = open(t, work)
	assert.Equal(t, nodes, treeAt(t, s.Store, end+1))
	require.NoError(t, s.Close())

	// Two copies went apart: same number, other transaction.
	apart := filepath.Join(t.TempDir(), "w")
	copyDir(t, dir, apart)
	s = open(t, apart)
	put(t, s.Store, "other")
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(apart, sealFile)))
	require.NoError(t, os.WriteFile(filepath.Join(apart, indexFile), newer, 0o600))
	s = open(t, apart)
	require.Nil(t, s.Damage())
	assert.NotEmpty(t, s.warnings)
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		_, err := v.Content(background, id.B3.Bytes([]byte("other")))
		return err
	}))
}

// WS-044: a log that lacks what seal or index know is damage: the store reads,
// takes no writes, and nothing is cut off or forgotten by opening it.
func TestLogIsShorterThanKnown(t *testing.T) {
	dir, end, _ := filled(t, "w1")
	entries, err := os.ReadDir(filepath.Join(dir, logDir))
	require.NoError(t, err)
	last := filepath.Join(logDir, entries[len(entries)-1].Name())
	for _, without := range [][]string{{}, {sealFile}, {indexFile}} {
		for what, change := range map[string]func(path string) error{
			"cut":     func(path string) error { return os.Truncate(path, 150) },
			"missing": os.Remove,
		} {
			work := filepath.Join(t.TempDir(), "w")
			copyDir(t, dir, work)
			require.NoError(t, change(filepath.Join(work, last)))
			for _, f := range without {
				require.NoError(t, os.Remove(filepath.Join(work, f)))
			}
			for range 2 { // the second open knows it too
				s := open(t, work)
				var damage *log.Damage
				require.ErrorAs(t, s.Damage(), &damage, "%s without %s", what, without)
				assert.LessOrEqual(t, damage.Seq, end)
				_, err := s.Update(background, "x", func(*Tx) error { return nil })
				typed(t, err, "store/read-only")
				treeAt(t, s.Store, 2)
				require.NoError(t, s.Close())
			}
			findings, err := verifyDir(work)
			require.NoError(t, err)
			assert.NotEmpty(t, findings)
		}
	}
}

// WS-171: any flipped byte in any file of a closed data directory is found, with
// the name of the file.
func TestFlippedBytesAreFound(t *testing.T) {
	dir, _, _ := filled(t, "w1")
	findings, err := verifyDir(dir)
	require.NoError(t, err)
	require.Empty(t, findings)
	// The index has many bytes that are read in one way: some are enough.
	step := proof.Size(t, "percent of the index", 1, 20)
	files, bytes := 0, 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		whole, err := io.ReadAll(f)
		require.NoError(t, err)
		every := proof.Of(23, 1) // in full, the tests of the log flip each of its bytes
		if name == indexFile {
			every = 100 / step * 7
		}
		for i := 0; i < len(whole); i += every {
			_, err = f.WriteAt([]byte{whole[i] ^ 1<<(i%8)}, int64(i))
			require.NoError(t, err)
			findings, err := verifyDir(dir)
			require.NoError(t, err)
			require.NotEmpty(t, findings, "%s byte %d", name, i)
			require.Equal(t, name, findings[0].File, "byte %d", i)
			_, err = f.WriteAt(whole[i:i+1], int64(i))
			require.NoError(t, err)
			bytes++
		}
		files++
		return nil
	}))
	assert.Greater(t, files, 6)
	assert.Greater(t, bytes, 300)
	findings, err = verifyDir(dir)
	require.NoError(t, err)
	require.Empty(t, findings, "nothing was changed by verifying")
}

// A first record that cannot be read for want of a file or of permission is an error of
// Open and no damage: the next open may read it.
func TestFirstRecordIsNotReadable(t *testing.T) {
	dir, _, _ := filled(t, "w1")
	s := open(t, dir)
	_, _, text, err := readIdentity(dir)
	require.NoError(t, err)
	require.NoError(t, s.begin(text))
	first := filepath.Join(dir, logDir, log.SegmentName(1))
	require.NoError(t, os.Rename(first, filepath.Join(t.TempDir(), "segment")))
	require.NoError(t, os.Mkdir(first, 0o700)) // cannot be read as a file
	typed(t, s.begin(text), "store/io")
	assert.Nil(t, s.Damage())
}
