package report

import (
	"cmp"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/edn"
)

// topPaths is the maximum number of directories in a status.
const topPaths = 10

// Counts are numbers by name. As EDN the names are keywords.
type Counts map[string]int

// MarshalEDN writes the map.
func (c Counts) MarshalEDN() ([]byte, error) {
	entries := make([]edn.Entry, 0, len(c))
	for name, n := range c {
		entries = append(entries, edn.Entry{Key: edn.K(name), Val: edn.Int(int64(n))})
	}
	m, err := edn.Map(entries)
	return m.Canonical(), err
}

// Status is the result of status.
type Status struct {
	Scanned   bool       `edn:"scanned?"`
	StateRoot *id.ID     `edn:"state-root,omitempty"`
	Nodes     Counts     `edn:"nodes"`  // by kind
	Frames    int        `edn:"frames"` // heads or not
	Heads     Counts     `edn:"heads"`  // by state
	TopPaths  []TopPath  `edn:"top-paths"`
	Breakdown []Part     `edn:"breakdown,omitempty"`
	Coverage  []Coverage `edn:"coverage,omitempty"`
}

// TopPath is a directory with the number of nodes in it and below, including
// itself. As EDN it is a pair.
type TopPath struct {
	Path  string
	Nodes int
}

// MarshalEDN writes the pair.
func (t TopPath) MarshalEDN() ([]byte, error) {
	return edn.Vector(store.ShownPath(t.Path).Value(), edn.Int(int64(t.Nodes))).Canonical(), nil
}

// Part is an entry of the root with the totals of its content.
type Part struct {
	store.Place
	Nodes  Counts `edn:"nodes"`
	Frames int    `edn:"frames"`
	Heads  Counts `edn:"heads"`

	path string
}

// StatusRequest determines which parts a status has besides the counts.
type StatusRequest struct{ Breakdown, Coverage bool }

// StatusOf returns the status of a state.
func StatusOf(f *Facts, r StatusRequest) *Status {
	s := &Status{Scanned: f.Tree != nil, Nodes: Counts{"file": 0, "dir": 0}, Frames: len(f.Frames), Heads: Counts{}, TopPaths: []TopPath{}}
	if !s.Scanned {
		return s
	}
	s.StateRoot = &f.StateRoot
	for i := range f.Paths {
		s.Nodes[f.Paths[i].Mode.Kind()]++
		countStates(s.Heads, f.Paths[i].Heads)
	}
	countStates(s.Heads, f.Gone)
	s.TopPaths = topOf(f)
	if r.Breakdown {
		s.Breakdown = breakdown(f)
	}
	if r.Coverage {
		s.Coverage = coverage(f)
	}
	return s
}

func countStates(counts Counts, heads []store.HeadInfo) {
	for _, h := range heads {
		counts[string(h.State)]++
	}
}

// topOf returns the directories with most nodes.
func topOf(f *Facts) []TopPath {
	counts := map[string]int{}
	for i := range f.Paths {
		p := f.Paths[i].Path
		if f.Paths[i].Mode == id.Dir {
			counts[p]++
		}
		for p != f.Part {
			p = tree.Parent(p)
			counts[p]++
		}
	}
	list := make([]TopPath, 0, len(counts))
	for path, n := range counts {
		list = append(list, TopPath{path, n})
	}
	slices.SortFunc(list, func(a, b TopPath) int { return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Path, b.Path)) })
	return list[:min(len(list), topPaths)]
}

// breakdown counts for each entry of the root.
func breakdown(f *Facts) []Part {
	var list []Part
	at := map[string]int{}
	part := func(path string) *Part {
		name := top(path)
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name] = i
			list = append(list, Part{Place: store.PlaceOf(name), Nodes: Counts{}, Heads: Counts{}, path: name})
		}
		return &list[i]
	}
	for i := range f.Paths {
		p := &f.Paths[i]
		part(p.Path).Nodes[p.Mode.Kind()]++
	}
	for i := range f.Paths {
		countStates(part(f.Paths[i].Path).Heads, f.Paths[i].Heads)
	}
	for i := range f.Gone {
		countStates(part(f.Gone[i].Path).Heads, f.Gone[i:i+1])
	}
	for _, x := range f.Frames {
		part(x.Path).Frames++
	}
	slices.SortFunc(list, func(a, b Part) int { return cmp.Compare(a.path, b.path) })
	return list
}
