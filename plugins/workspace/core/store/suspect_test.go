package store

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-075, WS-252: the rows that are read to find what one change made stale are
// as many in a tree of 50,000 files as in one of 1,000 with the same depth and
// fan-out along the path, and no statement reads a whole table.
func TestStaleDetectionDependsOnTheChange(t *testing.T) {
	count := func(groups int) int64 {
		s := open(t, create(t, id.B3))
		all := map[string]string{}
		for g := range groups {
			for f := range 10 {
				all[fmt.Sprintf("top/%02d/%03d/f%d", g%20, g/20, f)] = "1"
			}
		}
		delete(all, "top/00/000/f0")
		all["one/two/three/f0"], all["one/two/three/f1"], all["one/two/g"] = "1", "1", "1"
		putTree(t, s.Store, grow(id.B3, all))
		dirs := map[string]bool{}
		_, err := s.Update(background, "", func(tx *Tx) error {
			for path := range all {
				for dir, _ := split(path); ; dir, _ = split(dir) {
					dirs[dir] = true
					if dir == "" {
						break
					}
				}
				now, err := tx.frames().current(background, path)
				if err != nil {
					return err
				}
				_, err = tx.PutFrame(NewFrame{Path: path, Type: "t", Agent: "w", Origin: Authored, Inputs: []Input{{Kind: id.InputNode, ID: now.Node}}, Text: []byte(path)})
				if err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
		deepest := make([]string, 0, len(dirs))
		for d := range dirs {
			deepest = append(deepest, d)
		}
		slices.SortFunc(deepest, func(a, b string) int {
			return strings.Count(b+"/", "/")*1000 + len(b) - strings.Count(a+"/", "/")*1000 - len(a)
		})
		var frames []NewFrame
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			for _, d := range deepest {
				n := directoryFrame(t, v, d, usual("t"), "digest")
				now, err := v.Current(background, d)
				require.NoError(t, err)
				v.Assume(s.Seal(n, *now), *now, n.Text)
				frames = append(frames, n)
			}
			return nil
		}))
		_, err = s.Update(background, "", func(tx *Tx) error {
			for _, n := range frames {
				if _, err := tx.PutDerived(n); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
		notFresh := func() (paths []string, rows int64) {
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
				before := s.rows.Load()
				suspects, err := v.Suspects(background, "", nil)
				for _, path := range suspects {
					heads, err := v.HeadsAt(background, path)
					require.NoError(t, err)
					if slices.ContainsFunc(heads, func(h HeadInfo) bool { return h.State != Fresh }) {
						paths = append(paths, path)
					}
				}
				rows = s.rows.Load() - before
				return err
			}))
			return paths, rows
		}
		fresh, none := notFresh()
		require.Empty(t, fresh)
		require.Zero(t, none, "nothing is suspect")
		mustPut(t, s.Store, "top/00/001/f3", "other", "text")
		synthesize(t, s.Store, "top/00/001", usual("other"))
		fresh, none = notFresh()
		require.Empty(t, fresh)
		require.Zero(t, none, "frames of a type are not made from those of another")
		all["one/two/three/f0"] = "2"
		putTree(t, s.Store, grow(id.B3, all))
		stale, rows := notFresh()
		require.Equal(t, []string{"", "one", "one/two", "one/two/three", "one/two/three/f0"}, stale)
		return rows
	}
	small, large := count(100), count(proof.Of(400, 5000))
	assert.Equal(t, small, large)
	assert.Less(t, small, int64(60))

	s := open(t, create(t, id.B3))
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		cond, _ := within("t.path", "d")
		for _, query := range []string{
			topColumns + " WHERE t.suspect = 1 AND " + cond,
			topColumns + " WHERE t.dir = ?1 AND t.path <> x'' ORDER BY t.path, t.type",
			topColumns + " WHERE t.path = ?1 AND t.type = ?2",
			dirsBelow,
			"SELECT t.path FROM tops now JOIN inputs i ON i.input = now.frame JOIN frames f ON f.id = i.frame JOIN tops t ON t.path = f.path AND t.type = f.type WHERE now.path = ?1 AND now.type = ?2",
		} {
			require.NoError(t, v.frames().each(background, func(rows *sql.Rows) error {
				var a, b, c int
				var plan string
				err := rows.Scan(&a, &b, &c, &plan)
				assert.NotRegexp(t, `^SCAN (t|f|v|i|tops|frames|versions)( |$)(USING INDEX tops_suspect)?.*`, strings.Replace(plan, "SCAN t USING INDEX tops_suspect", "", 1))
				return err
			}, "EXPLAIN QUERY PLAN "+query, "a", "b", 1))
		}
		for query, want := range map[string]string{framesOfBasis: "basis=?", framesOfState: "path=? AND node=?"} {
			require.NoError(t, v.frames().each(background, func(rows *sql.Rows) error {
				var a, b, c int
				var plan string
				err := rows.Scan(&a, &b, &c, &plan)
				assert.Contains(t, plan, want, "the work does not grow with the history of the path")
				return err
			}, "EXPLAIN QUERY PLAN "+query, "a", "b", "c", "d", 1))
		}
		return nil
	}))
}

// WS-097: a directory below which frames of the type exist is not ready without one,
// whatever the names of its neighbours are.
func TestNotReady(t *testing.T) {
	s := open(t, create(t, id.B3))
	files(t, s.Store, "d/a/x", "1", "d/a/y/z", "1", "d/a-b/x", "1", "d/a.c/x/y", "1", "d/e", "1", "d/f/x", "1", "d0/x", "1", "c/x", "1")
	for _, path := range []string{"d/a/x", "d/a/y/z", "d/a-b/x", "d/a.c/x/y", "d/e", "d0/x", "c/x"} {
		mustPut(t, s.Store, path, "note", "text")
	}
	mustPut(t, s.Store, "d/f/x", "other", "text")
	notReady := func(dir string, sel Selection, ready ...string) (list []string) {
		known := map[string]bool{}
		for _, path := range ready {
			known[path] = true
		}
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) (err error) {
			list, err = v.NotReady(background, dir, sel, known)
			return err
		}))
		return list
	}
	assert.Equal(t, []string{"d/a", "d/a-b", "d/a.c"}, notReady("d", usual("note")))
	assert.Equal(t, []string{"d/a-b", "d/a.c"}, notReady("d", usual("note"), "d/a"))
	assert.Equal(t, []string{"d/a", "d/a.c", "d/f"}, notReady("d", usual(EveryType), "d/a-b"))
	assert.Equal(t, []string{"c", "d", "d0"}, notReady("", usual("note")))
	assert.Empty(t, notReady("d/a-b", usual("note")))
}
