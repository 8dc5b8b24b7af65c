package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// Validate verifies an open store at its latest state, concurrently with readers
// and writers. It does not cover unused bytes of the index. Damage of the log is
// recorded as by MarkDamage.
func (s *Store) Validate(ctx context.Context, check Check) (*Report, error) {
	s.shape.Lock() // a compaction would move what is read
	defer s.shape.Unlock()
	v := &validator{dir: s.dir, check: check}
	if err := v.identify(); err != nil {
		return nil, err
	}
	if v.text == nil {
		v.who, v.scheme = s.Identity, s.Scheme // as it was when the store was opened
	}
	err := s.View(ctx, Latest, func(snapshot *Snapshot) (err error) {
		v.index = snapshot.tx
		if v.at, err = checkpoint(ctx, snapshot.tx); err != nil {
			return err
		}
		if err := v.replay(ctx, s.damage == nil); err != nil {
			return err
		}
		if err := v.rest(ctx); err != nil {
			return err
		}
		return v.rerun(ctx, snapshot)
	})
	if err != nil {
		return nil, asStoreError("validate", err)
	}
	for _, w := range s.warnings() {
		if !slices.ContainsFunc(v.report.Warnings, func(f Finding) bool { return f.Reason == w }) {
			v.warn(Finding{Code: Rebuilt, Reason: w})
		}
	}
	if !s.InPlace() {
		return nil, errReplaced(s.dir)
	}
	report := v.done()
	if !s.follows { // to a follower, a compaction can look like damage
		if err := MarkDamage(s.dir, report); err != nil {
			s.warn(err.Error())
		}
	}
	return report, nil
}

// conclude verifies the last state: its tree, roots and counts.
func (v *validator) conclude(ctx context.Context) (err error) {
	q, seq := v.index, v.at.Seq
	if v.replica != nil {
		v.replica.finish()
		q, seq = v.replica.conn, v.end.Seq
	}
	if q == nil {
		return nil
	}
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM frames").Scan(&v.report.Frames); err != nil {
		v.wrong(Finding{Code: IndexDamaged, File: indexFile, Reason: err.Error()})
		return nil
	}
	t, err := loadTree(ctx, q, v.scheme, seq)
	if err != nil {
		v.wrong(Finding{Code: NodeMismatch, Seq: seq, Reason: err.Error()})
		return nil
	}
	if t == nil {
		v.warn(Finding{Code: Unscanned, Reason: "nothing was scanned yet"})
	} else {
		v.report.Root = t.Root.ID
		v.nodes(t)
		var deleted int
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM tombstones t JOIN versions v ON v.path = t.path AND v.until IS NULL WHERE t.until IS NULL").Scan(&deleted); err != nil {
			v.wrong(Finding{Code: IndexDamaged, File: indexFile, Reason: err.Error()})
		}
		v.report.Nodes -= deleted // they are verified, and not counted elsewhere either
	}
	if err := v.dropped(ctx, q); err != nil {
		v.wrong(Finding{Code: IndexDamaged, File: indexFile, Reason: err.Error()})
		return nil
	}
	if v.replica != nil {
		if err := v.roots(ctx, q, seq); err != nil {
			return err
		}
	}
	return v.drift(ctx, t)
}

// dropped warns of the heads of paths in the tree whose text was dropped by a
// compaction.
func (v *validator) dropped(ctx context.Context, q querier) error {
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		var path, sum []byte
		var put, dropped uint64
		if err := rows.Scan(&path, &sum, &put, &dropped); err != nil {
			return err
		}
		frame, err := id.Of(id.Frame, v.scheme.Alg(), sum)
		if err != nil {
			return err
		}
		v.warn(Finding{
			Code:   TextMissing,
			Seq:    put,
			Path:   string(path),
			Frame:  frame,
			Reason: fmt.Sprintf("the compaction in transaction %d dropped the text of this head; %s", dropped, textAgain),
		})
		return nil
	}, "SELECT t.path, t.frame, f.seq, g.seq "+topsJoined+" JOIN gone g ON g.content = f.content"+
		" WHERE g.lost = 0 AND "+topIsThere+" ORDER BY t.path, t.type")
}

// nodes computes content and node ids of directories again; those of files are
// computed when a tree is loaded.
func (v *validator) nodes(t *tree.Tree) {
	t.Walk(func(path string, n *tree.Node) bool {
		v.report.Nodes++
		if n.Mode == id.Dir {
			again := &tree.Node{Mode: n.Mode, Children: n.Children}
			if t.Seal(path, again); again.Content != n.Content || again.ID != n.ID {
				v.wrong(Finding{Code: NodeMismatch, Seq: v.end.Seq, Path: path, Reason: fmt.Sprintf("the entries give %s, the directory has %s", again.Content, n.Content)})
			}
		}
		return true
	})
}

// roots computes the state root of the replica, and that of the index if it is of
// the same state.
func (v *validator) roots(ctx context.Context, q querier, seq uint64) (err error) {
	reader := func(q querier) *frames {
		return &frames{store: &Store{Scheme: v.scheme, dir: v.dir}, q: q, seq: seq}
	}
	if v.report.StateRoot, err = reader(q).stateRoot(ctx); err != nil {
		return err
	}
	if v.index == nil || v.at.Seq != seq || v.replica.same { // equal rows give an equal root
		return nil
	}
	if root, err := reader(v.index).stateRoot(ctx); err != nil || root != v.report.StateRoot {
		v.wrong(Finding{Code: RootDiffers, File: indexFile, Seq: seq, Reason: fmt.Sprintf("the log gives the state root %s, the index %s: %v", v.report.StateRoot, root, err)})
	}
	return nil
}

// differs is the reason of a finding about a file that was edited or removed.
const differs = "it differs from the tree"

// drift compares the tree with the disk.
func (v *validator) drift(ctx context.Context, t *tree.Tree) error {
	if v.check.Disk == nil || t == nil {
		return nil
	}
	disk, err := v.check.Disk(ctx)
	if err != nil {
		return err
	}
	changes := tree.Diff(t, disk)
	for _, list := range []struct {
		changes []tree.Change
		what    string
	}{{changes.Added, "it is not in the tree"}, {changes.Modified, differs}, {changes.Removed, "a scan would remove it"}} {
		for _, c := range list.changes {
			v.warn(Finding{Code: DiskDiffers, Path: c.Path, Reason: list.what})
		}
	}
	return nil
}

// rerun computes the heads again whose recipe allows it.
func (v *validator) rerun(ctx context.Context, snapshot *Snapshot) error {
	if v.check.Rerun == nil || v.check.Level != Full {
		return nil
	}
	r := snapshot.frames()
	var heads []stateHead
	err := r.eachPath(ctx, "", func(p *pathState) error {
		if p.current() != nil {
			heads = append(heads, p.resolved()...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	drifted := "" // the last path with a warning
	for _, h := range heads {
		f, err := r.frame(ctx, h.frame)
		if err != nil {
			return err
		}
		content, err := v.check.Rerun(ctx, snapshot, f)
		switch {
		case err != nil && context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrDrift):
			if v.check.Disk == nil && f.Path != drifted { // else it is reported already
				drifted = f.Path
				v.warn(Finding{Code: DiskDiffers, Path: f.Path, Reason: differs})
			}
		case err != nil:
			v.warn(Finding{Code: RerunFailed, Seq: f.Seq, Path: f.Path, Frame: f.ID, Reason: err.Error()})
		case !content.IsZero() && content != f.Content:
			v.wrong(Finding{Code: Nondeterministic, Seq: f.Seq, Path: f.Path, Frame: f.ID,
				Reason: "the recipe now gives another text"})
		}
	}
	return nil
}
