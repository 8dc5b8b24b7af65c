package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Origin states how the text of a frame was made.
type Origin string

// The origins.
const (
	Authored    Origin = "authored"
	Extracted   Origin = "extracted"
	Synthesized Origin = "synthesized"
	Generated   Origin = "generated"
)

// Frame is an immutable text about a node. The text itself is stored under the
// id Content.
type Frame struct {
	ID      id.ID   `edn:"frame/id"`
	Record  id.ID   `edn:"record/id"` // covers everything else
	Path    string  `edn:"-"`
	Node    id.ID   `edn:"node/id"` // state of the path when the frame was put
	Type    string  `edn:"frame/type"`
	Agent   string  `edn:"agent/id"`
	Origin  Origin  `edn:"origin"`
	Basis   id.ID   `edn:"basis/id"`
	Inputs  []Input `edn:"basis"`
	Content id.ID   `edn:"content/id"`
	Bytes   int     `edn:"content/bytes"`
	Sample  uint64  `edn:"sample,omitempty"`
	// Sampled means that equal inputs can give different texts, so Sample is
	// part of the id in place of Content. It is implied for generated frames.
	Sampled bool      `edn:"sampled?,omitempty"`
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
	// Checked means that the basis of the frame was equal to that of the current
	// state when it was put, so the head is known to be fresh.
	Checked bool `edn:"checked?,omitempty"`
	// current means that the state is known to be the current one, unused that no other
	// frame can be made from the frame, because it is new.
	current, unused bool
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
	f.Basis = scheme.Basis(IDInputs(f.Inputs))
	if f.Origin == Generated || f.Sampled {
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

// applyFrame adds a frame to the index. p is its place in the log.
func (x *index) applyFrame(ctx context.Context, seq uint64, f *Frame, p log.Place) error {
	x.sets.add(f)
	key := f.recipeKey()
	err := x.run(ctx, `INSERT INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, offset = excluded.offset, length = excluded.length`,
		f.ID.Sum(), int64(seq), []byte(f.Path), f.Node.Sum(), f.Type, f.Agent, string(f.Origin), f.Basis.Sum(),
		f.Content.Sum(), f.Bytes, key, f.takes(), p.Segment, p.Offset, p.Length)
	if err == nil && key != nil {
		err = x.addRecipe(ctx, key, f.ID)
	}
	if err != nil || len(f.Inputs) == 0 {
		return err
	}
	if len(f.Inputs) == 1 && !f.Inputs[0].ID.IsZero() {
		return x.run(ctx, "INSERT INTO inputs VALUES (?1, ?2) ON CONFLICT DO NOTHING", f.Inputs[0].ID.Sum(), f.ID.Sum())
	}
	inputs := make([]id.ID, len(f.Inputs))
	for i, in := range f.Inputs {
		inputs[i] = in.ID
	}
	return x.run(ctx, "INSERT INTO inputs SELECT unhex(value), ?2 FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING", sums(inputs), f.ID.Sum())
}

// addRecipe keeps the first frame with a recipe as its example.
func (x *index) addRecipe(ctx context.Context, key []byte, frame id.ID) error {
	if x.batch.recipes[string(key)] {
		return nil
	}
	if x.batch.recipes == nil {
		x.batch.recipes = map[string]bool{}
	}
	x.batch.recipes[string(key)] = true
	return x.run(ctx, "INSERT INTO recipes VALUES (?, ?) ON CONFLICT DO NOTHING", key, frame.Sum())
}

// sums returns ids as a parameter for json_each, whose values are the hashes in
// hexadecimal form. Absent ids are left out.
func sums(ids []id.ID) string {
	text := []byte{'['}
	for _, x := range ids {
		if x.IsZero() {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = hex.AppendEncode(text, x.Sum())
		text = append(text, '"')
	}
	return string(append(text, ']'))
}

// takes returns the type of the frames that a frame of a directory is made from,
// nil if it is not made from those of its entries.
func (f *Frame) takes() any {
	sel, ofDir, err := f.SelectionOf()
	switch {
	case err != nil:
		return EveryType // nothing is known of it
	case ofDir:
		return sel.Type
	}
	return nil
}

func (x *index) applyHead(ctx context.Context, seq uint64, r headRecord) error {
	err := x.run(ctx, `INSERT INTO heads VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (path, node, type, seq) DO UPDATE SET frame = excluded.frame`,
		r.RawPath, r.Node.Sum(), r.Type, int64(seq), r.Frame.Sum())
	if err != nil {
		return err
	}
	return x.topMoved(ctx, seq, r)
}

// hasInput reports whether the basis has an entry of the kind.
func (f *Frame) hasInput(kind string) bool {
	return slices.ContainsFunc(f.Inputs, func(in Input) bool { return in.Kind == kind })
}

// frames reads frames from one connection: that of the writer or of a snapshot.
type frames struct {
	store *Store
	q     querier
	seq   uint64
	// latest means that nothing later than seq is in what is read.
	latest bool
	// drafts are the records of frames that are not in the log yet.
	drafts  map[id.ID][]byte
	assumed *assumption
	*readCache
}

// readCache holds results that were computed from one state.
type readCache struct {
	changed map[string]bool // see changedRecipes
	// memo has the states of heads; nil while the state can change.
	memo map[topKey]stateMemo
	// entriesOf has the stored heads of the entries of directories; nil while they
	// can change.
	entriesOf  map[topKey][]*top
	cachedTops int
	// Whether the tables have rows.
	anyMarks, anyGone *presence
}

func newReadCache() *readCache {
	return &readCache{
		memo:      map[topKey]stateMemo{},
		entriesOf: map[topKey][]*top{},
		anyMarks:  new(presence),
		anyGone:   new(presence),
	}
}

// frame returns a frame by id, verified against its record id.
func (r *frames) frame(ctx context.Context, frame id.ID) (*Frame, error) {
	if r.assumed != nil && r.assumed.byID[frame] != nil {
		return r.assumed.byID[frame], nil
	}
	var seq uint64
	var p log.Place
	err := r.row(ctx, []any{&seq, &p.Segment, &p.Offset, &p.Length},
		"SELECT seq, segment, offset, length FROM frames WHERE id = ?1 AND seq <= ?2", frame.Sum(), int64(r.seq))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, contract.Errorf("frame/not-found", "the store has no frame %s", frame).WithOp("store", r.store.dir)
	}
	if err != nil {
		return nil, err
	}
	return r.frameAt(frame, seq, p)
}

// frameAt returns a frame whose place in the log is known.
func (r *frames) frameAt(frame id.ID, seq uint64, p log.Place) (_ *Frame, err error) {
	payload := r.drafts[frame]
	if payload == nil {
		if p.Length < 0 || p.Length > log.MaxPayload {
			return nil, corrupt(indexFile, "the index has the length %[2]d for the frame %[1]s", frame, p.Length)
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
		return nil, corrupt(log.SegmentName(p.Segment), "the record at byte %d does not match the frame %s: %w",
			p.Offset, frame, err)
	}
	f.Seq = seq
	return f, nil
}

var errFrame = errors.New("the basis, frame or record id does not match the content of the record")

// openFrame reads the record of a frame and computes its ids again.
func openFrame(scheme id.Scheme, payload []byte) (*Frame, error) {
	f, err := decodeFrame(payload)
	if err != nil {
		return nil, err
	}
	check := *f
	check.seal(scheme)
	if check.ID != f.ID || check.Record != f.Record || check.Basis != f.Basis {
		return nil, errFrame
	}
	return f, nil
}

// headOf returns the head of a path in one state, absent if there is none.
func (r *frames) headOf(ctx context.Context, path string, node id.ID, frameType string) (id.ID, error) {
	var sum []byte
	err := r.row(ctx, []any{&sum}, "SELECT frame FROM heads WHERE path = ?1 AND node = ?2 AND type = ?3 AND seq <= ?4 ORDER BY seq DESC LIMIT 1",
		[]byte(path), node.Sum(), frameType, int64(r.seq))
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
	return r.versions(ctx, path, -1)
}

// current returns the state of a path, nil if it is gone or never was.
func (r *frames) current(ctx context.Context, path string) (*Version, error) {
	list, err := r.versions(ctx, path, 1)
	if err != nil || len(list) == 0 || list[0].Until != 0 {
		return nil, err
	}
	return &list[0], nil
}

// versions returns the newest states of a path, all of them if limit is negative.
// The sum in the limit keeps SQLite from compiling the query again for each value.
func (r *frames) versions(ctx context.Context, path string, limit int) (list []Version, err error) {
	var row versionRow
	err = r.each(ctx, func(rows *sql.Rows) error {
		if err := rows.Scan(row.fields()...); err != nil {
			return err
		}
		v, err := row.version(r.store.Scheme, path, r.seq)
		list = append(list, v)
		return err
	}, "SELECT "+versionColumns+" FROM versions WHERE path = ?1 AND since <= ?3 ORDER BY since DESC LIMIT ?2 + 0", []byte(path), limit, int64(r.seq))
	return list, err
}

// ids returns the frames that a query finds.
func (r *frames) ids(ctx context.Context, query string, args ...any) ([]id.ID, error) {
	list, err := frameIDs(ctx, r.q, r.store.Scheme, query, args...)
	r.store.rows.Add(int64(len(list)))
	return list, err
}

// frameIDs returns the frame ids in the only column of a query.
func frameIDs(ctx context.Context, q querier, scheme id.Scheme, query string, args ...any) ([]id.ID, error) {
	return collect(ctx, q, func(rows *sql.Rows, x *id.ID) (err error) {
		var sum []byte
		if err := rows.Scan(&sum); err != nil {
			return err
		}
		if *x, err = id.Of(id.Frame, scheme.Alg(), sum); err != nil {
			return corrupt(indexFile, "%w", err)
		}
		return nil
	}, query, args...)
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
