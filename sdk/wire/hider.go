package wire

import (
	"context"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/schema"
)

// hider removes secrets from text of a peer. It is applied on receipt, before a
// text is cut or quoted. A nil function removes nothing.
type hider struct {
	failures func(string) string        // applied to errors and health events
	answers  func() func(string) string // applied to answers and deltas; may return nil
}

func (h hider) text(s string) string {
	if h.failures == nil {
		return s
	}
	return h.failures(s)
}

func (h hider) value(v edn.Value) edn.Value {
	if h.failures == nil {
		return v
	}
	return v.MapText(h.failures)
}

// answer removes secrets from an answer or a part of one.
func (h hider) answer(v edn.Value) edn.Value {
	if h.answers == nil {
		return v
	}
	remove := h.answers()
	if remove == nil {
		return v
	}
	return v.MapText(remove)
}

// response removes secrets from an answer and the errors in it. An answer whose output changes is marked
// as degraded, because the secret may have been a word of it.
func (h hider) response(v edn.Value) edn.Value {
	if e := v.Key("error"); !e.IsNil() {
		v = v.AssocKey("error", h.value(e))
	}
	if result := v.Key("result"); !result.Key("error").IsNil() {
		v = v.AssocKey("result", result.AssocKey("error", h.value(result.Key("error"))))
	}
	clean := h.answer(v)
	if edn.Equal(clean.Key("result").Key("out"), v.Key("result").Key("out")) {
		return clean
	}
	meta := clean.Key("invoke/meta")
	if !meta.IsMap() {
		meta = edn.MustMap()
	}
	why := append(slices.Collect(meta.Key("quality").Key("why").Elems()), edn.K("text/masked"))
	quality := edn.MustMap(edn.K("degraded?"), edn.Bool(true), edn.K("why"), edn.Vector(why...))
	return clean.AssocKey("invoke/meta", meta.AssocKey("quality", quality))
}

// transport is the function transport for an error whose text comes from the
// peer.
func (h hider) transport(ctx context.Context, op string, err error) *contract.Error {
	if s, ok := status.FromError(err); ok {
		if clean := h.text(s.Message()); clean != s.Message() {
			err = status.Error(s.Code(), clean)
		}
	}
	return transport(ctx, op, err)
}

// decode is decodeAs, or DecodePayload without a form. An error may contain an
// excerpt, so if the payload contains secrets, the error is that of decoding
// the payload without them.
func (h hider) decode(form func() *schema.Schema, p *pluginv1.Payload, blobs *Blobs) (edn.Value, error) {
	read := func(p *pluginv1.Payload) (edn.Value, error) {
		if form == nil {
			return DecodePayload(p, blobs)
		}
		return decodeAs(form, p, blobs)
	}
	v, err := read(p)
	if err == nil {
		return v, err
	}
	clean, encoding := h.text(string(p.GetBody())), h.text(p.GetEncoding())
	if clean != string(p.GetBody()) || encoding != p.GetEncoding() {
		if _, err = read(&pluginv1.Payload{Encoding: encoding, Body: []byte(clean)}); err == nil {
			err = contract.Errorf("runtime/protocol", "decode payload: it is invalid at the position of a secret")
		}
	}
	return v, err
}
