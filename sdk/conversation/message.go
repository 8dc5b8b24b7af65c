package conversation

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a conversation. It is immutable and safe for
// concurrent use. The zero Message is empty and has no role.
//
// Messages are compared with [Message.Equal]; the operator == does not compile.
type Message struct {
	_ [0]func() // not comparable
	m *message
}

type message struct {
	role  Role
	parts []Part
	by    Attribution
}

// Attribution states the origin of a message. Empty fields are unknown.
type Attribution struct {
	// Agent, Capability and Model produced the message in the run Run.
	Agent, Capability, Model, Run string
	// Finish is the reason why the model stopped: stop, length, tool-calls or
	// refused. The text of a message that finished with length was cut.
	Finish string
}

// System returns a message with instructions for the model.
func System(text string) Message { return plain(RoleSystem, text) }

// User returns a message of the user.
func User(text string) Message { return plain(RoleUser, text) }

// Assistant returns a message of the model.
func Assistant(text string) Message { return plain(RoleAssistant, text) }

// ToolResult returns the result of the call with the id.
func ToolResult(callID, text string) Message { return plain(RoleTool, text, Result{CallID: callID}) }

func plain(role Role, text string, parts ...Part) Message {
	if text != "" {
		parts = append(parts, Text{Text: strings.ToValidUTF8(text, "\ufffd")})
	}
	return Message{m: &message{role: role, parts: parts}}
}

// New returns a message with the parts. Text parts without text are left out,
// and bytes that are not UTF-8 are replaced in texts.
//
// The error is an [*InvalidError] if the role is unknown, if nothing is left, or
// if a part is incomplete or does not belong in a message of the role:
//
//	system      Text
//	user        Text, Image, Reference
//	assistant   Text, Reference, Reasoning, Call
//	tool        one Result, then Text, Image, Reference
func New(role Role, parts ...Part) (Message, error) {
	m := &message{role: role, parts: make([]Part, 0, len(parts))}
	if !slices.Contains([]Role{RoleSystem, RoleUser, RoleAssistant, RoleTool}, role) {
		return Message{}, &InvalidError{Part: -1, Reason: fmt.Sprintf("the role %q is unknown", role)}
	}
	for i, p := range parts {
		if c, ok := p.(Call); ok && c.Cache && i < len(parts)-1 {
			return Message{}, &InvalidError{Part: i, Reason: "a Call with a cache mark is the last part"}
		}
		p = valid(p)
		if p == (Text{}) {
			continue
		}
		if why := m.rejects(p); why != "" {
			return Message{}, &InvalidError{Part: i, Reason: why}
		}
		m.parts = append(m.parts, p)
	}
	if len(m.parts) == 0 {
		return Message{}, &InvalidError{Part: -1, Reason: "a message of the role " + string(role) + " has no content"}
	}
	return Message{m: m}, nil
}

// valid replaces bytes that are not UTF-8. A text without content becomes the
// zero Text.
func valid(p Part) Part {
	switch part := p.(type) {
	case Text:
		if part.Text = strings.ToValidUTF8(part.Text, "\ufffd"); part.Text == "" {
			return Text{}
		}
		return part
	case Reasoning:
		part.Text = strings.ToValidUTF8(part.Text, "\ufffd")
		return part
	case Call:
		part.Args = strings.ToValidUTF8(part.Args, "\ufffd")
		return part
	}
	return p
}

// rejects returns why the part cannot follow the other parts of the message, ""
// if it can.
func (m *message) rejects(p Part) string {
	if _, first := p.(Result); m.role == RoleTool && first != (len(m.parts) == 0) {
		return "a message of the role tool has one Result, which is its first part"
	}
	switch p := p.(type) {
	case Text:
		return ""
	case Image:
		return m.rejectsImage(p)
	case Reference:
		switch {
		case m.role == RoleSystem:
			return "a Reference does not belong in a system message"
		case p.Hash == "" || p.MediaType == "":
			return "a Reference needs a hash and a media type"
		}
		return ""
	case Reasoning:
		switch {
		case m.role != RoleAssistant:
			return "Reasoning belongs in an assistant message"
		case p.Data == "" && p.Text == "" && p.Signature == "":
			return "Reasoning needs a text, a signature or data"
		case p.Data != "" && p.Text+p.Signature+p.Field != "":
			return "Reasoning with data has no text, signature or field"
		}
		return ""
	case Call:
		return m.rejectsCall(p)
	case Result:
		switch {
		case m.role != RoleTool:
			return "a Result belongs in a tool message"
		case p.CallID == "":
			return "a Result needs the id of its call"
		}
		return ""
	}
	return fmt.Sprintf("a %T is not a part", p)
}

func (m *message) rejectsImage(p Image) string {
	switch {
	case m.role != RoleUser && m.role != RoleTool:
		return "an Image belongs in a user or tool message"
	case (p.Data == "") == (p.URL == ""):
		return "an Image needs either data or a URL"
	case (p.Data == "") != (p.MediaType == ""):
		return "an Image has a media type if it has data"
	}
	return ""
}

func (m *message) rejectsCall(p Call) string {
	switch {
	case m.role != RoleAssistant:
		return "a Call belongs in an assistant message"
	case p.ID == "" || p.Tool == "" || p.Args == "":
		return "a Call needs an id, a tool and arguments"
	}
	for _, other := range m.parts {
		if c, ok := other.(Call); ok && c.ID == p.ID {
			return fmt.Sprintf("two calls have the id %q", p.ID)
		}
	}
	return ""
}

// Role returns the role, "" of the zero Message.
func (m Message) Role() Role {
	if m.m == nil {
		return ""
	}
	return m.m.role
}

// Parts yields the parts in their order.
func (m Message) Parts() iter.Seq[Part] {
	if m.m == nil {
		return func(func(Part) bool) {}
	}
	return slices.Values(m.m.parts)
}

// Text returns the text parts of the message, concatenated without a separator.
func (m Message) Text() string {
	var first string
	var b strings.Builder
	for p := range m.Parts() {
		t, ok := p.(Text)
		switch {
		case !ok:
		case first == "":
			first = t.Text
		default:
			if b.Len() == 0 {
				b.WriteString(first)
			}
			b.WriteString(t.Text)
		}
	}
	if b.Len() == 0 {
		return first
	}
	return b.String()
}

// Calls yields the tool calls in their order.
func (m Message) Calls() iter.Seq[Call] {
	return func(yield func(Call) bool) {
		if m.m == nil {
			return
		}
		for _, p := range m.m.parts {
			if c, ok := p.(Call); ok && !yield(c) {
				return
			}
		}
	}
}

// Result returns the Result of a message of the role tool; ok is false for other
// roles.
func (m Message) Result() (r Result, ok bool) {
	if m.Role() != RoleTool {
		return Result{}, false
	}
	r, ok = m.m.parts[0].(Result)
	return r, ok
}

// Empty reports whether the message has no content: it is the zero Message or
// was made from an empty text. A message of the role tool is never empty.
func (m Message) Empty() bool { return m.m == nil || len(m.m.parts) == 0 }

// Attribution returns the origin of the message.
func (m Message) Attribution() Attribution {
	if m.m == nil {
		return Attribution{}
	}
	return m.m.by
}

// WithAttribution returns a copy of the message with another attribution.
func (m Message) WithAttribution(by Attribution) Message {
	if m.m == nil {
		return m
	}
	return Message{m: &message{role: m.m.role, parts: m.m.parts, by: by}}
}

// Equal reports whether both messages have the same role, parts and
// attribution.
func (m Message) Equal(other Message) bool {
	if m.m == nil || other.m == nil || m.m == other.m {
		return m.m == other.m
	}
	return m.m.role == other.m.role && m.m.by == other.m.by && slices.Equal(m.m.parts, other.m.parts)
}

// String returns the message for a log or a test, in one paragraph. The content
// of images and reasoning is left out.
func (m Message) String() string {
	var b strings.Builder
	b.WriteString(string(m.Role()) + ":")
	for p := range m.Parts() {
		switch p := p.(type) {
		case Text:
			b.WriteString(" " + p.Text)
		case Image:
			b.WriteString(" [image]")
		case Reference:
			b.WriteString(" [" + p.MediaType + " " + p.Hash + "]")
		case Reasoning:
			b.WriteString(" [reasoning]")
		case Call:
			b.WriteString(" [call " + p.ID + ": " + p.Tool + " " + p.Args + "]")
		case Result:
			failed := ""
			if p.Failed {
				failed = " failed"
			}
			b.WriteString(" [result of " + p.CallID + failed + "]")
		}
	}
	return b.String()
}

// InvalidError describes why a message cannot be part of a conversation.
type InvalidError struct {
	// Part is the index of the invalid part, -1 if the whole message is invalid.
	Part   int
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string {
	if e.Part < 0 {
		return "conversation: message: " + e.Reason
	}
	return fmt.Sprintf("conversation: message: part %d: %s", e.Part, e.Reason)
}
