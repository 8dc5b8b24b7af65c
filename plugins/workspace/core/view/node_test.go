package view

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func at(path string) store.Ref { return store.Ref{Path: path} }

// node reads a node with a view in EDN.
func node(t testing.TB, w *storetest.World, ref store.Ref, text string) (r *NodeResult, err error) {
	t.Helper()
	v, err := Parse(edn.MustRead(text), Options{})
	require.NoError(t, err)
	verr := w.View(background, store.Latest, func(s *store.Snapshot) error {
		r, err = Node(background, s, ref, v)
		return nil
	})
	require.NoError(t, verr)
	return r, err
}

// shown returns type, text and state of frames.
func shown(list []Frame) (out []string) {
	for _, f := range list {
		text := "-"
		switch {
		case f.Omitted:
			text = "omitted"
		case f.Text != nil:
			text = *f.Text
		case f.Encoded != nil:
			text = "b64:" + *f.Encoded
		}
		out = append(out, strings.TrimSpace(fmt.Sprint(f.Type, " ", text, " ", f.State)))
	}
	return out
}

func value(t require.TestingT, x any) string {
	v, err := edn.Encode(x)
	require.NoError(t, err)
	return v.String()
}

// WS-081: the record of a file, of a directory and of a past state.
func TestRecords(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"d/a": "one", "d/l": "link:a", "d/\xff": "", "e/": ""})
	second := w.Tree(map[string]string{"d/a": "two", "d/l": "link:a", "d/\xff": "", "e/": ""})
	frame := w.Put("d/a", "note", "text")
	r, err := node(t, w, at("d/a"), "nil")
	require.NoError(t, err)
	content := id.B3.Bytes([]byte("two"))
	assert.Equal(t, id.B3.Node("d/a", id.File, content), r.ID)
	assert.Equal(t, r.ID, r.Node.ID)
	assert.Equal(t, []any{"d/a", Keyword("file"), "100644", int64(3), content}, []any{r.Node.Text, r.Node.Kind, r.Node.Mode, *r.Node.Size, r.Node.Content})
	assert.Equal(t, id.B3.FrameSet([]id.ID{frame.ID}), *r.Node.FrameSet)
	before := id.B3.Node("d/a", id.File, id.B3.Bytes([]byte("one")))
	assert.Equal(t, Lineage{Version: 2, Since: second, Previous: &before}, r.Node.Lineage)
	assert.Equal(t, []int{1, 1, 1}, []int{r.Count, r.Matched, r.Returned})

	dir, err := node(t, w, at("d"), "nil")
	require.NoError(t, err)
	assert.Equal(t, dir.ID, *r.Node.Parent)
	assert.Nil(t, dir.Node.Size)
	var children []string
	for _, c := range dir.Node.Children {
		children = append(children, c.Name+c.RawName+" "+string(c.Kind))
	}
	assert.Equal(t, []string{"a file", "l link", "_w file"}, children)
	odd, err := node(t, w, at("d/\xff"), "nil")
	require.NoError(t, err)
	assert.Equal(t, []string{"", "ZC__"}, []string{odd.Node.Text, odd.Node.Raw})
	root, err := node(t, w, at(""), "nil")
	require.NoError(t, err)
	assert.Equal(t, ".", root.Node.Text)
	assert.Nil(t, root.Node.Parent)

	past, err := node(t, w, store.Ref{Node: before.String()}, "nil")
	require.NoError(t, err)
	assert.Equal(t, []any{1, second, *dir.Node.Lineage.Previous}, []any{past.Node.Lineage.Version, past.Node.Lineage.Until, *past.Node.Parent})
	old, err := node(t, w, store.Ref{Node: dir.Node.Lineage.Previous.String()}, "nil")
	require.NoError(t, err)
	assert.Equal(t, before, old.Node.Children[0].ID, "the entries are those of that time")
	assert.NotContains(t, value(t, past), ":previous")
	assert.Contains(t, value(t, old), `{:kind :file :name/b64 "_w" :node/id`)
}

// WS-080, WS-071: selections, states, orderings and filters.
func TestViews(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"a": "1", "b": ""})
	by := func(agent string) func(*store.NewFrame) { return func(n *store.NewFrame) { n.Agent = agent } }
	put := func(now int64, typ, text string, change ...func(*store.NewFrame)) {
		w.Now = now
		w.Put("a", typ, text, change...)
	}
	put(1, "old", "of the first state")
	put(2, "note", "first", by("x"))
	w.Tree(map[string]string{"a": "2", "b": ""})
	put(3, "note", "second", by("y"), func(n *store.NewFrame) { n.Meta = edn.MustRead(`{:k 1}`) })
	put(4, "digest", "third", by("x"))
	put(4, "digest", "fourth", by("z"), func(n *store.NewFrame) { n.Origin = store.Extracted })
	first := id.B3.Node("a", id.File, id.B3.Bytes([]byte("1"))).String()

	for view, want := range map[string][]string{
		"nil":                                {"digest fourth fresh", "note second fresh", "old of the first state stale"},
		":fresh":                             {"digest fourth fresh", "note second fresh"},
		"{:include #{}}":                     {"digest fourth fresh", "note second fresh"},
		":history":                           {"digest fourth fresh", "digest third", "note second fresh", "note first", "old of the first state stale"},
		":by-type":                           {"digest fourth fresh", "note second fresh", "old of the first state stale"},
		"{:ordering :type :order [\"old\"]}": {"old of the first state stale", "digest fourth fresh", "note second fresh"},
		":by-agent":                          {"old of the first state stale", "note second fresh", "digest fourth fresh"},
		"{:ordering :agent :order [\"y\" \"z\"]}":                        {"note second fresh", "digest fourth fresh", "old of the first state stale"},
		"{:filters [[:type #{\"note\" \"old\"}]]}":                       {"note second fresh", "old of the first state stale"},
		"{:filters [[:type #{\"note\"}] [:agent #{\"x\"}]]}":             nil,
		"{:filters [[:origin #{:extracted}]]}":                           {"digest fourth fresh"},
		"{:filters [[:meta :k 1]]}":                                      {"note second fresh"},
		"{:filters [[:meta :k 1.0]]}":                                    nil,
		"{:filters [[:since #inst \"1970-01-01T00:00:00.000000003Z\"]]}": {"digest fourth fresh", "note second fresh"},
		"{:filters [[:until #inst \"1970-01-01T00:00:00.000000003Z\"]]}": {"old of the first state stale"},
		"{:content? false}":                                              {"digest - fresh", "note - fresh", "old - stale"},
		"{:max-frames 1}":                                                {"digest fourth fresh"},
		"{:max-frames 0}":                                                nil,
		"{:max-bytes 18}":                                                {"digest fourth fresh", "note second fresh", "old omitted stale"},
		"{:max-bytes 29}":                                                {"digest fourth fresh", "note second fresh", "old omitted stale"},
		"{:max-bytes 30}":                                                {"digest fourth fresh", "note second fresh", "old of the first state stale"},
		"{:max-bytes 0}":                                                 {"digest omitted fresh", "note omitted fresh", "old omitted stale"},
	} {
		r, err := node(t, w, at("a"), view)
		require.NoError(t, err, view)
		assert.Equal(t, want, shown(r.Frames), view)
		assert.Equal(t, 5, r.Count, view)
		assert.Len(t, r.Frames, r.Returned, view)
		assert.LessOrEqual(t, r.Returned, r.Matched, view)
	}
	past, err := node(t, w, store.Ref{Node: first}, "nil")
	require.NoError(t, err)
	assert.Equal(t, []string{"note first stale", "old of the first state stale"}, shown(past.Frames), "a node id has the heads of its state")
	past, err = node(t, w, store.Ref{Node: first}, ":history")
	require.NoError(t, err)
	assert.Len(t, past.Frames, 2)

	w.Tree(map[string]string{"b": ""})
	_, err = node(t, w, at("a"), "nil")
	require.ErrorIs(t, err, contract.OfType("node/deleted")) // WS-083
	r, err := node(t, w, at("a"), "{:include #{:deleted}}")
	require.NoError(t, err)
	assert.Equal(t, []string{"digest fourth deleted", "note second deleted", "old of the first state deleted"}, shown(r.Frames))
}

// A text that is not UTF-8 is returned in base64url, an empty one as itself.
func TestTextsOfFrames(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"a": "1"})
	w.Put("a", "raw", "\xff")
	w.Put("a", "empty", "", func(n *store.NewFrame) { n.ContentType = "text/x" })
	r, err := node(t, w, at("a"), ":by-type")
	require.NoError(t, err)
	assert.Equal(t, []string{"empty  fresh", "raw b64:_w fresh"}, shown(r.Frames))
	text := value(t, r)
	assert.Contains(t, text, `:content ""`)
	assert.Contains(t, text, `:content/type "text/x"`)
	assert.Contains(t, text, `:basis [[:node "n1-b3-`)
	assert.Contains(t, text, `:created-at #inst "1970-01-01T00:00:00.000000001Z"`)
}

// WS-074: lists, heads and histories are descriptors: no text leaves through them.
func TestDescriptors(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"a": "1"})
	for i := range 5 {
		w.Now = int64(i)
		w.Put("a", "note", fmt.Sprint("secret ", i))
	}
	w.Tree(map[string]string{"a": "2"})
	w.Put("a", "digest", "secret")
	w.Read(func(s *store.Snapshot) error {
		list := func(text string) *List {
			r, err := ListFrom(edn.MustRead(text))
			require.NoError(t, err, text)
			l, err := Frames(background, s, r)
			require.NoError(t, err, text)
			return l
		}
		all := list(`{:path "a"}`)
		assert.Len(t, all.Frames, 6)
		assert.Nil(t, all.Cursor)
		assert.NotContains(t, value(t, all), "secret")
		assert.Contains(t, value(t, all), ":cursor nil")
		page := list(`{:path "a" :frame/type "note" :agent "writer" :origin :authored :limit 2}`)
		assert.Equal(t, []string{"note - stale", "note -"}, shown(page.Frames))
		rest := list(`{:path "a" :frame/type "note" :limit 10 :cursor "` + *page.Cursor + `"}`)
		assert.Len(t, rest.Frames, 3)
		assert.Len(t, list(`{:path "a" :state :stale}`).Frames, 1)
		assert.Len(t, list(`{:path "a" :basis/id "`+all.Frames[0].BasisID.String()+`"}`).Frames, 1)
		for _, bad := range []string{`{:path "a" :limit 0}`, `{:path "a" :limit 1001}`, `{:path "a" :state :old}`, `{:path "a" :origin :made}`, `{:path "a" :basis/id "x"}`, `{:path "a" :frame/type 1}`} {
			_, err := ListFrom(edn.MustRead(bad))
			require.ErrorIs(t, err, contract.OfType("input/invalid"), bad)
		}
		h, err := Head(background, s, at("a"), "note")
		require.NoError(t, err)
		assert.Equal(t, []any{Keyword("stale"), []Keyword{"node-changed"}}, []any{h.State, h.Reasons})
		assert.NotContains(t, value(t, h), "secret")
		_, err = Head(background, s, at("a"), "none")
		require.ErrorIs(t, err, contract.OfType("frame/no-head"))
		_, err = Head(background, s, at("a"), "*")
		require.ErrorIs(t, err, contract.OfType("frame/type-invalid"))

		past, err := HistoryOf(background, s, at("a"), "", 1, "")
		require.NoError(t, err)
		require.Len(t, past.Versions, 1)
		assert.Len(t, past.Versions[0].Frames, 1)
		past, err = HistoryOf(background, s, at("a"), "", 1, *past.Cursor)
		require.NoError(t, err)
		assert.Len(t, past.Versions[0].Frames, 5)
		assert.Nil(t, past.Cursor)
		return nil
	})
}

// WS-048: the same request at the same number gives the same bytes, whatever was
// committed since.
func TestReadsAtAState(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"a": "1", "d/b": "1"})
	w.Put("a", "note", "1")
	seq := w.Tree(map[string]string{"a": "2", "d/b": "1"})
	read := func() (out string) {
		require.NoError(t, w.View(background, seq, func(s *store.Snapshot) error {
			n, err := Node(background, s, at("a"), BuiltIn()["history"])
			require.NoError(t, err)
			d, err := Node(background, s, at("d"), Default())
			require.NoError(t, err)
			h, err := Head(background, s, at("a"), "note")
			require.NoError(t, err)
			l, err := Frames(background, s, ListRequest{Node: at("a")})
			require.NoError(t, err)
			p, err := HistoryOf(background, s, at("a"), "", 0, "")
			require.NoError(t, err)
			out = value(t, n) + value(t, d) + value(t, h) + value(t, l) + value(t, p)
			return nil
		}))
		c, err := Compose(background, w, seq, Request{Node: at("a"), Sources: []Source{{Kind: Current}, {Kind: Siblings}}, MaxFrames: 9, MaxBytes: 99}, nil)
		require.NoError(t, err)
		return out + value(t, c)
	}
	before := read()
	w.Put("a", "note", "2")
	w.Put("d/b", "note", "3")
	w.Tree(map[string]string{"d/b": "2"})
	assert.Equal(t, before, read())
}

// WS-118, WS-083: marked heads are shown only if a view includes them; a path that
// was deleted by a request reads like one that is gone, and says when.
func TestMarkedAndDeleted(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"d/a": "1", "d/b": "1"})
	w.Put("d/a", "note", "marked")
	w.Put("d/a", "digest", "kept")
	w.Put("d/b", "note", "other")
	change := func(f func(tx *store.Tx) error) {
		_, err := w.Update(background, "tester", f)
		require.NoError(t, err)
	}
	change(func(tx *store.Tx) error {
		n, err := tx.Invalidate("d/a", false, []string{"note"})
		assert.Equal(t, 1, n)
		return err
	})
	r, err := node(t, w, at("d/a"), "nil")
	require.NoError(t, err)
	assert.Equal(t, []string{"digest kept fresh"}, shown(r.Frames))
	r, err = node(t, w, at("d/a"), "{:include #{:invalid} :ordering :type}")
	require.NoError(t, err)
	assert.Equal(t, []string{"digest kept fresh", "note marked invalid"}, shown(r.Frames))
	w.Read(func(s *store.Snapshot) error {
		h, err := Head(background, s, at("d/a"), "note")
		require.NoError(t, err)
		assert.Equal(t, []any{Keyword("invalid"), []Keyword{"invalidated"}}, []any{h.State, h.Reasons})
		h, err = Head(background, s, store.Ref{Node: r.ID.String()}, "note")
		require.NoError(t, err)
		assert.Equal(t, Keyword("invalid"), h.State, "also by the id of the state")
		return nil
	})
	c, err := compose(t, w, `{:path "d/b" :sources [:siblings]}`, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"digest kept fresh"}, shown(c.Frames))
	c, err = compose(t, w, `{:path "d/b" :sources [:siblings] :filters [[:state #{:invalid}]]}`, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"note marked invalid"}, shown(c.Frames))

	w.Now = 77
	change(func(tx *store.Tx) error { _, err := tx.Delete("d/b"); return err })
	_, err = node(t, w, at("d/b"), "nil")
	require.ErrorIs(t, err, contract.OfType("node/deleted"))
	r, err = node(t, w, at("d/b"), "{:include #{:deleted}}")
	require.NoError(t, err)
	assert.Equal(t, int64(77), r.Node.TombstonedAt.UnixNano())
	assert.Equal(t, []string{"note other deleted"}, shown(r.Frames))
	c, err = compose(t, w, `{:path "d/a" :sources [:siblings]}`, nil)
	require.NoError(t, err)
	assert.Empty(t, c.Frames)
	change(func(tx *store.Tx) error { _, err := tx.Restore("d/b"); return err })
	r, err = node(t, w, at("d/b"), "nil")
	require.NoError(t, err)
	assert.Nil(t, r.Node.TombstonedAt)
	assert.Len(t, r.Frames, 1)
}
