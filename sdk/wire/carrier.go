package wire

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// carrier is the plugin's end of a stream of calls.
type carrier struct {
	ctx    context.Context
	out    *frameWriter
	answer Answerer
	work   chan *carried // to an idle worker
	idle   chan struct{} // one element per idle worker
	busy   sync.WaitGroup

	mu    sync.Mutex
	calls map[uint64]*carried
	last  uint64
}

// carried is one call on a carrier and the eventSink of its emitter.
type carried struct {
	on       *carrier
	id       uint64
	req      []byte
	encoding Encoding // of the call
	ctx      context.Context

	mu       sync.Mutex
	cancel   context.CancelFunc // nil before the call is served
	unwanted bool               // canceled by the host
	credit   int
	more     chan struct{} // closed when credit arrives; nil if no sender waits
	answered bool

	events uint64 // number of events sent; the emitter sends one at a time
}

// stream is the part of a gRPC stream that a carrier uses.
type stream interface {
	Context() context.Context
	SendMsg(m any) error
	RecvMsg(m any) error
}

// serveCalls answers the calls of one stream in separate goroutines. It returns
// when all of them have ended.
func serveCalls(s stream, answer Answerer) error {
	ctx, cancel := context.WithCancel(s.Context())
	c := &carrier{
		ctx:    ctx,
		out:    newFrameWriter(s),
		answer: answer,
		work:   make(chan *carried),
		idle:   make(chan struct{}, workers),
		calls:  map[uint64]*carried{},
	}
	over := make(chan struct{})
	var flushing sync.WaitGroup
	flushing.Go(func() { c.out.flush(over) })
	err := c.receive(s)
	if err != nil {
		cancel()
	}
	close(c.work)
	c.busy.Wait()
	close(over)
	flushing.Wait()
	cancel()
	return err
}

// receive handles the frames of the host until the stream ends (nil) or is
// lost. It never waits for a call.
func (c *carrier) receive(s stream) error {
	var in incoming
	for {
		if err := s.RecvMsg(&in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for i, text := range in.frames {
			in.frames[i] = nil
			f, err := readFrame(text)
			if err != nil {
				return status.Errorf(codes.InvalidArgument, "a frame cannot be read: %v", err)
			}
			if err := c.take(f); err != nil {
				return err
			}
		}
	}
}

func (c *carrier) take(f received) error {
	c.mu.Lock()
	if !f.begins {
		call := c.calls[f.call]
		c.mu.Unlock()
		if call != nil { // otherwise the call has ended
			call.control(f)
		}
		return nil
	}
	if f.call <= c.last {
		c.mu.Unlock()
		return status.Errorf(codes.InvalidArgument, "call %d came after call %d", f.call, c.last)
	}
	call := &carried{on: c, id: f.call, req: f.body, credit: eventCredit, encoding: EDN}
	c.last = f.call
	c.calls[f.call] = call
	c.mu.Unlock()
	select {
	case c.work <- call:
	default:
		c.busy.Go(func() { c.worker(call) })
	}
	return nil
}

// worker answers calls. It waits for further calls so that its grown stack is
// reused.
func (c *carrier) worker(call *carried) {
	for {
		call.serve()
		select {
		case c.idle <- struct{}{}:
		default:
			return // enough workers are idle
		}
		next, ok := <-c.work
		<-c.idle
		if !ok {
			return
		}
		call = next
	}
}

// alone reports whether this is the only call in flight.
func (c *carrier) alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) <= 1
}

// serve answers the call.
func (k *carried) serve() {
	req, err := parseRequest(k.req)
	k.req = nil
	if err != nil {
		k.ctx = k.on.ctx
		err = contract.Errorf("runtime/protocol", "the request cannot be read: %w", err)
	} else {
		k.encoding = encodingOf(req.GetRequest())
		defer k.begin(req.GetContext().GetDeadlineUnixNano())()
		err = serveInvoke(req, k, k.on.answer)
	}
	k.end(err)
	k.on.mu.Lock()
	delete(k.on.calls, k.id)
	k.on.mu.Unlock()
}

// begin creates the context of the call and returns its cancel function.
func (k *carried) begin(deadline int64) context.CancelFunc {
	k.mu.Lock()
	defer k.mu.Unlock()
	if deadline != 0 {
		k.ctx, k.cancel = context.WithDeadline(k.on.ctx, offWire(deadline, time.Now()))
	} else {
		k.ctx, k.cancel = context.WithCancel(k.on.ctx)
	}
	if k.unwanted {
		k.cancel()
	}
	return k.cancel
}

// end answers the call with an error if it has no answer, so that the host can
// release the call number.
func (k *carried) end(err error) {
	k.mu.Lock()
	answered := k.answered
	k.mu.Unlock()
	if answered {
		return
	}
	if err == nil {
		err = contract.Errorf("runtime/internal", "the call ended without an answer")
	}
	_ = k.Send(k.failing(err)) // an answer is sent in any case
}

// failing returns an error event that always fits into a message.
func (k *carried) failing(err error) *pluginv1.InvokeEvent {
	p, err := inline(k.encoding, contract.AsError(err).Value())
	if err != nil {
		p = &pluginv1.Payload{Encoding: string(EDN), Body: []byte(`{:type :runtime/internal}`)}
	}
	return errorEvent(p)
}

// Context implements eventSink.
func (k *carried) Context() context.Context { return k.ctx }

// Send implements eventSink. An event before the answer waits for credit.
// Events are numbered here, so that one that could not be sent leaves no gap.
func (k *carried) Send(event *pluginv1.InvokeEvent) error {
	last := answers(event)
	event.Seq = k.events + 1
	head, tail := roomyEvent(event)
	if size := len(head) - frameRoom + len(tail); size > mostEvent {
		err := contract.Errorf("runtime/protocol", "an event of %d bytes, the limit is %d", size, mostEvent)
		if !last {
			return err
		}
		event = k.failing(err)
		event.Seq = k.events + 1
		head, tail = roomyEvent(event)
	} else if !last {
		if err := k.pay(size + eventCost); err != nil {
			return err
		}
	}
	k.events++
	if last {
		k.mu.Lock()
		k.answered = true
		k.mu.Unlock()
	}
	k.on.out.put(wrapped(k.id, fieldFrameEvent, head, tail), last && k.on.alone())
	return nil
}

func answers(event *pluginv1.InvokeEvent) bool {
	switch event.GetEvent().(type) {
	case *pluginv1.InvokeEvent_Result, *pluginv1.InvokeEvent_Error:
		return true
	}
	return false
}

// pay consumes credit and waits while there is none.
func (k *carried) pay(price int) error {
	for {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		k.mu.Lock()
		if k.credit > 0 {
			k.credit -= price
			k.mu.Unlock()
			return nil
		}
		if k.more == nil {
			k.more = make(chan struct{})
		}
		more := k.more
		k.mu.Unlock()
		select {
		case <-more:
		case <-k.ctx.Done():
		}
	}
}

// control handles a cancel or credit frame of a call in flight.
func (k *carried) control(f received) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.cancel {
		k.unwanted = true
		if k.cancel != nil {
			k.cancel()
		}
	}
	if f.credit == 0 {
		return
	}
	// One event may cost more than all credit, so more than that may come back at once.
	k.credit = min(k.credit+int(min(f.credit, eventCredit+MaxMessage)), eventCredit)
	if k.credit > 0 && k.more != nil {
		close(k.more)
		k.more = nil
	}
}
