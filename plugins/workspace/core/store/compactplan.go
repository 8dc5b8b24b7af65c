package store

import (
	"bytes"
	"context"
	"database/sql"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// purge lists the data that a compaction drops.
type purge struct {
	frames   int // that lose their text
	bytes    int64
	contents []id.ID
	// oldest is the first state that can be read afterwards, besides those that
	// have a name; 0 if nothing changes.
	oldest uint64
	named  []uint64
}

// planner decides what a compaction drops.
type planner struct {
	q      querier
	scheme id.Scheme
	seq    uint64
	named  []uint64 // states with a name, sorted
	// expired is the time before which a deletion is final.
	expired int64
	// keep is the first state that stays readable, 0 for all.
	keep uint64
}

// plan returns the purge. A frame loses its text if its path has been deleted for
// long enough, or if it is history: before keep, and from then on neither put on
// the state that its path has nor its head. A state with a name protects all
// frames that it shows.
func (p *planner) plan(ctx context.Context) (*purge, error) {
	if err := p.readNames(ctx); err != nil {
		return nil, err
	}
	if err := p.readOldest(ctx); err != nil {
		return nil, err
	}
	paths, err := p.paths(ctx)
	if err != nil {
		return nil, err
	}
	out := &purge{named: p.named}
	dropped := map[id.ID][]id.ID{} // frames by content
	for _, path := range paths {
		h, err := p.history(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, f := range h.frames {
			oldest := p.verdict(h, f)
			if oldest == 0 {
				continue
			}
			out.oldest = max(out.oldest, oldest)
			dropped[f.content] = append(dropped[f.content], f.id)
		}
	}
	if err := p.sparedContents(ctx, out, dropped); err != nil {
		return nil, err
	}
	if out.oldest = max(out.oldest, p.keep); len(out.contents) == 0 && len(out.ranges()) == 0 {
		out.oldest = 0
	}
	return out, nil
}

// readOldest sets keep to 0 if an earlier compaction has already dropped the history before it. One
// state more than Compaction.Keep is tolerated, because a compaction is a transaction itself:
// otherwise each compaction would drop one more state.
func (p *planner) readOldest(ctx context.Context) error {
	var oldest uint64
	err := p.q.QueryRowContext(ctx, "SELECT coalesce(max(until), 0) FROM dropped").Scan(&oldest)
	if oldest > 0 && p.keep <= oldest+1 {
		p.keep = 0
	}
	return err
}

func (p *planner) readNames(ctx context.Context) (err error) {
	p.named, err = collect(ctx, p.q, func(rows *sql.Rows, seq *uint64) error { return rows.Scan(seq) },
		"SELECT DISTINCT seq FROM snapshots WHERE until IS NULL ORDER BY seq")
	return err
}

// paths returns the paths that have frames with a text.
func (p *planner) paths(ctx context.Context) ([]string, error) {
	return collect(ctx, p.q, scanText[string], "SELECT DISTINCT f.path FROM frames f JOIN contents c ON c.id = f.content ORDER BY f.path")
}

// pathHistory holds the states, deletions, moves of heads and frames of a path.
type pathHistory struct {
	versions []period // states, the oldest first
	deleted  []period
	heads    []headMove
	frames   []frameRow
}

// period is a time: of a state of a path, or of its deletion. Until is 0 if it has
// not ended.
type period struct {
	since, until uint64
	node         []byte
	at           int64 // time of the deletion
}

func (s period) has(seq uint64) bool { return s.since <= seq && (s.until == 0 || s.until > seq) }

type headMove struct {
	node  []byte
	typ   string
	seq   uint64
	frame id.ID
}

type frameRow struct {
	id, content id.ID
	node        []byte
	seq         uint64
}

func (p *planner) history(ctx context.Context, path string) (h pathHistory, err error) {
	each := func(query string, scan func(*sql.Rows) error) {
		if err == nil {
			err = eachRow(ctx, p.q, scan, query, []byte(path))
		}
	}
	var row versionRow
	each("SELECT since, coalesce(until, 0), mode, size, content, renamed, NULL FROM versions WHERE path = ? ORDER BY since", func(rows *sql.Rows) error {
		if err := rows.Scan(row.fields()...); err != nil {
			return err
		}
		v, err := row.version(p.scheme, path, p.seq)
		h.versions = append(h.versions, period{since: v.Since, until: row.until.V, node: v.Node.Sum()})
		return err
	})
	each("SELECT t.since, coalesce(t.until, 0), c.time FROM tombstones t JOIN commits c ON c.seq = t.since WHERE t.path = ?", func(rows *sql.Rows) error {
		var s period
		err := rows.Scan(&s.since, &s.until, &s.at)
		h.deleted = append(h.deleted, s)
		return err
	})
	each("SELECT node, type, seq, frame FROM heads WHERE path = ? ORDER BY seq", func(rows *sql.Rows) error {
		var m headMove
		var frame []byte
		err := rows.Scan(&m.node, &m.typ, &m.seq, &frame)
		if err == nil {
			m.frame, err = id.Of(id.Frame, p.scheme.Alg(), frame)
		}
		h.heads = append(h.heads, m)
		return err
	})
	each("SELECT f.id, f.node, f.seq, f.content FROM frames f JOIN contents c ON c.id = f.content WHERE f.path = ? ORDER BY f.id", func(rows *sql.Rows) error {
		var f frameRow
		var sum, content []byte
		err := rows.Scan(&sum, &f.node, &f.seq, &content)
		if err == nil {
			f.id, err = id.Of(id.Frame, p.scheme.Alg(), sum)
		}
		if err == nil {
			f.content, err = id.Of(id.Content, p.scheme.ContentAlg(), content)
		}
		h.frames = append(h.frames, f)
		return err
	})
	return h, err
}

// verdict returns the first state that can be read without the text of a frame, 0
// if the text is kept.
func (p *planner) verdict(h pathHistory, f frameRow) uint64 {
	for _, seq := range p.named {
		if f.seq <= seq && !slices.ContainsFunc(h.deleted, func(s period) bool { return s.has(seq) }) {
			return 0
		}
	}
	for _, s := range h.deleted {
		if s.until == 0 && s.at < p.expired {
			return max(s.since, f.seq)
		}
	}
	if p.keep == 0 || f.seq >= p.keep || h.shows(f, p.keep) {
		return 0
	}
	return p.keep
}

// shows reports whether a state from the given one on shows a frame: it was put on a state that the
// path had then, or is a head by path.
func (h *pathHistory) shows(f frameRow, from uint64) bool {
	points := []uint64{from, ^uint64(0)}
	for _, s := range h.versions {
		if s.until == 0 || s.until > from {
			if bytes.Equal(s.node, f.node) {
				return true
			}
			points = append(points, s.since, s.until)
		}
	}
	for _, m := range h.heads {
		if m.frame == f.id && (m.seq >= from || slices.ContainsFunc(points, func(seq uint64) bool { return seq >= from && h.headAt(m.typ, seq) == f.id })) {
			return true
		}
	}
	return false
}

// headAt returns the head by path of a type at a state, absent if it had none.
func (h *pathHistory) headAt(typ string, seq uint64) (frame id.ID) {
	find := func(node []byte) bool {
		for _, m := range h.heads {
			if m.typ == typ && m.seq <= seq && bytes.Equal(m.node, node) {
				frame = m.frame
			}
		}
		return !frame.IsZero()
	}
	for _, s := range slices.Backward(h.versions) {
		if s.since <= seq && find(s.node) {
			return frame
		}
	}
	find(make([]byte, id.ChainSize)) // the head for states that have none
	return frame
}

// sparedContents adds the contents that no other frame uses.
func (p *planner) sparedContents(ctx context.Context, out *purge, dropped map[id.ID][]id.ID) error {
	for content, frames := range dropped {
		var users, length int
		err := p.q.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM frames WHERE content = ?1), length FROM contents WHERE id = ?1", content.Sum()).Scan(&users, &length)
		if err != nil {
			return err
		}
		if users > len(frames) {
			continue
		}
		out.frames += len(frames)
		out.bytes += int64(length)
		out.contents = append(out.contents, content)
	}
	slices.SortFunc(out.contents, id.ID.Compare)
	if len(out.contents) == 0 {
		out.oldest = 0
	}
	return nil
}

// ranges returns the states that cannot be read afterwards.
func (u *purge) ranges() (list []Range) {
	from := uint64(1)
	for _, seq := range append(slices.Clone(u.named), u.oldest) {
		if seq = min(seq, u.oldest); seq > from {
			list = append(list, Range{Since: from, Until: seq})
		}
		from = max(from, seq+1)
	}
	return list
}
