package store

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// contentTypeKey is the key of the media type of a text in the metadata.
const contentTypeKey = "content/type"

// engineKeys are the keys of metadata that only the engine writes.
var engineKeys = []string{
	"agent/id", "provider", "provider/type", "model", "cap/id", "prompt", "prompt/id", "prompt/hash", "context/id", "params/id",
	"sample", "usage", "finish", "attempts", "recipe", "policy", "basis/id", "attribution/source", "effect/key", "deleted", contentTypeKey,
}

// CheckMeta returns an error of type frame/metadata-policy unless metadata is a
// map of at most 32 scalars and 8 KiB without a key of the engine.
func CheckMeta(meta edn.Value) error {
	refuse := func(reason, format string, args ...any) error {
		return contract.Errorf("frame/metadata-policy", format, args...).WithDetail("reason", edn.K(reason))
	}
	if meta.IsNil() {
		return nil
	}
	if !meta.IsMap() {
		return refuse("form", "the metadata is not a map")
	}
	if meta.Len() > maxMetaEntries {
		return refuse("entries", "the metadata has %d entries, more than %d", meta.Len(), maxMetaEntries)
	}
	for k, v := range meta.Entries() {
		name, ok := k.AsKeyword()
		if !ok {
			name, ok = k.AsString()
		}
		switch {
		case !ok:
			return refuse("key", "the key %.80s of the metadata is neither a keyword nor a string", k)
		case len(name) > maxMetaKey:
			return refuse("key", "the key %.80s of the metadata has %d bytes, more than %d", k, len(name), maxMetaKey)
		case slices.Contains(engineKeys, name):
			return refuse("reserved", "the key %s of the metadata is written by the engine", k)
		case v.IsMap() || v.IsSet() || v.IsList() || v.IsVector() || v.IsTagged():
			return refuse("value", "the value of %s in the metadata is not a scalar", k)
		}
	}
	if n := len(meta.Canonical()); n > maxMetaBytes {
		return refuse("bytes", "the metadata has %d bytes, more than %d", n, maxMetaBytes)
	}
	return nil
}

// PutRequest is the request to put an authored frame.
type PutRequest struct {
	// Node identifies the node that the frame describes: by a path, or by a node
	// id, which must be that of a current state.
	Node        Ref
	Agent       string
	Type        string
	Text        []byte
	ContentType string
	// Basis are the ids of the basis. By default it is the node alone.
	Basis    Basis
	Meta     edn.Value
	ID       id.ID
	Head     *id.ID
	MaxFrame int // as in NewFrame
}

// Basis is the basis of an authored frame.
type Basis struct {
	// Frame is the frame that the text is based on; absent if there is none.
	Frame id.ID
	// OnlyFrame leaves the node out of the basis, so that a change of the node
	// does not make the frame stale.
	OnlyFrame bool
}

// PutFrom returns the request in the input of put-frame, without the agent and
// the limit. It returns an error if the input does not have the required form.
func PutFrom(input edn.Value) (r PutRequest, err error) {
	if r.Node, err = RefFrom(input); err != nil {
		return r, err
	}
	var ok bool
	if r.Type, ok = input.Key("frame/type").AsString(); !ok {
		return r, invalidInput("frame/type", fmt.Sprintf("expected a string, found %.80s", input.Key("frame/type")))
	}
	if r.Text, err = textFrom(input); err != nil {
		return r, err
	}
	if v := input.Key(contentTypeKey); !v.IsNil() {
		if r.ContentType, ok = v.AsString(); !ok || len(r.ContentType) > 255 || strings.ContainsAny(r.ContentType, "\r\n\x00") {
			return r, invalidInput(contentTypeKey, "expected a media type of at most 255 bytes")
		}
	}
	if r.Basis, err = basisFrom(input.Key("basis")); err != nil {
		return r, err
	}
	if r.Meta = input.Key("meta"); !r.Meta.IsNil() && !r.Meta.IsMap() {
		return r, invalidInput("meta", fmt.Sprintf("expected a map, found %.80s", r.Meta))
	}
	if v := input.Key("frame/id"); !v.IsNil() {
		if r.ID, err = idFrom("frame/id", v); err != nil {
			return r, err
		}
	}
	if v, given := input.Get(edn.K("expect/head")); given {
		r.Head = &id.ID{}
		if !v.IsNil() {
			if *r.Head, err = idFrom("expect/head", v); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// textFrom returns the text of exactly one of :content and :content/b64.
func textFrom(input edn.Value) ([]byte, error) {
	plain, encoded := input.Key("content"), input.Key("content/b64")
	if plain.IsNil() == encoded.IsNil() {
		return nil, invalidInput("content", "exactly one of :content and :content/b64 is expected")
	}
	if !plain.IsNil() {
		text, ok := plain.AsString()
		if !ok {
			return nil, invalidInput("content", "expected a string, found a "+plain.Kind().String())
		}
		return []byte(text), nil
	}
	text, ok := encoded.AsString()
	if !ok {
		return nil, invalidInput("content/b64", "expected a string, found a "+encoded.Kind().String())
	}
	text = strings.TrimRight(text, "=")
	for _, e := range []*base64.Encoding{base64.RawURLEncoding, base64.RawStdEncoding} {
		if raw, err := e.DecodeString(text); err == nil {
			return raw, nil
		}
	}
	return nil, contract.Errorf("frame/invalid", ":content/b64 is not base64").WithDetail("path", edn.Vector(edn.K("content/b64")))
}

// basisFrom returns the basis that is written as :node, [:frame id] or
// [:both id].
func basisFrom(v edn.Value) (b Basis, err error) {
	if name, ok := v.AsKeyword(); v.IsNil() || ok && name == "node" {
		return b, nil
	}
	if v.IsVector() && v.Len() == 2 {
		first, _ := v.Nth(0)
		frame, _ := v.Nth(1)
		if kind, _ := first.AsKeyword(); kind == "frame" || kind == "both" {
			b.OnlyFrame = kind == "frame"
			b.Frame, err = idFrom("basis", frame)
			return b, err
		}
	}
	return b, invalidInput("basis", fmt.Sprintf("expected :node, [:frame id] or [:both id], found %.80s", v))
}

func idFrom(key string, v edn.Value) (id.ID, error) {
	text, _ := v.AsString()
	x, err := id.Parse(id.Frame, text)
	if err != nil {
		return x, contract.AsError(err).WithOp("", ":"+key).WithDetail("path", edn.Vector(edn.K(key)))
	}
	return x, nil
}

// Put appends an authored frame. It first resolves the node, with the errors of Ref and
// workspace/unscanned or node/deleted, then makes the checks of PutFrame. The caller must have
// verified the agent.
func (tx *Tx) Put(r PutRequest) (*Put, error) {
	read := tx.frames()
	path, node := r.Node.Path, id.ID{}
	if r.Node.Node != "" {
		var err error
		if path, node, err = read.named(tx.reads(), r.Node.Node); err != nil {
			return nil, err
		}
	}
	states, err := read.versions(tx.reads(), path, 1)
	var now *Version
	switch {
	case err != nil:
		return nil, err
	case len(states) == 0 && read.unscanned(tx.reads()):
		return nil, contract.Errorf("workspace/unscanned", "nothing was scanned").WithOp("put-frame", Shown(path))
	case len(states) > 0 && states[0].Until != 0:
		return nil, removed("put-frame", path, states[0])
	}
	if len(states) > 0 {
		now = &states[0]
	}
	if node.IsZero() && now != nil {
		node = now.Node
	}
	n := NewFrame{
		Path: path, Type: r.Type, Agent: r.Agent, Origin: Authored, Text: r.Text, ContentType: r.ContentType,
		Meta: r.Meta, Recipe: edn.MustMap(), ID: r.ID, Head: r.Head, MaxFrame: r.MaxFrame,
	}
	if !r.Basis.OnlyFrame {
		n.Inputs = append(n.Inputs, Input{Kind: id.InputNode, ID: node})
	}
	if !r.Basis.Frame.IsZero() {
		n.Inputs = append(n.Inputs, Input{Kind: id.InputFrame, ID: r.Basis.Frame})
	}
	return tx.put(read, n, now)
}
