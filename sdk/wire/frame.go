package wire

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Field numbers in plugin.proto.
const (
	fieldFrames      protowire.Number = 1 // of CallFrames and EventFrames
	fieldFrameCall   protowire.Number = 1 // of CallFrame and EventFrame
	fieldFrameInvoke protowire.Number = 2
	fieldFrameCancel protowire.Number = 3
	fieldFrameCredit protowire.Number = 4
	fieldFrameEvent  protowire.Number = 2
)

// frameRoom is an upper bound for the bytes before an event or a request in a
// frame: three tags, two lengths and the call number.
const frameRoom = 32

// usualContext is the size that the contexts of most calls fit into, in bytes.
const usualContext = 512

// frame is one outgoing frame of a stream of calls. Its bytes are an entry of
// the repeated field of a message, so a message is a concatenation of frames.
// tail is a large body, which is not copied.
type frame struct{ head, tail []byte }

func (f frame) size() int { return len(f.head) + len(f.tail) }

// outgoing is a message of a stream of calls.
type outgoing []frame

func (o outgoing) buffers() mem.BufferSlice {
	out := make(mem.BufferSlice, 0, len(o)+1)
	for _, f := range o {
		out = append(out, mem.SliceBuffer(f.head))
		if len(f.tail) > 0 {
			out = append(out, mem.SliceBuffer(f.tail))
		}
	}
	return out
}

// wrapped returns the frame of a request or an event: room is the encoded message
// after frameRoom free bytes, and n is the field of the message in the frame.
func wrapped(call uint64, n protowire.Number, room, tail []byte) frame {
	size := len(room) - frameRoom + len(tail)
	var space [frameRoom]byte
	inner := protowire.AppendTag(space[:0], fieldFrameCall, protowire.VarintType)
	inner = protowire.AppendVarint(inner, call)
	inner = protowire.AppendTag(inner, n, protowire.BytesType)
	inner = protowire.AppendVarint(inner, uint64(size))
	var outer [frameRoom]byte
	head := protowire.AppendTag(outer[:0], fieldFrames, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(inner)+size))
	head = append(head, inner...)
	at := frameRoom - len(head)
	copy(room[at:], head)
	return frame{head: room[at:], tail: tail}
}

// signal returns a frame of the host without a request: cancel or credit.
func signal(call uint64, n protowire.Number, value uint64) frame {
	size := protowire.SizeTag(fieldFrameCall) + protowire.SizeVarint(call) + protowire.SizeTag(n) +
		protowire.SizeVarint(value)
	head := protowire.AppendTag(make([]byte, 0, frameRoom), fieldFrames, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(size))
	head = protowire.AppendTag(head, fieldFrameCall, protowire.VarintType)
	head = protowire.AppendVarint(head, call)
	head = protowire.AppendTag(head, n, protowire.VarintType)
	return frame{head: protowire.AppendVarint(head, value)}
}

// roomyRequest writes a request without blobs, with frameRoom bytes before it.
func roomyRequest(m *pluginv1.InvokeRequest) ([]byte, error) {
	var room [usualContext]byte
	context := room[:0]
	if m.Context != nil {
		var err error
		if context, err = appendContext(context, m.Context); err != nil {
			return nil, contract.Errorf("runtime/protocol", "encode call: %w", err)
		}
	}
	out := make([]byte, frameRoom, 2*frameRoom+len(context)+len(m.GetRequest().GetBody()))
	if m.Context != nil {
		out = protowire.AppendTag(out, fieldRequestContext, protowire.BytesType)
		out = protowire.AppendBytes(out, context)
	}
	name, body := m.GetRequest().GetEncoding(), m.GetRequest().GetBody()
	out = appendPairHead(out, fieldRequestPayload, name, len(body))
	return append(out, body...), nil
}

// appendPairHead writes field n, a message of a string and bytes, without the
// bytes themselves.
func appendPairHead(out []byte, n protowire.Number, name string, body int) []byte {
	out = protowire.AppendTag(out, n, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(pairSize(name, body)))
	if name != "" {
		out = protowire.AppendTag(out, fieldPayloadEncoding, protowire.BytesType)
		out = protowire.AppendString(out, name)
	}
	if body > 0 {
		out = protowire.AppendTag(out, fieldPayloadBody, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(body))
	}
	return out
}

func pairSize(name string, body int) int {
	size := 0
	if name != "" {
		size += protowire.SizeTag(fieldPayloadEncoding) + protowire.SizeBytes(len(name))
	}
	if body > 0 {
		size += protowire.SizeTag(fieldPayloadBody) + protowire.SizeBytes(body)
	}
	return size
}

// roomyEvent writes an event with frameRoom bytes before it. A large body is
// returned separately.
func roomyEvent(m *pluginv1.InvokeEvent) (head, tail []byte) {
	n, name, body := eventParts(m)
	out := make([]byte, frameRoom, 2*frameRoom+len(name)+min(len(body), copyBelow))
	if m.Seq != 0 {
		out = protowire.AppendTag(out, fieldEventSeq, protowire.VarintType)
		out = protowire.AppendVarint(out, m.Seq)
	}
	if n != 0 {
		out = appendPairHead(out, n, name, len(body))
	}
	if len(body) < copyBelow {
		return append(out, body...), nil
	}
	return out, body
}

// eventParts splits an event written by this package.
func eventParts(m *pluginv1.InvokeEvent) (n protowire.Number, name string, body []byte) {
	switch e := m.GetEvent().(type) {
	case *pluginv1.InvokeEvent_Delta:
		return fieldEventDelta, e.Delta.GetEncoding(), e.Delta.GetBody()
	case *pluginv1.InvokeEvent_Progress:
		return fieldEventProgress, e.Progress.GetEncoding(), e.Progress.GetBody()
	case *pluginv1.InvokeEvent_Result:
		return fieldEventResult, e.Result.GetEncoding(), e.Result.GetBody()
	case *pluginv1.InvokeEvent_Error:
		return fieldEventError, e.Error.GetEncoding(), e.Error.GetBody()
	case *pluginv1.InvokeEvent_Blob:
		return fieldEventBlob, e.Blob.GetHash(), e.Blob.GetBody()
	}
	return 0, "", nil
}

// incoming is a message of a stream of calls: its frames, each in memory of its
// own, because values read from one may live longer than the others.
type incoming struct{ frames [][]byte }

func (in *incoming) read(data mem.BufferSlice) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	in.frames = in.frames[:0]
	text := whole.ReadOnlyData()
	for len(text) > 0 {
		n, kind, size := protowire.ConsumeTag(text)
		if size < 0 {
			return protowire.ParseError(size)
		}
		text = text[size:]
		if n != fieldFrames || kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, kind, text); size < 0 {
				return protowire.ParseError(size)
			}
			text = text[size:]
			continue
		}
		part, size := protowire.ConsumeBytes(text)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if len(in.frames) == MaxFrames {
			return fmt.Errorf("a message has more than %d frames", MaxFrames)
		}
		in.frames = append(in.frames, append(make([]byte, 0, len(part)), part...))
		text = text[size:]
	}
	return nil
}

// received is a frame of either side. body is a request or an event.
type received struct {
	call   uint64
	body   []byte
	begins bool // has a body
	cancel bool
	credit uint64
}

// readFrame reads a frame of either side and skips unknown fields.
func readFrame(text []byte) (f received, err error) {
	for len(text) > 0 {
		n, kind, size := protowire.ConsumeTag(text)
		if size < 0 {
			return f, protowire.ParseError(size)
		}
		text = text[size:]
		switch {
		case n == fieldFrameInvoke && kind == protowire.BytesType: // also fieldFrameEvent
			f.body, size = protowire.ConsumeBytes(text)
			f.begins = true
		case n == fieldFrameCall && kind == protowire.VarintType:
			f.call, size = protowire.ConsumeVarint(text)
		case n == fieldFrameCancel && kind == protowire.VarintType:
			var v uint64
			v, size = protowire.ConsumeVarint(text)
			f.cancel = v != 0
		case n == fieldFrameCredit && kind == protowire.VarintType:
			f.credit, size = protowire.ConsumeVarint(text)
		default:
			size = protowire.ConsumeFieldValue(n, kind, text)
		}
		if size < 0 {
			return f, protowire.ParseError(size)
		}
		text = text[size:]
	}
	return f, nil
}

// isAnswer reports whether an encoded event is the last one of its call.
func isAnswer(event []byte) bool {
	for len(event) > 0 {
		n, kind, size := protowire.ConsumeTag(event)
		if size < 0 {
			return false
		}
		event = event[size:]
		if n == fieldEventResult || n == fieldEventError {
			return true
		}
		if size = protowire.ConsumeFieldValue(n, kind, event); size < 0 {
			return false
		}
		event = event[size:]
	}
	return false
}

// parseEvent reads an event that shares memory with text.
func parseEvent(text []byte) (*pluginv1.InvokeEvent, error) {
	m := &pluginv1.InvokeEvent{}
	if readEvent(text, m) {
		return m, nil
	}
	m = &pluginv1.InvokeEvent{}
	return m, goproto.Unmarshal(text, m)
}

// parseRequest reads a request that shares memory with text.
func parseRequest(text []byte) (*pluginv1.InvokeRequest, error) {
	m := &pluginv1.InvokeRequest{}
	if readRequest(text, m) {
		return m, nil
	}
	m = &pluginv1.InvokeRequest{}
	return m, goproto.Unmarshal(text, m)
}
