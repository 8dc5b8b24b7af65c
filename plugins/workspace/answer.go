package main

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// putPath adds a path to an output: as :path if it is text without control
// characters, else as :path/b64 (WS-002). The root is a dot.
func putPath(b *edn.MapBuilder, path string) {
	at := store.PlaceOf(path)
	b.OptText("path", at.Text)
	b.OptText("path/b64", at.Raw)
}

// pathList returns paths as text; one that is not text is quoted.
func pathList(paths []string) edn.Value {
	list := make([]edn.Value, len(paths))
	for i, p := range paths {
		list[i] = edn.Text(store.Shown(p))
	}
	return edn.Vector(list...)
}

// idValue returns an id as text, nil for an absent one.
func idValue(x id.ID) edn.Value {
	if x.IsZero() {
		return edn.Nil()
	}
	return edn.Text(x.String())
}

func idList(list []id.ID) edn.Value {
	values := make([]edn.Value, len(list))
	for i, x := range list {
		values[i] = edn.Text(x.String())
	}
	return edn.Vector(values...)
}

func texts(list []string) edn.Value {
	values := make([]edn.Value, len(list))
	for i, s := range list {
		values[i] = edn.Text(s)
	}
	return edn.Vector(values...)
}

func number[T ~int | ~int64 | ~uint64](n T) edn.Value { return edn.Int(int64(n)) }

// frameValue returns the descriptor of a frame: everything but its text. state is
// empty for a frame that is not a head.
func frameValue(f *store.Frame, state store.HeadState) edn.MapBuilder {
	var b edn.MapBuilder
	b.Key("frame/id", idValue(f.ID))
	b.Key("frame/type", edn.Text(f.Type))
	b.Key("frame/origin", edn.K(string(f.Origin)))
	b.Key("agent/id", edn.Text(f.Agent))
	putPath(&b, f.Path)
	b.Key("node/id", idValue(f.Node))
	b.Key("basis/id", idValue(f.Basis))
	b.Key("basis", basisValue(f.Inputs))
	b.Opt("recipe", f.Recipe)
	b.OptKeyword("state", string(state))
	b.Key("content/id", idValue(f.Content))
	b.Key("content/bytes", number(f.Bytes))
	b.Key("created-at", edn.Inst(time.Unix(0, f.CreatedAt)))
	b.Key("commit", number(f.Seq))
	if f.Sample > 0 {
		b.Key("sample", number(f.Sample))
	}
	if kind, ok := f.Meta.Key("content/type").AsString(); ok {
		b.Key("content/type", edn.Text(kind))
	}
	b.OptTrue("content/repaired?", f.Meta.Key("content/repaired?").Truthy())
	b.Opt("meta", f.Meta)
	b.Key("record/id", idValue(f.Record))
	return b
}

// basisValue returns the inputs of a frame as [:kind id] or [:kind text id].
func basisValue(inputs []store.Input) edn.Value {
	list := make([]edn.Value, len(inputs))
	for i, in := range inputs {
		entry := []edn.Value{edn.K(in.Kind)}
		if len(in.Text) > 0 {
			entry = append(entry, edn.Text(string(in.Text)))
		}
		if !in.ID.IsZero() {
			entry = append(entry, idValue(in.ID))
		}
		list[i] = edn.Vector(entry...)
	}
	return edn.Vector(list...)
}

// kindOf returns the kind of a node.
func kindOf(m id.Mode) edn.Value {
	switch m {
	case id.Dir:
		return edn.K("dir")
	case id.Link:
		return edn.K("link")
	case id.Repo:
		return edn.K("repo")
	}
	return edn.K("file")
}

// putContent adds the text of a frame to its descriptor.
func putContent(b *edn.MapBuilder, text []byte) {
	if utf8.Valid(text) {
		b.Key("content", edn.Text(string(text)))
		return
	}
	b.Key("content/b64", edn.Text(base64.StdEncoding.EncodeToString(text)))
}
