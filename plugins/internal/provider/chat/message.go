package chat

import (
	"encoding/json"
	"iter"
	"slices"
)

// Role says who speaks.
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one turn.
type Message struct {
	Role    Role
	Content string // plain text
	Parts   []Part // in the place of plain text
	Calls   []Call // of an assistant
	CallID  string // the call that a tool message answers
	Tool    string // wire name of the tool that a tool message is from
	// Cache marks the end of a beginning that other requests share.
	Cache bool
}

// PartKind says what a part of a message is.
type PartKind string

// The kinds of parts.
const (
	TextPart     PartKind = "text"
	ImagePart    PartKind = "image"
	ThinkingPart PartKind = "thinking"          // reasoning
	RedactedPart PartKind = "redacted-thinking" // reasoning that only its provider can read
	CallPart     PartKind = "tool-call"         // the place of a call among the other parts
)

// Part is a part of a message.
type Part struct {
	Kind PartKind
	Text string
	// An image is either Data in base64 with its media type, or stands at a URL.
	Media, Data, URL string
	// Reasoning is what a provider wants back: the text with its Signature or the
	// Field of the message in which it came, or the Data that is not for readers. The
	// Field of a text is the phase of the answer that it is of.
	// Model is the model that it is of.
	Signature, Field, Model string
	Call                    string // id of a call
	Cache                   bool   // as that of a Message
}

// Reasons reports whether a part is reasoning.
func (p Part) Reasons() bool { return p.Kind == ThinkingPart || p.Kind == RedactedPart }

// Each are the parts of a message; plain text is one part.
func (m Message) Each() []Part {
	if m.Parts == nil && m.Content != "" {
		return []Part{{Kind: TextPart, Text: m.Content}}
	}
	return m.Parts
}

// Flow yields the parts of a message with its calls in their places, and the calls
// that have none at the end.
func (m Message) Flow() iter.Seq2[Part, *Call] {
	return func(yield func(Part, *Call) bool) {
		calls := slices.Clone(m.Calls)
		take := func(i int) *Call {
			c := calls[i]
			calls = slices.Delete(calls, i, i+1)
			return &c
		}
		for _, p := range m.Each() {
			var call *Call
			if p.Kind == CallPart {
				i := slices.IndexFunc(calls, func(c Call) bool { return c.ID == p.Call })
				if i < 0 {
					continue
				}
				call = take(i)
			}
			if !yield(p, call) {
				return
			}
		}
		for len(calls) > 0 && yield(Part{Kind: CallPart}, take(0)) {
		}
	}
}

// Address is the URL of an image, one that holds the data where it has no other.
func (p Part) Address() string {
	if p.URL != "" {
		return p.URL
	}
	return "data:" + p.Media + ";base64," + p.Data
}

// Marked reports whether a message or a part of it has a mark.
func (m Message) Marked() bool {
	return m.Cache || slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Cache })
}

// With is the message with a text added at its end, apart from what is there.
func (m Message) With(text string) Message {
	if m.Parts == nil {
		m.Content += "\n\n" + text
	} else {
		m.Parts = append(slices.Clip(m.Parts), Part{Kind: TextPart, Text: text})
	}
	return m
}

// Call is a call of a tool in the words of the provider.
type Call struct {
	ID   string
	Name string          // wire name
	Args json.RawMessage // an object
}
