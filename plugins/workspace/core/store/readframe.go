package store

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Sizes of a page of frames or versions.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

func (v *Snapshot) frames() *frames {
	return &frames{store: v.store, q: v.tx, seq: v.seq, latest: v.latest, assumed: v.assumed, readCache: v.cache}
}

// Frame returns a frame by id, without its text. It is verified against its
// record id.
func (v *Snapshot) Frame(ctx context.Context, frame id.ID) (*Frame, error) {
	f, err := v.frames().frame(ctx, frame)
	return f, readError(err)
}

// Head returns the head of a path and a type: at the current state of the path,
// else at the latest earlier state that has one.
func (v *Snapshot) Head(ctx context.Context, path, frameType string) (*Head, error) {
	h, err := v.frames().head(ctx, path, frameType)
	return h, readError(err)
}

// HeadAt returns the head at exactly one state of a path, absent if it has none.
func (v *Snapshot) HeadAt(ctx context.Context, path string, node id.ID, frameType string) (id.ID, error) {
	h, err := v.frames().headOf(ctx, path, node, frameType)
	return h, readError(err)
}

func readError(err error) error {
	if err == nil {
		return nil
	}
	return asStoreError("read", err)
}

// Filter selects frames. Empty fields select all.
type Filter struct {
	Path   string
	Type   string
	Agent  string
	Origin Origin
	Basis  id.ID
	State  HeadState // of heads; frames that are not heads have no state
	Limit  int       // 0 means DefaultPage
	Cursor string    // of an earlier page
}

// Page is a part of a list. Cursor is empty on the last page.
type Page struct {
	Frames []*Frame
	Cursor string
}

// Frames lists the frames of a path, the newest first, also those that are not
// heads.
func (v *Snapshot) Frames(ctx context.Context, f Filter) (*Page, error) {
	from, err := v.cursor(f.Cursor)
	if err != nil {
		return nil, err
	}
	r := v.frames()
	basis := []byte(nil)
	if !f.Basis.IsZero() {
		basis = f.Basis.Sum()
	}
	found, err := r.ids(ctx, `SELECT id FROM frames WHERE path = ?1 AND seq <= ?2 AND (?3 = '' OR type = ?3) AND (?4 = '' OR agent = ?4)
		AND (?5 = '' OR origin = ?5) AND (?6 IS NULL OR basis = ?6)`, []byte(f.Path), int64(v.seq), f.Type, f.Agent, string(f.Origin), basis)
	if err != nil {
		return nil, readError(err)
	}
	var list []*Frame
	for _, x := range found {
		frame, err := r.frame(ctx, x)
		if err != nil {
			return nil, readError(err)
		}
		if f.State != "" {
			h, err := r.head(ctx, f.Path, frame.Type)
			if err != nil {
				return nil, readError(err)
			}
			if h.Frame.ID != x || h.State != f.State {
				continue
			}
		}
		list = append(list, frame)
	}
	newest(list)
	p := &Page{}
	var to int
	if to, p.Cursor, err = v.page(from, f.Limit, len(list)); err != nil {
		return nil, err
	}
	p.Frames = list[min(from, to):to]
	return p, nil
}

// State is one state of a path, with the frames that were put on it.
type State struct {
	Version
	Frames []id.ID // the newest first
}

// History lists the states of a path, the newest first, with all frames of each.
// The cursor is empty on the last page.
func (v *Snapshot) History(ctx context.Context, path string, limit int, cursor string) (list []State, next string, err error) {
	from, err := v.cursor(cursor)
	if err != nil {
		return nil, "", err
	}
	r := v.frames()
	versions, err := r.lineage(ctx, path)
	if err != nil {
		return nil, "", readError(err)
	}
	to, next, err := v.page(from, limit, len(versions))
	if err != nil {
		return nil, "", err
	}
	for _, version := range versions[min(from, to):to] {
		frames, err := r.ids(ctx, "SELECT id FROM frames WHERE path = ?1 AND node = ?2 AND seq <= ?3 ORDER BY seq DESC, id", []byte(path), version.Node.Sum(), int64(v.seq))
		if err != nil {
			return nil, "", readError(err)
		}
		list = append(list, State{Version: version, Frames: frames})
	}
	return list, next, nil
}

// page returns the end of a page that begins at from, and the cursor of the next
// one.
func (v *Snapshot) page(from, limit, count int) (to int, next string, err error) {
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 0 || limit > MaxPage {
		return 0, "", contract.Errorf("input/invalid", "a page has 1 to %d entries, not %d", MaxPage, limit)
	}
	if from >= count-limit {
		return count, "", nil
	}
	return from + limit, base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%d", v.seq, from+limit)), nil
}

// cursor returns the position of a cursor. It is tied to the state that it was
// made for: the list of another state could begin elsewhere.
func (v *Snapshot) cursor(text string) (from int, err error) {
	if text == "" {
		return 0, nil
	}
	var seq uint64
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d:%d", &seq, &from)
	}
	if err != nil || from < 0 || seq != v.seq {
		return 0, contract.Errorf("input/invalid", "the cursor is not one of the state %d", v.seq).WithOp("list frames", "")
	}
	return from, nil
}

// Uses returns the frames that were made from an input: a node, another frame,
// or any id that a basis names.
func (v *Snapshot) Uses(ctx context.Context, input id.ID) ([]id.ID, error) {
	list, err := v.frames().ids(ctx, "SELECT frame FROM inputs JOIN frames ON frames.id = inputs.frame WHERE input = ?1 AND seq <= ?2 ORDER BY frame", input.String(), int64(v.seq))
	return list, readError(err)
}
