package main

import (
	"context"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

// meter counts what the process did. The figures are part of the plugin's
// health, from which the host takes them (WS-201).
type meter struct {
	requests, failed, bytesHashed, appended, reused, callbacks, modelCalls, rebuilds, overflows, stale atomic.Int64
}

// begin counts a request; the result must be called at its end.
func (m *meter) begin(name string) func(context.Context, error) {
	m.requests.Add(1)
	return func(ctx context.Context, err error) {
		if err != nil {
			m.failed.Add(1)
			sdk.Logger(ctx).Debug("request failed", "intent", name, "error", err)
		}
	}
}

func (m *meter) scanned(s *core.Scanned) { m.bytesHashed.Add(s.Result.BytesHashed) }

func (m *meter) put(p *store.Put) {
	if p.Existing {
		m.reused.Add(1)
	} else {
		m.appended.Add(1)
	}
}

func (m *meter) made(appended, reused int) {
	m.appended.Add(int64(appended))
	m.reused.Add(int64(reused))
}

func (m *meter) watched(e *watch.Event) {
	if e.Kind == watch.Overflow {
		m.overflows.Add(1)
	}
}

// value returns the figures.
func (m *meter) value() edn.Value {
	var b edn.MapBuilder
	for _, f := range []struct {
		name string
		n    *atomic.Int64
	}{
		{"requests", &m.requests}, {"failed", &m.failed}, {"bytes-hashed", &m.bytesHashed}, {"frames-appended", &m.appended},
		{"frames-reused", &m.reused}, {"callbacks", &m.callbacks}, {"model-calls", &m.modelCalls}, {"rebuilds", &m.rebuilds}, {"watch-overflows", &m.overflows},
		{"stale-heads", &m.stale},
	} {
		b.Key("workspace/"+f.name, edn.Int(f.n.Load()))
	}
	return b.Map()
}
