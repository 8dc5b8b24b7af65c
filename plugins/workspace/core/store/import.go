package store

import (
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// OnConflict determines the handling of a frame whose id exists with another
// text.
type OnConflict string

// The ways to deal with conflicts.
const (
	ConflictFail OnConflict = "fail"       // nothing is imported
	KeepLocal    OnConflict = "keep-local" // the frame of the store stays as it is
	Resample     OnConflict = "resample"   // the frame gets the next free sample
)

// Conflict is a frame whose id exists with another text.
type Conflict struct {
	Frame id.ID
	Path  string
	Type  string
	// Sample is the id under which the frame was imported, absent if it was not
	// imported.
	Sample id.ID
}

// Imported is the result of an import.
type Imported struct {
	Imported  int // frames that were added
	Existing  int // frames that were there already
	Restored  int // texts of these that had been dropped
	Heads     int // heads that moved
	Deleted   int // paths that were deleted, as they are in the export
	Conflicts []Conflict
}

// Import adds the frames and heads of an export. Importing again changes nothing.
//
// Frames belong to states of paths, so frames of states that the tree does not
// have at present are also added; they become heads when a scan finds that state.
// If a path has no head of a type in any state, it gets the head by path of the
// export, whose state is stale. Of two heads for the same state, the one whose
// frame was created later is kept, so two stores that import each other's exports
// agree. A moved head keeps its mark. A path that is deleted in the export is deleted too, unless
// the store has a frame of it that the export lacks, or it was deleted here before: an import
// hides nothing of the store, and does not undo a Restore. It does not scan.
//
// If a frame gets another id because of a conflict, frames that were made from it
// also get new ids.
func (tx *Tx) Import(b *Bundle, on OnConflict) (*Imported, error) {
	if b.Scheme != tx.store.Scheme {
		return nil, contract.Errorf("import/invalid", "the export has the scheme %s, the workspace %s", b.Scheme,
			tx.store.Scheme).
			WithOp("import", "").WithHint("import it into a workspace of the same scheme")
	}
	if on != ConflictFail && on != KeepLocal && on != Resample {
		return nil, contract.Errorf("input/invalid", "%q is not one of fail, keep-local, resample", string(on)).WithOp("import", "")
	}
	m := &importer{tx: tx, bundle: b, on: on, ids: map[id.ID]id.ID{}}
	for _, f := range b.Frames {
		if _, err := m.frame(f); err != nil {
			return nil, err
		}
		if err := tx.ctx.Err(); err != nil {
			return nil, err
		}
	}
	if on == ConflictFail && len(m.done.Conflicts) > 0 {
		return nil, m.conflict()
	}
	for _, h := range b.Heads {
		if err := m.head(h); err != nil {
			return nil, err
		}
	}
	return &m.done, m.tombstones()
}

// importer is one import.
type importer struct {
	tx     *Tx
	bundle *Bundle
	on     OnConflict
	ids    map[id.ID]id.ID // of the bundle to those in the store
	done   Imported
}

// maxListedConflicts is the number of conflicts in an error.
const maxListedConflicts = 100

func (m *importer) conflict() error {
	list := m.done.Conflicts
	var shown []edn.Value
	for _, c := range list[:min(len(list), maxListedConflicts)] {
		shown = append(shown, edn.Text(c.Frame.String()))
	}
	return contract.Errorf("import/conflict", "%d frames exist with another text, the first is %s of %q", len(list), list[0].Frame, list[0].Path).
		WithOp("import", "").WithDetail("frames", edn.Vector(shown...)).WithHint("import with on-conflict keep-local or resample")
}

// frame adds a frame, after those that it was made from, and returns its id in the store.
func (m *importer) frame(f *Frame) (id.ID, error) {
	if known, ok := m.ids[f.ID]; ok {
		return known, nil
	}
	c := *f
	c.Inputs = append([]Input(nil), f.Inputs...)
	for i, in := range c.Inputs {
		input := m.bundle.byID[in.ID]
		if in.Kind != id.InputFrame || input == nil {
			continue
		}
		var err error
		if c.Inputs[i].ID, err = m.frame(input); err != nil {
			return id.ID{}, err
		}
	}
	c.seal(m.tx.store.Scheme)
	err := m.add(f, &c)
	m.ids[f.ID] = c.ID
	return c.ID, err
}

// add writes a frame unless it exists, with another sample if its id is taken.
func (m *importer) add(original, f *Frame) error {
	conflict := Conflict{Frame: original.ID, Path: f.Path, Type: f.Type}
	for taken := false; ; taken = true {
		existing, err := m.tx.frames().frame(m.tx.reads(), f.ID)
		switch {
		case isNotFound(err):
			f.Seq = m.tx.seq
			m.done.Imported++
			if taken {
				conflict.Sample = f.ID
				m.done.Conflicts = append(m.done.Conflicts, conflict)
			}
			return m.tx.writeFrame(f, m.bundle.texts[original.Content])
		case err != nil:
			return err
		case existing.Content == f.Content:
			m.done.Existing++
			kept, err := m.tx.frames().hasText(m.tx.reads(), f.Content)
			if err != nil || kept {
				return err
			}
			m.done.Restored++
			return m.tx.putContent(f.Content, m.bundle.texts[original.Content])
		case m.on != Resample:
			m.done.Conflicts = append(m.done.Conflicts, conflict)
			return nil
		}
		f.Sample++
		if _, stated := f.Meta.Get(edn.K("sample")); stated {
			f.Meta = f.Meta.AssocKey("sample", edn.Int(int64(f.Sample)))
		}
		f.seal(m.tx.store.Scheme)
	}
}

// head moves a head if the store has none there, or an older one.
func (m *importer) head(h BundleHead) error {
	r, ctx := m.tx.frames(), m.tx.reads()
	frame := m.ids[h.Frame]
	if h.Node.IsZero() {
		states, err := r.lineage(ctx, h.Path)
		if err != nil {
			return err
		}
		for _, s := range states { // heads of states take precedence over it
			if found, err := r.headOf(ctx, h.Path, s.Node, h.Type); err != nil || !found.IsZero() {
				return err
			}
		}
	}
	local, err := r.headOf(ctx, h.Path, h.Node, h.Type)
	if err != nil || local == frame {
		return err
	}
	if !local.IsZero() {
		mine, err := r.frame(ctx, local)
		if err != nil {
			return err
		}
		theirs, err := r.frame(ctx, frame)
		if err != nil {
			return err
		}
		if c := compare(theirs.CreatedAt, mine.CreatedAt); c < 0 || c == 0 && theirs.ID.Compare(mine.ID) < 0 {
			return nil
		}
	}
	m.done.Heads++
	err = m.tx.addRecord(kindHead, headRecord{RawPath: blob([]byte(h.Path)), Node: h.Node, Type: h.Type, Frame: frame})
	if err != nil || !h.Marked {
		return err
	}
	return m.tx.addRecord(kindMark, markRecord{RawPath: blob([]byte(h.Path)), Node: h.Node, Type: h.Type})
}

// tombstones deletes the paths that are deleted in the export.
func (m *importer) tombstones() error {
	ctx, conn := m.tx.reads(), m.tx.store.index.conn
	imported := map[id.ID]bool{}
	for _, x := range m.ids {
		imported[x] = true
	}
	var list []string
	for _, path := range m.bundle.Deleted {
		var known bool
		err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM tombstones WHERE path = ?1)", []byte(path)).
			Scan(&known)
		if err != nil {
			return err
		}
		frames, err := m.tx.frames().ids(ctx, "SELECT id FROM frames WHERE path = ?1", []byte(path))
		if err != nil {
			return err
		}
		if known || slices.ContainsFunc(frames, func(x id.ID) bool { return !imported[x] }) {
			continue
		}
		list = append(list, path)
	}
	m.done.Deleted = len(list)
	return eachTombstones(list, true, m.tx.add)
}
