package report

import (
	"cmp"
	"context"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
)

// Facts are the input of all reports: the state of a workspace, or of a part of
// it, at one sequence number.
type Facts struct {
	Seq       uint64
	Part      string     // everything is about this path and what is below it
	Tree      *tree.Tree // the whole one; nil if nothing was scanned
	StateRoot id.ID
	// Paths are those of the part that are not deleted, sorted.
	Paths []Path
	// Gone are the heads of paths that were deleted or are no longer in the
	// tree.
	Gone   []store.HeadInfo
	Frames []store.FrameInfo
	// Generated are the frames that models wrote.
	Generated []*store.Frame
}

// Path is a path with its heads, sorted by type.
type Path struct {
	Path  string
	Mode  id.Mode
	Size  int64 // of files and links
	Heads []store.HeadInfo
}

// Collect reads the state of a path and everything below it; the root is the
// empty path. Another path must be in the tree; the root may be deleted, so that the
// state of a store can be read then too.
func Collect(ctx context.Context, s *store.Snapshot, part string) (*Facts, error) {
	f := &Facts{Seq: s.Seq(), Part: part}
	var err error
	if f.Frames, err = s.AllFrameInfo(ctx, part); err != nil {
		return nil, err
	}
	if f.Tree, err = s.Tree(ctx); err != nil || f.Tree == nil {
		return f, err
	}
	if _, err := s.Resolve(ctx, store.Ref{Path: part}, part == ""); err != nil {
		return nil, view.OrRead(err, "read an earlier state with :as-of")
	}
	if f.StateRoot, err = s.StateRoot(ctx); err != nil {
		return nil, err
	}
	if err := f.collectPaths(ctx, s); err != nil {
		return nil, err
	}
	for _, x := range f.Frames {
		if x.Origin != store.Generated {
			continue
		}
		frame, err := s.Frame(ctx, x.Frame)
		if err != nil {
			return nil, err
		}
		f.Generated = append(f.Generated, frame)
	}
	return f, nil
}

// collectPaths joins the tree with the heads.
func (f *Facts) collectPaths(ctx context.Context, s *store.Snapshot) error {
	heads, err := s.Heads(ctx, f.Part, nil)
	if err != nil {
		return err
	}
	gone, err := s.Deleted(ctx, 0)
	if err != nil {
		return err
	}
	deleted := map[string]bool{}
	for _, d := range gone {
		deleted[d.Path] = true
	}
	f.Tree.WalkFrom(f.Part, func(path string, n *tree.Node) bool {
		if !deleted[path] {
			f.Paths = append(f.Paths, Path{Path: path, Mode: n.Mode, Size: n.Size})
		}
		return true
	})
	slices.SortFunc(f.Paths, func(a, b Path) int { return cmp.Compare(a.Path, b.Path) })
	at := 0
	for _, h := range heads { // sorted by path too
		for at < len(f.Paths) && f.Paths[at].Path < h.Path {
			at++
		}
		if at < len(f.Paths) && f.Paths[at].Path == h.Path && h.State != store.Deleted {
			f.Paths[at].Heads = append(f.Paths[at].Heads, h)
		} else {
			f.Gone = append(f.Gone, h)
		}
	}
	return nil
}

// top returns the part of a path before the first slash.
func top(path string) string {
	for i := range len(path) {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return path
}

// heads visits the heads of all current paths.
func (f *Facts) heads(visit func(path string, h *store.HeadInfo)) {
	for i := range f.Paths {
		for k := range f.Paths[i].Heads {
			visit(f.Paths[i].Path, &f.Paths[i].Heads[k])
		}
	}
}
