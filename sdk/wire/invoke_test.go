package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// WIRE-002, WIRE-004: the context of a call crosses the wire in both encodings,
// and the answer has the encoding of the request.
func TestInvokeCarriesTheCall(t *testing.T) { bothWays(t, invokeCarriesTheCall) }

func invokeCarriesTheCall(t *testing.T, client clientOf) {
	call := CallContext{
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Run:         "r-1", Node: "c-01", Path: edn.MustRead(`[0 "i3" 2]`), Attempt: 2,
		Deadline: time.Now().Add(time.Minute).Round(0),
		Budget:   edn.MustRead(`{:max-tokens 100}`),
		Effects:  []string{"fs/read", "none"}, Scope: edn.MustRead(`{:paths ["/x"]}`),
		EffectKey: "b3:00", Stack: []string{"a/b", "c/d"}, CallID: "call-7",
	}
	request := edn.MustRead(`{:proto 1 :input {:prompt "hi"}}`)
	for _, enc := range []Encoding{EDN, JSON} {
		t.Run(string(enc), func(t *testing.T) {
			var seen Call
			c := client(t, &fake{invoke: func(ctx context.Context, call Call, out *Emitter) (edn.Value, error) {
				seen = call
				at, ok := ctx.Deadline()
				require.True(t, ok)
				assert.WithinDuration(t, call.Context.Deadline, at, time.Second)
				return edn.MustRead(`{:result {:type :value :out {:text "ho"}}}`), nil
			}})
			c.UseEncoding(enc)
			answer, err := c.Invoke(t.Context(), call, request, nil)
			require.NoError(t, err)
			assert.Equal(t, `{:result {:out {:text "ho"} :type :value}}`, answer.String())
			assert.Equal(t, enc, seen.Encoding)
			assert.True(t, edn.Equal(request, seen.Request))
			got := seen.Context
			assert.True(t, edn.Equal(call.Path, got.Path) && edn.Equal(call.Budget, got.Budget) && edn.Equal(call.Scope, got.Scope))
			assert.True(t, call.Deadline.Equal(got.Deadline))
			got.Path, got.Budget, got.Scope, got.Deadline = call.Path, call.Budget, call.Scope, call.Deadline
			assert.Equal(t, fmt.Sprintf("%+v", call), fmt.Sprintf("%+v", got))
		})
	}
}

// LM-004: an answer from which a secret was removed says so, beside other doubts about it.
func TestMaskedAnswersAreMarked(t *testing.T) { bothWays(t, maskedAnswersAreMarked) }

func maskedAnswersAreMarked(t *testing.T, client clientOf) {
	c := client(t, &fake{invoke: func(_ context.Context, call Call, _ *Emitter) (edn.Value, error) { return call.Request, nil }})
	remove := func(s string) string { return strings.ReplaceAll(s, "lm-studio", "[secret]") }
	c.HideWith(remove, func() func(string) string { return remove })
	for _, tt := range []struct{ answer, want string }{
		{`{:result {:out {:text "Use it."} :type :value}}`, `{:result {:out {:text "Use it."} :type :value}}`},
		{
			`{:result {:out {:text "Use lm-studio."} :type :value}}`,
			`{:invoke/meta {:quality {:degraded? true :why [:text/masked]}} :result {:out {:text "Use [secret]."} :type :value}}`,
		},
		{
			`{:invoke/meta {:finish :stop :quality {:degraded? true :why [:finish/assumed]}} :result {:out [{:path "lm-studio"}]}}`,
			`{:invoke/meta {:finish :stop :quality {:degraded? true :why [:finish/assumed :text/masked]}} :result {:out [{:path "[secret]"}]}}`,
		},
		{`{:invoke/meta {:model "lm-studio"} :result {:out 1}}`, `{:invoke/meta {:model "[secret]"} :result {:out 1}}`},
		{`{:result {:error {:message "lm-studio"}}}`, `{:result {:error {:message "[secret]"}}}`},
	} {
		answer, err := c.Invoke(t.Context(), CallContext{}, edn.MustRead(tt.answer), nil)
		require.NoError(t, err, tt.answer)
		assert.Equal(t, tt.want, answer.String())
	}
}

// WIRE-002, WIRE-003: events come in order before the answer, also with large
// strings.
func TestInvokeStreams(t *testing.T) { bothWays(t, invokeStreams) }

func invokeStreams(t *testing.T, client clientOf) {
	big := edn.Text(large("b"))
	c := client(t, &fake{invoke: func(_ context.Context, _ Call, out *Emitter) (edn.Value, error) {
		for i := range 3 {
			if err := out.Delta(edn.Int(int64(i))); err != nil {
				return edn.Nil(), err
			}
		}
		if err := out.Progress(big); err != nil {
			return edn.Nil(), err
		}
		return edn.Vector(big, edn.Text(large("c"))), nil
	}})
	var events []string
	answer, err := c.Invoke(t.Context(), CallContext{}, big, func(e Event) {
		events = append(events, fmt.Sprintf("%s %d", e.Kind, len(e.Value.String())))
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"delta 1", "delta 1", "delta 1", fmt.Sprintf("progress %d", BlobThreshold+3)}, events)
	assert.True(t, edn.Equal(answer, edn.Vector(big, edn.Text(large("c")))))
}

// ERR-005 to ERR-007: an error of a plugin arrives within the rules for plugins
// and is not a transport error.
func TestInvokeErrors(t *testing.T) { bothWays(t, invokeErrors) }

func invokeErrors(t *testing.T, client clientOf) {
	for _, tt := range []struct {
		name   string
		err    error
		typ    string
		class  contract.Class
		source contract.Source
	}{
		{"typed", contract.Errorf("input/invalid", "no"), "input/invalid", contract.ClassStop, contract.SourceRequest},
		{"own type", contract.Errorf("mine/lost-on-time", "no").WithClass(contract.ClassStop), "mine/lost-on-time", contract.ClassStop, contract.SourcePlugin},
		{"reserved", &contract.Error{Type: "runtime/no-such-thing"}, "runtime/invoke-failed", contract.ClassSwitch, contract.SourcePlugin},
		{"untyped", errors.New("boom"), "runtime/internal", contract.ClassFinal, contract.SourceHost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, &fake{invoke: func(context.Context, Call, *Emitter) (edn.Value, error) { return edn.Nil(), tt.err }})
			_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
			var got *contract.Error
			require.ErrorAs(t, err, &got)
			assert.Equal(t, tt.typ, got.Type)
			assert.Equal(t, tt.class, got.Class)
			assert.Equal(t, tt.source, got.Source)
			assert.False(t, Transport(err))
		})
	}
}

// WIRE-002, WIRE-003: every violation of the contract by a stream returns
// :runtime/protocol; none hangs.
func TestInvokeHostileStreams(t *testing.T) {
	result := func(seq uint64, text string) *pluginv1.InvokeEvent {
		return &pluginv1.InvokeEvent{Seq: seq, Event: &pluginv1.InvokeEvent_Result{Result: edntext(text)}}
	}
	delta := func(seq uint64) *pluginv1.InvokeEvent { return seqEvent(seq, deltaEvent(edntext("1"))) }
	send := func(events ...*pluginv1.InvokeEvent) func(*pluginv1.InvokeRequest, grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
		return func(_ *pluginv1.InvokeRequest, s grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
			for _, e := range events {
				if err := s.Send(e); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*pluginv1.InvokeRequest, grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error
		want string
		says string
	}{
		{"no answer", send(delta(1)), "runtime/protocol", "without a result"},
		{"nothing", send(), "runtime/protocol", "without a result"},
		{"not counted", send(result(0, "1")), "runtime/protocol", "expected event 1, got event 0"},
		{"gap", send(delta(1), result(3, "1")), "runtime/protocol", "expected event 2, got event 3"},
		{"two answers", send(result(1, "1"), result(2, "2")), "runtime/protocol", "after the answer"},
		{"delta after the answer", send(result(1, "1"), delta(2)), "runtime/protocol", "after the answer"},
		{"empty event", send(&pluginv1.InvokeEvent{Seq: 1}), "runtime/protocol", "an unknown kind"},
		{"malformed result", send(result(1, "{:a")), "runtime/protocol", "decode"},
		{"malformed error", send(seqEvent(1, errorEvent(edntext("7")))), "runtime/invalid-result", ""},
		{"error without a type", send(seqEvent(1, errorEvent(edntext("{}")))), "runtime/invalid-result", "type"},
		{"forged reference", send(result(1, `#ferment/value "`+edn.Hash(edn.Nil())+`"`)), "runtime/protocol", "no blob"},
		{"secret", send(result(1, `#ferment/secret "x"`)), "runtime/invalid-result", "reserved"},
		{"status", func(*pluginv1.InvokeRequest, grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
			return status.Error(codes.Unknown, "oops")
		}, "runtime/invoke-failed", "oops"},
		{"unimplemented", func(*pluginv1.InvokeRequest, grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
			return status.Error(codes.Unimplemented, "no")
		}, "runtime/protocol", "no"},
		{"large message", func(_ *pluginv1.InvokeRequest, s grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
			return s.Send(seqEvent(1, &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Blob{Blob: &pluginv1.Blob{Body: make([]byte, MaxMessage)}}}))
		}, "runtime/protocol", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := hostile(t, tt.do).Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
			require.Error(t, err)
			assert.ErrorIs(t, err, contract.OfType(tt.want))
			assert.Contains(t, err.Error(), tt.says)
		})
	}
}

func seqEvent(seq uint64, e *pluginv1.InvokeEvent) *pluginv1.InvokeEvent {
	e.Seq = seq
	return e
}

// WIRE-002: an answer is valid even if the plugin never ends its stream; the
// call takes finishGrace longer.
func TestInvokeStreamLeftOpen(t *testing.T) {
	c := hostile(t, func(_ *pluginv1.InvokeRequest, s grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
		if err := s.Send(seqEvent(1, resultEvent(edntext("1")))); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	})
	began := time.Now()
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	assert.Contains(t, err.Error(), "stayed open")
	assert.Less(t, time.Since(began), finishGrace+30*time.Second, "the call has no deadline")
}

// WIRE-002, SDK-001: the end of the caller's context ends the call on the other
// side, and the error names the cause.
func TestInvokeEnds(t *testing.T) { bothWays(t, invokeEnds) }

func invokeEnds(t *testing.T, client clientOf) {
	crashed := contract.Errorf("runtime/crashed", "killed by signal 9")
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) (context.Context, func())
		want string
	}{
		{"caller cancels", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		}, "canceled"},
		{"with a cause", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(crashed) }
		}, "runtime/crashed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHanging()
			c := client(t, &h.fake)
			ctx, end := tt.ctx(t.Context())
			go func() {
				<-h.entered
				end()
			}()
			_, err := c.Invoke(ctx, CallContext{}, edn.Nil(), nil)
			require.ErrorIs(t, err, contract.OfType(tt.want))
			<-h.left
		})
	}
	// The handler of a call has its deadline. On a busy machine the deadline
	// may pass before the handler starts, so it is increased until the handler
	// runs.
	for name, invoke := range map[string]func(*testing.T, *Client, time.Duration) error{
		"deadline of the call": func(t *testing.T, c *Client, in time.Duration) error {
			_, err := c.Invoke(t.Context(), CallContext{Deadline: time.Now().Add(in)}, edn.Nil(), nil)
			return err
		},
		"deadline of the context": func(t *testing.T, c *Client, in time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), in)
			defer cancel()
			_, err := c.Invoke(ctx, CallContext{}, edn.Nil(), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHanging()
			c := client(t, &h.fake)
			in := 100 * time.Millisecond
			for begun := false; !begun; in *= 2 {
				require.Less(t, in, 30*time.Second, "no call began before its deadline")
				require.ErrorIs(t, invoke(t, c, in), contract.OfType("timeout/hard"))
				select {
				case <-h.entered:
					begun = true
				default:
				}
			}
			<-h.left
		})
	}
}

// hanging is a plugin whose calls run until their context ends.
type hanging struct {
	fake
	entered, left chan struct{} // closed by the first call
	once          sync.Once
}

func newHanging() *hanging {
	h := &hanging{entered: make(chan struct{}), left: make(chan struct{})}
	h.invoke = func(ctx context.Context, _ Call, _ *Emitter) (edn.Value, error) {
		h.once.Do(func() {
			defer close(h.left)
			close(h.entered)
			<-ctx.Done()
		})
		<-ctx.Done()
		return edn.Nil(), ctx.Err()
	}
	return h
}

// A lost connection is :runtime/crashed and a transport error.
func TestInvokeLostConnection(t *testing.T) {
	var server *grpc.Server
	conn := serve(t, func(s *grpc.Server) {
		server = s
		pluginv1.RegisterCapabilityServer(s, &rawCapability{do: func(_ *pluginv1.InvokeRequest, s grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
			go server.Stop()
			<-s.Context().Done()
			return nil
		}})
	})
	_, err := NewClient(conn, nil).Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.ErrorIs(t, err, contract.OfType("runtime/crashed"))
	var line *TransportError
	require.ErrorAs(t, err, &line)
	assert.Equal(t, codes.Unavailable, line.Code)
	assert.True(t, Transport(err))
	assert.NotEmpty(t, line.Error())
}

// An emitter is safe for concurrent use and rejects events after the answer.
func TestEmitterIsSafeForConcurrentUse(t *testing.T) { bothWays(t, emitterIsSafeForConcurrentUse) }

func emitterIsSafeForConcurrentUse(t *testing.T, client clientOf) {
	var kept *Emitter
	c := client(t, &fake{invoke: func(_ context.Context, _ Call, out *Emitter) (edn.Value, error) {
		kept = out
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 25 {
					_ = out.Delta(edn.Vector(edn.Int(int64(i)), edn.Text(strings.Repeat("x", i*10_000))))
				}
			})
		}
		wg.Wait()
		return edn.Int(1), nil
	}})
	n := 0
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), func(Event) { n++ })
	require.NoError(t, err)
	assert.Equal(t, 200, n)
	require.Error(t, kept.Delta(edn.Nil()))
	assert.True(t, kept.isAnswered())
}

// A value that cannot be sent becomes the error of the call, not a broken
// stream.
func TestInvokeAnswerThatCannotBeSent(t *testing.T) { bothWays(t, invokeAnswerThatCannotBeSent) }

func invokeAnswerThatCannotBeSent(t *testing.T, client clientOf) {
	c := client(t, &fake{invoke: func(context.Context, Call, *Emitter) (edn.Value, error) {
		return edn.MustTagged("ferment/secret", edn.Text("x")), nil
	}})
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.ErrorIs(t, err, contract.OfType("runtime/invalid-result"))
	assert.False(t, Transport(err))
}

// A plugin that tests hosts can send any answer.
func TestEmitterVerbatim(t *testing.T) { bothWays(t, emitterVerbatim) }

func emitterVerbatim(t *testing.T, client clientOf) {
	c := client(t, &fake{invoke: func(_ context.Context, _ Call, out *Emitter) (edn.Value, error) {
		return edn.Nil(), out.Verbatim([]byte("{:result"))
	}})
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Nil(), nil)
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	assert.Contains(t, err.Error(), "decode payload")
}

// WIRE-003: the client rejects a request above 16 MiB.
func TestInvokeRequestTooLarge(t *testing.T) { bothWays(t, invokeRequestTooLarge) }

func invokeRequestTooLarge(t *testing.T, client clientOf) {
	c := client(t, &fake{})
	var parts []edn.Value
	for i := range 3 {
		parts = append(parts, edn.Text(strings.Repeat(string(rune('a'+i)), 6<<20)))
	}
	_, err := c.Invoke(t.Context(), CallContext{}, edn.Vector(parts...), nil)
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	back, err := c.Invoke(t.Context(), CallContext{}, edn.Vector(parts[:2]...), nil)
	require.NoError(t, err)
	assert.True(t, edn.Equal(back, edn.Vector(parts[:2]...)))
}

// A message that is not a valid InvokeRequest is answered with an error.
func TestInvokeMalformedRequests(t *testing.T) {
	conn := serve(t, func(s *grpc.Server) { Register(s, &fake{}, nil) })
	for name, req := range map[string]*pluginv1.InvokeRequest{
		"nothing":         {},
		"encoding":        {Request: &pluginv1.Payload{Encoding: "cbor", Body: []byte("1")}},
		"context":         {Context: &pluginv1.CallContext{Budget: []byte("{")}, Request: edntext("1")},
		"blob too large":  {Request: edntext("1"), Blobs: []*pluginv1.Blob{{Body: make([]byte, MaxString+1)}}},
		"text":            {Request: edntext("[")},
		"text of nothing": {Request: edntext("")},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := pluginv1.NewCapabilityClient(conn).Invoke(t.Context(), req)
			require.NoError(t, err)
			event, err := stream.Recv()
			require.NoError(t, err)
			v, err := DecodePayload(event.GetError(), nil)
			require.NoError(t, err)
			assert.Equal(t, ":runtime/protocol", v.Key("type").String())
			assert.EqualValues(t, 1, event.GetSeq())
		})
	}
}
