package plugin

import (
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/wire"
)

// healthPace limits the health events of one process: it takes wire.MaxHealthBurst at once, then one
// per second. Of further events only the newest is taken, as soon as the limit permits. Each event can
// change the state of the process, and each change is logged and recorded.
type healthPace struct {
	clock Clock
	// take is called with each event that is taken and with the number of dropped events before it.
	// The calls do not overlap.
	take func(h wire.Health, dropped int)

	mu      sync.Mutex
	full    time.Time // when the burst is available again; each event that is taken moves it by a second
	waiting *wire.Health
	dropped int
	stop    func() // stops the timer of waiting
}

// add takes an event, now or later.
func (p *healthPace) add(h wire.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting != nil {
		p.dropped++
		p.waiting = &h
		return
	}
	now := p.clock.Now()
	if p.full.Before(now) {
		p.full = now
	}
	if wait := p.full.Sub(now) - (wire.MaxHealthBurst-1)*time.Second; wait > 0 {
		p.waiting = &h
		p.stop = p.clock.AfterFunc(wait, p.flush)
		return
	}
	p.admit(h)
}

// flush takes the event that waits.
func (p *healthPace) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return // close was faster
	}
	h := *p.waiting
	p.waiting = nil
	p.admit(h)
}

// admit passes an event to take. The caller holds p.mu.
func (p *healthPace) admit(h wire.Health) {
	p.full = p.full.Add(time.Second)
	dropped := p.dropped
	p.dropped = 0
	p.take(h, dropped)
}

// close drops the event that waits.
func (p *healthPace) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting != nil {
		p.waiting = nil
		p.stop()
	}
}
