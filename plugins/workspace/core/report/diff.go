package report

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Side is one of the two states that Diff compares.
type Side struct {
	Seq    uint64 // 0 for an export
	Root   id.ID  // state root; zero for an export that is not of all frames
	Export bool
	Range  store.ExportRange // limits of an export
	Tree   *tree.Tree
	Heads  map[HeadKey]SideHead
	Frames map[id.ID]store.FrameInfo
	// Text returns the text of a frame.
	Text func(ctx context.Context, frame id.ID) ([]byte, error)
	// Scanned describes the scan of the tree; it is zero if unknown.
	Scanned store.Scanned
}

// HeadKey identifies a head.
type HeadKey struct{ Path, Type string }

// SideHead is a head with its state.
type SideHead struct {
	Frame id.ID
	State store.HeadState // empty if an export does not determine it
}

// StoreSide returns the state of a store at a sequence number, for Diff.
func StoreSide(ctx context.Context, s view.Viewer, asOf uint64) (*Side, error) {
	side := &Side{Heads: map[HeadKey]SideHead{}, Frames: map[id.ID]store.FrameInfo{}}
	err := s.View(ctx, asOf, func(v *store.Snapshot) (err error) {
		side.Seq = v.Seq()
		if side.Scanned, err = v.Scanned(ctx); err != nil {
			return err
		}
		if side.Root, err = v.StateRoot(ctx); err != nil {
			return err
		}
		if side.Tree, err = v.Tree(ctx); err != nil {
			return err
		}
		heads, err := v.Heads(ctx, "", nil)
		if err != nil {
			return err
		}
		for _, h := range heads {
			side.Heads[HeadKey{h.Path, h.Type}] = SideHead{h.Frame, h.State}
		}
		frames, err := v.AllFrameInfo(ctx, "")
		for _, f := range frames {
			side.Frames[f.Frame] = f
		}
		return err
	})
	side.Text = func(ctx context.Context, frame id.ID) (text []byte, err error) {
		err = s.View(ctx, side.Seq, func(v *store.Snapshot) error {
			f, err := v.Frame(ctx, frame)
			if err == nil {
				text, err = v.Content(ctx, f.Content)
			}
			return err
		})
		return text, err
	}
	return side, err
}

// DiffRequest limits a comparison.
type DiffRequest struct {
	Path    string   // of the directory or file; empty for all
	Types   []string // of frames; empty for all
	Content bool     // adds the differences of texts
}

// Difference is the result of diff. Empty lists are absent.
type Difference struct {
	Equal  bool      `edn:"equal?"`
	Nodes  NodeDiff  `edn:"nodes"`
	Frames FrameDiff `edn:"frames"`
	// StateRoots are those of both states if they differ and are known.
	StateRoots []id.ID     `edn:"state-roots,omitempty"`
	Texts      []TextDiff  `edn:"texts,omitempty"`
	Warnings   []edn.Value `edn:"warnings,omitempty"`
}

// NodeDiff are the files, links and nested repositories that differ.
// Directories are listed only if they appeared or disappeared.
type NodeDiff struct {
	Added       []store.ShownPath `edn:"added,omitempty"`
	Modified    []store.ShownPath `edn:"modified,omitempty"`
	Removed     []store.ShownPath `edn:"removed,omitempty"`
	Renamed     []Renamed         `edn:"renamed,omitempty"`
	AddedDirs   []store.ShownPath `edn:"directories/added,omitempty"`
	RemovedDirs []store.ShownPath `edn:"directories/removed,omitempty"`
}

// Renamed is a file that has another path and equal content.
type Renamed struct {
	From store.ShownPath `edn:"from"`
	To   store.ShownPath `edn:"to"`
}

// FrameDiff holds the frames and heads that differ. An entry of Stale, Invalidated, Refreshed or
// Deleted is the pair of path and type of a head that both states have.
type FrameDiff struct {
	Added       []FrameAt   `edn:"added,omitempty"`
	Removed     []FrameAt   `edn:"removed,omitempty"`
	Moved       []MovedHead `edn:"moved,omitempty"`
	Stale       []edn.Value `edn:"stale,omitempty"`       // heads that became stale
	Invalidated []edn.Value `edn:"invalidated,omitempty"` // heads that were marked
	Refreshed   []edn.Value `edn:"refreshed,omitempty"`   // heads that became fresh
	Deleted     []edn.Value `edn:"deleted,omitempty"`     // heads whose path disappeared
}

// FrameAt is a frame that only one of the states has.
type FrameAt struct {
	Frame id.ID `edn:"frame/id"`
	store.Place
	Type string `edn:"frame/type"`
}

// MovedHead is a head whose frame differs between the states.
type MovedHead struct {
	store.Place
	Type string `edn:"frame/type"`
	Old  id.ID  `edn:"old"`
	New  id.ID  `edn:"new"`
}

// TextDiff is the difference between the texts of a head that moved.
type TextDiff struct {
	store.Place
	Type string `edn:"frame/type"`
	Diff string `edn:"diff"`
}

// knows reports whether a side contains all frames that its workspace has of a path, type and
// agent. An export contains only those within its Range.
func (s *Side) knows(path, typ, agent string) bool {
	return !s.Export || s.Range.Takes(path, typ, agent)
}

// knowsPath reports whether a side contains the node of a path if its workspace has one.
func (s *Side) knowsPath(path string) bool { return tree.Below(path, s.Range.Path) }

// couldHave reports whether a side has a frame of the other state if its workspace
// has it: an export leaves out what LeftOut names and, without history, what is not the
// head of a current path.
func (s *Side) couldHave(f store.FrameInfo, of *Side) bool {
	if !s.Export {
		return true
	}
	h := of.Heads[HeadKey{f.Path, f.Type}]
	return !f.LeftOut && (s.Range.History || h.Frame == f.Frame && h.State != store.Deleted)
}

// Diff compares two states of the same scheme. Data that an export leaves out
// is not reported as a difference.
func Diff(ctx context.Context, older, newer *Side, r DiffRequest) (*Difference, error) {
	for _, s := range []*Side{older, newer} {
		if !s.knowsPath(r.Path) && !tree.Below(s.Range.Path, r.Path) {
			return nil, contract.Errorf("input/invalid", "an export contains only %q, not %q",
				store.Shown(s.Range.Path), store.Shown(r.Path)).
				WithOp("diff", "").WithDetail("path", edn.Vector(edn.K("path")))
		}
	}
	if older.Tree != nil && newer.Tree != nil && older.Tree.Scheme != newer.Tree.Scheme {
		return nil, contract.Errorf("input/invalid", "the states have different schemes, %s and %s", older.Tree.Scheme,
			newer.Tree.Scheme).WithOp("diff", "")
	}
	d := &differ{older: older, newer: newer, request: r}
	d.nodes()
	d.frames()
	if r.Content {
		if err := d.texts(ctx); err != nil {
			return nil, err
		}
	}
	if a, b := older.Scanned.Rules, newer.Scanned.Rules; !a.IsZero() && !b.IsZero() && a != b { // WS-032
		d.out.Warnings = append(d.out.Warnings, edn.Text("the two scans had different ignore rules"))
	}
	whole := r.Path == "" && len(r.Types) == 0
	if whole && !older.Root.IsZero() && !newer.Root.IsZero() && older.Root != newer.Root { // WS-014
		d.out.StateRoots = []id.ID{older.Root, newer.Root}
	}
	n, f := &d.out.Nodes, &d.out.Frames
	d.out.Equal = len(d.out.StateRoots)+
		len(n.Added)+len(n.Modified)+len(n.Removed)+len(n.Renamed)+len(n.AddedDirs)+len(n.RemovedDirs)+
		len(f.Added)+len(f.Removed)+len(f.Moved)+len(f.Stale)+len(f.Invalidated)+len(f.Refreshed)+len(f.Deleted) == 0
	return &d.out, nil
}

type differ struct {
	older, newer *Side
	request      DiffRequest
	moved        []HeadKey
	out          Difference
}

// within reports whether a path is in the part that is compared.
func (d *differ) within(path string) bool { return tree.Below(path, d.request.Path) }

// known reports whether both sides have a path if their workspaces have it.
func (d *differ) known(path string) bool { return d.older.knowsPath(path) && d.newer.knowsPath(path) }

// nodes compares the trees on the level of files.
func (d *differ) nodes() {
	changes := tree.Diff(d.older.Tree, d.newer.Tree)
	var added, removed []tree.Change
	n := &d.out.Nodes
	for _, list := range [][]tree.Change{changes.Added, changes.Modified, changes.Removed} {
		for _, c := range list {
			was, is := isFile(c.Old), isFile(c.New)
			switch {
			case !d.known(c.Path):
				continue
			case was && is && d.within(c.Path):
				n.Modified = append(n.Modified, store.ShownPath(c.Path))
			case was && !is:
				removed = append(removed, c)
			case is && !was:
				added = append(added, c)
			}
			if wasDir, isDir := c.Old != nil && !was, c.New != nil && !is; wasDir != isDir && d.within(c.Path) {
				to := &n.AddedDirs
				if wasDir {
					to = &n.RemovedDirs
				}
				*to = append(*to, store.ShownPath(c.Path))
			}
		}
	}
	byPath := func(a, b tree.Change) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(added, byPath)
	slices.SortFunc(removed, byPath)
	d.renames(added, removed)
	for _, list := range []*[]store.ShownPath{&n.Added, &n.Modified, &n.Removed, &n.AddedDirs, &n.RemovedDirs} {
		slices.Sort(*list)
	}
}

func isFile(n *tree.Node) bool { return n != nil && n.Mode != id.Dir }

// maxSources is the maximum number of files of equal content that are tried as the source of a
// rename, as in git.
const maxSources = 100

// renames pairs removed with added files as git does for exact renames: for each
// added file in order the first removed one of equal content that is not taken,
// preferably one of the same name. Links and repositories need the same mode. The
// renames of tree.Changes are not used: they leave out empty files, links and content
// that occurs several times, which git pairs.
func (d *differ) renames(added, removed []tree.Change) {
	sources := map[id.ID][]int{}
	for i, c := range removed {
		sources[c.Old.Content] = append(sources[c.Old.Content], i)
	}
	taken := make([]bool, len(removed))
	n := &d.out.Nodes
	for _, c := range added {
		best := bestSource(c, sources[c.New.Content], removed, taken)
		if best < 0 {
			if d.within(c.Path) {
				n.Added = append(n.Added, store.ShownPath(c.Path))
			}
			continue
		}
		taken[best] = true
		if from := removed[best].Path; d.within(from) || d.within(c.Path) {
			n.Renamed = append(n.Renamed, Renamed{From: store.ShownPath(from), To: store.ShownPath(c.Path)})
		}
	}
	for i, c := range removed {
		if !taken[i] && d.within(c.Path) {
			n.Removed = append(n.Removed, store.ShownPath(c.Path))
		}
	}
}

// bestSource returns the position of the file that an added one is a rename of,
// -1 if there is none.
func bestSource(c tree.Change, candidates []int, removed []tree.Change, taken []bool) int {
	best, tries := -1, 0
	for _, i := range candidates {
		if a, b := removed[i].Old.Mode, c.New.Mode; (!regular(a) || !regular(b)) && a != b || taken[i] {
			continue
		}
		same := removed[i].Old.Name == c.New.Name
		if best < 0 || same {
			best = i
		}
		if tries++; same || tries == maxSources {
			break
		}
	}
	return best
}

func regular(m id.Mode) bool { return m == id.File || m == id.Exec }

// frames compares frames and heads.
func (d *differ) frames() {
	f := &d.out.Frames
	f.Added, f.Removed = d.only(d.newer, d.older), d.only(d.older, d.newer)
	for _, key := range d.keys() {
		was, is := d.older.Heads[key], d.newer.Heads[key]
		if !d.compares(d.older.Frames[was.Frame]) || !d.compares(d.newer.Frames[is.Frame]) {
			continue
		}
		if was.Frame != is.Frame {
			f.Moved = append(f.Moved, MovedHead{Place: store.PlaceOf(key.Path), Type: key.Type, Old: was.Frame, New: is.Frame})
			d.moved = append(d.moved, key)
		}
		if to := f.of(is.State); to != nil && was.State != "" && is.State != was.State {
			*to = append(*to, edn.Vector(store.ShownPath(key.Path).Value(), edn.Text(key.Type)))
		}
	}
}

// only returns the frames that one side has and the other one lacks.
func (d *differ) only(has, lacks *Side) (list []FrameAt) {
	for x, info := range has.Frames {
		_, stored := lacks.Frames[x]
		if !stored && d.compares(info) && lacks.couldHave(info, has) {
			list = append(list, FrameAt{Frame: x, Place: store.PlaceOf(info.Path), Type: info.Type})
		}
	}
	slices.SortFunc(list, func(a, b FrameAt) int { return a.Frame.Compare(b.Frame) })
	return list
}

// compares reports whether a frame is asked for, and both sides have it if their
// workspaces have it.
func (d *differ) compares(x store.FrameInfo) bool {
	return d.within(x.Path) && (len(d.request.Types) == 0 || slices.Contains(d.request.Types, x.Type)) &&
		d.older.knows(x.Path, x.Type, x.Agent) && d.newer.knows(x.Path, x.Type, x.Agent)
}

// of returns the list of the heads that reached a state, nil if there is none.
func (f *FrameDiff) of(s store.HeadState) *[]edn.Value {
	switch s {
	case store.Fresh:
		return &f.Refreshed
	case store.Stale:
		return &f.Stale
	case store.Deleted:
		return &f.Deleted
	case store.Invalid:
		return &f.Invalidated
	}
	return nil
}

// keys returns the heads that both states have, sorted. Frames are never discarded, so one
// that only one of them has is there because of a frame that the other one lacks.
func (d *differ) keys() (both []HeadKey) {
	for k := range d.newer.Heads {
		if _, known := d.older.Heads[k]; known {
			both = append(both, k)
		}
	}
	slices.SortFunc(both, func(a, b HeadKey) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Type, b.Type)) })
	return both
}

// texts adds the differences of the heads that moved.
func (d *differ) texts(ctx context.Context) error {
	for _, key := range d.moved {
		before, err := d.older.Text(ctx, d.older.Heads[key].Frame)
		if err != nil {
			return err
		}
		after, err := d.newer.Text(ctx, d.newer.Heads[key].Frame)
		if err != nil {
			return err
		}
		name := store.Shown(key.Path) + " (" + key.Type + ")"
		diff := unified(name, string(before), string(after))
		d.out.Texts = append(d.out.Texts, TextDiff{Place: store.PlaceOf(key.Path), Type: key.Type, Diff: strings.ToValidUTF8(diff, "\uFFFD")})
	}
	return nil
}
