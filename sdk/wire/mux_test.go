package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

const patience = 20 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, time.Millisecond, what)
}

// behaviour is a plugin that runs the Answerer named by the request.
type behaviour map[string]Answerer

func (b behaviour) fake() *fake {
	return &fake{invoke: func(ctx context.Context, call Call, out *Emitter) (edn.Value, error) {
		name, _ := call.Request.AsString()
		if do := b[name]; do != nil {
			return do(ctx, call, out)
		}
		return call.Request, nil
	}}
}

// WIRE-007: a slow reader blocks only its own call; the other calls on the
// stream continue, and no event is lost.
func TestMuxSlowReader(t *testing.T) {
	const pieces, size = 400, 16 << 10
	var sent atomic.Int64
	c := sharing(t, behaviour{"stream": func(_ context.Context, _ Call, out *Emitter) (edn.Value, error) {
		for i := range pieces {
			if err := out.Delta(edn.Vector(edn.Int(int64(i)), edn.Text(strings.Repeat("x", size)))); err != nil {
				return edn.Nil(), err
			}
			sent.Add(1)
		}
		return edn.Int(pieces), nil
	}}.fake())
	reading, read := make(chan struct{}), 0
	over := make(chan error, 1)
	go func() {
		answer, err := c.Invoke(t.Context(), CallContext{}, edn.Text("stream"), func(e Event) {
			<-reading
			first, _ := e.Value.Nth(0)
			if n, _ := first.AsInt(); int(n) == read {
				read++
			}
		})
		if n, _ := answer.AsInt(); err == nil && n != pieces {
			err = fmt.Errorf("the answer %s", answer)
		}
		over <- err
	}()
	most := int64(eventCredit/size + 1)
	eventually(t, "the plugin uses its credit", func() bool { return sent.Load() >= most-2 })
	for i := range 50 {
		answer, err := c.Invoke(t.Context(), CallContext{}, edn.Int(int64(i)), nil)
		require.NoError(t, err)
		assert.True(t, edn.Equal(edn.Int(int64(i)), answer))
	}
	assert.LessOrEqual(t, sent.Load(), most)
	close(reading)
	require.NoError(t, <-over)
	assert.Equal(t, pieces, read)
}

// WIRE-007: events that each cost more than all credit arrive one after the other:
// what they cost is given back whole.
func TestMuxLargeEvents(t *testing.T) {
	const pieces = 20
	c := sharing(t, behaviour{"stream": func(_ context.Context, _ Call, out *Emitter) (edn.Value, error) {
		for range pieces {
			if err := out.Delta(edn.Text(strings.Repeat("x", eventCredit+eventCredit/2))); err != nil {
				return edn.Nil(), err
			}
		}
		return edn.Int(pieces), nil
	}}.fake())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	read := 0
	answer, err := c.Invoke(ctx, CallContext{}, edn.Text("stream"), func(Event) { read++ })
	require.NoError(t, err)
	assert.Equal(t, []any{pieces, "20"}, []any{read, answer.String()})
}

// WIRE-007, SDK-001: the end of one call does not affect the others or the
// stream, even if the plugin waits for credit.
func TestMuxCancelOne(t *testing.T) {
	left := make(chan error, 1)
	entered, release := make(chan struct{}, 2), make(chan struct{})
	c := sharing(t, behaviour{
		"flood": func(_ context.Context, _ Call, out *Emitter) (edn.Value, error) {
			entered <- struct{}{}
			for {
				if err := out.Delta(edn.Text(strings.Repeat("x", 32<<10))); err != nil {
					left <- err
					return edn.Nil(), err
				}
			}
		},
		"wait": func(context.Context, Call, *Emitter) (edn.Value, error) {
			entered <- struct{}{}
			<-release
			return edn.Text("waited"), nil
		},
	}.fake())
	beside := make(chan error, 1)
	go func() {
		answer, err := c.Invoke(t.Context(), CallContext{}, edn.Text("wait"), nil)
		if err == nil && answer.String() != `"waited"` {
			err = fmt.Errorf("the answer %s", answer)
		}
		beside <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Invoke(ctx, CallContext{}, edn.Text("flood"), func(Event) { cancel() })
	require.ErrorIs(t, err, contract.OfType("canceled"))
	<-entered
	require.ErrorIs(t, <-left, contract.OfType("canceled"))
	// A blocked reader until the deadline: the plugin waits for credit.
	stuck := make(chan struct{})
	over := make(chan error, 1)
	go func() {
		_, err := c.Invoke(t.Context(), CallContext{Deadline: time.Now().Add(200 * time.Millisecond)}, edn.Text("flood"), func(Event) { <-stuck })
		over <- err
	}()
	<-entered
	require.ErrorIs(t, <-left, contract.OfType("timeout/hard"))
	close(stuck)
	require.ErrorIs(t, <-over, contract.OfType("timeout/hard"))
	l := c.shared.lane
	close(release)
	require.NoError(t, <-beside)
	eventually(t, "nothing is remembered of the calls", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.calls) == 0 && l.live == 0
	})
	assert.Same(t, l, c.shared.lane, "it is the same stream")
}

// ATT-013: stopping a call cancels it at the plugin, and the plugin's answer to
// that arrives. On a stream of its own the call ends at once. A call that is
// not answered ends with its context.
func TestStopIsAnswered(t *testing.T) {
	entered := make(chan struct{}, 1)
	b := behaviour{
		"tells": func(ctx context.Context, _ Call, _ *Emitter) (edn.Value, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return edn.Text("usage"), nil
		},
		"deaf": func(ctx context.Context, _ Call, _ *Emitter) (edn.Value, error) {
			entered <- struct{}{}
			<-ctx.Done()
			<-t.Context().Done()
			return edn.Nil(), ctx.Err()
		},
	}
	stopped := func(ctx context.Context, c *Client, name string) (edn.Value, error) {
		stop := make(chan struct{})
		go func() {
			<-entered
			close(stop)
		}()
		return c.InvokeUntil(ctx, stop, CallContext{}, edn.Text(name), nil)
	}
	c := sharing(t, b.fake())
	answer, err := stopped(t.Context(), c, "tells")
	require.NoError(t, err)
	assert.Equal(t, `"usage"`, answer.String())

	within, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = stopped(within, c, "deaf")
	require.ErrorIs(t, err, contract.OfType("timeout/hard"), "it was waited for")

	c.shared.mu.Lock()
	c.shared.allowed = false
	c.shared.mu.Unlock()
	_, err = stopped(t.Context(), c, "tells")
	require.ErrorIs(t, err, contract.OfType("canceled"))
	_, err = stopped(t.Context(), c, "deaf")
	require.ErrorIs(t, err, contract.OfType("canceled"))
}

// WIRE-007: many concurrent calls, some of them abandoned, receive their own
// answers.
func TestMuxManyCallers(t *testing.T) {
	c := sharing(t, behaviour{}.fake())
	var callers sync.WaitGroup
	for who := range 32 {
		callers.Go(func() {
			for i := range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 3 {
					go cancel()
				}
				request := edn.Vector(edn.Int(int64(who)), edn.Int(int64(i)), edn.Text(strings.Repeat("y", who*i)))
				answer, err := c.Invoke(ctx, CallContext{}, request, nil)
				cancel()
				if err != nil {
					assert.ErrorIs(t, err, contract.OfType("canceled"))
					assert.Equal(t, 3, i%7)
					continue
				}
				assert.True(t, edn.Equal(request, answer))
			}
		})
	}
	callers.Wait()
	l := c.shared.lane
	eventually(t, "nothing is remembered of the calls", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.calls) == 0 && l.live == 0
	})
}

// rawCalls serves Calls with a function and Invoke as an echo.
type rawCalls struct {
	rawCapability
	calls func(grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error
	alone atomic.Int64
}

func (r *rawCalls) Calls(s grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error {
	return r.calls(s)
}

func byHand(t *testing.T, calls func(grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error) (*Client, *rawCalls) {
	t.Helper()
	r := &rawCalls{calls: calls}
	r.do = func(_ *pluginv1.InvokeRequest, s grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
		r.alone.Add(1)
		return s.Send(seqEvent(1, resultEvent(edntext(":alone"))))
	}
	c := NewClient(serve(t, func(s *grpc.Server) { pluginv1.RegisterCapabilityServer(s, r) }), nil)
	t.Cleanup(c.Close)
	c.shared.allow()
	return c, r
}

func eventFrames(call uint64, events ...*pluginv1.InvokeEvent) *pluginv1.EventFrames {
	m := &pluginv1.EventFrames{}
	for _, e := range events {
		m.Frames = append(m.Frames, &pluginv1.EventFrame{Call: call, Event: e})
	}
	return m
}

// WIRE-007: a protocol violation on the stream fails the call that it concerns,
// or every call if it concerns none; later calls use separate streams.
func TestMuxHostileStreams(t *testing.T) {
	result := func(seq uint64, text string) *pluginv1.InvokeEvent { return seqEvent(seq, resultEvent(edntext(text))) }
	delta := func(seq uint64, size int) *pluginv1.InvokeEvent {
		return seqEvent(seq, deltaEvent(edntext(`"`+strings.Repeat("x", size)+`"`)))
	}
	for _, tt := range []struct {
		name     string
		send     []*pluginv1.EventFrames
		err      error
		want     string
		says     string
		violated bool
	}{
		{"not counted", []*pluginv1.EventFrames{eventFrames(1, result(0, "1"))}, nil, "runtime/protocol", "expected event 1, got event 0", false},
		{"gap", []*pluginv1.EventFrames{eventFrames(1, delta(1, 1), result(3, "1"))}, nil, "runtime/protocol", "expected event 2, got event 3", false},
		{"empty event", []*pluginv1.EventFrames{eventFrames(1, &pluginv1.InvokeEvent{Seq: 1})}, nil, "runtime/protocol", "an unknown kind", false},
		{"no event", []*pluginv1.EventFrames{{Frames: []*pluginv1.EventFrame{{Call: 1}}}}, nil, "runtime/protocol", "got event 0", false},
		{"malformed result", []*pluginv1.EventFrames{eventFrames(1, result(1, "{:a"))}, nil, "runtime/protocol", "decode", false},
		{"above the limit", []*pluginv1.EventFrames{eventFrames(1, delta(1, 3<<20))}, nil, "runtime/protocol", "the limit is", false},
		{"nobody's event", []*pluginv1.EventFrames{eventFrames(7, delta(1, 1))}, nil, "runtime/protocol", "never made", true},
		{"no frames, no answer", []*pluginv1.EventFrames{{}}, nil, "runtime/protocol", "without a result", false},
		{"status", nil, status.Error(codes.Unknown, "oops"), "runtime/invoke-failed", "oops", false},
		{"unimplemented", nil, status.Error(codes.Unimplemented, "no such method"), "runtime/protocol", "no such method", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r := byHand(t, func(s grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error {
				if _, err := s.Recv(); err != nil {
					return err
				}
				for _, m := range tt.send {
					if err := s.Send(m); err != nil {
						return err
					}
				}
				if tt.send != nil && len(tt.send[0].Frames) > 0 {
					_, _ = s.Recv() // the cancel frame
				}
				return tt.err
			})
			c.LimitMessages(2 << 20)
			_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
			require.ErrorIs(t, err, contract.OfType(tt.want))
			assert.Contains(t, err.Error(), tt.says)
			if tt.violated {
				eventually(t, "the stream ends", func() bool { ended, _ := c.shared.lane.over(); return ended })
				answer, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
				require.NoError(t, err)
				assert.Equal(t, ":alone", answer.String())
				assert.EqualValues(t, 1, r.alone.Load())
			}
		})
	}
}

// WIRE-007: a plugin that exceeds its credit fails the call, and the host
// buffers no more than the credit.
func TestMuxBeyondTheCredit(t *testing.T) {
	c, _ := byHand(t, func(s grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		body := `"` + strings.Repeat("x", eventCredit/2) + `"`
		for i := range 4 {
			if err := s.Send(eventFrames(1, seqEvent(uint64(i+1), deltaEvent(edntext(body))))); err != nil {
				return err
			}
		}
		_, err := s.Recv()
		return err
	})
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), func(Event) {
		c.shared.lane.mu.Lock()
		call := c.shared.lane.calls[1]
		c.shared.lane.mu.Unlock()
		if call != nil {
			eventually(t, "the host notices", func() bool { call.mu.Lock(); defer call.mu.Unlock(); return call.lost != nil })
			assert.Less(t, call.used, 2*eventCredit)
		}
	})
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	assert.Contains(t, err.Error(), "credit")
}

// WIRE-007: an answer followed by another event is valid, and its stream is not
// used again.
func TestMuxEventAfterTheAnswer(t *testing.T) {
	c, _ := byHand(t, func(s grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		_ = s.Send(eventFrames(1, seqEvent(1, resultEvent(edntext("1"))), seqEvent(2, deltaEvent(edntext("2")))))
		<-s.Context().Done()
		return nil
	})
	answer, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.NoError(t, err)
	assert.Equal(t, "1", answer.String())
	eventually(t, "the stream is ended", func() bool { _, violated := c.shared.lane.over(); return violated })
}

// WIRE-007: a lost stream fails exactly the calls without an answer, like a
// lost connection; the next call opens a new one.
func TestMuxLostStream(t *testing.T) {
	var streams atomic.Int64
	c, r := byHand(t, func(s grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error {
		first := streams.Add(1) == 1
		for n := 0; ; {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			for _, f := range m.GetFrames() {
				n++
				switch {
				case !first || n == 1:
					if err := s.Send(eventFrames(f.GetCall(), seqEvent(1, resultEvent(edntext("1"))))); err != nil {
						return err
					}
				case n == 4:
					return status.Error(codes.Unavailable, "gone")
				}
			}
		}
	})
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.NoError(t, err)
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
			assert.ErrorIs(t, err, contract.OfType("runtime/crashed"))
			assert.True(t, Transport(err))
		})
	}
	callers.Wait()
	answer, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.NoError(t, err)
	assert.Equal(t, "1", answer.String())
	assert.EqualValues(t, 2, streams.Load())
	assert.Zero(t, r.alone.Load())
}

// WIRE-007: the end of the process ends the calls on the stream.
func TestMuxLostConnection(t *testing.T) {
	entered := make(chan struct{}, 2)
	var server *grpc.Server
	f := &fake{invoke: func(ctx context.Context, _ Call, _ *Emitter) (edn.Value, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return edn.Nil(), ctx.Err()
	}}
	c := NewClient(serve(t, func(s *grpc.Server) { server = s; Register(s, f, nil) }), nil)
	t.Cleanup(c.Close)
	c.shared.allow()
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
			assert.ErrorIs(t, err, contract.OfType("runtime/crashed"))
			assert.True(t, Transport(err))
		})
	}
	<-entered
	<-entered
	server.Stop()
	callers.Wait()
}

// WIRE-005, WIRE-007: calls share a stream only if both sides support it; a
// large request has a stream of its own in any case.
func TestMuxIsNegotiated(t *testing.T) {
	for _, tt := range []struct {
		name           string
		host           []string
		plugin         string
		small, sharing bool
	}{
		{"both", []string{"mux"}, `#{"mux" "streaming"}`, true, true},
		{"keywords", []string{"mux"}, `[:mux]`, true, true},
		{"large request", []string{"mux"}, `#{"mux"}`, false, false},
		{"host alone", []string{"mux"}, `#{}`, true, false},
		{"plugin alone", nil, `#{"mux"}`, true, false},
		{"nobody", nil, `nil`, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, &fake{configure: func(context.Context, Setup, *Caller) (Description, error) {
				return Description{Value: edn.MustMap(edn.K("features"), edn.MustRead(tt.plugin))}, nil
			}})
			_, err := c.Configure(t.Context(), Setup{Host: HostInfo{Features: tt.host}}, nil)
			require.NoError(t, err)
			request := edn.Text("small")
			if !tt.small {
				request = edn.Text(strings.Repeat("x", mostMuxed))
			}
			answer, err := c.Invoke(t.Context(), CallContext{}, request, nil)
			require.NoError(t, err)
			assert.True(t, edn.Equal(request, answer))
			assert.Equal(t, tt.sharing, c.shared.lane != nil)
		})
	}
}

// WIRE-007: a protocol violation of the host ends the stream with a status that
// names it, or is answered.
func TestMuxHostileHosts(t *testing.T) {
	invoke := func(call uint64, text string) *pluginv1.CallFrame {
		return &pluginv1.CallFrame{Call: call, Frame: &pluginv1.CallFrame_Invoke{Invoke: &pluginv1.InvokeRequest{Request: edntext(text)}}}
	}
	cancel := func(call uint64) *pluginv1.CallFrame {
		return &pluginv1.CallFrame{Call: call, Frame: &pluginv1.CallFrame_Cancel{Cancel: true}}
	}
	credit := func(call, n uint64) *pluginv1.CallFrame {
		return &pluginv1.CallFrame{Call: call, Frame: &pluginv1.CallFrame_Credit{Credit: n}}
	}
	for _, tt := range []struct {
		name    string
		frames  []*pluginv1.CallFrame
		answers int
		code    codes.Code
	}{
		{"two calls", []*pluginv1.CallFrame{invoke(1, "1"), invoke(9, "2")}, 2, codes.OK},
		{"number again", []*pluginv1.CallFrame{invoke(3, "1"), invoke(3, "2")}, -1, codes.InvalidArgument},
		{"smaller number", []*pluginv1.CallFrame{invoke(3, "1"), invoke(2, "2")}, -1, codes.InvalidArgument},
		{"no number", []*pluginv1.CallFrame{invoke(0, "1")}, -1, codes.InvalidArgument},
		{"words about nobody", []*pluginv1.CallFrame{cancel(4), credit(5, 1<<63), invoke(6, "1"), {Call: 7}}, 1, codes.OK},
		{"credit without end", []*pluginv1.CallFrame{invoke(1, "1"), credit(1, 1<<63), credit(1, 1<<63)}, 1, codes.OK},
		{"malformed text", []*pluginv1.CallFrame{invoke(1, "[")}, 1, codes.OK},
		{"nothing", nil, 0, codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := serve(t, func(s *grpc.Server) { Register(s, &fake{}, nil) })
			stream, err := pluginv1.NewCapabilityClient(conn).Calls(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.Send(&pluginv1.CallFrames{Frames: tt.frames}))
			require.NoError(t, stream.CloseSend())
			answers := 0
			for {
				m, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					err = nil
				}
				if m == nil {
					assert.Equal(t, tt.code, status.Code(err))
					break
				}
				for _, f := range m.GetFrames() {
					assert.EqualValues(t, 1, f.GetEvent().GetSeq())
					answers++
				}
			}
			if tt.answers >= 0 {
				assert.Equal(t, tt.answers, answers)
			}
		})
	}
}

// WIRE-007: the frames of this package equal those of the generated code, in
// both directions.
func TestFramesAgreeWithGeneratedCode(t *testing.T) {
	request := &pluginv1.InvokeRequest{Context: &pluginv1.CallContext{Run: "r", Attempt: 2}, Request: edntext(`{:a 1}`)}
	for _, size := range []int{0, 1, 127, 128, copyBelow, 1 << 20} {
		event := seqEvent(300, resultEvent(edntext(strings.Repeat("x", size))))
		room, err := roomyRequest(request)
		require.NoError(t, err)
		head, tail := roomyEvent(event)
		out := outgoing{wrapped(1<<40, fieldFrameInvoke, room, nil), signal(2, fieldFrameCancel, 1), signal(3, fieldFrameCredit, 1<<20)}
		var calls pluginv1.CallFrames
		require.NoError(t, goproto.Unmarshal(out.buffers().Materialize(), &calls))
		want := &pluginv1.CallFrames{Frames: []*pluginv1.CallFrame{
			{Call: 1 << 40, Frame: &pluginv1.CallFrame_Invoke{Invoke: request}},
			{Call: 2, Frame: &pluginv1.CallFrame_Cancel{Cancel: true}},
			{Call: 3, Frame: &pluginv1.CallFrame_Credit{Credit: 1 << 20}},
		}}
		assert.True(t, goproto.Equal(want, &calls))
		var events pluginv1.EventFrames
		require.NoError(t, goproto.Unmarshal(outgoing{wrapped(9, fieldFrameEvent, head, tail)}.buffers().Materialize(), &events))
		assert.True(t, goproto.Equal(eventFrames(9, event), &events))

		text, err := goproto.Marshal(want)
		require.NoError(t, err)
		var in incoming
		require.NoError(t, in.read(mem.BufferSlice{mem.SliceBuffer(text)}))
		require.Len(t, in.frames, 3)
		f, err := readFrame(in.frames[0])
		require.NoError(t, err)
		got, err := parseRequest(f.body)
		require.NoError(t, err)
		assert.True(t, f.begins && f.call == 1<<40 && goproto.Equal(request, got))
		f, err = readFrame(in.frames[1])
		require.NoError(t, err)
		assert.Equal(t, received{call: 2, cancel: true}, f)
		f, err = readFrame(in.frames[2])
		require.NoError(t, err)
		assert.Equal(t, received{call: 3, credit: 1 << 20}, f)
	}
}

// Any bytes are read as a message of frames or rejected.
func FuzzFrames(f *testing.F) {
	for _, m := range []goproto.Message{
		eventFrames(1, seqEvent(1, resultEvent(edntext("1")))),
		&pluginv1.CallFrames{Frames: []*pluginv1.CallFrame{{Call: 1, Frame: &pluginv1.CallFrame_Credit{Credit: 5}}}},
	} {
		text, err := goproto.Marshal(m)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var in incoming
		if in.read(mem.BufferSlice{mem.SliceBuffer(text)}) != nil {
			return
		}
		for _, part := range in.frames {
			if frame, err := readFrame(part); err == nil {
				_ = isAnswer(frame.body)
				_, _ = parseEvent(frame.body)
				_, _ = parseRequest(frame.body)
			}
		}
	})
}
