package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// The codec writes the same bytes as the generated code and reads them back.
func TestCodecAgreesWithGeneratedCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, m := range []proto.Message{genEvent().Draw(t, "event"), genRequest().Draw(t, "request")} {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := newCodec().Marshal(m)
			if err != nil || !bytes.Equal(want, got.Materialize()) {
				t.Fatalf("%v: wrote %x, want %x", err, got.Materialize(), want)
			}
			back := m.ProtoReflect().New().Interface()
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(want)}, back); err != nil || !proto.Equal(m, back) {
				t.Fatalf("%v: read %v, want %v", err, back, m)
			}
		}
	})
}

func genBytes() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		n := rapid.SampledFrom([]int{0, 1, 100, copyBelow - 1, copyBelow, 20_000}).Draw(t, "size")
		return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, n)
	})
}

func genPayload() *rapid.Generator[*pluginv1.Payload] {
	return rapid.Custom(func(t *rapid.T) *pluginv1.Payload {
		return &pluginv1.Payload{Encoding: rapid.SampledFrom([]string{"", "edn", "json", "\u017c"}).Draw(t, "encoding"), Body: genBytes().Draw(t, "body")}
	})
}

func genEvent() *rapid.Generator[*pluginv1.InvokeEvent] {
	return rapid.Custom(func(t *rapid.T) *pluginv1.InvokeEvent {
		m := &pluginv1.InvokeEvent{Seq: rapid.Uint64().Draw(t, "seq")}
		p := genPayload().Draw(t, "payload")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			m.Event = &pluginv1.InvokeEvent_Delta{Delta: p}
		case 1:
			m.Event = &pluginv1.InvokeEvent_Progress{Progress: p}
		case 2:
			m.Event = &pluginv1.InvokeEvent_Result{Result: p}
		case 3:
			m.Event = &pluginv1.InvokeEvent_Error{Error: p}
		case 4:
			m.Event = &pluginv1.InvokeEvent_Blob{Blob: &pluginv1.Blob{Hash: p.Encoding, Body: p.Body}}
		}
		return m
	})
}

func genRequest() *rapid.Generator[*pluginv1.InvokeRequest] {
	return rapid.Custom(func(t *rapid.T) *pluginv1.InvokeRequest {
		m := &pluginv1.InvokeRequest{}
		if rapid.Bool().Draw(t, "has context") {
			m.Context = &pluginv1.CallContext{Run: rapid.String().Draw(t, "run"), Attempt: rapid.Uint32().Draw(t, "attempt"), Stack: rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "stack")}
		}
		if rapid.Bool().Draw(t, "has payload") {
			m.Request = genPayload().Draw(t, "payload")
		}
		for range rapid.IntRange(0, 2).Draw(t, "blobs") {
			p := genPayload().Draw(t, "blob")
			m.Blobs = append(m.Blobs, &pluginv1.Blob{Hash: p.Encoding, Body: p.Body})
		}
		return m
	})
}

// Messages outside of the fast path are left to the generated code: fields of a
// newer peer are kept, repeated ones merged, invalid ones rejected.
func TestCodecLeavesTheRestToGeneratedCode(t *testing.T) {
	event, err := proto.Marshal(&pluginv1.InvokeEvent{Seq: 1, Event: &pluginv1.InvokeEvent_Result{Result: edntext("1")}})
	require.NoError(t, err)
	second, err := proto.Marshal(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: &pluginv1.Payload{Body: []byte("2")}}})
	require.NoError(t, err)
	newer := protowire.AppendString(protowire.AppendTag(bytes.Clone(event), 99, protowire.BytesType), "x")
	for name, text := range map[string][]byte{
		"newer field":    newer,
		"event twice":    append(bytes.Clone(event), second...),
		"wrong type":     protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 7),
		"truncated":      event[:len(event)-3],
		"no UTF-8":       {0x1a, 0x03, 0x0a, 0x01, 0xff},
		"empty":          {},
		"group":          {0x0b, 0x0c},
		"body before it": {0x1a, 0x08, 0x12, 0x01, '1', 0x0a, 0x03, 'e', 'd', 'n'},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := &pluginv1.InvokeEvent{}, &pluginv1.InvokeEvent{}
			wantErr := proto.Unmarshal(text, want)
			gotErr := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(text))}, got)
			require.Equal(t, wantErr == nil, gotErr == nil, "%v, %v", wantErr, gotErr)
			if wantErr != nil {
				return
			}
			assert.True(t, proto.Equal(want, got), "%v, want %v", got, want)
			out, err := newCodec().Marshal(got)
			require.NoError(t, err)
			again := &pluginv1.InvokeEvent{}
			require.NoError(t, proto.Unmarshal(out.Materialize(), again))
			assert.True(t, proto.Equal(want, again), "what was kept is sent on")
		})
	}
	_, err = newCodec().Marshal(&pluginv1.InvokeRequest{Request: &pluginv1.Payload{Encoding: "\xff"}})
	require.Error(t, err)
}

// Any bytes give the same result as with the generated code.
func FuzzCodec(f *testing.F) {
	for _, m := range []proto.Message{
		&pluginv1.InvokeEvent{Seq: 3, Event: &pluginv1.InvokeEvent_Blob{Blob: &pluginv1.Blob{Hash: "b3:", Body: []byte("x")}}},
		&pluginv1.InvokeRequest{Context: &pluginv1.CallContext{Run: "r"}, Request: edntext("1"), Blobs: []*pluginv1.Blob{{Hash: "h"}}},
	} {
		seed, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range []proto.Message{&pluginv1.InvokeEvent{}, &pluginv1.InvokeRequest{}} {
			want, got := m.ProtoReflect().New().Interface(), m.ProtoReflect().New().Interface()
			wantErr := proto.Unmarshal(text, want)
			gotErr := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(text))}, got)
			require.Equal(t, wantErr == nil, gotErr == nil)
			if wantErr == nil {
				require.True(t, proto.Equal(want, got), "%v, want %v", got, want)
			}
		}
	})
}
