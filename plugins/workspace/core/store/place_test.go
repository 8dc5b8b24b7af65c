package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// contents returns the files of a directory by path, without those whose name begins with
// a prefix.
func contents(t *testing.T, dir, without string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || without != "" && strings.HasPrefix(d.Name(), without) {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}

// replacements are the ways in which a store can disappear from its path.
func replacements(t *testing.T) map[string]func(dir string) {
	copied := func(dir, to string) { require.NoError(t, os.CopyFS(to, os.DirFS(dir))) }
	return map[string]func(dir string){
		"removed": func(dir string) { require.NoError(t, os.RemoveAll(filepath.Dir(dir))) },
		"moved":   func(dir string) { require.NoError(t, os.Rename(dir, dir+".moved")) },
		"replaced by a copy": func(dir string) {
			copied(dir, dir+".copy")
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Rename(dir+".copy", dir))
		},
		"log replaced by a copy": func(dir string) {
			logs := filepath.Join(dir, logDir)
			copied(logs, logs+".copy")
			require.NoError(t, os.RemoveAll(logs))
			require.NoError(t, os.Rename(logs+".copy", logs))
		},
		"replaced by another store": func(dir string) {
			require.NoError(t, os.Rename(dir, dir+".moved"))
			require.NoError(t, Create(dir, Identity{ID: "w2", Scheme: id.B3.String()}))
			s, err := Open(background, dir, testOptions)
			require.NoError(t, err)
			put(t, s, "text of another store")
			require.NoError(t, s.Close())
		},
	}
}

// WS-043, WS-046, WS-049: a transaction whose files are no longer in the store at the path
// is not acknowledged, and the store changes nothing in what is there now.
func TestReplacedStoreTakesNoWrites(t *testing.T) {
	for name, replace := range replacements(t) {
		for _, when := range []string{"before", log.OpWrite, log.OpSync, opIndex} {
			t.Run(name+" "+when, func(t *testing.T) {
				dir := create(t, id.B3)
				var during func()
				s := open(t, dir, func(o *Options) {
					o.SegmentSize = 256 // the next transaction begins a segment
					o.Faults.Before = func(op string) error {
						if op == when && during != nil {
							replace(dir)
							during = nil
						}
						return nil
					}
				})
				put(t, s.Store, "text before")
				during = func() {}
				if when == "before" {
					replace(dir)
				}
				_, err := s.Update(background, "tester", func(tx *Tx) error {
					_, err := tx.PutContent(make([]byte, 300))
					return err
				})
				if when == opIndex { // durable in the log before the store was replaced
					require.NoError(t, err)
				} else {
					typed(t, err, "store/io")
				}
				there, own := map[string]string{}, ""
				if name == "log replaced by a copy" {
					own = indexFile // it was not replaced
				}
				if name != "removed" && name != "moved" {
					there = contents(t, dir, own)
				}
				_, err = s.Update(background, "tester", func(tx *Tx) error {
					_, err := tx.PutContent([]byte("text after"))
					return err
				})
				typed(t, err, "store/io")
				require.NoError(t, s.Close())
				if len(there) > 0 {
					assert.Equal(t, there, contents(t, dir, own))
				} else {
					assert.NoDirExists(t, dir)
				}
			})
		}
	}
}

// A read of a replaced store fails, and marks no damage in what is there now.
func TestReplacedStoreReadsNothing(t *testing.T) {
	for name, replace := range replacements(t) {
		if name == "log replaced by a copy" {
			continue // the copy has the same texts
		}
		t.Run(name, func(t *testing.T) {
			dir := create(t, id.B3)
			s := open(t, dir)
			content, _ := put(t, s.Store, "text")
			replace(dir)
			typed(t, s.View(background, Latest, func(v *Snapshot) error {
				_, err := v.Content(background, content)
				return err
			}), "store/io")
			assert.NoFileExists(t, filepath.Join(dir, damageMark))
		})
	}
}
