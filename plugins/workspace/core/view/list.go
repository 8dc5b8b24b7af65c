package view

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ListRequest is the request to list frames.
type ListRequest struct {
	Node   store.Ref
	Filter store.Filter // without its path
}

// ListFrom returns the request in the input of list-frames. Its :agent selects
// frames by their agent; it is not the requesting agent.
func ListFrom(input edn.Value) (r ListRequest, err error) {
	if r.Node, err = store.RefFrom(input); err != nil {
		return r, err
	}
	for key, text := range map[string]*string{"frame/type": &r.Filter.Type, "agent": &r.Filter.Agent, "cursor": &r.Filter.Cursor} {
		if err := optional(input, key, text); err != nil {
			return r, err
		}
	}
	at := func(key string) []edn.Value { return []edn.Value{edn.K(key)} }
	if v := input.Key("origin"); !v.IsNil() {
		if r.Filter.Origin, err = oneOf(at("origin"), "an origin", v, store.Authored, store.Extracted, store.Generated, store.Synthesized); err != nil {
			return r, err
		}
	}
	if v := input.Key("state"); !v.IsNil() {
		if r.Filter.State, err = oneOf(at("state"), "a state", v, store.Fresh, store.Stale, store.Deleted, store.Invalid); err != nil {
			return r, err
		}
	}
	if v := input.Key("basis/id"); !v.IsNil() {
		text, _ := v.AsString()
		if r.Filter.Basis, err = id.Parse(id.Basis, text); err != nil {
			return r, invalid(at("basis/id"), "%.80s is not the id of a basis: %s", v, contract.AsError(err).Message)
		}
	}
	r.Filter.Limit, err = pageLimit(input)
	return r, err
}

// optional sets a string that the input may have.
func optional(input edn.Value, key string, to *string) error {
	v := input.Key(key)
	if v.IsNil() {
		return nil
	}
	text, ok := v.AsString()
	if !ok {
		return invalid([]edn.Value{edn.K(key)}, "%.80s is not a string", v)
	}
	*to = text
	return nil
}

// pageLimit returns :limit, 0 if it is not given.
func pageLimit(input edn.Value) (int, error) {
	v := input.Key("limit")
	if v.IsNil() {
		return 0, nil
	}
	n, err := number([]edn.Value{edn.K("limit")}, v, store.MaxPage)
	if err == nil && n == 0 {
		err = invalid([]edn.Value{edn.K("limit")}, "a page has at least one entry, found 0")
	}
	return n, err
}

// List is the result of list-frames. The cursor is nil on the last page.
type List struct {
	Frames []Frame `edn:"frames"`
	Cursor *string `edn:"cursor"`
}

// Frames lists the frames of a node without their texts, the newest first. Heads
// have a state.
func Frames(ctx context.Context, s *store.Snapshot, r ListRequest) (*List, error) {
	found, err := s.Resolve(ctx, r.Node, true)
	if err != nil {
		return nil, err
	}
	page, err := s.FramesOf(ctx, found, r.Filter)
	if err != nil {
		return nil, err
	}
	l := &List{Frames: make([]Frame, len(page.Frames)), Cursor: cursor(page.Cursor)}
	for i, f := range page.Frames {
		l.Frames[i] = frameOf(&store.Head{Frame: f, State: page.States[i]})
	}
	return l, nil
}

func cursor(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// HeadResult is the result of get-head.
type HeadResult struct {
	Frame
	// Reasons say why the head is not fresh.
	Reasons []Keyword `edn:"reasons,omitempty"`
}

// Head returns the head of a node and a type, without its text.
func Head(ctx context.Context, s *store.Snapshot, ref store.Ref, frameType string) (*HeadResult, error) {
	if err := store.CheckFrameType(frameType); err != nil {
		return nil, err
	}
	h, err := s.HeadOf(ctx, ref, frameType)
	if err != nil {
		return nil, err
	}
	r := &HeadResult{Frame: frameOf(h)}
	for _, reason := range h.Reasons {
		r.Reasons = append(r.Reasons, Keyword(reason))
	}
	return r, nil
}

// HistoryResult is the result of history.
type HistoryResult struct {
	Versions []Past  `edn:"versions"`
	Cursor   *string `edn:"cursor"`
}

// Past is one state of a path with the frames that were put on it.
type Past struct {
	Node        id.ID     `edn:"node/id"`
	Kind        Keyword   `edn:"kind"`
	Mode        string    `edn:"mode"`
	Content     id.ID     `edn:"content/id"`
	Since       uint64    `edn:"since"`
	Until       uint64    `edn:"until,omitempty"`
	RenamedFrom edn.Value `edn:"renamed-from,omitempty"`
	Frames      []id.ID   `edn:"frames"`
}

// HistoryOf pages through the states of a path, the newest first, with all frames or
// those of one type.
func HistoryOf(ctx context.Context, s *store.Snapshot, ref store.Ref, typ string, limit int, from string) (*HistoryResult, error) {
	found, err := s.Resolve(ctx, ref, true)
	if err != nil {
		return nil, err
	}
	states, next, err := s.History(ctx, found.Path, typ, limit, from)
	if err != nil {
		return nil, err
	}
	r := &HistoryResult{Versions: make([]Past, len(states)), Cursor: cursor(next)}
	for i, x := range states {
		r.Versions[i] = Past{
			Node: x.Node, Kind: Keyword(x.Mode.Kind()), Mode: x.Mode.String(), Content: x.Content, Since: x.Since, Until: x.Until, Frames: x.Frames,
		}
		if x.RenamedFrom != "" {
			r.Versions[i].RenamedFrom = store.ShownPath(x.RenamedFrom).Value()
		}
		if x.Frames == nil {
			r.Versions[i].Frames = []id.ID{}
		}
	}
	return r, nil
}
