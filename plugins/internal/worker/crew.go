package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/launch"
)

// Idle is the time that a prestarted worker waits for a call.
const Idle = 30 * time.Second

// Crew runs each call in its own worker. After a call it prestarts a worker for
// the next one, because starting the program takes longer than most calls. A
// worker gets no data of a call in advance, and never a second call.
type Crew struct {
	self string
	idle time.Duration

	mu     sync.Mutex
	closed bool
	spare  *hand
	tired  *time.Timer    // stops an idle spare
	ending sync.WaitGroup // background work
}

// NewCrew returns a crew of workers. self is the binary that runs Main with
// Arg. idle is the time that a prestarted worker waits for a call; 0 disables
// prestarting.
func NewCrew(self string, idle time.Duration) *Crew { return &Crew{self: self, idle: idle} }

// Task is one call of a tool, in two parts.
type Task struct {
	Tool effects.Tool
	// Rules are the data by which the worker confines itself. They must not
	// depend on input of the caller, except on parts that the host has checked.
	Rules edn.Value
	// Call is the call itself. The worker reads it after it has been confined.
	Call edn.Value
}

// Run runs a task in a worker and returns its answer. The worker is killed when
// ctx ends. Every error is a *contract.Error.
func (c *Crew) Run(ctx context.Context, t Task) (edn.Value, error) {
	h, err := c.take()
	if err != nil {
		return edn.Nil(), contract.Errorf("effects/runtime-missing", ":%s: start a worker: %w", t.Tool.ID, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = h.p.Kill() })
	sent := make(chan struct{})
	go func() { // a dead worker is reported below
		defer close(sent)
		_ = errors.Join(send(h.p.Stdin(), t.Rules), send(h.p.Stdin(), t.Call))
	}()
	reply, err := receive(h.p.Stdout())
	stop()
	if err != nil {
		_ = h.p.Kill()
		said := h.gone()
		<-sent
		if ctx.Err() != nil {
			return edn.Nil(), t.unsure(contract.AsError(context.Cause(ctx)))
		}
		return edn.Nil(), t.unsure(contract.Errorf("effects/runtime-failed",
			":%s: the worker ended without an answer (%s): %s", t.Tool.ID, h.p.Exit(), launch.Clip(said, 300)))
	}
	// The worker has answered; its exit status is irrelevant.
	c.beside(func() {
		_ = h.p.CloseStdin()
		_ = h.gone()
		<-sent
		c.ahead()
	})
	if failed := reply.Key("error"); !failed.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(failed, contract.SourceHost)
	}
	return reply.Key("out"), nil
}

// Close stops the prestarted worker and waits until all workers that have
// answered have ended. Running calls keep their workers; later calls are
// rejected.
func (c *Crew) Close() {
	c.mu.Lock()
	c.closed = true
	h := c.yield()
	c.mu.Unlock()
	h.dismiss()
	c.ending.Wait()
}

// beside runs do in a goroutine for which Close waits. After Close it runs do directly.
func (c *Crew) beside(do func()) {
	c.mu.Lock()
	late := c.closed
	if !late {
		c.ending.Add(1)
	}
	c.mu.Unlock()
	if late { // Close has stopped waiting
		do()
		return
	}
	go func() {
		defer c.ending.Done()
		do()
	}()
}

var errClosed = errors.New("the plugin is shutting down")

// take returns a worker that has had no call.
func (c *Crew) take() (*hand, error) {
	c.mu.Lock()
	closed, h := c.closed, c.yield()
	c.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case h != nil && h.there():
		return h, nil
	}
	h.dismiss()
	return hire(c.self)
}

// yield takes the prestarted worker out of the crew. The caller must hold mu.
func (c *Crew) yield() *hand {
	h := c.spare
	c.spare = nil
	if c.tired != nil {
		c.tired.Stop()
		c.tired = nil
	}
	return h
}

// ahead starts a worker for the next call, unless one is waiting. A failed
// start is retried by the next call.
func (c *Crew) ahead() {
	c.mu.Lock()
	wanted := c.wants()
	c.mu.Unlock()
	if !wanted {
		return
	}
	h, err := hire(c.self)
	if err != nil {
		return
	}
	c.mu.Lock()
	if c.wants() {
		c.spare, h = h, nil
		c.tired = time.AfterFunc(c.idle, c.retire)
	}
	c.mu.Unlock()
	h.dismiss()
}

func (c *Crew) wants() bool { return !c.closed && c.spare == nil && c.idle > 0 }

// retire stops an unused prestarted worker.
func (c *Crew) retire() {
	c.mu.Lock()
	h := c.yield()
	c.mu.Unlock()
	c.beside(h.dismiss)
}

// hand is a worker.
type hand struct {
	p    *launch.Process
	said chan string // its standard error, sent once
}

// answerGrace is the time for which the answer of a worker that has ended may stay unread: on a
// busy machine with many workers the reader may have to wait.
const answerGrace = 30 * time.Second

func hire(self string) (*hand, error) {
	env := []string{"GOMAXPROCS=2"}
	if race, ok := os.LookupEnv("GORACE"); ok {
		env = append(env, "GORACE="+race)
	}
	p, err := launch.Start(launch.Command{Path: self, Args: []string{Arg}, Env: env, OutputGrace: answerGrace})
	if err != nil {
		return nil, err
	}
	h := &hand{p: p, said: make(chan string, 1)}
	go func() {
		text, _ := io.ReadAll(io.LimitReader(p.Stderr(), 4<<10))
		_ = p.Stderr().Close()
		h.said <- strings.Join(strings.Fields(string(text)), " ")
	}()
	return h, nil
}

// there reports whether the worker is alive.
func (h *hand) there() bool {
	select {
	case <-h.p.Done():
		return false
	default:
		return true
	}
}

// gone waits until the worker has ended and returns the beginning of its standard error, in one
// line.
func (h *hand) gone() string {
	_ = h.p.Stdout().Close()
	<-h.p.Done()
	<-h.p.Settled()
	_ = h.p.CloseStdin()
	return <-h.said
}

// dismiss kills an idle worker and waits for its end; the receiver may be nil.
func (h *hand) dismiss() {
	if h != nil {
		_ = h.p.Kill()
		h.gone()
	}
}

// unsure marks the error of a task that may have made changes: the detail effect/state is then
// :unknown. The errors of reading tasks are returned unchanged.
func (t Task) unsure(e *contract.Error) *contract.Error {
	if t.Tool.Effect == "fs/read" || t.Tool.Effect == "db/read" {
		return e
	}
	return e.WithDetail("effect/state", edn.K("unknown"))
}
