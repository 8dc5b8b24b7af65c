package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Origin says how the text of a frame came to be.
type Origin string

// The origins.
const (
	Authored    Origin = "authored"
	Extracted   Origin = "extracted"
	Synthesized Origin = "synthesized"
	Generated   Origin = "generated"
)

// Frame is an immutable text about a node, without the text itself: that is the
// content with the id Content.
type Frame struct {
	ID      id.ID     `edn:"frame/id"`
	Record  id.ID     `edn:"record/id"` // covers everything else
	Path    string    `edn:"-"`
	Node    id.ID     `edn:"node/id"` // state of the path when the frame was put
	Type    string    `edn:"frame/type"`
	Agent   string    `edn:"agent/id"`
	Origin  Origin    `edn:"origin"`
	Basis   id.ID     `edn:"basis/id"`
	Inputs  []Input   `edn:"basis"`
	Content id.ID     `edn:"content/id"`
	Bytes   int       `edn:"content/bytes"`
	Sample  uint64    `edn:"sample,omitempty"`
	Recipe  edn.Value `edn:"recipe"`
	Meta    edn.Value `edn:"meta"`
	// CreatedAt is in nanoseconds since 1970.
	CreatedAt int64 `edn:"created-at"`
	// Seq is the transaction that put the frame.
	Seq uint64 `edn:"-"`
}

// Input is an entry of a basis: see id.Input.
type Input struct {
	Kind string `edn:"kind"`
	ID   id.ID  `edn:"id"`
	Text []byte `edn:"text,omitempty"`
}

// frameRecord is the form of a frame in the log. The path is not always text.
type frameRecord struct {
	Frame
	RawPath []byte `edn:"path"`
}

// headRecord moves the head of a path, in one of its states, and a type.
type headRecord struct {
	RawPath []byte `edn:"path"`
	Node    id.ID  `edn:"node/id"`
	Type    string `edn:"frame/type"`
	Frame   id.ID  `edn:"frame/id"`
}

func encodeRecord(kind byte, x any) (log.Record, error) {
	v, err := edn.Encode(x)
	if err != nil {
		return log.Record{}, err
	}
	return log.Record{Kind: kind, Payload: v.Canonical()}, nil
}

func decodeRecord(payload []byte, x any) error {
	v, err := edn.Read(payload)
	if err == nil {
		err = edn.Decode(v, x)
	}
	return err
}

// seal computes basis, frame and record id.
func (f *Frame) seal(scheme id.Scheme) {
	inputs := make([]id.Input, len(f.Inputs))
	for i, in := range f.Inputs {
		inputs[i] = id.Input{Kind: in.Kind, ID: in.ID, Text: string(in.Text)}
	}
	f.Basis = scheme.Basis(inputs)
	if f.Origin == Generated {
		f.ID = scheme.Generated(f.Path, f.Basis, f.Agent, f.Type, f.Sample)
	} else {
		f.ID = scheme.Frame(f.Path, f.Basis, f.Agent, f.Type, f.Content)
	}
	f.Record = scheme.Record(id.Stored{
		Frame:     f.ID,
		Content:   f.Content,
		Origin:    string(f.Origin),
		Recipe:    string(f.Recipe.Canonical()),
		Metadata:  string(f.Meta.Canonical()),
		CreatedAt: f.CreatedAt,
	})
}

// applyFrame adds a frame to the index.
func (x *index) applyFrame(ctx context.Context, seq uint64, payload []byte, place log.Place) error {
	var r frameRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	_, err := x.conn.ExecContext(ctx, `INSERT INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, offset = excluded.offset, length = excluded.length`,
		r.ID.Sum(), int64(seq), r.RawPath, r.Node.Sum(), r.Type, r.Agent, string(r.Origin), r.Basis.Sum(), place.Segment, place.Offset, place.Length)
	if place.Segment > 0 {
		f := r.Frame
		f.Path = string(r.RawPath)
		x.sets.add(&f)
	}
	for _, in := range r.Inputs {
		if err == nil && !in.ID.IsZero() {
			_, err = x.conn.ExecContext(ctx, "INSERT INTO inputs VALUES (?, ?) ON CONFLICT DO NOTHING", in.ID.String(), r.ID.Sum())
		}
	}
	return err
}

func (x *index) applyHead(ctx context.Context, seq uint64, payload []byte) error {
	var r headRecord
	if err := decodeRecord(payload, &r); err != nil {
		return err
	}
	_, err := x.conn.ExecContext(ctx, `INSERT INTO heads VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (path, node, type, seq) DO UPDATE SET frame = excluded.frame`,
		r.RawPath, r.Node.Sum(), r.Type, int64(seq), r.Frame.Sum())
	return err
}

// frames reads frames from one connection: that of the writer or of a snapshot.
type frames struct {
	store *Store
	q     querier
	seq   uint64
	// drafts are the records of frames that are not in the log yet.
	drafts map[id.ID][]byte
}

// frame returns a frame by id, verified against its record id.
func (r *frames) frame(ctx context.Context, frame id.ID) (*Frame, error) {
	var seq uint64
	var p log.Place
	err := r.q.QueryRowContext(ctx, "SELECT seq, segment, offset, length FROM frames WHERE id = ?1 AND seq <= ?2", frame.Sum(), int64(r.seq)).
		Scan(&seq, &p.Segment, &p.Offset, &p.Length)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, contract.Errorf("frame/not-found", "there is no frame %s", frame).WithOp("store", r.store.dir)
	}
	if err != nil {
		return nil, err
	}
	payload := r.drafts[frame]
	if payload == nil {
		if p.Length < 0 || p.Length > log.MaxPayload {
			return nil, corrupt(indexFile, "the frame %s has the length %d", frame, p.Length)
		}
		if payload, err = r.store.log.Read(p); err != nil {
			return nil, err
		}
	}
	f, err := openFrame(r.store.Scheme, payload)
	if err == nil && f.ID != frame {
		err = errFrame
	}
	if err != nil {
		return nil, corrupt(log.SegmentName(p.Segment), "the record at byte %d is not that of frame %s: %w", p.Offset, frame, err)
	}
	f.Seq = seq
	return f, nil
}

var errFrame = errors.New("basis, frame or record id is not what the record gives")

// openFrame reads the record of a frame and computes its ids again.
func openFrame(scheme id.Scheme, payload []byte) (*Frame, error) {
	var rec frameRecord
	if err := decodeRecord(payload, &rec); err != nil {
		return nil, err
	}
	f := rec.Frame
	f.Path = string(rec.RawPath)
	check := f
	check.seal(scheme)
	if check.ID != f.ID || check.Record != f.Record || check.Basis != f.Basis {
		return nil, errFrame
	}
	return &f, nil
}

// headOf returns the head of a path in one state, absent if there is none.
func (r *frames) headOf(ctx context.Context, path string, node id.ID, frameType string) (id.ID, error) {
	var sum []byte
	err := r.q.QueryRowContext(ctx, "SELECT frame FROM heads WHERE path = ?1 AND node = ?2 AND type = ?3 AND seq <= ?4 ORDER BY seq DESC LIMIT 1",
		[]byte(path), node.Sum(), frameType, int64(r.seq)).Scan(&sum)
	if errors.Is(err, sql.ErrNoRows) {
		return id.ID{}, nil
	}
	if err != nil {
		return id.ID{}, err
	}
	return id.Of(id.Frame, r.store.Scheme.Alg(), sum)
}

// lineage returns the states that a path has had, the newest first.
func (r *frames) lineage(ctx context.Context, path string) ([]Version, error) {
	rows, err := r.q.QueryContext(ctx, "SELECT "+versionColumns+" FROM versions WHERE path = ?1 AND since <= ?3 ORDER BY since DESC", []byte(path), nil, int64(r.seq))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []Version
	var row versionRow
	for rows.Next() {
		if err := rows.Scan(row.fields()...); err != nil {
			return nil, err
		}
		v, err := row.version(r.store.Scheme, path, r.seq)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// current returns the state of a path, nil if it is gone or never was.
func (r *frames) current(ctx context.Context, path string) (*Version, error) {
	list, err := r.lineage(ctx, path)
	if err != nil || len(list) == 0 || list[0].Until != 0 {
		return nil, err
	}
	return &list[0], nil
}

// HeadState is what a head is in relation to the current tree.
type HeadState string

// The states. Invalid is set by marks, which come with invalidation.
const (
	Fresh   HeadState = "fresh"   // its basis would be the same now
	Stale   HeadState = "stale"   // it would not
	Deleted HeadState = "deleted" // the path is gone
)

// Head is the current frame of a path and a type.
type Head struct {
	Frame *Frame
	State HeadState
}

// head returns the head by path: at the current state of the path, else at the
// latest earlier state that has one.
func (r *frames) head(ctx context.Context, path, frameType string) (*Head, error) {
	states, err := r.lineage(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return nil, notInTree("head", path)
	}
	for _, s := range append(states, Version{}) { // at last that of states without one
		frame, err := r.headOf(ctx, path, s.Node, frameType)
		if err != nil {
			return nil, err
		}
		if frame.IsZero() {
			continue
		}
		f, err := r.frame(ctx, frame)
		if err != nil {
			return nil, err
		}
		state, err := r.state(ctx, f, states[0])
		return &Head{Frame: f, State: state}, err
	}
	return nil, contract.Errorf("frame/no-head", "it has no frame of type %q", frameType).WithOp("head", Shown(path))
}

// state compares the basis of a frame with what it would be now.
func (r *frames) state(ctx context.Context, f *Frame, now Version) (HeadState, error) {
	if now.Until != 0 {
		return Deleted, nil
	}
	for _, in := range f.Inputs {
		switch in.Kind {
		case id.InputNode:
			if in.ID != now.Node {
				return Stale, nil
			}
		case id.InputFrame:
			used, err := r.frame(ctx, in.ID)
			if err != nil {
				return "", err
			}
			states, err := r.lineage(ctx, used.Path)
			if err != nil {
				return "", err
			}
			if len(states) == 0 || states[0].Until != 0 {
				return Stale, nil
			}
			head, err := r.headOf(ctx, used.Path, states[0].Node, used.Type)
			if err != nil || head != in.ID {
				return Stale, err
			}
		}
	}
	return Fresh, nil
}

// ids returns the frames that a query finds.
func (r *frames) ids(ctx context.Context, query string, args ...any) ([]id.ID, error) {
	rows, err := r.q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return scanIDs(rows, r.store.Scheme)
}

// scanIDs returns the frame ids of rows with one column, and closes them.
func scanIDs(rows *sql.Rows, scheme id.Scheme) ([]id.ID, error) {
	defer func() { _ = rows.Close() }()
	var list []id.ID
	for rows.Next() {
		var sum []byte
		if err := rows.Scan(&sum); err != nil {
			return nil, err
		}
		x, err := id.Of(id.Frame, scheme.Alg(), sum)
		if err != nil {
			return nil, corrupt(indexFile, "%w", err)
		}
		list = append(list, x)
	}
	return list, rows.Err()
}

// newest orders frames: the newer transaction first, then by id.
func newest(list []*Frame) {
	slices.SortFunc(list, func(a, b *Frame) int {
		switch {
		case a.CreatedAt != b.CreatedAt:
			return compare(b.CreatedAt, a.CreatedAt)
		case a.Seq != b.Seq:
			return compare(b.Seq, a.Seq)
		}
		return a.ID.Compare(b.ID)
	})
}
