package wire

import (
	"bytes"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Encoding is the text form of a payload.
type Encoding string

// The encodings of this protocol revision.
const (
	EDN  Encoding = "edn"
	JSON Encoding = "json"
)

// The reserved tags, and a substring of every spelling of them.
const (
	valueTag  = "ferment/value"
	secretTag = "ferment/secret"
)

var (
	ednReserved  = []byte("#ferment/")
	jsonTag      = []byte("#tag")
	jsonEscapedU = []byte(`\u`)
)

// EncodePayload encodes v as a payload. Strings above BlobThreshold are
// extracted as blobs, which must reach the peer before or with the payload. A
// value with a reserved tag returns :runtime/invalid-result, because the tags
// belong to this codec and to the host's journal. A payload above MaxMessage or
// a string above MaxString returns :runtime/protocol.
func EncodePayload(enc Encoding, v edn.Value) (*pluginv1.Payload, []*pluginv1.Blob, error) {
	return encodePayload(enc, v, extraction{})
}

// encodeRequest is EncodePayload for a request. A request may name a secret as
// #ferment/secret :name, which its executor resolves; an answer may not.
func encodeRequest(enc Encoding, v edn.Value) (*pluginv1.Payload, []*pluginv1.Blob, error) {
	return encodePayload(enc, v, extraction{request: true})
}

func encodePayload(enc Encoding, v edn.Value, out extraction) (*pluginv1.Payload, []*pluginv1.Blob, error) {
	if needsExtraction(v) {
		var err error
		if v, err = out.take(v); err != nil {
			return nil, nil, err
		}
	}
	body, err := write(enc, v)
	if err != nil {
		return nil, nil, err
	}
	size := len(body)
	for _, b := range out.blobs {
		size += len(b.Body)
	}
	if size > MaxMessage {
		return nil, nil, contract.Errorf("runtime/protocol", "encode payload: %d bytes, the limit is %d", size, MaxMessage).
			WithHint("send less in one message")
	}
	return &pluginv1.Payload{Encoding: string(enc), Body: body}, out.blobs, nil
}

func write(enc Encoding, v edn.Value) ([]byte, error) {
	switch enc {
	case EDN:
		return v.Canonical(), nil
	case JSON:
		body, err := edn.WriteJSON(v)
		if err != nil {
			return nil, contract.Errorf("runtime/protocol", "encode payload: %w", err).
				WithHint("give the keys names that differ in JSON")
		}
		return body, nil
	}
	return nil, unknownEncoding(enc)
}

// DecodePayload reads a payload within the limits of wire messages and restores
// its blobs; blobs may be nil. The value shares memory with the payload, which
// must not be modified afterwards. Unreadable text, an unknown encoding and a
// reference without its blob return :runtime/protocol.
func DecodePayload(p *pluginv1.Payload, blobs *Blobs) (edn.Value, error) {
	if p == nil {
		return edn.Nil(), contract.Errorf("runtime/protocol", "decode payload: the payload is missing")
	}
	body := p.GetBody()
	if len(body) > MaxMessage {
		return edn.Nil(), contract.Errorf("runtime/protocol", "decode payload: %d bytes, the limit is %d", len(body),
			MaxMessage)
	}
	var v edn.Value
	var err error
	var mayRefer bool
	switch Encoding(p.GetEncoding()) {
	case EDN:
		mayRefer = bytes.Contains(body, ednReserved)
		v, err = edn.ReadString(readOnlyString(body), edn.WithLimits(edn.Wire))
	case JSON:
		mayRefer = bytes.Contains(body, jsonTag) || bytes.Contains(body, jsonEscapedU)
		v, err = edn.ReadJSON(body, edn.WithLimits(edn.Wire))
	default:
		return edn.Nil(), unknownEncoding(Encoding(p.GetEncoding()))
	}
	if err != nil {
		return edn.Nil(), malformed(err)
	}
	if !mayRefer {
		return v, nil
	}
	return blobs.restore(v)
}

func malformed(err error) *contract.Error {
	e := contract.Errorf("runtime/protocol", "decode payload: %w", err)
	var syntax *edn.SyntaxError
	if errors.As(err, &syntax) {
		e = e.WithDetail("syntax", syntax.Value())
	}
	return e
}

func unknownEncoding(enc Encoding) *contract.Error {
	return contract.Errorf("runtime/protocol", "payload: unknown encoding %q, this side knows %q and %q", string(enc),
		EDN, JSON)
}

// needsExtraction reports whether v contains a string above the threshold or a
// tag of the reserved namespace.
func needsExtraction(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindString:
		s, _ := v.AsString()
		return len(s) > BlobThreshold
	case edn.KindTagged:
		tag, inner, _ := v.AsTagged()
		return reserved(tag) || needsExtraction(inner)
	case edn.KindList, edn.KindVector, edn.KindSet:
		for e := range v.Elems() {
			if needsExtraction(e) {
				return true
			}
		}
	case edn.KindMap:
		for k, e := range v.Entries() {
			if needsExtraction(k) || needsExtraction(e) {
				return true
			}
		}
	}
	return false
}

func reserved(tag string) bool { return tag == valueTag || tag == secretTag }

// extraction collects the blobs of one payload; equal strings share one.
type extraction struct {
	blobs   []*pluginv1.Blob
	request bool // may name secrets
}

func (x *extraction) take(v edn.Value) (edn.Value, error) {
	return rebuild(v, func(v edn.Value) (edn.Value, bool, error) {
		switch v.Kind() {
		case edn.KindString:
			s, _ := v.AsString()
			if len(s) <= BlobThreshold {
				return v, true, nil
			}
			ref, err := x.blob(v, s)
			return ref, true, err
		case edn.KindTagged:
			tag, _, _ := v.AsTagged()
			if tag == secretTag && x.request {
				return v, true, nil
			}
			if reserved(tag) {
				return v, true, contract.Errorf("runtime/invalid-result", "encode payload: the tag #%s is reserved", tag).
					WithHint("leave the tag out: only the host sets it")
			}
		}
		return v, false, nil
	})
}

func (x *extraction) blob(v edn.Value, s string) (edn.Value, error) {
	if len(s) > MaxString {
		return edn.Nil(), contract.Errorf("runtime/protocol", "encode payload: a string of %d bytes, the limit is %d",
			len(s), MaxString).WithHint("send a shorter text")
	}
	hash := edn.Hash(v)
	known := slices.ContainsFunc(x.blobs, func(b *pluginv1.Blob) bool { return b.Hash == hash })
	if !known {
		x.blobs = append(x.blobs, &pluginv1.Blob{Hash: hash, Body: readOnlyBytes(s)})
	}
	return edn.Tagged(valueTag, edn.MustString(hash))
}

// rebuild replaces parts of v. For each value, outermost first, visit returns a
// replacement and whether it is final; the parts of a value that is not final
// are visited in turn. Unchanged collections are kept.
func rebuild(v edn.Value, visit func(edn.Value) (edn.Value, bool, error)) (edn.Value, error) {
	v, final, err := visit(v)
	if err != nil || final {
		return v, err
	}
	switch v.Kind() {
	case edn.KindTagged:
		tag, inner, _ := v.AsTagged()
		inner, err := rebuild(inner, visit)
		if err != nil {
			return v, err
		}
		return edn.Tagged(tag, inner)
	case edn.KindList, edn.KindVector, edn.KindSet:
		elems := make([]edn.Value, 0, v.Len())
		for e := range v.Elems() {
			e, err := rebuild(e, visit)
			if err != nil {
				return v, err
			}
			elems = append(elems, e)
		}
		switch v.Kind() {
		case edn.KindList:
			return edn.List(elems...), nil
		case edn.KindVector:
			return edn.Vector(elems...), nil
		}
		return edn.Set(elems)
	case edn.KindMap:
		entries := make([]edn.Entry, 0, v.Len())
		for k, e := range v.Entries() {
			k, err := rebuild(k, visit)
			if err != nil {
				return v, err
			}
			e, err := rebuild(e, visit)
			if err != nil {
				return v, err
			}
			entries = append(entries, edn.Entry{Key: k, Val: e})
		}
		return edn.Map(entries)
	}
	return v, nil
}
