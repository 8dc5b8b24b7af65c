package wire

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

const (
	// FeatureMux is the feature of a plugin that serves, and of a host that
	// makes, many calls over one stream.
	FeatureMux = "mux"

	// eventCredit is the credit of a call before the host has read any event,
	// in bytes; eventCost is the credit that each event costs in addition to its
	// bytes.
	eventCredit = 1 << 20
	eventCost   = 64

	// mostEvent is the largest event that fits into a message of events.
	mostEvent = MaxMessage - frameRoom

	// mostMuxed is the largest request on a shared stream, in bytes. A larger
	// one would block the others and has a stream of its own.
	mostMuxed = 32 << 10

	// sendHere limits the sent bytes that the plugin has not read yet: below it,
	// the goroutine of a call sends its request itself, otherwise another
	// goroutine does. It is below the 64 KiB that gRPC accepts without blocking,
	// so that a call that can be canceled never blocks on a plugin that does not
	// read.
	sendHere = mostMuxed
)

// lane is the host's end of a stream of calls.
type lane struct {
	out    *frameWriter
	cancel context.CancelFunc
	limit  int           // of an event, in bytes
	done   chan struct{} // closed when the stream has ended

	mu       sync.Mutex
	calls    map[uint64]*laneCall // nil for an abandoned call without an answer
	live     int                  // calls whose callers wait
	last     uint64
	sent     uint64 // bytes of requests
	seen     uint64 // of these, the bytes that the plugin has certainly read
	ended    error  // the error that ended the stream
	violated bool   // the plugin violated the protocol
}

// laneCall is one call on a lane.
type laneCall struct {
	lane *lane
	id   uint64
	at   uint64        // lane.sent including its request
	wake chan struct{} // there are new events or an error

	mu     sync.Mutex
	events [][]byte // not yet taken
	taken  [][]byte // the previous events, reused as a buffer
	used   int      // credit that the plugin has used and that was not returned
	lost   error    // the stream ended before the answer
}

// openLane opens a stream of calls. The stream outlives ctx.
func openLane(ctx context.Context, capability pluginv1.CapabilityClient, limit int) (*lane, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opened := context.AfterFunc(ctx, cancel)
	stream, err := capability.Calls(own, grpc.ForceCodecV2(newCodec()), grpc.MaxCallRecvMsgSize(MaxMessage))
	if !opened() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	l := &lane{
		out:    newFrameWriter(stream),
		cancel: cancel,
		limit:  limit,
		done:   make(chan struct{}),
		calls:  map[uint64]*laneCall{},
	}
	go l.out.flush(l.done)
	go l.receive(stream)
	return l, nil
}

// receive delivers events to their calls until the end of the stream. It never
// waits for a call.
func (l *lane) receive(stream grpc.ClientStream) {
	defer l.cancel()
	var in incoming
	for {
		if err := stream.RecvMsg(&in); err != nil {
			l.end(err, status.Code(err) == codes.Unimplemented)
			return
		}
		for i, text := range in.frames {
			in.frames[i] = nil
			if err := l.deliver(text); err != nil {
				l.end(err, true)
				return
			}
		}
	}
}

func (l *lane) deliver(text []byte) error {
	f, err := readFrame(text)
	if err != nil {
		return brokenLane("a frame cannot be read: %v", err)
	}
	last := isAnswer(f.body)
	l.mu.Lock()
	c, known := l.calls[f.call]
	if last && known {
		delete(l.calls, f.call)
		if c != nil {
			l.live--
		}
	}
	if c != nil {
		l.seen = max(l.seen, c.at)
	}
	l.mu.Unlock()
	if !known {
		return brokenLane("an event came for call %d, which has its answer or was never made", f.call)
	}
	if c != nil {
		c.give(f.body, last)
	}
	return nil
}

func brokenLane(format string, args ...any) error {
	return status.Errorf(codes.DataLoss, "the stream of calls: "+format, args...)
}

// end fails the calls without an answer, and no others.
func (l *lane) end(err error, violated bool) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.ended, l.violated = err, violated
	calls := l.calls
	l.calls, l.live = nil, 0
	l.mu.Unlock()
	close(l.done)
	for _, c := range calls {
		if c == nil {
			continue
		}
		c.mu.Lock()
		if c.lost == nil { // otherwise the call already failed by itself
			c.lost = err
		}
		c.mu.Unlock()
		c.ring()
	}
}

// over reports whether the stream has ended, and whether the plugin violated
// the protocol.
func (l *lane) over() (ended, violated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended != nil, l.violated
}

// begin starts a call. It returns false if the stream has ended and nothing of
// the call was sent.
func (l *lane) begin(request []byte) (*laneCall, bool) {
	c := &laneCall{lane: l, wake: make(chan struct{}, 1)}
	size := uint64(len(request))
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return nil, false
	}
	l.last++
	l.sent += size
	c.id, c.at = l.last, l.sent
	l.calls[c.id] = c
	l.live++
	here := l.live == 1 && l.sent-l.seen < sendHere
	// Inside the lock, because call numbers must increase on the stream.
	first := l.out.add(wrapped(c.id, fieldFrameInvoke, request, nil))
	l.mu.Unlock()
	if first {
		l.out.start(here)
	}
	return c, true
}

// ring wakes the goroutine that waits for the call.
func (c *laneCall) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// give queues an event for the caller.
func (c *laneCall) give(event []byte, last bool) {
	c.mu.Lock()
	switch {
	case c.lost != nil:
	case len(event) > c.lane.limit:
		c.lost = status.Errorf(codes.DataLoss, "an event of %d bytes, the limit is %d", len(event), c.lane.limit)
	case c.used >= eventCredit && !last:
		c.lost = status.Errorf(codes.DataLoss, "an event came beyond the credit of the call")
	default:
		if !last {
			c.used += len(event) + eventCost
		}
		c.events = append(c.events, event)
	}
	c.mu.Unlock()
	c.ring()
}

// take returns the new events, and the error that ended the call if there is
// one.
func (c *laneCall) take() ([][]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events, c.taken = c.taken[:0], events
	return events, c.lost
}

// read returns the credit of events that the caller has read.
func (c *laneCall) read(size int) {
	c.mu.Lock()
	c.used -= size
	c.mu.Unlock()
	c.lane.out.put(signal(c.id, fieldFrameCredit, uint64(size)), false)
}

// giveUp abandons the call: its answer will be dropped.
func (c *laneCall) giveUp() {
	l := c.lane
	l.mu.Lock()
	_, open := l.calls[c.id]
	if open {
		l.calls[c.id] = nil
		l.live--
	}
	owed := len(l.calls) - l.live
	l.mu.Unlock()
	if open {
		l.out.put(signal(c.id, fieldFrameCancel, 1), false)
	}
	if owed > MaxOwed {
		l.end(brokenLane("the plugin owes more than %d answers to calls that were given up", MaxOwed), true)
		l.cancel()
	}
}

// await returns the answer of the call. When stop is closed, the call is
// canceled at the plugin and await still waits for its answer.
func (c *laneCall) await(ctx context.Context, stop <-chan struct{}, in *inbound) (edn.Value, error) {
	back := 0 // credit to return
	for {
		select {
		case <-c.wake:
		case <-stop:
			stop = nil
			c.lane.out.put(signal(c.id, fieldFrameCancel, 1), false)
			continue
		case <-ctx.Done():
			c.giveUp()
			return edn.Nil(), endOf(ctx, in.op)
		}
		events, lost := c.take()
		for i, text := range events {
			events[i] = nil
			event, err := parseEvent(text)
			if err != nil {
				err = contract.Errorf("runtime/protocol", "%s: an event cannot be read: %w", in.op, err)
			}
			answered := false
			if err == nil {
				answered, err = in.take(event)
			}
			if err != nil {
				c.giveUp()
				return edn.Nil(), err
			}
			if answered {
				return in.answer, in.failure
			}
			if back += len(text) + eventCost; back >= eventCredit/4 {
				c.read(back)
				back = 0
			}
			if ctx.Err() != nil {
				c.giveUp()
				return edn.Nil(), endOf(ctx, in.op)
			}
		}
		if lost != nil {
			c.giveUp()
			return edn.Nil(), lostCall(ctx, in, lost)
		}
	}
}

func lostCall(ctx context.Context, in *inbound, err error) error {
	if errors.Is(err, io.EOF) {
		return contract.Errorf("runtime/protocol", "%s: the stream of calls ended without a result or an error", in.op)
	}
	return in.hide.transport(ctx, in.op, err)
}
