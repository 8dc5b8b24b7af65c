package chat

import (
	"encoding/json"
	"iter"
	"slices"
)

// Role is the author of a message.
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one message of a conversation.
type Message struct {
	Role    Role
	Content string // plain text
	Parts   []Part // instead of plain text
	Calls   []Call // of an assistant
	CallID  string // the call that a tool message answers
	Tool    string // wire name of the tool that a tool message is from
	Failed  bool   // the content of a tool message is the reason of a failure
	// Cache marks the end of a prefix that other requests share.
	Cache bool
}

// PartKind is the kind of a message part.
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
	// An image has either Data in base64 with its media type, or a URL.
	Media, Data, URL string
	// Reasoning is sent back to its provider: the text with its Signature or
	// the message Field in which it came, or the encrypted Data. The Field of a
	// text is the phase of the answer. Model is the model that wrote it.
	Signature, Field, Model string
	Call                    string // id of a call
	Cache                   bool   // as in Message
}

// Reasons reports whether a part is reasoning.
func (p Part) Reasons() bool { return p.Kind == ThinkingPart || p.Kind == RedactedPart }

// Each returns the parts of a message; a plain text is returned as one part.
func (m Message) Each() []Part {
	if m.Parts == nil && m.Content != "" {
		return []Part{{Kind: TextPart, Text: m.Content}}
	}
	return m.Parts
}

// Flow yields the parts of a message with its calls at their positions, and
// calls without a position at the end. The call is nil for other parts.
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

// Address returns the URL of an image, or a data URL if the image has no URL.
func (p Part) Address() string {
	if p.URL != "" {
		return p.URL
	}
	return "data:" + p.Media + ";base64," + p.Data
}

// Marked reports whether a message or a part of it has a cache mark.
func (m Message) Marked() bool {
	return m.Cache || slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Cache })
}

// With returns the message with text appended: as a part, or after an empty line of
// Content if the message has no parts. It does not change m.
func (m Message) With(text string) Message {
	if m.Parts == nil {
		m.Content += "\n\n" + text
	} else {
		m.Parts = append(slices.Clip(m.Parts), Part{Kind: TextPart, Text: text})
	}
	return m
}

// Call is a tool call in the provider's terms.
type Call struct {
	ID   string
	Name string          // wire name
	Args json.RawMessage // an object
}
