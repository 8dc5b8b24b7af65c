package main

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
	"github.com/fermenthq/ferment/sdk/edn"
)

// readingIntents read frames and never write.
func readingIntents() []intent {
	return []intent{
		{
			name: "context/get-node", says: "Reads a node with the frames that a view selects.",
			needs: agent.ReadContext, effects: read, run: getNode,
		},
		{
			name: "context/list-frames", says: "Lists the frames of a node, also those that are not heads, without their texts.",
			needs: agent.ReadContext, effects: read, run: listFrames,
		},
		{
			name: "context/get-head", says: "Returns the current frame of a node and a type, and whether it is fresh.",
			needs: agent.ReadContext, effects: read, run: getHead,
		},
		{
			name: "context/history", says: "Lists the states that a path has had, with the frames of each.",
			needs: agent.ReadContext, effects: read, run: history,
		},
		{
			name: "context/compose", says: "Collects frames of several nodes in one order and within one limit.",
			needs: agent.ReadContext, effects: read, run: compose,
		},
	}
}

// getNode reads a node with its frames (WS-081).
func getNode(ctx context.Context, r *request) (edn.Value, error) {
	ref, err := store.RefFrom(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	chosen, err := view.Parse(r.in.Key("view"), view.Options{Named: r.views, At: []edn.Value{edn.K("view")}})
	if err != nil {
		return edn.Nil(), err
	}
	if err := r.onlyType(&chosen.Filters); err != nil {
		return edn.Nil(), err
	}
	return r.read(ctx, func(v *store.Snapshot) (any, error) { return view.Node(ctx, v, ref, chosen) })
}

// onlyType adds the filter for the type of the input, if it has one.
func (r *request) onlyType(filters *[]view.Filter) error {
	frameType := r.text("frame/type")
	if frameType == "" {
		return nil
	}
	// The filters can be those of a view of the configuration.
	*filters = append(slices.Clip(*filters), view.Filter{Kind: "type", Any: []string{frameType}})
	return store.CheckFrameType(frameType)
}

// listFrames lists frames, also those that are not heads (WS-074).
func listFrames(ctx context.Context, r *request) (edn.Value, error) {
	list, err := view.ListFrom(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	return r.read(ctx, func(v *store.Snapshot) (any, error) { return view.Frames(ctx, v, list) })
}

// getHead returns the head of a node and a type (WS-071).
func getHead(ctx context.Context, r *request) (edn.Value, error) {
	ref, err := store.RefFrom(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	return r.read(ctx, func(v *store.Snapshot) (any, error) { return view.Head(ctx, v, ref, r.text("frame/type")) })
}

// history lists the states of a path, the newest first (WS-074).
func history(ctx context.Context, r *request) (edn.Value, error) {
	ref, err := store.RefFrom(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	limit, err := r.limit()
	if err != nil {
		return edn.Nil(), err
	}
	frameType := r.text("frame/type")
	if frameType != "" {
		if err := store.CheckFrameType(frameType); err != nil {
			return edn.Nil(), err
		}
	}
	return r.read(ctx, func(v *store.Snapshot) (any, error) {
		return view.HistoryOf(ctx, v, ref, frameType, limit, r.text("cursor"))
	})
}

// compose collects frames of several nodes (WS-130).
func compose(ctx context.Context, r *request) (edn.Value, error) {
	asked, err := view.RequestFrom(r.in, view.Options{Named: r.views})
	if err != nil {
		return edn.Nil(), err
	}
	if err := r.onlyType(&asked.Filters); err != nil {
		return edn.Nil(), err
	}
	found, err := view.Compose(ctx, r.ws.Store, r.asOf(), asked, r.rank)
	if err != nil {
		return edn.Nil(), err
	}
	return r.stampedValue(ctx, found.Seq, found)
}
