package store

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// kindExport is the first record of an export. It is in no log.
const kindExport = log.FirstKind + 32

// ExportRange limits an export.
type ExportRange struct {
	Path string // a path and all below it
	// Types and Agents limit the frames; empty means all.
	Types, Agents []string
	// History exports all frames and the heads of all states, also of paths that are gone
	// or deleted, and which paths are deleted. Otherwise only the heads by path of current
	// paths are exported.
	History bool
}

// Takes reports whether an export within these limits includes the frames of a
// path, type and agent.
func (r ExportRange) Takes(path, typ, agent string) bool {
	return tree.Below(path, r.Path) && allows(r.Types, typ) && allows(r.Agents, agent)
}

// IsWhole reports whether nothing is limited, so that the export has all that determines the
// state root but texts that were dropped.
func (r ExportRange) IsWhole() bool {
	return r.History && r.Path == "" && len(r.Types)+len(r.Agents) == 0
}

// ExportHead is the description at the beginning of an export.
type ExportHead struct {
	Scheme    string   `edn:"scheme"`
	RawPath   []byte   `edn:"path"`
	Types     []string `edn:"frame/types"`
	Agents    []string `edn:"agents"`
	History   bool     `edn:"history?"`
	Root      id.ID    `edn:"root"`
	StateRoot id.ID    `edn:"state-root"` // of the whole workspace
}

// Range returns the limits of an export.
func (h *ExportHead) Range() ExportRange {
	return ExportRange{Path: string(h.RawPath), Types: h.Types, Agents: h.Agents, History: h.History}
}

// Exported is the result of an export.
type Exported struct {
	Nodes     int
	Frames    int
	Bytes     int64
	Root      id.ID
	StateRoot id.ID
}

// Export writes nodes, frames and heads to w in a form that ReadExport verifies.
// Equal states and selections give equal bytes. Without History, deleted paths are
// included as nodes only. Frames whose text was dropped are left out.
func (v *Snapshot) Export(ctx context.Context, w io.Writer, s ExportRange) (*Exported, error) {
	t, err := v.Tree(ctx)
	if err != nil {
		return nil, err
	}
	root, err := v.StateRoot(ctx)
	if err != nil {
		return nil, err
	}
	s.Types, s.Agents = sorted(s.Types), sorted(s.Agents)
	head := ExportHead{
		Scheme:    v.store.Scheme.String(),
		RawPath:   blob([]byte(s.Path)),
		Types:     s.Types,
		Agents:    s.Agents,
		History:   s.History,
		StateRoot: root,
	}
	if t != nil {
		head.Root = t.Root.ID
	}
	bundle, err := log.NewBundle(w, v.store.Scheme.Alg())
	if err != nil {
		return nil, asStoreError("export", err)
	}
	e := &exporter{snapshot: v, selection: s, bundle: bundle, contents: map[id.ID]bool{}}
	if err := e.write(ctx, head, t); err != nil {
		return nil, asStoreError("export", err)
	}
	return &Exported{Nodes: e.nodes, Frames: e.frames, Bytes: bundle.Bytes(), Root: head.Root, StateRoot: root}, nil
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return append([]string{}, slices.Compact(list)...)
}

// exporter writes one export.
type exporter struct {
	snapshot  *Snapshot
	selection ExportRange
	bundle    *log.BundleWriter
	contents  map[id.ID]bool // that were written
	nodes     int
	frames    int
}

func (e *exporter) write(ctx context.Context, head ExportHead, t *tree.Tree) error {
	if err := e.add(kindExport, head); err != nil {
		return err
	}
	changes := tree.Diff(nil, t)
	changes.Added = slices.DeleteFunc(changes.Added, func(c tree.Change) bool { return !tree.Below(c.Path, e.selection.Path) })
	e.nodes = len(changes.Added)
	for _, r := range encodeVersions(changes) {
		if err := e.bundle.Add(r); err != nil {
			return err
		}
	}
	err := e.snapshot.frames().eachPath(ctx, e.selection.Path, func(p *pathState) error { return e.path(ctx, p) })
	if err == nil && e.selection.History {
		err = e.tombstones(ctx)
	}
	if err != nil {
		return err
	}
	return e.bundle.Close()
}

// tombstones writes which of the selected paths are deleted.
func (e *exporter) tombstones(ctx context.Context) error {
	list, err := e.snapshot.deletedBelow(ctx, e.selection.Path)
	if err != nil {
		return err
	}
	return eachTombstones(list, true, e.bundle.Add)
}

func (e *exporter) add(kind byte, x any) error {
	r, err := encodeRecord(kind, x)
	if err != nil {
		return err
	}
	return e.bundle.Add(r)
}

// path writes the frames of a path and then its heads: those of its states, and
// at last that by path, for stores in which none of these states has been.
func (e *exporter) path(ctx context.Context, p *pathState) error {
	if p.current() == nil && !e.selection.History {
		return nil
	}
	resolved := p.resolved()
	var heads []stateHead
	if e.selection.History {
		heads = slices.DeleteFunc(slices.Clone(p.heads), func(h stateHead) bool { return h.node.IsZero() })
	} else {
		for _, h := range resolved {
			if !h.node.IsZero() {
				heads = append(heads, h)
			}
		}
	}
	slices.SortFunc(heads, func(a, b stateHead) int {
		if c := strings.Compare(a.typ, b.typ); c != 0 {
			return c
		}
		return a.node.Compare(b.node)
	})
	for _, h := range resolved {
		heads = append(heads, stateHead{typ: h.typ, frame: h.frame})
	}
	written, err := e.framesOf(ctx, p, heads)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if !written[h.frame] {
			continue
		}
		if err := e.add(kindHead, headRecord{RawPath: blob([]byte(p.path)), Node: h.node, Type: h.typ, Frame: h.frame}); err != nil {
			return err
		}
		at := h.node
		if at.IsZero() { // it stands for the one that is resolved
			at = resolved[slices.IndexFunc(resolved, func(x stateHead) bool { return x.typ == h.typ })].node
		}
		marked, err := e.snapshot.frames().marked(ctx, p.path, at, h.typ)
		if err != nil {
			return err
		}
		if !marked {
			continue
		}
		if err := e.add(kindMark, markRecord{RawPath: blob([]byte(p.path)), Node: h.node, Type: h.typ}); err != nil {
			return err
		}
	}
	return nil
}

// framesOf writes the selected frames of a path, sorted by type and id, each
// behind its text, and returns them.
func (e *exporter) framesOf(ctx context.Context, p *pathState, heads []stateHead) (map[id.ID]bool, error) {
	r := e.snapshot.frames()
	var list []id.ID
	if e.selection.History {
		var err error
		if list, err = r.ids(ctx, "SELECT id FROM frames WHERE path = ?1 AND seq <= ?2", []byte(p.path), int64(r.seq)); err != nil {
			return nil, err
		}
	}
	for _, h := range heads {
		list = append(list, h.frame)
	}
	slices.SortFunc(list, id.ID.Compare)
	var selected []*Frame
	for _, x := range slices.Compact(list) {
		f, err := r.frame(ctx, x)
		if err != nil {
			return nil, err
		}
		if e.selection.Takes(f.Path, f.Type, f.Agent) {
			selected = append(selected, f)
		}
	}
	slices.SortStableFunc(selected, func(a, b *Frame) int { return strings.Compare(a.Type, b.Type) })
	written := map[id.ID]bool{}
	for _, f := range selected {
		switch err := e.frame(ctx, f); {
		case errors.Is(err, ErrTextDropped):
		case err != nil:
			return nil, err
		default:
			written[f.ID] = true
		}
	}
	return written, nil
}

func allows(list []string, x string) bool { return len(list) == 0 || slices.Contains(list, x) }

func (e *exporter) frame(ctx context.Context, f *Frame) error {
	if !e.contents[f.Content] {
		text, err := e.snapshot.Content(ctx, f.Content)
		if err != nil {
			return err
		}
		e.contents[f.Content] = true
		if err := e.bundle.Add(log.Record{Kind: kindContent, Payload: text}); err != nil {
			return err
		}
	}
	e.frames++
	return e.add(kindFrame, frameRecord{Frame: *f, RawPath: blob([]byte(f.Path))})
}
