package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func compose(t testing.TB, w *storetest.World, text string, rank Ranker) (*Composition, error) {
	t.Helper()
	r, err := RequestFrom(edn.MustRead(text), Options{})
	require.NoError(t, err)
	return Compose(background, w, store.Latest, r, rank)
}

// fill is a tree with frames on d, d/a, d/b and far.
func fill(t testing.TB) *storetest.World {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"d/a": "1", "d/b": "1", "d/c": "1", "far": "1", "gone": ""})
	w.Now = 10
	w.Put("gone", "note", "gone")
	w.Tree(map[string]string{"d/a": "1", "d/b": "1", "d/c": "1", "far": "1"})
	for i, x := range [][3]string{{"d", "digest", "directory"}, {"d/a", "note", "alpha"}, {"d/a", "digest", "beta"}, {"d/b", "note", "gamma"}, {"far", "note", "delta"}} {
		w.Now = int64(20 + i)
		w.Put(x[0], x[1], x[2])
	}
	return w
}

// WS-130, WS-134: sources in their order, each frame once, what is missing is
// listed, and nothing found is an empty result.
func TestComposeSources(t *testing.T) {
	w := fill(t)
	unknown := "n1-b3-" + strings.Repeat("0", 64)
	for text, want := range map[string]string{
		`{:path "d/a"}`:                      "digest beta fresh, note alpha fresh |",
		`{:path "d/a" :sources [:parent]}`:   "digest directory fresh |",
		`{:path "d/a" :sources [:siblings]}`: "note gamma fresh |",
		`{:path "d/a" :sources [:current :parent :siblings [:related ["far" "d/a"]]]}`: "note delta fresh, note gamma fresh, digest beta fresh, note alpha fresh, digest directory fresh |",
		`{:path "d/c"}`: "| current d/c no-frames",
		`{:path "." :sources [:parent :siblings]}`:                                    "| parent . no-parent, siblings . no-parent",
		`{:path "far" :sources [:siblings]}`:                                          "digest directory fresh |",
		`{:path "d/b" :sources [:parent] :filters [[:type #{"none"}]]}`:               "|",
		`{:path "d/a" :sources [[:related ["none" "gone" "d/c" "` + unknown + `"]]]}`: "| related none path/not-in-tree, related gone node/deleted, related d/c no-frames, related " + unknown + " node/not-found",
		`{:path "d/a" :sources []}`:                                                   "|",
		`{:path "d/a" :filters [[:state #{:stale}]]}`:                                 "|",
		`{:path "d/a" :filters [[:path "d"]]}`:                                        "digest beta fresh, note alpha fresh |",
		`{:path "d/a" :filters [[:path "a*"] [:type #{"note"}]]}`:                     "note alpha fresh |",
		`{:path "d/a" :ordering [:type-priority ["note"]]}`:                           "note alpha fresh, digest beta fresh |",
	} {
		c, err := compose(t, w, text, nil)
		require.NoError(t, err, text)
		var skipped []string
		for _, s := range c.Skipped {
			skipped = append(skipped, strings.TrimSpace(fmt.Sprint(s.Source, " ", s.Text, s.ID, " ", s.Reason)))
		}
		got := strings.TrimSpace(strings.Join(shown(c.Frames), ", ") + " | " + strings.Join(skipped, ", "))
		assert.Equal(t, want, got, text)
	}
	for path, typ := range map[string]string{"none": "node/not-found", "gone": "node/deleted"} {
		_, err := compose(t, w, `{:path "`+path+`"}`, nil)
		require.ErrorIs(t, err, contract.OfType(typ))
	}
	c, err := compose(t, w, `{:path "d/a" :as :ids :max-frames 1}`, nil)
	require.NoError(t, err)
	assert.Equal(t, []any{1, 1, 0}, []any{len(*c.IDs), c.Omitted, len(c.Frames)})
	assert.Contains(t, value(t, c), `:skipped []`)
}

// WS-131, WS-133: an ordering by another intent sees descriptors, unknown ids are
// dropped, missing ones follow; its failure is an error or another ordering.
func TestComposeCustom(t *testing.T) {
	w := fill(t)
	text := `{:path "d/a" :sources [:current :parent :siblings] :ordering [:custom {:intent :my/rank :content? %s %s}] :query "q"}`
	var seen []Frame
	by := func(ids func([]Frame) []string, err error) Ranker {
		return func(_ context.Context, intent string, list []Frame, query string) ([]string, error) {
			assert.Equal(t, []string{"my/rank", "q"}, []string{intent, query})
			// No transaction is open: the store could be closed now.
			_, uerr := w.Update(background, "tester", func(*store.Tx) error { return nil })
			require.NoError(t, uerr)
			seen = list
			return ids(list), err
		}
	}
	last := func(list []Frame) []string {
		return []string{"f1-b3-unknown", list[len(list)-1].ID.String(), list[len(list)-1].ID.String()}
	}
	c, err := compose(t, w, fmt.Sprintf(text, "false", ""), by(last, nil))
	require.NoError(t, err)
	assert.Equal(t, []string{"digest directory fresh", "note gamma fresh", "digest beta fresh", "note alpha fresh"}, shown(c.Frames))
	assert.Equal(t, []string{"note - fresh", "digest - fresh", "note - fresh", "digest - fresh"}, shown(seen))
	_, err = compose(t, w, fmt.Sprintf(text, "true", ""), by(last, nil))
	require.NoError(t, err)
	assert.Equal(t, "note gamma fresh", shown(seen)[0])

	broken := by(func([]Frame) []string { return nil }, contract.Errorf("provider/unavailable", "down"))
	_, err = compose(t, w, fmt.Sprintf(text, "false", ""), broken)
	require.ErrorIs(t, err, contract.OfType("compose/custom-failed"))
	require.ErrorIs(t, err, contract.OfType("provider/unavailable"))
	c, err = compose(t, w, fmt.Sprintf(text, "false", ":on-error [:type-priority [\"note\"]]"), broken)
	require.NoError(t, err)
	assert.Equal(t, []string{"note gamma fresh", "note alpha fresh", "digest beta fresh", "digest directory fresh"}, shown(c.Frames))
	assert.Equal(t, Keyword("provider/unavailable"), c.OrderingError)
	_, err = compose(t, w, fmt.Sprintf(text, "false", ""), nil)
	require.ErrorIs(t, err, contract.OfType("compose/custom-failed"))
	_, err = compose(t, w, fmt.Sprintf(text, "false", ""), by(last, errors.New("plain")))
	require.ErrorIs(t, err, contract.OfType("compose/custom-failed"))
}

// WS-132: the relevance is that of BM25, and the order without a query is by
// source and state.
func TestRelevance(t *testing.T) {
	texts := []string{
		"Parses flags. Flag parsing follows the rules of flags.",
		"the quick brown fox",
		"",
		"PARSING of Ünïcode 42 flags; parsing, parsing!",
		"parsing",
	}
	terms := termsOf("flags Parsing parsing zebra")
	assert.Len(t, terms, 3)
	docs := make([]document, len(texts))
	for i, text := range texts {
		docs[i] = count([]byte(text), terms)
	}
	assert.Equal(t, []int{9, 4, 0, 7, 1}, []int{docs[0].length, docs[1].length, docs[2].length, docs[3].length, docs[4].length})
	got := bm25(docs, len(terms))
	// The formula written plainly, as the second opinion.
	df := map[string]float64{}
	avg := 0.0
	words := make([][]string, len(texts))
	for i, text := range texts {
		words[i] = strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzüï0123456789", r) })
		avg += float64(len(words[i])) / float64(len(texts))
		for term := range terms {
			if slices.Contains(words[i], term) {
				df[term]++
			}
		}
	}
	for i := range texts {
		want := 0.0
		for term := range terms {
			tf := 0.0
			for _, x := range words[i] {
				if x == term {
					tf++
				}
			}
			idf := math.Log(1 + (float64(len(texts))-df[term]+0.5)/(df[term]+0.5))
			want += idf * tf * 2.2 / (tf + 1.2*(1-0.75+0.75*float64(len(words[i]))/avg))
		}
		assert.InDelta(t, want*1e6, got[i], 1, texts[i])
	}
	assert.Equal(t, []int64{0, 0}, []int64{got[1], got[2]})
	assert.Equal(t, []int64{0}, bm25([]document{{counts: []int{0}}}, 1), "texts without any word")

	w := fill(t)
	c, err := compose(t, w, `{:path "d/a" :sources [:current :parent :siblings] :ordering :relevance :query "gamma DIRECTORY directory"}`, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"digest directory fresh", "note gamma fresh", "digest beta fresh", "note alpha fresh"}, shown(c.Frames))
	w.Tree(map[string]string{"d/a": "2", "d/b": "1", "d/c": "1", "far": "1"})
	w.Now = 1
	w.Put("d/a", "fresh", "new text, old clock")
	c, err = compose(t, w, `{:path "d/a" :sources [:siblings :current] :ordering :relevance}`, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"note gamma fresh", "fresh new text, old clock fresh", "digest beta stale", "note alpha stale"}, shown(c.Frames))
}

// WS-130, WS-131, WS-134: whatever is composed is within its limits, has each
// frame once, in an order that does not depend on where the frames came from, and
// writes nothing.
func TestComposeLaws(t *testing.T) {
	w := storetest.Open(t, id.B3)
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("d%d/f%d", i%3, i)] = fmt.Sprint(i)
	}
	w.Tree(files)
	r := rand.New(rand.NewPCG(1, 2))
	paths := []string{"", "d0", "d1", "d2"}
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	words := strings.Fields("the parser reads flags and files of a tree")
	for i := range 60 {
		w.Now = int64(r.IntN(5)) // many frames have equal times
		text := ""
		for range r.IntN(30) {
			text += words[r.IntN(len(words))] + " "
		}
		w.Put(paths[r.IntN(len(paths))], fmt.Sprint("t", r.IntN(6)), text+fmt.Sprint(i), func(n *store.NewFrame) { n.Agent = fmt.Sprint("a", r.IntN(4)) })
	}
	files["d0/f0"] = "changed"
	w.Tree(files)
	log, before := w.Log(), seqOf(t, w)
	orderings := []Ordering{
		{Kind: NewestFirst}, {Kind: Relevance}, {Kind: TypePriority, Priority: []string{"t3", "t1"}}, {Kind: AgentPriority, Priority: []string{"a2"}},
	}
	rapid.Check(t, func(t *rapid.T) {
		related := rapid.SliceOfN(rapid.SampledFrom(paths), 0, 6).Draw(t, "related")
		q := Request{
			Node:      at(rapid.SampledFrom(paths).Draw(t, "node")),
			Ordering:  rapid.SampledFrom(orderings).Draw(t, "ordering"),
			Query:     rapid.SampledFrom([]string{"", "parser flags", "tree", "none"}).Draw(t, "query"),
			MaxFrames: rapid.SampledFrom([]int{0, 1, 5, 1000}).Draw(t, "frames"),
			MaxBytes:  rapid.SampledFrom([]int{0, 50, 300, 1 << 20}).Draw(t, "bytes"),
		}
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom([]SourceKind{Current, Parent, Siblings, Related}), 0, 4).Draw(t, "sources") {
			s := Source{Kind: kind}
			for _, p := range related {
				if kind == Related {
					s.Nodes = append(s.Nodes, at(p))
				}
			}
			q.Sources = append(q.Sources, s)
		}
		c, err := Compose(background, w, store.Latest, q, nil)
		require.NoError(t, err)
		bytes, seen := 0, map[id.ID]bool{}
		for _, f := range c.Frames {
			require.False(t, seen[f.ID])
			seen[f.ID] = true
			require.True(t, f.Omitted != (f.Text != nil))
			if f.Text != nil {
				bytes += len(*f.Text)
			}
		}
		require.LessOrEqual(t, len(c.Frames), q.MaxFrames)
		require.LessOrEqual(t, bytes, q.MaxBytes)
		again, err := Compose(background, w, store.Latest, q, nil)
		require.NoError(t, err)
		require.Equal(t, value(t, c), value(t, again))
		// The order of the nodes in a source means nothing.
		for i := range q.Sources {
			q.Sources[i].Nodes = rapid.Permutation(q.Sources[i].Nodes).Draw(t, "order")
		}
		other, err := Compose(background, w, store.Latest, q, nil)
		require.NoError(t, err)
		require.Equal(t, value(t, c.Frames), value(t, other.Frames))
	})
	assert.Equal(t, before, seqOf(t, w))
	assert.Equal(t, log, w.Log(), "readers append nothing")
}

func seqOf(t testing.TB, w *storetest.World) (seq uint64) {
	require.NoError(t, w.View(background, store.Latest, func(s *store.Snapshot) error {
		seq = s.Seq()
		return nil
	}))
	return seq
}

// WS-131: every ordering is total: of two frames exactly one comes first.
func TestOrderingsAreTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Ordering{
			Kind:     rapid.SampledFrom([]OrderingKind{NewestFirst, Relevance, TypePriority, AgentPriority}).Draw(t, "kind"),
			Priority: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(t, "priority"),
		}
		small := rapid.IntRange(0, 2)
		list := make([]candidate, 12)
		for i := range list {
			list[i] = candidate{source: small.Draw(t, "source"), score: int64(small.Draw(t, "score"))}
			list[i].State = rapid.SampledFrom([]store.HeadState{store.Fresh, store.Stale, store.Deleted}).Draw(t, "state")
			list[i].Frame = &store.Frame{
				ID: id.B3.Generated("", id.ID{}, "", "", uint64(i)), CreatedAt: int64(small.Draw(t, "time")), Seq: uint64(small.Draw(t, "seq")),
				Type: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "type"), Agent: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"),
			}
		}
		for i := range list {
			for j := range list {
				a, b := compareBy(o, &list[i], &list[j]), compareBy(o, &list[j], &list[i])
				require.Equal(t, i == j, a == 0)
				require.Equal(t, a < 0, b > 0)
			}
		}
		sorted := func(l []candidate) (ids []id.ID) {
			slices.SortFunc(l, func(a, b candidate) int { return compareBy(o, &a, &b) })
			for _, c := range l {
				ids = append(ids, c.Frame.ID)
			}
			return ids
		}
		require.Equal(t, sorted(slices.Clone(list)), sorted(rapid.Permutation(list).Draw(t, "order")))
	})
}

// BenchmarkHead is get-head by path in process: its goal is 50 us.
func BenchmarkHead(b *testing.B) {
	w := fill(b)
	for b.Loop() {
		err := w.View(background, store.Latest, func(s *store.Snapshot) error {
			_, err := Head(background, s, at("d/a"), "note")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompose is a composition of 100 frames of 1 KiB: its goal is 5 ms.
func BenchmarkCompose(b *testing.B) {
	for _, query := range []string{"", "flags of the parser"} {
		w := storetest.Open(b, id.B3)
		files := map[string]string{}
		for i := range 100 {
			files[fmt.Sprintf("d/f%d", i)] = fmt.Sprint(i)
		}
		w.Tree(files)
		for path := range files {
			w.Put(path, "note", strings.Repeat("the parser reads flags "+path+" ", 34))
		}
		q := Request{
			Node: at("d/f0"), Sources: []Source{{Kind: Current}, {Kind: Siblings}}, Ordering: Ordering{Kind: Relevance}, Query: query, MaxFrames: 100, MaxBytes: 1 << 20,
		}
		b.Run(fmt.Sprintf("query=%t", query != ""), func(b *testing.B) {
			for b.Loop() {
				c, err := Compose(background, w, store.Latest, q, nil)
				if err != nil || len(c.Frames) != 100 {
					b.Fatal(err, len(c.Frames))
				}
			}
		})
	}
}
