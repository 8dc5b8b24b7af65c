package wire

import (
	"context"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Call is one call on the receiving side.
type Call struct {
	Context CallContext
	// Request is the request envelope.
	Request edn.Value
	// Encoding is the encoding of the request. The answer uses the same.
	Encoding Encoding
}

// Answerer answers one call with a response envelope or an error. It sends
// events through out, which must not be used after the return.
type Answerer func(ctx context.Context, call Call, out *Emitter) (edn.Value, error)

// eventSink sends the events of one call, on a stream of its own or on a shared
// stream.
type eventSink interface {
	Context() context.Context
	Send(event *pluginv1.InvokeEvent) error
}

// Emitter sends the events of one call. Its methods are safe for concurrent
// use. They fail after the answer was sent or if the caller is gone.
type Emitter struct {
	mu       sync.Mutex
	stream   eventSink
	encoding Encoding
	seq      uint64
	answered bool
	until    context.Context // sending is aborted when it ends; nil: never
	lost     error           // why nothing can be sent any more
}

// GiveUp makes sending fail when ctx ends, even while the peer does not read.
// After that nothing can be sent, not even the answer.
func (e *Emitter) GiveUp(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = ctx
}

// Delta sends a part of the answer.
func (e *Emitter) Delta(v edn.Value) error { return e.emit(v, deltaEvent, false) }

// Progress reports that the call is still working.
func (e *Emitter) Progress(v edn.Value) error { return e.emit(v, progressEvent, false) }

// Verbatim sends body as the result, unread and unchecked, and ends the call.
// It is for tests of hosts with malformed answers.
func (e *Emitter) Verbatim(body []byte) error {
	return e.send(&pluginv1.Payload{Encoding: string(e.encoding), Body: body}, nil, resultEvent, true)
}

// isAnswered reports whether the answer was sent.
func (e *Emitter) isAnswered() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.answered
}

func (e *Emitter) emit(v edn.Value, wrap func(*pluginv1.Payload) *pluginv1.InvokeEvent, last bool) error {
	payload, blobs, err := EncodePayload(e.encoding, v)
	if err != nil {
		return err
	}
	return e.send(payload, blobs, wrap, last)
}

func (e *Emitter) send(
	payload *pluginv1.Payload, blobs []*pluginv1.Blob, wrap func(*pluginv1.Payload) *pluginv1.InvokeEvent, last bool,
) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answered {
		return contract.Errorf("runtime/internal", "emit: the call is already answered").
			WithHint("send all parts before the function of the capability returns")
	}
	for _, b := range blobs {
		if err := e.sendLocked(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Blob{Blob: b}}); err != nil {
			return err
		}
	}
	e.answered = last
	return e.sendLocked(wrap(payload))
}

func (e *Emitter) sendLocked(event *pluginv1.InvokeEvent) error {
	if e.lost != nil {
		return e.lost
	}
	e.seq++
	event.Seq = e.seq
	if e.until == nil {
		return e.sent(e.stream.Send(event))
	}
	// SendMsg returns at once or when the peer reads. A blocked SendMsg is
	// released when the answerer returns and the stream ends.
	done := make(chan error, 1)
	go func() { done <- e.stream.Send(event) }()
	select {
	case err := <-done:
		return e.sent(err)
	case <-e.until.Done():
		e.lost = endOf(e.until, "emit")
		return e.lost
	}
}

func (e *Emitter) sent(err error) error {
	if err != nil {
		return transport(e.stream.Context(), "emit", err)
	}
	return nil
}

func deltaEvent(p *pluginv1.Payload) *pluginv1.InvokeEvent {
	return &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Delta{Delta: p}}
}

func progressEvent(p *pluginv1.Payload) *pluginv1.InvokeEvent {
	return &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Progress{Progress: p}}
}

func resultEvent(p *pluginv1.Payload) *pluginv1.InvokeEvent {
	return &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: p}}
}

func errorEvent(p *pluginv1.Payload) *pluginv1.InvokeEvent {
	return &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Error{Error: p}}
}

// serveInvoke is the receiving side of Invoke in plugins and hosts.
func serveInvoke(req *pluginv1.InvokeRequest, stream eventSink, answer Answerer) error {
	ctx := stream.Context()
	call, err := decodeInvoke(req)
	out := &Emitter{stream: stream, encoding: call.Encoding}
	var response edn.Value
	if err == nil {
		if at := call.Context.Deadline; !at.IsZero() {
			// gRPC transmits the deadline too, unless the caller did not set
			// it.
			if _, carried := ctx.Deadline(); !carried {
				var release context.CancelFunc
				ctx, release = context.WithDeadline(ctx, at)
				defer release()
			}
		}
		response, err = answer(ctx, call, out)
	}
	if out.isAnswered() {
		return nil
	}
	if err == nil {
		if err = out.emit(response, resultEvent, true); err == nil || out.isAnswered() {
			return err
		}
	}
	return out.emit(contract.AsError(err).Value(), errorEvent, true)
}

func decodeInvoke(req *pluginv1.InvokeRequest) (Call, error) {
	call := Call{Encoding: Encoding(req.GetRequest().GetEncoding())}
	if call.Encoding != EDN && call.Encoding != JSON {
		unknown := unknownEncoding(call.Encoding)
		call.Encoding = EDN
		return call, unknown
	}
	var err error
	if call.Context, err = CallContextFrom(req.GetContext(), call.Encoding); err != nil {
		return call, err
	}
	blobs := Blobs{request: true}
	for _, b := range req.GetBlobs() {
		if err := blobs.Add(b); err != nil {
			return call, err
		}
	}
	call.Request, err = decodeAs(requestForm, req.GetRequest(), &blobs)
	return call, err
}
