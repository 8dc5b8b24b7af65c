package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// meter counts what the process did. The figures are part of the plugin's
// health, from which the host takes them (WS-201).
type meter struct {
	requests, failed, nodes, bytesHashed, appended, reused, callbacks, modelCalls, rebuilds, overflows, stale atomic.Int64

	now func() time.Time
}

// begin counts a request; the result must be called at its end.
func (m *meter) begin(ctx context.Context, intent string) func(error) {
	m.requests.Add(1)
	end := m.span(ctx, "intent", intent)
	return func(err error) {
		if err != nil {
			m.failed.Add(1)
		}
		end(err)
	}
}

// span begins a span: the time of an intent, or of a call of another one. At its end it is logged
// with its run and node, at level debug.
func (m *meter) span(ctx context.Context, kind, name string) (end func(error)) {
	log := sdk.Logger(ctx)
	if !log.Enabled(ctx, slog.LevelDebug) {
		return func(error) {}
	}
	began := m.now()
	return func(err error) {
		attributes := []any{"kind", kind, "name", name, "trace", sdk.CallFrom(ctx).TraceParent, "ms", float64(m.now().Sub(began).Microseconds()) / 1000}
		if err != nil {
			attributes = append(attributes, "error", contract.AsError(err).Type)
		}
		log.Debug("span", attributes...)
	}
}

func (m *meter) scanned(s *core.Scanned) {
	m.bytesHashed.Add(s.Result.BytesHashed)
	m.nodes.Add(int64(s.Result.Tree.Root.Count()))
}

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
		{"requests", &m.requests}, {"failed", &m.failed}, {"nodes", &m.nodes}, {"bytes-hashed", &m.bytesHashed}, {"frames-appended", &m.appended},
		{"frames-reused", &m.reused}, {"callbacks", &m.callbacks}, {"model-calls", &m.modelCalls}, {"rebuilds", &m.rebuilds}, {"watch-overflows", &m.overflows},
		{"stale-heads", &m.stale},
	} {
		b.Key("workspace/"+f.name, edn.Int(f.n.Load()))
	}
	return b.Map()
}
