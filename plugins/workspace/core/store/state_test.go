package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// usual is a selection with the defaults.
func usual(frameType string, change ...func(*Selection)) Selection {
	s := Selection{Type: frameType, Select: SelectHeads, Children: ChildrenRequire, OnStale: StaleUse, Binds: BindsNode}
	for _, c := range change {
		c(&s)
	}
	return s
}

// directoryFrame returns a synthesized frame of a directory in a snapshot.
func directoryFrame(t testing.TB, v *Snapshot, dir string, sel Selection, digest string) NewFrame {
	t.Helper()
	now, err := v.frames().current(background, dir)
	require.NoError(t, err)
	require.NotNil(t, now)
	s, err := v.Select(background, dir, sel, false)
	require.NoError(t, err)
	text := ""
	for _, c := range s.Children {
		b, err := v.Content(background, c.Content)
		require.NoError(t, err)
		text += c.Name + ": " + string(b) + "\n"
	}
	params, err := edn.Encode(sel)
	require.NoError(t, err)
	return NewFrame{
		Path: dir, Type: sel.Result(), Agent: "synthesis", Origin: Synthesized,
		Inputs: s.Inputs(sel, *now, dir, digest+params.String()), Text: []byte(text), Recipe: Recipe("synthesize", edn.Nil(), params),
	}
}

// synthesize puts the frame of a directory.
func synthesize(t testing.TB, s *Store, dir string, sel Selection) *Put {
	t.Helper()
	var n NewFrame
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		n = directoryFrame(t, v, dir, sel, "digest")
		return nil
	}))
	return derived(t, s, n)
}

func derived(t testing.TB, s *Store, n NewFrame) (p *Put) {
	t.Helper()
	_, err := s.Update(background, "tester", func(tx *Tx) (err error) {
		p, err = tx.PutDerived(n)
		return err
	})
	require.NoError(t, err)
	return p
}

// states returns every head with its state, as the index has it and as it is
// computed from nothing but the history.
func states(t testing.TB, s *Store) (quick, slow map[string]string) {
	t.Helper()
	list := func(infos []HeadInfo, err error) map[string]string {
		require.NoError(t, err)
		out := map[string]string{}
		for _, h := range infos {
			out[h.Path+" "+h.Type] = fmt.Sprint(h.Frame, " ", h.State, " ", h.Reasons)
		}
		return out
	}
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		quick = list(v.Heads(background, "", nil))
		suspects, err := v.Suspects(background, "", nil)
		require.NoError(t, err)
		for name, h := range quick {
			if strings.Contains(h, " stale ") || strings.Contains(h, " invalid ") {
				path, _, _ := strings.Cut(name, " ")
				assert.Contains(t, suspects, path, h)
			}
		}
		v.latest, v.cache = false, newReadCache()
		slow = list(v.Heads(background, "", nil))
		return nil
	}))
	return quick, slow
}

// stateOf returns state and reasons of a head.
func stateOf(t testing.TB, s *Store, path, frameType string) string {
	t.Helper()
	out := ""
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		h, err := v.Head(background, path, frameType)
		if err == nil {
			out = strings.TrimSuffix(fmt.Sprint(h.State, " ", h.Reasons), " []")
		}
		return err
	}))
	return out
}

// WS-071, WS-092: the basis of a directory frame is computed again: a changed,
// new or removed entry, a new frame of an entry and a changed policy make it
// stale, and only they.
func TestStateOfDirectoryFrames(t *testing.T) {
	for name, c := range map[string]struct {
		binds  Word
		change func(t *testing.T, s *Store)
		want   string
	}{
		"a file changes":        {BindsNode, func(t *testing.T, s *Store) { files(t, s, "d/a", "2", "d/b", "1") }, "stale [node-changed]"},
		"a file goes":           {BindsNode, func(t *testing.T, s *Store) { files(t, s, "d/b", "1") }, "stale [node-changed child-changed]"},
		"another file changes":  {BindsNode, func(t *testing.T, s *Store) { files(t, s, "d/a", "1", "d/b", "1", "e", "2") }, "fresh"},
		"a new frame":           {BindsNode, func(t *testing.T, s *Store) { mustPut(t, s, "d/a", "note", "new") }, "stale [child-changed]"},
		"a first frame":         {BindsNode, func(t *testing.T, s *Store) { mustPut(t, s, "d/b", "note", "new") }, "stale [child-changed]"},
		"of another type":       {BindsNode, func(t *testing.T, s *Store) { mustPut(t, s, "d/b", "other", "new") }, "fresh"},
		"of another path":       {BindsNode, func(t *testing.T, s *Store) { mustPut(t, s, "e", "note", "new") }, "fresh"},
		"the policy":            {BindsNode, func(t *testing.T, s *Store) { s.SetResolver(other) }, "stale [recipe-changed]"},
		"a mark":                {BindsNode, func(t *testing.T, s *Store) { invalidate(t, s, "d", false) }, "invalid [invalidated]"},
		"it goes":               {BindsNode, func(t *testing.T, s *Store) { files(t, s, "e", "1") }, "deleted"},
		"inputs: a file":        {BindsInputs, func(t *testing.T, s *Store) { files(t, s, "d/a", "2", "d/b", "1") }, "fresh"},
		"inputs: equal text":    {BindsInputs, func(t *testing.T, s *Store) { files(t, s, "d/a", "2"); mustPut(t, s, "d/a", "note", "text") }, "fresh"},
		"inputs: other text":    {BindsInputs, func(t *testing.T, s *Store) { mustPut(t, s, "d/a", "note", "new") }, "stale [child-changed]"},
		"inputs: a file goes":   {BindsInputs, func(t *testing.T, s *Store) { files(t, s, "d/b", "1") }, "stale [child-changed]"},
		"inputs: a first frame": {BindsInputs, func(t *testing.T, s *Store) { mustPut(t, s, "d/b", "note", "new") }, "stale [child-changed]"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := create(t, id.B3)
			s := open(t, dir)
			files(t, s.Store, "d/a", "1", "d/b", "1", "e", "1")
			mustPut(t, s.Store, "d/a", "note", "text")
			first := synthesize(t, s.Store, "d", usual("note", func(x *Selection) { x.Binds = c.binds }))
			assert.Equal(t, "fresh", stateOf(t, s.Store, "d", "note"))
			c.change(t, s.Store)
			assert.Equal(t, c.want, stateOf(t, s.Store, "d", "note"))
			quick, slow := states(t, s.Store)
			assert.Equal(t, slow, quick)
			require.NoError(t, s.Close())
			require.NoError(t, os.Remove(filepath.Join(dir, indexFile))) // an old index is built again
			s = open(t, dir)
			if name == "the policy" {
				s.SetResolver(other)
			}
			again, _ := states(t, s.Store)
			assert.Equal(t, quick, again)
			assert.Contains(t, again["d note"], first.Frame.ID.String())
		})
	}
}

// WS-071, WS-084: a frame that replaces the frame that it was made from is fresh until the
// file changes. Another frame made from the replaced one is stale.
func TestStateOfRefinedFrames(t *testing.T) {
	for _, onlyFrame := range []bool{false, true} {
		s := open(t, create(t, id.B3))
		files(t, s.Store, "a", "1")
		first := mustPut(t, s.Store, "a", "note", "one")
		from := func(f *Frame) func(*NewFrame) {
			return func(n *NewFrame) {
				if onlyFrame {
					n.Inputs = nil
				}
				n.Inputs = append(n.Inputs, Input{Kind: id.InputFrame, ID: f.ID})
			}
		}
		mustPut(t, s.Store, "a", "digest", "of one", from(first))
		assert.Equal(t, "fresh", stateOf(t, s.Store, "a", "digest"))
		second := mustPut(t, s.Store, "a", "note", "two", from(first))
		mustPut(t, s.Store, "a", "note", "three", from(second))
		assert.Equal(t, "fresh", stateOf(t, s.Store, "a", "note"))
		assert.Equal(t, "stale [child-changed]", stateOf(t, s.Store, "a", "digest"))
		quick, slow := states(t, s.Store)
		assert.Equal(t, slow, quick)
		files(t, s.Store, "a", "2")
		assert.Contains(t, stateOf(t, s.Store, "a", "note"), "stale")
	}
}

// other is a resolver for which every policy is another one now.
func other(_ *Frame, in Input) Input {
	if in.Kind == id.InputPolicy {
		in.Text = []byte("another")
	}
	return in
}

func files(t testing.TB, s *Store, pathsAndTexts ...string) {
	t.Helper()
	all := map[string]string{}
	for i := 0; i < len(pathsAndTexts); i += 2 {
		all[pathsAndTexts[i]] = pathsAndTexts[i+1]
	}
	putTree(t, s, grow(id.B3, all))
}

func invalidate(t testing.TB, s *Store, path string, recursive bool, types ...string) (n int) {
	t.Helper()
	_, err := s.Update(background, "tester", func(tx *Tx) (err error) {
		n, err = tx.Invalidate(path, recursive, types)
		return err
	})
	require.NoError(t, err)
	return n
}

// WS-118: a mark is on a head, can be repeated, and is removed by the next move
// of that head, also to the same frame. WS-115: a head moves to a stored frame.
func TestMarks(t *testing.T) {
	s := open(t, create(t, id.B3))
	files(t, s.Store, "d/a", "1", "d/b", "1", "e", "1")
	a := mustPut(t, s.Store, "d/a", "note", "text")
	mustPut(t, s.Store, "d/a", "digest", "text")
	d := synthesize(t, s.Store, "d", usual("note"))
	mustPut(t, s.Store, "e", "note", "text")
	assert.Equal(t, 1, invalidate(t, s.Store, "d", true, "digest"))
	assert.Equal(t, 2, invalidate(t, s.Store, "d", true), "one of three is marked already")
	assert.Equal(t, 0, invalidate(t, s.Store, "d", true))
	assert.Equal(t, []string{"invalid [invalidated]", "fresh"}, []string{stateOf(t, s.Store, "d", "note"), stateOf(t, s.Store, "e", "note")})
	assert.Equal(t, 1, invalidate(t, s.Store, "e", false, "note"))

	again := derivedAgain(t, s.Store, "d")
	assert.True(t, again.Existing)
	assert.Equal(t, d.Frame.ID, again.Frame.ID)
	assert.Equal(t, "fresh", stateOf(t, s.Store, "d", "note"))
	mustPut(t, s.Store, "d/a", "note", "new")
	assert.Equal(t, "fresh", stateOf(t, s.Store, "d/a", "note"), "another frame has no mark")
	assert.Equal(t, "stale [child-changed]", stateOf(t, s.Store, "d", "note"))
	_, err := s.Update(background, "tester", func(tx *Tx) error {
		if _, err := tx.MoveHead(d.Frame.ID, 0); !errors.Is(err, ErrMoved) {
			t.Errorf("the basis differs, found %v", err)
		}
		p, err := tx.MoveHead(a.ID, 0)
		assert.True(t, p.Existing)
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, "invalid [invalidated]", stateOf(t, s.Store, "e", "note"))
	assert.Equal(t, "fresh", stateOf(t, s.Store, "d", "note"), "its input is the head again")

	_, err = s.Update(background, "tester", func(tx *Tx) error {
		n, err := tx.InvalidateFrame(a.ID)
		assert.Equal(t, 1, n)
		m, err2 := tx.InvalidateFrame(a.ID)
		assert.Equal(t, 0, m)
		_, err3 := tx.InvalidateFrame(id.B3.Frame("", id.ID{}, "", "", id.ID{}))
		typed(t, err3, "frame/not-found")
		require.NoError(t, err2)
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, "invalid [invalidated]", stateOf(t, s.Store, "d/a", "note"))
}

// derivedAgain synthesizes a directory as its head says.
func derivedAgain(t testing.TB, s *Store, dir string) *Put {
	return synthesize(t, s, dir, usual("note"))
}

// WS-048, WS-071, WS-118: after random scans, frames, syntheses and marks the
// states that the index knows are those that the history gives, now and after
// the index was built again.
func TestStatesAgainstHistory(t *testing.T) {
	paths := []string{"a", "d/b", "d/e/c", "d/e/f", "g/h"}
	dirs := []string{"", "d", "d/e", "g"}
	types := []string{"t", "u", "all"}
	for seed := range proof.Size(t, "histories of heads", 10, 300) {
		r := rand.New(rand.NewPCG(uint64(seed), 71))
		dir := create(t, id.B3)
		s := open(t, dir)
		now := map[string]string{}
		scan := func() { putTree(t, s.Store, grow(id.B3, now)) }
		for _, p := range paths {
			now[p] = "0"
		}
		scan()
		var put []id.ID
		for step := range 40 {
			path := paths[r.IntN(len(paths))]
			switch n := r.IntN(10); {
			case n < 2 && r.IntN(4) == 0: // another kind of node
				delete(now, "g/h")
				now["g"] = "0"
				scan()
			case n < 2:
				if path == "g/h" {
					delete(now, "g")
				}
				now[path] = []string{"", "", "link:"}[r.IntN(3)] + fmt.Sprint(r.IntN(3))
				scan()
			case n == 2:
				delete(now, path)
				scan()
			case n < 5 && now[path] != "" && !deleted(t, s.Store, path):
				var change []func(*NewFrame)
				if len(put) > 0 && r.IntN(3) == 0 {
					change = append(change, func(n *NewFrame) { n.Inputs = []Input{{Kind: id.InputFrame, ID: put[r.IntN(len(put))]}} })
				}
				if r.IntN(3) == 0 {
					change = append(change, func(n *NewFrame) { n.Origin = Extracted })
				}
				put = append(put, mustPut(t, s.Store, path, types[r.IntN(2)], fmt.Sprint(r.IntN(3)), change...).ID)
			case n == 5 && r.IntN(2) == 0:
				_, err := s.Update(background, "tester", func(tx *Tx) error {
					change := []func(string) ([]string, error){tx.Delete, tx.Restore}[r.IntN(2)]
					_, err := change(append(paths, dirs...)[r.IntN(len(paths)+len(dirs))])
					return err
				})
				require.NoError(t, err)
			case n == 5:
				invalidate(t, s.Store, dirs[r.IntN(len(dirs))], r.IntN(2) == 0)
			case n == 6 && len(put) > 0:
				_, err := s.Update(background, "tester", func(tx *Tx) error {
					_, err := tx.MoveHead(put[r.IntN(len(put))], 0)
					return err
				})
				if err != nil && !errors.Is(err, ErrMoved) {
					typed(t, err, "path/not-in-tree")
				}
			default:
				sel := usual(types[r.IntN(len(types))], func(x *Selection) {
					x.Binds = []Word{BindsNode, BindsInputs}[r.IntN(2)]
					x.OnStale = []Word{StaleUse, StaleUse, StaleExclude}[r.IntN(3)]
					x.Children = []Word{ChildrenRequire, ChildrenSkip}[r.IntN(2)]
					x.Select = []Word{SelectHeads, SelectHeads, SelectAll}[r.IntN(3)]
					if r.IntN(4) == 0 {
						x.Type, x.Into = EveryType, types[1+r.IntN(2)]
					}
				})
				path := dirs[r.IntN(len(dirs))]
				if at := grow(id.B3, now).Lookup(path); at != nil && at.Mode == id.Dir && !deleted(t, s.Store, path) {
					put = append(put, synthesize(t, s.Store, path, sel).Frame.ID)
				}
			}
			quick, slow := states(t, s.Store)
			require.Equal(t, slow, quick, "seed %d, step %d", seed, step)
		}
		quick, _ := states(t, s.Store)
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
		again, slow := states(t, open(t, dir).Store)
		require.Equal(t, quick, again, "seed %d", seed)
		require.Equal(t, quick, slow, "seed %d", seed)
	}
}

// deleted reports whether a path is not in the tree, or deleted in it.
func deleted(t testing.TB, s *Store, path string) (gone bool) {
	t.Helper()
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		now, err := v.frames().current(background, path)
		gone = now == nil
		return err
	}))
	return gone
}
