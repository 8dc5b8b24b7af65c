package report

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
)

// embedded returns the data of a page.
func embedded(t testing.TB, page []byte) (d graphData) {
	t.Helper()
	_, rest, ok := strings.Cut(string(page), `id="data">`)
	require.True(t, ok)
	text, _, _ := strings.Cut(rest, "</script>")
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d
}

// The data of the map has the tree in the order of a walk, with the worst state
// of each node and those of each type.
func TestGraphData(t *testing.T) {
	page, err := Graph(collect(t, example(t, 1)), "A <title> & {{data}}")
	require.NoError(t, err)
	assert.Contains(t, string(page), "<h1>A &lt;title&gt; &amp; {{data}}</h1>")
	d := embedded(t, page)
	assert.Equal(t, graphData{
		Names:  []string{".", "docs", "read|me.md", "src", "a.go", "b.go", "x"},
		Kids:   []int{3, 1, -1, 2, -1, -1, -1},
		Sizes:  []int64{0, 0, 4, 0, 9, 9, 0},
		Types:  []string{"context-docs", "digest", "facts", "note"},
		States: []string{"0101121", "0000111", "0101000", "0000100", "0000120"},
	}, d)
	page, err = Graph(collectPart(t, example(t, 1), "src"), "part")
	require.NoError(t, err)
	assert.Equal(t, graphData{
		Names:  []string{"src", "a.go", "b.go"},
		Kids:   []int{2, -1, -1},
		Sizes:  []int64{0, 9, 9},
		Types:  []string{"context-docs", "digest", "facts", "note"},
		States: []string{"112", "011", "100", "010", "012"},
	}, embedded(t, page), "a part of the tree")
	page, err = Graph(collect(t, example(t, 1)), "A <title> & {{data}}")
	require.NoError(t, err)
	again, err := Graph(collect(t, example(t, 7)), "A <title> & {{data}}")
	require.NoError(t, err)
	assert.Equal(t, page, again, "equal states give equal pages (WS-194)")
	_, err = Graph(collect(t, storetest.Open(t, id.B3)), "")
	require.ErrorIs(t, err, contract.OfType("workspace/unscanned"))
}

// A page needs nothing but itself, whatever the names in the tree are.
func TestGraphIsOneFile(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"</script><script>alert(1)": "", "<!--": "", "\xff": "", "é\u2028": "", "a\"'&": ""})
	page, err := Graph(collect(t, w), "x")
	require.NoError(t, err)
	assert.Len(t, embedded(t, page).Names, 7)
	assert.Equal(t, 2, strings.Count(string(page), "</script>"))
	assert.NotContains(t, string(page), "<!--")
	for _, reference := range []string{`https?://`, `\bsrc=`, `\bhref=`, `@import`, `url\(`, `fetch\(`, `XMLHttpRequest`} {
		assert.NotRegexp(t, regexp.MustCompile(reference), string(page))
	}
}

// Only the types with most heads can be chosen.
func TestGraphTypes(t *testing.T) {
	w := storetest.Open(t, id.B3)
	w.Tree(map[string]string{"a": "1", "b": "1"})
	for i := range graphTypes + 3 {
		w.Put("a", fmt.Sprintf("t%02d", i), "x")
	}
	w.Put("b", "t14", "x")
	d := graphOf(collect(t, w))
	assert.Len(t, d.Types, graphTypes)
	assert.Contains(t, d.Types, "t14")
	assert.NotContains(t, d.Types, "t12")
}

// large is a tree with many files and frames, without a store.
func large(files int) *Facts {
	f := &Facts{}
	texts := map[string]string{}
	for i := range files {
		ext := []string{"go", "md", "ts", "json"}[i%4]
		texts[fmt.Sprintf("part%02d/package%03d/file%d.%s", i%23, i%997, i, ext)] = strings.Repeat("x", i*7919%900+i%89*i%40)
	}
	f.Tree = storetest.Grow(id.B3, texts)
	for path := range texts {
		p := Path{Path: path}
		if h := len(path) * len(texts[path]) % 7; h < 5 {
			state := store.Fresh
			if h == 0 || strings.HasPrefix(path, "part07/") {
				state = store.Stale
			}
			p.Heads = append(p.Heads, store.HeadInfo{Type: "digest", State: state})
		}
		if strings.HasPrefix(path, "part03/package0") {
			p.Heads = append(p.Heads, store.HeadInfo{Type: "note", State: store.Invalid})
		}
		f.Paths = append(f.Paths, p)
	}
	return f
}
