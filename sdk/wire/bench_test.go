package wire

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// echoDesc is a plain unary echo of bytes, as the baseline of a call.
var echoDesc = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := &pluginv1.Payload{}
			return in, decode(in)
		},
	}},
}

// payloads returns requests by size: a dense one of about 1 KiB, a plan of
// about 10 KiB, and one with a text of 1 MiB.
func payloads() []struct {
	name string
	v    edn.Value
} {
	var entry strings.Builder
	for range 24 {
		entry.WriteString(`{:id "n-01" :intent :text/respond :n 42} `)
	}
	kib := edn.MustRead(`{:proto 1 :trace {:id "r-1"} :task {:intent :text/respond :cap/id :a/b} :input {:items [` + entry.String() + `]}}`)
	var plan []edn.Value
	for range 10 {
		plan = append(plan, kib)
	}
	return []struct {
		name string
		v    edn.Value
	}{
		{"1KiB", kib},
		{"10KiB", edn.MustMap(edn.K("plan"), edn.Vector(plan...))},
		{"1MiB-text", edn.MustMap(edn.K("input"), edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("A line of ordinary text, as long as lines in files are, no more\n", 1<<14))))},
	}
}

// BenchmarkCall compares a call through this package, values in and out, with a
// plain unary echo of equal size.
func BenchmarkCall(b *testing.B) {
	conn := serve(b, func(s *grpc.Server) {
		s.RegisterService(&echoDesc, struct{}{})
		Register(s, &fake{invoke: func(_ context.Context, call Call, _ *Emitter) (edn.Value, error) { return call.Request, nil }}, nil)
	})
	client := NewClient(conn, nil)
	for _, p := range payloads() {
		body := p.v.Canonical()
		b.Run(p.name+"/bare", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out := &pluginv1.Payload{}
				require.NoError(b, conn.Invoke(b.Context(), "/bench.Echo/Echo", &pluginv1.Payload{Encoding: "edn", Body: body}, out))
			}
		})
		b.Run(p.name+"/wire", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request, err := edn.Read(body, edn.WithLimits(edn.Wire))
				require.NoError(b, err)
				answer, err := client.Invoke(b.Context(), CallContext{Run: "r", Node: "n", Attempt: 1}, request, nil)
				require.NoError(b, err)
				_ = answer
			}
		})
	}
}

// BenchmarkPayload measures only the codec.
func BenchmarkPayload(b *testing.B) {
	for _, p := range payloads() {
		b.Run(p.name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := EncodePayload(EDN, p.v)
				require.NoError(b, err)
			}
		})
		payload, blobs, err := EncodePayload(EDN, p.v)
		require.NoError(b, err)
		b.Run(p.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var held Blobs
				for _, blob := range blobs {
					require.NoError(b, held.Add(blob))
				}
				_, err := DecodePayload(payload, &held)
				require.NoError(b, err)
			}
		})
	}
}
