package store

import (
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// assumption is a set of frames that a snapshot reads as if they were put.
type assumption struct {
	tops  map[string][]*top // by path
	dirs  map[string][]string
	texts map[id.ID][]byte
	byID  map[id.ID]*Frame
	above map[string]bool // directories that have an assumed frame below them
}

// affects reports whether assumed frames may change the state of a head.
func (a *assumption) affects(t *top) bool {
	return a != nil && (a.above[t.Path] || t.Origin == Authored)
}

func (a *assumption) get(path, frameType string) *top {
	if a == nil {
		return nil
	}
	for _, t := range a.tops[path] {
		if t.Type == frameType {
			return t
		}
	}
	return nil
}

// entries returns the assumed heads of the entries of a directory.
func (a *assumption) entries(dir string) (list []*top) {
	if a == nil {
		return nil
	}
	for _, path := range a.dirs[dir] {
		for _, t := range a.tops[path] {
			c := *t
			list = append(list, &c)
		}
	}
	return list
}

// Assume makes f, a frame that is not stored, the fresh head of its path for later reads
// of this snapshot. now is the current state of the path. text may be nil if the content
// is stored.
func (v *Snapshot) Assume(f *Frame, now Version, text []byte) {
	if v.assumed == nil {
		v.assumed = &assumption{tops: map[string][]*top{}, dirs: map[string][]string{}, texts: map[id.ID][]byte{}, byID: map[id.ID]*Frame{}, above: map[string]bool{}}
	}
	t := topOf(f, now.Node, now)
	t.Suspect, t.State, t.assumed = false, Fresh, f
	a := v.assumed
	others := slices.DeleteFunc(a.tops[f.Path], func(x *top) bool { return x.Type == f.Type })
	if len(a.tops[f.Path]) == 0 && f.Path != "" {
		dir, _ := split(f.Path)
		a.dirs[dir] = append(a.dirs[dir], f.Path)
	}
	a.tops[f.Path] = append(others, t)
	a.byID[f.ID] = f
	clear(v.cache.memo)
	for dir := f.Path; dir != ""; {
		dir, _ = split(dir)
		a.above[dir] = true
	}
	if text != nil {
		a.texts[f.Content] = text
	}
}
