package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Tool is a tool that a model may call.
type Tool struct {
	Name        string // wire name
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments
}

// ChoiceMode restricts the use of tools.
type ChoiceMode string

// The modes. An empty one leaves the choice to the provider.
const (
	AnyTool  ChoiceMode = "auto"
	NoTool   ChoiceMode = "none"
	MustCall ChoiceMode = "required"
	OneTool  ChoiceMode = "tool"
)

// Choice states whether a model may call tools, must call one, or must call a
// certain tool.
type Choice struct {
	Mode ChoiceMode
	Tool string // wire name, of OneTool
}

// Disobeyed returns a phrase for an error message that describes how calls violate the choice, ""
// if they do not.
func (c Choice) Disobeyed(calls []*RawCall) string {
	switch {
	case c.Mode == NoTool && len(calls) > 0:
		return "calls a tool although the request forbids calls"
	case (c.Mode == MustCall || c.Mode == OneTool) && len(calls) == 0:
		return "calls no tool although the request demands a call"
	}
	for _, call := range calls {
		if c.Mode == OneTool && call.Name != c.Tool {
			return "calls another tool than the one that the request demands"
		}
	}
	return ""
}

// Options are the options of a request. Numbers are kept as written; an empty
// one is left to the provider.
type Options struct {
	Temperature, TopP                 json.Number
	PresencePenalty, FrequencyPenalty json.Number
	MaxTokens                         int64 // 0: no limit is requested
	Seed                              *int64
	Stop                              []string
	// Effort is the reasoning effort, "" for the default; Budget is the token
	// budget for reasoning, 0 for none.
	Effort string
	Budget int64
	// Extra is merged into the body of the request.
	Extra map[string]json.RawMessage
}

// Form is the way in which an answer with a schema is requested.
type Form string

// The forms, from the strictest to none at all.
const (
	Native Form = "native" // the provider enforces a schema
	JSON   Form = "json"   // the provider enforces JSON
	Prompt Form = "prompt" // the schema is in the system message
	Plain  Form = ""       // free text
)

// Output is the form in which the answer is requested.
type Output struct {
	Form   Form
	Name   string          // of the schema, in letters that providers accept
	Schema json.RawMessage // lowered, for Native
}

// Request is one request to a model.
type Request struct {
	Model    string
	Messages []Message
	Tools    []Tool
	Choice   Choice
	Options  Options
	Output   Output
	// Context is the context window to request, if the provider supports it; 0:
	// its default.
	Context int64
	// Whole requests the answer in one piece instead of a stream.
	Whole bool
	// Without lists body fields that the model is known to reject, Rejected those that its server
	// rejected.
	Without  []string
	Rejected []Rejected
}

// Rejected is a body field that a server rejected. Value is the rejected value as JSON, empty if the
// server takes no value of the field.
type Rejected struct{ Field, Value string }

// Images is the number of images in the messages.
func (r *Request) Images() int {
	n := 0
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == ImagePart {
				n++
			}
		}
	}
	return n
}

// Finish is the reason why a model stopped.
type Finish string

// The known reasons; Failed stands for all others.
const (
	Unfinished Finish = ""
	Stop       Finish = "stop"
	Length     Finish = "length"
	ToolCalls  Finish = "tool-calls"
	Refused    Finish = "refused"
	Failed     Finish = "error"
)

// Usage holds the token counts that a provider reported. In and Out are negative if it reported
// none; the other counts are then 0. In includes Cached and Written, Out includes Reasoning.
type Usage struct {
	In, Out, Cached, Reasoning int64
	// Written counts input tokens that were put into the provider's cache.
	Written int64
	// Short means that the total that the provider stated is above the sum of In and Out.
	Short bool
}

// Unstated returns the usage of a provider that states none.
func Unstated() Usage { return Usage{In: -1, Out: -1} }

// RawCall is the received part of a tool call.
type RawCall struct {
	Index    int
	ID, Name string
	Args     strings.Builder
	seam     Seam
}

// Block is a part of an answer in the order of the provider: a text, reasoning
// or a call.
type Block struct {
	Kind  PartKind
	Index int
	Text  strings.Builder
	// Signature, Data and Field are those of a Part. Details replace the signature
	// unless they are nil: they are costly to write and are read once.
	Signature   strings.Builder
	Details     fmt.Stringer
	Data, Field string
	Call        *RawCall
}

// Sign sets the signature.
func (b *Block) Sign(signature string) {
	b.Signature.Reset()
	b.Signature.WriteString(signature)
}

// Answer is the received part of an answer.
type Answer struct {
	Text, Reasoning strings.Builder
	text, reasoning Seam
	lastText        int // highest index of a block with text
	Refusal         strings.Builder
	Calls           []*RawCall
	Blocks          []*Block
	Finish          Finish
	FinishWord      string // as the provider wrote it
	Category        string // of a refusal, if named
	Assumed         bool   // the finish was inferred, not stated
	// Ended means that the formal end of the stream was seen. Resumed means
	// that text came after a finish reason, which was then not the end.
	Ended, Resumed bool
	// Damaged counts invalid characters in the texts, and signs that a part of them is missing
	// or out of order.
	Damaged   int
	Usage     Usage
	Model     string // of the serving model
	RequestID string
}

// NewAnswer returns an empty answer whose usage is unstated.
func NewAnswer() *Answer { return &Answer{Usage: Unstated()} }

// AddText appends a piece of the text to the block with the index. It returns the characters that
// are complete now; see Seam. The text is that of all blocks by their index, so a piece of a block
// in front of the last one damages it: the pieces behind its place were shown already.
func (a *Answer) AddText(index int, piece string) string {
	if index < a.lastText {
		a.Damaged++
	}
	a.lastText = max(a.lastText, index)
	shown := a.add(&a.Text, &a.text, piece)
	a.Block(TextPart, index).Text.WriteString(shown)
	return shown
}

// AddReasoning appends a piece of the reasoning to the block with the index. It returns the
// characters that are complete now.
func (a *Answer) AddReasoning(index int, piece string) string {
	shown := a.ShowReasoning(piece)
	a.Block(ThinkingPart, index).Text.WriteString(shown)
	return shown
}

// ShowReasoning appends a piece of reasoning that is not sent back to the provider, so it belongs
// to no block. It returns the characters that are complete now.
func (a *Answer) ShowReasoning(piece string) string { return a.add(&a.Reasoning, &a.reasoning, piece) }

// Block returns the block with this kind and index, and creates it if it is
// missing.
func (a *Answer) Block(kind PartKind, index int) *Block {
	for _, b := range a.Blocks {
		if b.Kind == kind && b.Index == index {
			return b
		}
	}
	b := &Block{Kind: kind, Index: index}
	a.Blocks = append(a.Blocks, b)
	return b
}

// Extra returns the block that holds the opaque provider data of a field, and
// creates it if missing: directly before the block of call, or as the first
// block if call is nil.
func (a *Answer) Extra(field string, call *RawCall) *Block {
	at := max(0, slices.IndexFunc(a.Blocks, func(b *Block) bool { return call != nil && b.Call == call }))
	for i, b := range a.Blocks {
		if b.Field == field && (call == nil || i == at-1) {
			return b
		}
	}
	b := &Block{Kind: ThinkingPart, Index: -1, Field: field}
	a.Blocks = slices.Insert(a.Blocks, at, b)
	return b
}

// AddArgs appends a piece of a call's arguments. It returns the characters that are complete now.
func (a *Answer) AddArgs(c *RawCall, piece string) string { return a.add(&c.Args, &c.seam, piece) }

func (a *Answer) add(to *strings.Builder, seam *Seam, piece string) string {
	text, damaged := seam.Join(piece)
	a.Damaged += damaged
	to.WriteString(text)
	return text
}

// Torn returns the number of invalid characters in the texts, including an
// incomplete character at the end of a text.
func (a *Answer) Torn() int {
	n := a.Damaged
	for _, s := range a.seams() {
		if s.End() {
			n++
		}
	}
	return n
}

func (a *Answer) seams() []*Seam {
	all := []*Seam{&a.text, &a.reasoning}
	for _, c := range a.Calls {
		all = append(all, &c.seam)
	}
	return all
}

// Call returns the call with the index, and creates it if it is missing; isNew
// reports whether it was created.
func (a *Answer) Call(index int) (call *RawCall, isNew bool) {
	for _, c := range a.Calls {
		if c.Index == index {
			return c, false
		}
	}
	c := &RawCall{Index: index}
	a.Calls = append(a.Calls, c)
	a.Block(CallPart, index).Call = c
	return c, true
}

// Kind is the kind of a piece.
type Kind string

// The kinds of pieces.
const (
	TextPiece      Kind = "text"
	ReasoningPiece Kind = "reasoning"
	ToolCallPiece  Kind = "tool-call"
)

// Piece is a part of an answer, in the order of arrival.
type Piece struct {
	Kind Kind
	Text string
	Call *RawCall // of a ToolCallPiece
}
