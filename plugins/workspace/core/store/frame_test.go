package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// putFrame puts an authored frame on the current state of a path.
func putFrame(t testing.TB, s *Store, path, frameType, text string, change ...func(*NewFrame)) (p *Put, seq uint64, err error) {
	t.Helper()
	seq, err = s.Update(background, "tester", func(tx *Tx) (err error) {
		n := NewFrame{Path: path, Type: frameType, Agent: "writer", Origin: Authored, Text: []byte(text), Meta: edn.MustRead(`{"ticket" "T-9"}`)}
		if now, err := tx.frames().current(background, path); err == nil && now != nil {
			n.Inputs = []Input{{Kind: id.InputNode, ID: now.Node}}
		}
		for _, c := range change {
			c(&n)
		}
		p, err = tx.PutFrame(n)
		return err
	})
	return p, seq, err
}

func mustPut(t testing.TB, s *Store, path, frameType, text string, change ...func(*NewFrame)) *Frame {
	t.Helper()
	p, _, err := putFrame(t, s, path, frameType, text, change...)
	require.NoError(t, err)
	return p.Frame
}

// head returns frame and state of a head, or the type of the error.
func head(t testing.TB, s *Store, asOf uint64, path, frameType string) string {
	t.Helper()
	out := ""
	err := s.View(background, asOf, func(v *Snapshot) error {
		h, err := v.Head(background, path, frameType)
		if err == nil {
			out = h.Frame.ID.String() + " " + string(h.State)
		}
		return err
	})
	if err != nil {
		return contract.AsError(err).Type
	}
	return out
}

// WS-071, WS-072: a head belongs to a state of its path. A change makes it
// stale, a return to the earlier state makes it fresh again without a write, a
// removed path keeps it.
func TestHeadsFollowStates(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	tree := func(text string) { putTree(t, s.Store, grow(id.B3, map[string]string{"a": text, "b": ""})) }
	assert.Equal(t, "path/not-in-tree", head(t, s.Store, Latest, "a", "note"))
	tree("1")
	assert.Equal(t, "frame/no-head", head(t, s.Store, Latest, "a", "note"))
	one := mustPut(t, s.Store, "a", "note", "about 1").ID.String()
	assert.Equal(t, one+" fresh", head(t, s.Store, Latest, "a", "note"))
	tree("2")
	assert.Equal(t, one+" stale", head(t, s.Store, Latest, "a", "note"))
	two := mustPut(t, s.Store, "a", "note", "about 2").ID.String()
	assert.Equal(t, two+" fresh", head(t, s.Store, Latest, "a", "note"))
	tree("1")
	assert.Equal(t, one+" fresh", head(t, s.Store, Latest, "a", "note"))
	tree("3")
	assert.Equal(t, one+" stale", head(t, s.Store, Latest, "a", "note"), "the latest earlier state that has one")
	putTree(t, s.Store, grow(id.B3, map[string]string{"b": ""}))
	assert.Equal(t, one+" deleted", head(t, s.Store, Latest, "a", "note"))

	want := map[uint64]string{2: "frame/no-head", 3: one + " fresh", 4: one + " stale", 5: two + " fresh", 6: one + " fresh", 7: one + " stale", 8: one + " deleted"}
	check := func(s *Store) {
		for seq, h := range want { // WS-048
			assert.Equal(t, h, head(t, s, seq, "a", "note"), "at %d", seq)
		}
	}
	check(s.Store)
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	check(open(t, dir).Store)
}

// WS-071: a frame that was made from another frame is fresh as long as that one
// is a head.
func TestFramesOfFrames(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"d/a": "1"}))
	child := mustPut(t, s.Store, "d/a", "note", "child")
	from := func(n *NewFrame) {
		n.Inputs = []Input{{Kind: id.InputFrame, ID: child.ID}, {Kind: id.InputType, Text: []byte("note")}}
	}
	parent := mustPut(t, s.Store, "d", "digest", "parent", from)
	assert.Equal(t, parent.ID.String()+" fresh", head(t, s.Store, Latest, "d", "digest"))
	mustPut(t, s.Store, "d/a", "note", "another")
	assert.Equal(t, parent.ID.String()+" stale", head(t, s.Store, Latest, "d", "digest"))
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		uses, err := v.frames().ids(background, "SELECT frame FROM inputs WHERE input = ?1", child.ID.Sum()) // WS-075
		assert.Equal(t, []id.ID{parent.ID}, uses)
		return err
	}))
	_, _, err := putFrame(t, s.Store, "d", "digest", "x", func(n *NewFrame) {
		n.Inputs = []Input{{Kind: id.InputFrame, ID: id.B3.Frame("", id.ID{}, "", "", id.ID{})}}
	})
	typed(t, err, "frame/basis-mismatch")
	_, _, err = putFrame(t, s.Store, "d", "digest", "x", func(n *NewFrame) { n.Inputs = []Input{{Kind: id.InputChild}} })
	typed(t, err, "frame/invalid")
}

// WS-070, WS-073: frames are never replaced; expectations are verified before
// anything is written.
func TestPutFrame(t *testing.T) {
	s := open(t, create(t, id.GitSHA1))
	putTree(t, s.Store, grow(id.GitSHA1, map[string]string{"a": "1", "\xff": ""}))
	first, seq, err := putFrame(t, s.Store, "a", "note", "text")
	require.NoError(t, err)
	assert.False(t, first.Existing)
	assert.True(t, first.Previous.IsZero())
	again, same, err := putFrame(t, s.Store, "a", "note", "text", func(n *NewFrame) { n.Meta = edn.MustMap() })
	require.NoError(t, err)
	assert.True(t, again.Existing)
	assert.Equal(t, first.Frame.Record, again.Frame.Record, "the frame is the first one, with its metadata")
	assert.Equal(t, seq, same, "nothing is committed")
	second := mustPut(t, s.Store, "a", "note", "more")

	other := id.B3.Generated("", id.ID{}, "", "", 1)
	for name, c := range map[string]struct {
		typ    string
		change func(*NewFrame)
	}{
		"unknown path":     {"path/not-in-tree", func(n *NewFrame) { n.Path = "none" }},
		"no type":          {"frame/type-invalid", func(n *NewFrame) { n.Type = "" }},
		"all types":        {"frame/type-invalid", func(n *NewFrame) { n.Type = "*" }},
		"long type":        {"frame/type-invalid", func(n *NewFrame) { n.Type = strings.Repeat("x", 129) }},
		"too large":        {"frame/too-large", func(n *NewFrame) { n.Text = make([]byte, MaxFrame+1) }},
		"agent of another": {"frame/invalid", func(n *NewFrame) { n.Meta = edn.MustRead(`{:agent/id "reader"}`) }}, // WS-063
		"another state":    {"frame/basis-mismatch", func(n *NewFrame) { n.Inputs = []Input{{Kind: id.InputNode, ID: other}} }},
		"another id":       {"frame/id-mismatch", func(n *NewFrame) { n.ID = other }},
		"id of another":    {"frame/immutable", func(n *NewFrame) { n.ID = second.ID }},
		"head was another": {"head/conflict", func(n *NewFrame) { n.Head = &other }},
		"there is a head":  {"head/conflict", func(n *NewFrame) { n.Head = &id.ID{} }},
	} {
		_, _, err := putFrame(t, s.Store, "a", "note", "new "+name, c.change)
		require.ErrorIs(t, err, contract.OfType(c.typ), name)
	}
	_, unchanged := putTree(t, s.Store, grow(id.GitSHA1, map[string]string{"a": "1", "\xff": ""}))
	assert.Equal(t, seq+1, unchanged, "none of them left a trace")
	mustPut(t, s.Store, "a", "note", "third", func(n *NewFrame) { n.Head = &second.ID })

	generated := func(text string, sample uint64) (*Put, error) {
		p, _, err := putFrame(t, s.Store, "a", "context", text, func(n *NewFrame) { n.Origin, n.Sample = Generated, sample })
		return p, err
	}
	p, err := generated("one answer", 0)
	require.NoError(t, err)
	_, err = generated("another answer", 0) // WS-011
	typed(t, err, "frame/immutable")
	q, err := generated("another answer", 1)
	require.NoError(t, err)
	assert.Equal(t, p.Frame.ID, q.Previous)

	odd := mustPut(t, s.Store, "\xff", "note", "")
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		f, err := v.Frame(background, odd.ID)
		require.NoError(t, err)
		assert.Equal(t, "\xff", f.Path)
		_, err = v.Frame(background, other)
		typed(t, err, "frame/not-found")
		return nil
	}))
}

// WS-073: of writers that expect the same head, one wins.
func TestExpectedHeads(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	var won, lost atomic.Int64
	var writers sync.WaitGroup
	for n := range 16 {
		writers.Go(func() {
			_, _, err := putFrame(t, s.Store, "a", "note", fmt.Sprint(n), func(n *NewFrame) { n.Head = &id.ID{} })
			if err == nil {
				won.Add(1)
			} else if assert.ErrorIs(t, err, contract.OfType("head/conflict")) {
				lost.Add(1)
			}
		})
	}
	writers.Wait()
	assert.Equal(t, []int64{1, 15}, []int64{won.Load(), lost.Load()})
}

// Frames of one batch see each other, and equal text is stored once.
func TestFramesOfOneBatch(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	hold, held := make(chan struct{}), make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		_, err := s.Update(background, "", func(*Tx) error { close(held); <-hold; return nil })
		assert.NoError(t, err)
	})
	<-held
	var existing atomic.Int64
	for range 20 {
		writers.Go(func() {
			p, _, err := putFrame(t, s.Store, "a", "note", "the same text")
			if assert.NoError(t, err) && p.Existing {
				existing.Add(1)
			}
		})
	}
	close(hold)
	writers.Wait()
	assert.Equal(t, int64(19), existing.Load())
	require.NoError(t, s.Close())
	b, err := os.ReadFile(filepath.Join(dir, logDir, log.SegmentName(1)))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(b), "the same text"))
}

// WS-012: a frame that is not as it was written is an error, not a frame.
func TestDamagedFrame(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	f := mustPut(t, s.Store, "a", "note", "text")
	path := filepath.Join(dir, logDir, log.SegmentName(1))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	at := strings.Index(string(whole), "T-9")
	require.Positive(t, at)
	for i := at; i < at+3; i++ {
		b := slices.Clone(whole)
		b[i] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
		assert.Equal(t, "store/corrupt", head(t, s.Store, Latest, "a", "note"))
	}
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	assert.Equal(t, f.ID.String()+" fresh", head(t, s.Store, Latest, "a", "note"))
}

// WS-070 to WS-073 against a model: heads and states after random operations, at
// every number, also after the index was rebuilt.
func TestFramesAgainstAModel(t *testing.T) {
	type key struct{ path, text, typ string }
	for seed := range proof.Size(t, "histories of frames", 12, 400) {
		r := rand.New(rand.NewPCG(uint64(seed), 70))
		dir := create(t, id.B3)
		s := open(t, dir)
		files := map[string]string{}
		heads := map[key]string{}     // by path, state and type
		past := map[string][]string{} // states of a path in order
		expect := map[uint64]map[string]string{}
		record := func(seq uint64) {
			want := map[string]string{}
			for path, texts := range past {
				for _, typ := range []string{"t", "u"} {
					want[path+" "+typ] = "frame/no-head"
					_, there := files[path]
					for i := len(texts) - 1; i >= 0; i-- {
						if h := heads[key{path, texts[i], typ}]; h != "" {
							state := Stale
							if !there {
								state = Deleted
							} else if i == len(texts)-1 || texts[i] == files[path] {
								state = Fresh
							}
							want[path+" "+typ] = h + " " + string(state)
							break
						}
					}
				}
			}
			expect[seq] = want
		}
		for range 25 {
			path := []string{"a", "b", "d/c"}[r.IntN(3)]
			if text, there := files[path]; there && r.IntN(2) == 0 {
				typ := []string{"t", "u"}[r.IntN(2)]
				p, seq, err := putFrame(t, s.Store, path, typ, fmt.Sprint(r.IntN(4)))
				require.NoError(t, err)
				if !p.Existing {
					heads[key{path, text, typ}] = p.Frame.ID.String()
				}
				record(seq)
				continue
			}
			if text := fmt.Sprint(r.IntN(3)); r.IntN(4) == 0 {
				delete(files, path)
			} else if files[path] != text {
				files[path] = text
				past[path] = append(past[path], text)
			}
			_, seq := putTree(t, s.Store, grow(id.B3, files))
			record(seq)
		}
		check := func(s *Store) {
			for seq, want := range expect {
				for name, h := range want {
					path, typ, _ := strings.Cut(name, " ")
					require.Equal(t, h, head(t, s, seq, path, typ), "seed %d: %s at %d", seed, name, seq)
				}
			}
		}
		check(s.Store)
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
		check(open(t, dir).Store)
	}
}
