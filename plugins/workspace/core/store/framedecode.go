package store

import (
	"encoding/base64"
	"errors"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/edn"
)

// decodeFrame decodes the record of a frame. Its ids are not verified. It is written by hand
// instead of with edn.Decode, because it dominates the time to read frames: see BenchmarkCompose of
// package view.
func decodeFrame(payload []byte) (*Frame, error) {
	v, err := edn.Read(payload)
	if err != nil {
		return nil, err
	}
	f, d := &Frame{}, fields{}
	for key, x := range v.Entries() {
		name, _ := key.AsKeyword()
		switch name {
		case "frame/id":
			f.ID = d.id(x)
		case "record/id":
			f.Record = d.id(x)
		case "path":
			f.Path = string(d.bytes(x))
		case "node/id":
			f.Node = d.id(x)
		case "frame/type":
			f.Type = d.text(x)
		case "agent/id":
			f.Agent = d.text(x)
		case "origin":
			f.Origin = Origin(d.text(x))
		case "basis/id":
			f.Basis = d.id(x)
		case "basis":
			f.Inputs = d.inputs(x)
		case "content/id":
			f.Content = d.id(x)
		case "content/bytes":
			f.Bytes = int(d.number(x))
		case "sample":
			f.Sample = uint64(d.number(x))
		case "sampled?":
			f.Sampled = x.Truthy()
		case "recipe":
			f.Recipe = x
		case "meta":
			f.Meta = x
		case "created-at":
			f.CreatedAt = d.number(x)
		}
	}
	return f, d.err
}

// fields decodes values and keeps the first error.
type fields struct{ err error }

var errField = errors.New("a field of the record has an unexpected type")

func (d *fields) check(ok bool) {
	if !ok && d.err == nil {
		d.err = errField
	}
}

func (d *fields) text(v edn.Value) string {
	s, ok := v.AsString()
	d.check(ok)
	return s
}

func (d *fields) number(v edn.Value) int64 {
	n, ok := v.AsInt()
	d.check(ok)
	return n
}

func (d *fields) bytes(v edn.Value) []byte {
	b, err := base64.StdEncoding.DecodeString(d.text(v))
	d.check(err == nil)
	return b
}

// id reads an id; nil is an absent one.
func (d *fields) id(v edn.Value) (x id.ID) {
	if !v.IsNil() {
		d.check(x.UnmarshalText([]byte(d.text(v))) == nil)
	}
	return x
}

func (d *fields) inputs(v edn.Value) (list []Input) {
	for x := range v.Elems() {
		in := Input{Kind: d.text(x.Key("kind")), ID: d.id(x.Key("id"))}
		if text := x.Key("text"); !text.IsNil() {
			in.Text = d.bytes(text)
		}
		list = append(list, in)
	}
	return list
}
