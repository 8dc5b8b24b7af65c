package pool

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/plugins/mlx/internal/worker"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Event is a transition of the worker of a session.
type Event struct {
	Session string
	worker.Transition
}

// maxEvents is the number of transitions kept, maxFrozen the number of sessions
// that may be frozen individually.
const (
	maxEvents = 64
	maxFrozen = 1024
)

// note records a transition and passes it to Settings.Event. The caller must hold p.mu.
func (p *Pool[S]) note(session string, t worker.Transition) {
	begun, ended := t.To == worker.Busy, t.From == worker.Busy && t.To == worker.Ready
	p.changed = p.changed || !begun // the end of a call changes the status too
	if !begun && !ended {
		if len(p.events) == maxEvents {
			p.events = slices.Delete(p.events, 0, 1)
		}
		p.events = append(p.events, Event{session, t})
	}
	if p.set.Event != nil {
		p.set.Event(session, t)
	}
}

// Warm starts the server of a session unless it is running, blocked or frozen.
// It does not wait, and it does not stop another server to make room.
func (p *Pool[S]) Warm(session, cause string) {
	p.step(func(now time.Time) {
		s := p.slots[session]
		if p.closed || p.frozen || p.record.Blocked(now) != nil {
			return
		}
		if freeing := 1; (s == nil || !s.machine.Alive()) && !p.room(now, &freeing) {
			return // no other server is stopped for it
		}
		if s == nil {
			s = &slot[S]{session: session, machine: worker.New(p.record, now), used: now}
			p.slots[session] = s
		}
		_, _ = s.machine.Want(now, 0, cause)
	})
}

// Freeze stops the server of a session, or of all sessions, and prevents starts
// until Thaw. It does not wait for the end. The error is runtime/overloaded for a
// session without a server if the pool already holds maxFrozen sessions.
func (p *Pool[S]) Freeze(session string, all bool) (err *contract.Error) {
	p.step(func(now time.Time) {
		p.changed = true
		if all && p.set.PerSession {
			p.frozen = true
		}
		if all {
			for _, s := range p.slots {
				s.machine.Freeze(now)
			}
			if p.set.PerSession {
				return
			}
		}
		s := p.slots[session]
		if s == nil {
			if len(p.slots) >= maxFrozen {
				err = contract.Errorf("runtime/overloaded", "freeze the model server of a session: %d are frozen, the maximum",
					maxFrozen).WithSource(contract.SourceDownstream).WithHint("thaw one of them with :model/thaw")
				return
			}
			s = &slot[S]{session: session, machine: worker.New(p.record, now), used: now}
			p.slots[session] = s
		}
		s.machine.Freeze(now)
	})
	return err
}

// Thaw ends Freeze for a session or for all. It starts no server.
func (p *Pool[S]) Thaw(session string, all bool) {
	p.step(func(now time.Time) {
		p.changed = true
		if all {
			p.frozen = false
		}
		for key, s := range p.slots {
			if all || key == session {
				s.machine.Thaw(now)
			}
		}
	})
}

// Quit stops the server of a session, or of all; the next call starts another one. It does not wait
// for the end. Crash loops and other blocks are cleared, for all sessions. It returns the number of
// servers that were running.
func (p *Pool[S]) Quit(session string, all bool) (n int) {
	p.step(func(now time.Time) {
		p.changed = true
		p.record.Clear()
		for key, s := range p.slots {
			if all || key == session {
				if s.machine.Alive() {
					n++
				}
				s.machine.Quit(now, worker.Restart)
			}
		}
	})
	return n
}

// Worker is the status of one worker.
type Worker struct {
	Session string
	State   worker.State
	Since   time.Duration
	PID     int
	Port    uint16
	Calls   int
	Idle    time.Duration // since the last call
	Died    *contract.Error
}

// Status is the status of a pool.
type Status struct {
	Workers []Worker
	// Blocked is the reason why no server can be started at present, nil if one
	// can.
	Blocked              *contract.Error
	Frozen               bool // all sessions
	Deaths, DeathsOfLate int
	Starts, Waiting      int
	LastStart            time.Duration
	FirstToken           time.Duration // moving average; 0: unknown
	TokensPerSecond      float64
	Events               []Event
}

// Status returns the status of the pool.
func (p *Pool[S]) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	st := Status{
		Blocked: p.record.Blocked(now), Frozen: p.frozen, Starts: p.starts, Waiting: len(p.waiting), LastStart: p.start,
		FirstToken: p.speed.first, TokensPerSecond: p.speed.rate, Events: slices.Clone(p.events),
	}
	st.Deaths, st.DeathsOfLate = p.record.Deaths(now)
	for _, s := range p.slots {
		state, since := s.machine.State()
		w := Worker{
			Session: s.session,
			State:   state,
			Since:   now.Sub(since),
			PID:     s.machine.PID(),
			Calls:   s.machine.Calls(),
			Idle:    now.Sub(s.used),
			Died:    s.machine.Died(),
		}
		if s.run != nil {
			w.Port = s.run.port
		}
		st.Workers = append(st.Workers, w)
	}
	slices.SortFunc(st.Workers, func(a, b Worker) int {
		if a.Session < b.Session {
			return -1
		}
		return 1
	})
	return st
}

// speed holds the moving averages of the time to the first token and of the token rate.
type speed struct {
	first time.Duration
	rate  float64
}

// Observe adds the time to the first token and the tokens per second of an answer to the moving
// averages of Status. A rate of 0 is unknown and is not added.
func (p *Pool[S]) Observe(first time.Duration, rate float64) {
	const weight = 0.2
	p.mu.Lock()
	defer p.mu.Unlock()
	mean := func(old, now float64) float64 {
		if old == 0 {
			return now
		}
		return old + weight*(now-old)
	}
	if first > 0 {
		p.speed.first = time.Duration(mean(float64(p.speed.first), float64(first)))
	}
	if rate > 0 {
		p.speed.rate = mean(p.speed.rate, rate)
	}
}
