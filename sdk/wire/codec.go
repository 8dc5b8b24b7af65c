package wire

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// codec is the proto codec with a fast path for the messages of a call, whose
// bodies may be large: bodies are sent without being copied into the message
// and received as views of it. Its output is identical to that of the generated
// code, and the generated code handles everything that the fast path does not
// recognise.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// copyBelow is the size up to which one buffer is cheaper than three.
const copyBelow = 4 << 10

// Field numbers in plugin.proto.
const (
	fieldPayloadEncoding protowire.Number = 1
	fieldPayloadBody     protowire.Number = 2
	fieldRequestContext  protowire.Number = 1
	fieldRequestPayload  protowire.Number = 2
	fieldRequestBlobs    protowire.Number = 3
	fieldEventDelta      protowire.Number = 1
	fieldEventProgress   protowire.Number = 2
	fieldEventResult     protowire.Number = 3
	fieldEventError      protowire.Number = 4
	fieldEventBlob       protowire.Number = 5
	fieldEventSeq        protowire.Number = 6
)

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case outgoing:
		return m.buffers(), nil
	case *pluginv1.InvokeEvent:
		if out, ok := marshalEvent(m); ok {
			return out, nil
		}
	case *pluginv1.InvokeRequest:
		if out, ok := marshalRequest(m); ok {
			return out, nil
		}
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *incoming:
		return m.read(data)
	case *pluginv1.InvokeEvent:
		text := data.Materialize()
		if readEvent(text, m) {
			return nil
		}
		return goproto.Unmarshal(text, m)
	case *pluginv1.InvokeRequest:
		text := data.Materialize()
		if readRequest(text, m) {
			return nil
		}
		goproto.Reset(m)
		return goproto.Unmarshal(text, m)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// writer assembles a message from small pieces in head and large bodies that
// are not copied.
type writer struct {
	out  mem.BufferSlice
	head []byte
}

func (w *writer) body(b []byte) {
	if len(b) < copyBelow {
		w.head = append(w.head, b...)
		return
	}
	w.flush()
	w.out = append(w.out, mem.SliceBuffer(b))
}

func (w *writer) flush() {
	if len(w.head) > 0 {
		w.out = append(w.out, mem.SliceBuffer(w.head))
		w.head = nil
	}
}

// pair writes a message with a string (field 1) and bytes (field 2) as field n.
// Payload and Blob have this form.
func (w *writer) pair(n protowire.Number, name string, body []byte) {
	size := 0
	if name != "" {
		size += protowire.SizeTag(fieldPayloadEncoding) + protowire.SizeBytes(len(name))
	}
	if len(body) > 0 {
		size += protowire.SizeTag(fieldPayloadBody) + protowire.SizeBytes(len(body))
	}
	w.head = protowire.AppendTag(w.head, n, protowire.BytesType)
	w.head = protowire.AppendVarint(w.head, uint64(size))
	if name != "" {
		w.head = protowire.AppendTag(w.head, fieldPayloadEncoding, protowire.BytesType)
		w.head = protowire.AppendString(w.head, name)
	}
	if len(body) > 0 {
		w.head = protowire.AppendTag(w.head, fieldPayloadBody, protowire.BytesType)
		w.head = protowire.AppendVarint(w.head, uint64(len(body)))
		w.body(body)
	}
}

// plain reports whether the fast path may write m: it has no unknown fields,
// and the generated code would accept its names.
func plain(unknown []byte, name string) bool { return len(unknown) == 0 && utf8.ValidString(name) }

func marshalEvent(m *pluginv1.InvokeEvent) (mem.BufferSlice, bool) {
	var n protowire.Number
	var name string
	var body, unknown []byte
	payload := func(number protowire.Number, p *pluginv1.Payload) {
		n, name, body = number, p.GetEncoding(), p.GetBody()
		if p != nil {
			unknown = p.ProtoReflect().GetUnknown()
		}
	}
	switch e := m.GetEvent().(type) {
	case *pluginv1.InvokeEvent_Delta:
		payload(fieldEventDelta, e.Delta)
	case *pluginv1.InvokeEvent_Progress:
		payload(fieldEventProgress, e.Progress)
	case *pluginv1.InvokeEvent_Result:
		payload(fieldEventResult, e.Result)
	case *pluginv1.InvokeEvent_Error:
		payload(fieldEventError, e.Error)
	case *pluginv1.InvokeEvent_Blob:
		n, name, body = fieldEventBlob, e.Blob.GetHash(), e.Blob.GetBody()
		if e.Blob != nil {
			unknown = e.Blob.ProtoReflect().GetUnknown()
		}
	default:
		return nil, false
	}
	if !plain(unknown, name) || len(m.ProtoReflect().GetUnknown()) > 0 {
		return nil, false
	}
	w := writer{head: make([]byte, 0, 64+len(name)+min(len(body), copyBelow))}
	if m.Seq != 0 {
		w.head = protowire.AppendTag(w.head, fieldEventSeq, protowire.VarintType)
		w.head = protowire.AppendVarint(w.head, m.Seq)
	}
	w.pair(n, name, body)
	w.flush()
	return w.out, true
}

func marshalRequest(m *pluginv1.InvokeRequest) (mem.BufferSlice, bool) {
	if len(m.ProtoReflect().GetUnknown()) > 0 || m.Request == nil ||
		!plain(m.Request.ProtoReflect().GetUnknown(), m.Request.Encoding) {
		return nil, false
	}
	for _, b := range m.Blobs {
		if b == nil || !plain(b.ProtoReflect().GetUnknown(), b.Hash) {
			return nil, false
		}
	}
	w := writer{head: make([]byte, 0, 512+min(len(m.Request.Body), copyBelow))}
	if m.Context != nil {
		var room [usualContext]byte
		context, err := appendContext(room[:0], m.Context)
		if err != nil {
			return nil, false
		}
		w.head = protowire.AppendTag(w.head, fieldRequestContext, protowire.BytesType)
		w.head = protowire.AppendBytes(w.head, context)
	}
	w.pair(fieldRequestPayload, m.Request.Encoding, m.Request.Body)
	for _, b := range m.Blobs {
		w.pair(fieldRequestBlobs, b.Hash, b.Body)
	}
	w.flush()
	return w.out, true
}

// fields calls each for every bytes field of a message and number for every
// varint field. It returns false for any other field, and as soon as one of the
// functions does.
func fields(text []byte, each func(protowire.Number, []byte) bool, number func(protowire.Number, uint64) bool) bool {
	for len(text) > 0 {
		n, kind, size := protowire.ConsumeTag(text)
		if size < 0 {
			return false
		}
		text = text[size:]
		ok := false
		switch kind {
		case protowire.BytesType:
			var part []byte
			if part, size = protowire.ConsumeBytes(text); size >= 0 {
				ok = each(n, part)
			}
		case protowire.VarintType:
			var value uint64
			if value, size = protowire.ConsumeVarint(text); size >= 0 {
				ok = number(n, value)
			}
		}
		if !ok {
			return false
		}
		text = text[size:]
	}
	return true
}

func noNumber(protowire.Number, uint64) bool { return false }

// readPair reads a Payload or a Blob whose fields occur at most once.
func readPair(text []byte) (name string, body []byte, ok bool) {
	seen := protowire.Number(0)
	ok = fields(text, func(n protowire.Number, part []byte) bool {
		if n <= seen {
			return false // repeated, or in an unusual order
		}
		seen = n
		switch n {
		case fieldPayloadEncoding:
			name = string(part)
			return utf8.Valid(part)
		case fieldPayloadBody:
			body = part[:len(part):len(part)]
			return true
		}
		return false
	}, noNumber)
	return name, body, ok
}

func readEvent(text []byte, m *pluginv1.InvokeEvent) bool {
	var seq uint64
	var event any
	ok := fields(text, func(n protowire.Number, part []byte) bool {
		name, body, ok := readPair(part)
		if !ok || event != nil {
			return false
		}
		if n == fieldEventBlob {
			event = &pluginv1.Blob{Hash: name, Body: body}
			m.Event = &pluginv1.InvokeEvent_Blob{Blob: event.(*pluginv1.Blob)}
			return true
		}
		p := &pluginv1.Payload{Encoding: name, Body: body}
		event = p
		switch n {
		case fieldEventDelta:
			m.Event = &pluginv1.InvokeEvent_Delta{Delta: p}
		case fieldEventProgress:
			m.Event = &pluginv1.InvokeEvent_Progress{Progress: p}
		case fieldEventResult:
			m.Event = &pluginv1.InvokeEvent_Result{Result: p}
		case fieldEventError:
			m.Event = &pluginv1.InvokeEvent_Error{Error: p}
		default:
			return false
		}
		return true
	}, func(n protowire.Number, v uint64) bool {
		seq = v
		return n == fieldEventSeq
	})
	m.Seq = seq
	return ok
}

func readRequest(text []byte, m *pluginv1.InvokeRequest) bool {
	return fields(text, func(n protowire.Number, part []byte) bool {
		switch n {
		case fieldRequestContext:
			if m.Context != nil {
				return false
			}
			m.Context = &pluginv1.CallContext{}
			return readContext(part, m.Context)
		case fieldRequestPayload:
			name, body, ok := readPair(part)
			if !ok || m.Request != nil {
				return false
			}
			m.Request = &pluginv1.Payload{Encoding: name, Body: body}
			return true
		case fieldRequestBlobs:
			hash, body, ok := readPair(part)
			m.Blobs = append(m.Blobs, &pluginv1.Blob{Hash: hash, Body: body})
			return ok
		}
		return false
	}, noNumber)
}
