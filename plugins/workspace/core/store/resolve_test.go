package store

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// errorType returns the type of an error, empty for none.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	return contract.AsError(err).Type
}

// WS-220: exactly one of the forms of a reference is expected; malformed ids,
// prefixes and paths have their own errors, and each names the entry.
func TestReferences(t *testing.T) {
	node := id.B3.Node("a", id.File, id.B3.Bytes(nil)).String()
	for input, want := range map[string]string{
		`{:path "a/b"}`:                       "",
		`{:path "."}`:                         "",
		`{:path ""}`:                          "",
		`{:path "a..b/...c"}`:                 "",
		`{:path/b64 "/w"}`:                    "input/invalid", // not the alphabet of URLs
		`{:path/b64 "_w"}`:                    "",
		`{:path/b64 "_w=="}`:                  "",
		`{:node/id "` + node + `"}`:           "",
		`{:node/id "0123abcd"}`:               "",
		`{}`:                                  "input/invalid",
		`{:path "a" :node/id "` + node + `"}`: "input/invalid",
		`{:path "a" :path/b64 "_w"}`:          "input/invalid",
		`{:path 1}`:                           "input/invalid",
		`{:node/id "0123abc"}`:                "input/invalid",
		`{:node/id "0123ABCD"}`:               "input/invalid",
		`{:node/id "` + strings.ToUpper(node) + `"}`:   "input/invalid",
		`{:node/id "` + node[:20] + `"}`:               "", // WS-181: cut off
		`{:node/id "` + node[:13] + `"}`:               "input/invalid",
		`{:node/id "f` + node[1:] + `"}`:               "input/invalid",
		`{:node/id "` + strings.Repeat("0", 65) + `"}`: "input/invalid",
		`{:path "/a"}`:       "path/invalid",
		`{:path "a/"}`:       "path/invalid",
		`{:path "/"}`:        "path/invalid",
		`{:path "a//b"}`:     "path/invalid",
		`{:path "a/./b"}`:    "path/invalid",
		`{:path "./a"}`:      "path/invalid",
		`{:path "a/../b"}`:   "path/invalid",
		`{:path ".."}`:       "path/invalid",
		`{:path/b64 "YQBi"}`: "path/invalid",
		`{:path "` + strings.Repeat("x", 4097) + `"}`: "path/invalid",
	} {
		_, err := RefFrom(edn.MustRead(input))
		assert.Equal(t, want, errorType(err), "%.100s: %v", input, err)
	}
	_, err := RefFrom(edn.MustRead(`{:path/b64 "/w"}`))
	assert.Equal(t, `[:path/b64]`, contract.AsError(err).Details.Key("path").String())
	_, err = RefFrom(edn.MustRead(`{:node/id "n1-b3-ZZ"}`))
	assert.Contains(t, contract.AsError(err).FullMessage(), `"n1-b3-ZZ": it has`, "the id as it was written")
	assert.NotContains(t, contract.AsError(err).FullMessage(), "encoding/hex")
	ref, err := RefFrom(edn.MustRead(`{:path/b64 "` + base64.RawURLEncoding.EncodeToString([]byte("d/\xff")) + `"}`))
	require.NoError(t, err)
	assert.Equal(t, Ref{Path: "d/\xff"}, ref)
}

// WS-071, WS-083, WS-181: a node is found by path, by the id of any of its
// states, and by a prefix that fits one node. A removed path names its last node.
func TestResolve(t *testing.T) {
	s := open(t, create(t, id.B3))
	resolve := func(ref Ref, deleted bool) (f *Found, err error) {
		verr := s.View(background, Latest, func(v *Snapshot) error {
			f, err = v.Resolve(background, ref, deleted)
			return nil
		})
		require.NoError(t, verr)
		return f, err
	}
	_, err := resolve(Ref{Path: "f1"}, false)
	typed(t, err, "workspace/unscanned")
	// The ids of these two files begin with the same 8 digits.
	putTree(t, s.Store, grow(id.B3, map[string]string{"f9286": "", "f65333": "", "d/gone": "1"}))
	putTree(t, s.Store, grow(id.B3, map[string]string{"f9286": "", "f65333": "new", "d/a": "1"}))
	old := id.B3.Node("f65333", id.File, id.B3.Bytes(nil))
	gone := id.B3.Node("d/gone", id.File, id.B3.Bytes([]byte("1")))

	f, err := resolve(Ref{Path: "f65333"}, false)
	require.NoError(t, err)
	assert.True(t, f.Current())
	assert.Len(t, f.States, 2)
	for _, text := range []string{old.String(), old.Hex(), old.Hex()[:20]} {
		f, err = resolve(Ref{Node: text}, false)
		require.NoError(t, err, text)
		assert.Equal(t, []any{"f65333", 1, false, true, false}, []any{f.Path, f.At, f.Current(), f.ByID, f.Gone()})
		assert.Equal(t, old, f.State().Node)
	}
	_, err = resolve(Ref{Node: "b3345db7"}, false)
	typed(t, err, "node/ambiguous")
	matches := contract.AsError(err).Details.Key("matches")
	assert.Equal(t, 2, matches.Len())
	assert.Contains(t, matches.String(), old.String())
	_, err = resolve(Ref{Node: "b3345db8"}, false)
	typed(t, err, "node/not-found")
	_, err = resolve(Ref{Node: id.S2.Node("f65333", id.File, id.B3.Bytes(nil)).String()}, false)
	typed(t, err, "input/invalid")
	_, err = resolve(Ref{Path: "none"}, false)
	typed(t, err, "path/not-in-tree")
	for _, ref := range []Ref{{Path: "d/gone"}, {Node: gone.String()}} {
		_, err = resolve(ref, false)
		typed(t, err, "node/deleted")
		assert.Equal(t, gone.String(), text(contract.AsError(err).Details.Key("node/id")))
		f, err = resolve(ref, true)
		require.NoError(t, err)
		assert.True(t, f.Gone())
	}
	f, err = resolve(Ref{}, false)
	require.NoError(t, err)
	assert.Empty(t, f.Path)
}

func text(v edn.Value) string { s, _ := v.AsString(); return s }

// WS-220: the first 10 nodes of an ambiguous prefix are listed, in order.
func TestAmbiguousListsTen(t *testing.T) {
	found := map[id.ID]string{}
	for i := range 25 {
		found[id.B3.Node(fmt.Sprint(i), id.File, id.B3.Bytes(nil))] = fmt.Sprint(i)
	}
	e := contract.AsError(ambiguous("", found))
	assert.Equal(t, 10, e.Details.Key("matches").Len())
	again := contract.AsError(ambiguous("", found))
	assert.Equal(t, e.Details.String(), again.Details.String())
	count, _ := e.Details.Key("count").AsInt()
	assert.Equal(t, int64(25), count)
}

// The tree of a state is read once, also if other transactions follow, and it is
// that of the state.
func TestTreesAreShared(t *testing.T) {
	s := open(t, create(t, id.B3))
	_, first := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	mustPut(t, s.Store, "a", "note", "x")
	_, second := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "2"}))
	at := func(seq uint64) (tr any) {
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			found, err := v.treeAt(background, seq)
			tr = found
			assert.Equal(t, ids(found), treeAt(t, s.Store, seq))
			return err
		}))
		return tr
	}
	assert.Same(t, at(first), at(first+1))
	assert.NotSame(t, at(first), at(second))
	assert.Same(t, at(second), at(second))
	for seq := first; seq <= second; seq++ {
		assert.Equal(t, map[bool]string{true: id.B3.Bytes([]byte("1")).String(), false: id.B3.Bytes([]byte("2")).String()}[seq < second], contentAt(t, s.Store, seq))
	}
}

// A node and the entries of a directory are those of the tree at every state, whatever
// follows their names in the order of bytes.
func TestNodesOfATree(t *testing.T) {
	s := open(t, create(t, id.B3))
	files := map[string]string{"a/x": "1", "a/y/z": "1", "a-b/x": "1", "a.c/x/y": "1", "a0": "1", "b": "1"}
	_, first := putTree(t, s.Store, grow(id.B3, files))
	files["a/y/new"], files["b"] = "2", "2"
	delete(files, "a.c/x/y")
	_, last := putTree(t, s.Store, grow(id.B3, files))
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		for seq := first; seq <= last; seq++ {
			whole, err := v.treeAt(background, seq)
			require.NoError(t, err)
			whole.Walk(func(path string, n *tree.Node) bool {
				found, err := v.NodeAt(background, path, seq)
				require.NoError(t, err)
				assert.Equal(t, n.ID, found.ID, path)
				entries, err := v.NodesIn(background, path, seq)
				require.NoError(t, err)
				require.Len(t, entries, len(n.Children), path)
				for i, c := range n.Children {
					assert.Equal(t, []any{c.Name, c.ID, c.Mode, c.Size}, []any{entries[i].Name, entries[i].ID, entries[i].Mode, entries[i].Size})
				}
				return true
			})
		}
		gone, err := v.NodeAt(background, "a.c", last)
		assert.Nil(t, gone)
		return err
	}))
}

func contentAt(t *testing.T, s *Store, seq uint64) (content string) {
	require.NoError(t, s.View(background, seq, func(v *Snapshot) error {
		tr, err := v.Tree(background)
		content = tr.Lookup("a").Content.String()
		return err
	}))
	return content
}

func FuzzRef(f *testing.F) {
	f.Add("node/id", "b3345db7")
	f.Add("path", "a/b")
	f.Add("path/b64", "_w")
	f.Fuzz(func(t *testing.T, key, value string) {
		v, err := edn.String(value)
		k, kerr := edn.Keyword(key)
		if err != nil || kerr != nil {
			return
		}
		ref, err := RefFrom(edn.MustMap(k, v))
		if err != nil {
			return
		}
		if ref.Node == "" {
			again, err := CheckPath(ref.Path)
			if err != nil || again != ref.Path {
				t.Errorf("%q is read as %q", value, ref.Path)
			}
		}
	})
}
