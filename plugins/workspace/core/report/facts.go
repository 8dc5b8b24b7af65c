package report

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// Facts are what reports are made of: the state of a workspace at one sequence
// number.
type Facts struct {
	Seq       uint64
	Tree      *tree.Tree // nil if nothing was scanned
	StateRoot id.ID
	// Paths are the current paths with their heads, sorted. Gone are those that
	// are not in the tree any more or deleted.
	Paths, Gone []store.PathHeads
	Frames      []store.FrameInfo
	// Generated are the frames that models wrote.
	Generated []*store.Frame
}

// Collect reads a state.
func Collect(ctx context.Context, s *store.Snapshot) (*Facts, error) {
	f := &Facts{Seq: s.Seq()}
	var err error
	if f.Tree, err = s.Tree(ctx); err != nil || f.Tree == nil {
		return f, err
	}
	if f.StateRoot, err = s.StateRoot(ctx); err != nil {
		return nil, err
	}
	err = s.EachPath(ctx, "", func(p *store.PathHeads) error {
		if p.Gone() {
			f.Gone = append(f.Gone, *p)
		} else {
			f.Paths = append(f.Paths, *p)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if f.Frames, err = s.FramesSince(ctx, 0); err != nil {
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

// kindOf names the kind of a node.
func kindOf(m id.Mode) string {
	switch m {
	case id.Dir:
		return "dir"
	case id.Link:
		return "link"
	case id.Repo:
		return "repo"
	}
	return "file"
}

// mode returns the mode of a current path.
func mode(p *store.PathHeads) id.Mode { return p.States[0].Mode }

// root returns the part of a path before the first slash.
func top(path string) string {
	for i := range len(path) {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return path
}
