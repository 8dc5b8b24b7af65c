package view

import (
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Frame is a frame in results. It has a text only if the view requests it.
type Frame struct {
	ID          id.ID       `edn:"frame/id"`
	Type        string      `edn:"frame/type"`
	Origin      Keyword     `edn:"frame/origin"`
	Agent       string      `edn:"agent/id"`
	store.Place             // the path
	Node        id.ID       `edn:"node/id"` // state of the path when the frame was put
	BasisID     id.ID       `edn:"basis/id"`
	Basis       []edn.Value `edn:"basis"`
	Recipe      edn.Value   `edn:"recipe"`
	// State is the state of a head; other frames have none.
	State       Keyword   `edn:"state,omitempty"`
	Content     id.ID     `edn:"content/id"`
	ContentType string    `edn:"content/type,omitempty"`
	Bytes       int       `edn:"content/bytes"`
	Text        *string   `edn:"content,omitempty"`
	Encoded     *string   `edn:"content/b64,omitempty"` // of a text that is not UTF-8
	Omitted     bool      `edn:"content/omitted?,omitempty"`
	Dropped     bool      `edn:"content/dropped?,omitempty"`
	CreatedAt   time.Time `edn:"created-at"`
	Commit      uint64    `edn:"commit"`
	Meta        edn.Value `edn:"meta"`
	Record      id.ID     `edn:"record/id"`
}

// frameOf returns a frame without its text.
func frameOf(h *store.Head) Frame {
	f := h.Frame
	kind, _ := f.Meta.Key("content/type").AsString()
	return Frame{
		ID: f.ID, Type: f.Type, Origin: Keyword(f.Origin), Agent: f.Agent, Place: store.PlaceOf(f.Path), Node: f.Node,
		BasisID: f.Basis, Basis: basis(f.Inputs), Recipe: mapOf(f.Recipe), State: Keyword(h.State),
		Content: f.Content, ContentType: kind, Bytes: f.Bytes,
		CreatedAt: time.Unix(0, f.CreatedAt).UTC(), Commit: f.Seq, Meta: mapOf(f.Meta), Record: f.Record,
	}
}

func mapOf(v edn.Value) edn.Value {
	if v.IsMap() {
		return v
	}
	return edn.MustMap()
}

// setText adds the text.
func (f *Frame) setText(text []byte) {
	s := string(text)
	if utf8.Valid(text) {
		f.Text = &s
		return
	}
	s = base64url(text)
	f.Encoded = &s
}

// basis returns the entries of a basis, such as [:node "n1-b3-…"].
func basis(inputs []store.Input) []edn.Value {
	list := make([]edn.Value, len(inputs))
	for i, in := range inputs {
		entry := []edn.Value{edn.K(in.Kind)}
		if in.Kind == id.InputPath {
			entry = append(entry, store.ShownPath(in.Text).Value())
		} else if in.Kind == id.InputChild {
			entry = append(entry, nameValue(string(in.Text)))
		} else if len(in.Text) > 0 || in.ID.IsZero() {
			entry = append(entry, edn.Text(string(in.Text)))
		}
		if !in.ID.IsZero() {
			entry = append(entry, edn.Text(in.ID.String()))
		}
		list[i] = edn.Vector(entry...)
	}
	return list
}

// nameValue is a name as a string, or as a map if it is not text.
func nameValue(name string) edn.Value {
	p := store.PlaceOf(name)
	if p.Raw != "" {
		return edn.MustMap(edn.K("name/b64"), edn.Text(p.Raw))
	}
	return edn.Text(name)
}
