package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"html"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

//go:embed graph.html
var page string

// graphTypes is the number of frame types that can be shown separately: those with most heads.
const graphTypes = 12

// graphData is the data of the page. The nodes are in the order of a walk in which a directory
// comes before its entries.
type graphData struct {
	Names []string `json:"names"`
	Kids  []int    `json:"kids"`  // entries of each node, -1 if it is not a directory
	Sizes []int64  `json:"sizes"` // bytes of files
	Types []string `json:"types"`
	// States have one digit for each node: 0 no head, 1 fresh, 2 stale, 3 marked
	// as invalid. The first is the worst of all types, the others follow Types.
	States []string `json:"states"`
}

// Graph returns an HTML page that shows the part of the tree in f as a map of
// file sizes, coloured by coverage and staleness. The page refers to no other
// file. title is its heading.
func Graph(f *Facts, title string) ([]byte, error) {
	if f.Tree == nil {
		return nil, contract.Errorf("workspace/unscanned", "nothing was scanned").WithOp("graph", "")
	}
	data, err := json.Marshal(graphOf(f))
	if err != nil {
		return nil, contract.Errorf("runtime/internal", "%w", err).WithOp("graph", "")
	}
	// json.Marshal escapes what could end the element.
	before, after, _ := strings.Cut(page, "{{data}}")
	before = strings.ReplaceAll(before, "{{title}}", html.EscapeString(title))
	return slices.Concat([]byte(before), data, []byte(after)), nil
}

func graphOf(f *Facts) graphData {
	heads := map[string][]store.HeadInfo{}
	for i := range f.Paths {
		if len(f.Paths[i].Heads) > 0 {
			heads[f.Paths[i].Path] = f.Paths[i].Heads
		}
	}
	d := graphData{Types: commonTypes(f)}
	states := make([][]byte, len(d.Types)+1)
	f.Tree.WalkFrom(f.Part, func(path string, n *tree.Node) bool {
		kids := -1
		if n.Mode == id.Dir {
			kids = len(n.Children)
		}
		d.Names, d.Kids, d.Sizes = append(d.Names, store.Shown(n.Name)), append(d.Kids, kids), append(d.Sizes, n.Size)
		for i := range states {
			states[i] = append(states[i], '0')
		}
		at := len(d.Names) - 1
		for _, h := range heads[path] {
			digit := stateDigit(h.State)
			states[0][at] = max(states[0][at], digit)
			if i := slices.Index(d.Types, h.Type); i >= 0 {
				states[i+1][at] = digit
			}
		}
		return true
	})
	for _, s := range states {
		d.States = append(d.States, string(s))
	}
	return d
}

func stateDigit(s store.HeadState) byte {
	switch s {
	case store.Fresh:
		return '1'
	case store.Stale:
		return '2'
	}
	return '3'
}

// commonTypes returns the types with most heads, sorted by name.
func commonTypes(f *Facts) []string {
	counts := map[string]int{}
	for i := range f.Paths {
		for _, h := range f.Paths[i].Heads {
			counts[h.Type]++
		}
	}
	list := make([]string, 0, len(counts))
	for t := range counts {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	list = list[:min(len(list), graphTypes)]
	slices.Sort(list)
	return list
}
