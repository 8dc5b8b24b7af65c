package main

import (
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

// progressEvery is the shortest time between two progress events of a call.
const progressEvery = 100 * time.Millisecond

// progress returns a function that reports how much of a phase is done; the total is 0 if it is not
// known. Reports that follow each other faster than progressEvery are dropped, except the last one
// of the call, which settle sends.
func (r *request) progress(phase, unit string) func(done, total int) {
	if r.out == nil {
		return func(int, int) {}
	}
	p := &phaseProgress{out: r.out, phase: phase, unit: unit, now: r.server.now}
	r.phases = append(r.phases, p)
	return p.report
}

// settle sends the last report of each phase, if it was dropped.
func (r *request) settle() {
	for _, p := range r.phases {
		p.settle()
	}
}

// phaseProgress is the progress of one phase of a call.
type phaseProgress struct {
	out         *sdk.Stream
	phase, unit string
	now         func() time.Time

	mu          sync.Mutex
	due         time.Time // of the next report
	done, total int
	held        bool // done was not reported
}

func (p *phaseProgress) report(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total, p.held = max(p.done, done), total, true // workers report out of order
	if now := p.now(); !now.Before(p.due) {
		p.due = now.Add(progressEvery)
		p.send()
	}
}

func (p *phaseProgress) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		p.send()
	}
}

// send sends a progress event with the current count. The caller holds p.mu.
func (p *phaseProgress) send() {
	var b edn.MapBuilder
	b.Key("phase", edn.K(p.phase))
	b.Key("done", number(p.done))
	if p.total > 0 {
		b.Key("total", number(p.total))
	}
	b.Key("unit", edn.K(p.unit))
	p.held = false
	_ = p.out.Progress(b.Map()) // a caller that is gone cancels the call
}
