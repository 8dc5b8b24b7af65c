package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/edn"
)

// modelRun is the plugin llm with a model server behind it.
type modelRun struct {
	*alone
	server *modelServer
}

// The names of the models, which give the number of chunks and their interval: one chunk, many at a
// fixed pace, many without pause, and a stream that does not end during the benchmark.
const (
	modelFirst = "1x0ms"
	modelPaced = "2000x1ms"
	modelFlat  = "20000x0ms"
	modelLong  = "100000x50ms"
)

func startModels() (*modelRun, error) {
	server, err := startModelServer()
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(programs + "/plugins/llm")
	if err != nil {
		return nil, err
	}
	settings := plugin.DefaultSettings("llm", program)
	var blocks []string
	var ids []string
	for label, name := range map[string]string{"first": modelFirst, "paced": modelPaced, "flat": modelFlat, "long": modelLong} {
		blocks = append(blocks, fmt.Sprintf(`%q {:name %q :price {:free true}}`, label, name))
		ids = append(ids, "compatible/"+label)
	}
	settings.Config = edn.MustRead(fmt.Sprintf(`{:provider "compatible" :base-url "%s/v1" :max-in-flight 256 :queue 32 :model {%s}
	  :timeouts {:connect 5000 :first-token 120000 :silence 30000 :stall 30000 :total 300000}}`, server.base, strings.Join(blocks, " ")))
	settings.Isolation.Network, settings.Isolation.Ports = confine.Loopback, []uint16{server.port}
	settings.MaxInFlight = streamsAtOnce + 10
	a, err := startPlugin(settings, ids...)
	if err != nil {
		server.close()
		return nil, err
	}
	return &modelRun{a, server}, nil
}

func (m *modelRun) close() {
	m.alone.close()
	m.server.close()
}

var modelRequest = edn.MustRead(`{:proto 1 :trace {:id "bench"} :task {:intent :model/chat} :input {:messages [{:role :user :content "Go."}]}}`)

// through reads a stream through the plugin. It returns the time of the first text and the size of
// the text in bytes.
func (m *modelRun) through(ctx context.Context, label string) (first time.Duration, bytes int, err error) {
	began := time.Now()
	_, err = m.ask(ctx, "compatible/"+label, modelRequest, func(d edn.Value) {
		if first == 0 {
			first = time.Since(began)
		}
		text, _ := d.Key("text").AsString()
		bytes += len(text)
	})
	return first, bytes, err
}

const streamsAtOnce = 200

// models compares streams through the plugin with streams that are read directly (LLM-052).
func models(p pace) ([]row, error) {
	m, err := startModels()
	if err != nil {
		return nil, err
	}
	defer m.close()
	memory, err := m.memory() // measured first, before the heap has grown
	if err != nil {
		return nil, err
	}
	first, err := m.firstTokens(p)
	if err != nil {
		return nil, err
	}
	paced, err := m.streams(min(p.rounds, 3), "2,000 chunks 1 ms apart", "paced", modelPaced, 1.05)
	if err != nil {
		return nil, err
	}
	flat, err := m.streams(p.rounds, "20,000 chunks flat out", "flat", modelFlat, 2)
	if err != nil {
		return nil, err
	}
	return append(first, paced, flat, memory), nil
}

// firstTokens measures the time that the plugin adds to the first token, relative to one hop to a
// bare plugin.
func (m *modelRun) firstTokens(p pace) ([]row, error) {
	ctx, text := context.Background(), envelope(1<<10)
	b, err := startBare()
	if err != nil {
		return nil, err
	}
	defer b.close()
	var ours, theirs, hops []time.Duration
	for round := range p.rounds + 1 {
		if round == 1 { // the first round warms up
			ours, theirs, hops = nil, nil, nil
		}
		for range max(20, p.calls/10) {
			t, _, err := m.server.direct(ctx, modelFirst)
			if err != nil {
				return nil, err
			}
			theirs = append(theirs, t)
			if t, _, err = m.through(ctx, "first"); err != nil {
				return nil, err
			}
			ours = append(ours, t)
			began := time.Now()
			if err := b.echo(ctx, text); err != nil {
				return nil, err
			}
			hops = append(hops, time.Since(began))
		}
	}
	hop := median(hops)
	var rows []row
	for _, part := range []struct {
		name string
		q    float64
		goal float64
	}{{"p50", 0.5, 1.3}, {"p99", 0.99, 10}} {
		added := max(0, quantile(ours, part.q)-quantile(theirs, part.q))
		rows = append(rows, against("first token of a model, added, "+part.name, added, "bare go-plugin", hop, part.goal))
	}
	return rows, nil
}

func (m *modelRun) streams(rounds int, work, label, model string, goal float64) (row, error) {
	ctx := context.Background()
	var ours, theirs []time.Duration
	for range rounds {
		began := time.Now()
		_, chunks, err := m.server.direct(ctx, model)
		if err != nil {
			return row{}, err
		}
		theirs = append(theirs, time.Since(began))
		began = time.Now()
		_, bytes, err := m.through(ctx, label)
		if err != nil {
			return row{}, err
		}
		ours = append(ours, time.Since(began))
		if bytes != chunks*len(" word") {
			return row{}, fmt.Errorf("%s: %d bytes came through the plugin and %d chunks directly", work, bytes, chunks)
		}
	}
	return against("stream of "+work, median(ours), "read directly", median(theirs), goal), nil
}

// memory measures the memory of the plugin for many concurrent streams. It fails if the server
// continues streams after their cancellation.
func (m *modelRun) memory() (row, error) {
	idle, err := m.resident()
	if err != nil {
		return row{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	begun := make(chan error, streamsAtOnce)
	var all sync.WaitGroup
	for range streamsAtOnce {
		all.Go(func() {
			once := sync.OnceFunc(func() { begun <- nil })
			_, err := m.ask(ctx, "compatible/long", modelRequest, func(edn.Value) { once() })
			select {
			case begun <- err:
			default:
			}
		})
	}
	for range streamsAtOnce {
		if err := <-begun; err != nil {
			return row{}, fmt.Errorf("one of %d streams: %w", streamsAtOnce, err)
		}
	}
	busy, err := m.resident()
	if err != nil {
		return row{}, err
	}
	cancel()
	all.Wait()
	for until := time.Now().Add(deadline); ; time.Sleep(time.Millisecond) {
		left, err := m.server.active()
		switch {
		case err != nil:
			return row{}, err
		case left > 0 && time.Now().After(until):
			return row{}, fmt.Errorf("%d of %d streams that were given up go on", left, streamsAtOnce)
		case left == 0:
			mib := float64(busy-idle) / (1 << 20)
			return row{work: fmt.Sprintf("%d streams of models at once", streamsAtOnce), ours: fmt.Sprintf("%.1f MiB", mib), goal: "<= 64 MiB", within: mib <= 64}, nil
		}
	}
}
