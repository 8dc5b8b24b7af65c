package store

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// PathHeads are the heads of one path.
type PathHeads struct {
	Path string
	// States are those of the path, the newest first.
	States []Version
	// Heads are those by path, sorted by type.
	Heads []Head
}

// Gone reports whether the path is not in the current tree or is deleted.
func (p *PathHeads) Gone() bool { return p.States[0].Until != 0 }

// EachPath calls visit for every path of a subtree that was in the tree once,
// sorted bytewise, with its heads.
func (v *Snapshot) EachPath(ctx context.Context, dir string, visit func(*PathHeads) error) error {
	r := v.frames()
	var all []*pathState // no query runs while another one has rows open
	err := r.eachPath(ctx, dir, func(p *pathState) error {
		all = append(all, p)
		return nil
	})
	if err != nil {
		return readError(err)
	}
	for _, p := range all {
		out := PathHeads{Path: p.path, States: p.states}
		for _, h := range p.resolved() {
			head, err := r.headFrame(ctx, h.frame, &Found{Path: p.path, States: p.states})
			if err != nil {
				return readError(err)
			}
			out.Heads = append(out.Heads, *head)
		}
		if err := visit(&out); err != nil {
			return err
		}
	}
	return nil
}

// FrameInfo is what the index has of a frame.
type FrameInfo struct {
	Frame  id.ID
	Seq    uint64
	Path   string
	Type   string
	Agent  string
	Origin Origin
}

// FramesSince returns the frames that were put after a sequence number, in the
// order of their transactions.
func (v *Snapshot) FramesSince(ctx context.Context, seq uint64) ([]FrameInfo, error) {
	rows, err := v.tx.QueryContext(ctx, "SELECT id, seq, path, type, agent, origin FROM frames WHERE seq > ?1 AND seq <= ?2 ORDER BY seq, id", int64(seq), int64(v.seq))
	if err != nil {
		return nil, asStoreError("read", err)
	}
	defer func() { _ = rows.Close() }()
	var list []FrameInfo
	for rows.Next() {
		var f FrameInfo
		var sum, path []byte
		if err := rows.Scan(&sum, &f.Seq, &path, &f.Type, &f.Agent, &f.Origin); err != nil {
			return nil, asStoreError("read", err)
		}
		f.Path = string(path)
		if f.Frame, err = id.Of(id.Frame, v.store.Scheme.Alg(), sum); err != nil {
			return nil, corrupt(indexFile, "%w", err)
		}
		list = append(list, f)
	}
	return list, readError(rows.Err())
}
