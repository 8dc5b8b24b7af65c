package wire

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// EventKind is the kind of an event before the answer.
type EventKind uint8

// The kinds of events.
const (
	// Delta is a part of the answer, such as a piece of text.
	Delta EventKind = iota + 1
	// Progress reports that the call is still working.
	Progress
)

// String returns the name of the kind in the protocol.
func (k EventKind) String() string {
	switch k {
	case Delta:
		return "delta"
	case Progress:
		return "progress"
	}
	return "unknown"
}

// Event is an event of a call before its answer.
type Event struct {
	Kind  EventKind
	Value edn.Value
}

// finishGrace is the time for which a peer may leave a stream open after its
// answer. An interpreter on a busy machine takes more than a second.
const finishGrace = 5 * time.Second

type openInvoke func(ctx context.Context, req *pluginv1.InvokeRequest,
	opts ...grpc.CallOption) (grpc.ServerStreamingClient[pluginv1.InvokeEvent], error)

// invoke makes one call and returns the response envelope. The event function
// of in, which may be nil, is called in order on the goroutine of the caller.
func invoke(
	ctx context.Context, in *inbound, open openInvoke, deadline time.Time, req *pluginv1.InvokeRequest,
) (edn.Value, error) {
	ctx, release := until(ctx, deadline)
	defer release()
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(streamCtx, req)
	if err != nil {
		return edn.Nil(), in.hide.transport(ctx, in.op, err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return edn.Nil(), in.hide.transport(ctx, in.op, err)
		}
		answered, err := in.take(event)
		if err != nil {
			return edn.Nil(), err
		}
		if answered {
			break
		}
		if ended := endOf(ctx, in.op); ended != nil {
			return edn.Nil(), ended // even if more events are ready
		}
	}
	if err := finish(stream, cancel, in.op); err != nil {
		return edn.Nil(), err
	}
	return in.answer, in.failure
}

// until returns ctx with a deadline, unless it is zero or ctx has an earlier
// one.
func until(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return ctx, func() {}
	}
	if at, bounded := ctx.Deadline(); bounded && !at.After(deadline) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// UntilStopped returns a context derived from ctx that is canceled with the
// result of cause when stop is closed. If stop is nil, it returns ctx. The caller
// must call release.
func UntilStopped(
	ctx context.Context, stop <-chan struct{}, cause func() *contract.Error,
) (_ context.Context, release func()) {
	if stop == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-stop:
			cancel(cause())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// finish reads the end of a stream after the answer. The answer is valid
// whatever the status; another event, or a stream that stays open, violates the
// contract.
func finish(stream grpc.ServerStreamingClient[pluginv1.InvokeEvent], cancel context.CancelFunc, op string) error {
	late := time.AfterFunc(finishGrace, cancel)
	_, err := stream.Recv()
	inTime := late.Stop()
	switch {
	case err == nil:
		return contract.Errorf("runtime/protocol", "%s: an event came after the answer", op)
	case !errors.Is(err, io.EOF) && !inTime:
		return contract.Errorf("runtime/protocol", "%s: the stream stayed open for %s after the answer", op, finishGrace)
	}
	return nil
}

func encodeInvoke(enc Encoding, call CallContext, request edn.Value) (*pluginv1.InvokeRequest, error) {
	header, err := call.Proto(enc)
	if err != nil {
		return nil, err
	}
	payload, blobs, err := encodeRequest(enc, request)
	if err != nil {
		return nil, err
	}
	return &pluginv1.InvokeRequest{Context: header, Request: payload, Blobs: blobs}, nil
}

// inbound is the receiving half of one call.
type inbound struct {
	op      string
	from    contract.Source
	on      func(Event)
	hide    hider
	seq     uint64
	blobs   Blobs
	answer  edn.Value
	failure error
}

// take handles one event and reports whether it was the answer.
func (in *inbound) take(event *pluginv1.InvokeEvent) (bool, error) {
	in.seq++
	if got := event.GetSeq(); got != in.seq {
		return false, contract.Errorf("runtime/protocol", "%s: expected event %d, got event %d", in.op, in.seq, got)
	}
	if in.seq > maxEvents {
		return false, contract.Errorf("runtime/protocol", "%s: more than %d events", in.op, maxEvents)
	}
	switch e := event.GetEvent().(type) {
	case *pluginv1.InvokeEvent_Blob:
		return false, in.blobs.Add(e.Blob)
	case *pluginv1.InvokeEvent_Delta:
		return false, in.pass(Delta, e.Delta)
	case *pluginv1.InvokeEvent_Progress:
		return false, in.pass(Progress, e.Progress)
	case *pluginv1.InvokeEvent_Result:
		v, err := in.hide.decode(responseForm, e.Result, &in.blobs)
		in.answer = in.hide.response(v)
		return true, err
	case *pluginv1.InvokeEvent_Error:
		v, err := in.hide.decode(errorForm, e.Error, &in.blobs)
		if err == nil {
			in.failure = errorFrom(in.hide.value(v), in.from)
		}
		return true, err
	}
	return false, contract.Errorf("runtime/protocol", "%s: event %d is of an unknown kind", in.op, in.seq)
}

func (in *inbound) pass(kind EventKind, p *pluginv1.Payload) error {
	v, err := in.hide.decode(deltaForm, p, &in.blobs)
	if err == nil && in.on != nil {
		in.on(Event{Kind: kind, Value: in.hide.answer(v)})
	}
	return err
}
