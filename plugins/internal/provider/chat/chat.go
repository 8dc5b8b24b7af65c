package chat

import (
	"encoding/json"
	"strings"
)

// Tool is a tool that a model may ask for.
type Tool struct {
	Name        string // wire name
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments
}

// ChoiceMode says how free a model is in its use of tools.
type ChoiceMode string

// The modes. An empty one leaves the choice to the provider.
const (
	AnyTool  ChoiceMode = "auto"
	NoTool   ChoiceMode = "none"
	MustCall ChoiceMode = "required"
	OneTool  ChoiceMode = "tool"
)

// Choice says whether a model may call a tool, or must.
type Choice struct {
	Mode ChoiceMode
	Tool string // wire name, of OneTool
}

// Disobeyed says in which way the calls of an answer are not those that were
// chosen, "" if they are.
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

// Options are how a model should answer. Numbers are kept as written; an empty
// one is left to the provider.
type Options struct {
	Temperature, TopP                 json.Number
	PresencePenalty, FrequencyPenalty json.Number
	MaxTokens                         int64 // 0: unbounded
	Seed                              *int64
	Stop                              []string
	// Effort is how much a model should reason, "" for its default; Budget is how
	// many tokens that may take, 0 for no figure.
	Effort string
	Budget int64
	// Extra is merged into the body of the request.
	Extra map[string]json.RawMessage
}

// Form is the way in which an answer of a certain shape is asked for.
type Form string

// The forms, from the strictest to none at all.
const (
	Native Form = "native" // the provider enforces a schema
	JSON   Form = "json"   // the provider enforces JSON
	Prompt Form = "prompt" // the schema stands in the system message
	Plain  Form = ""       // free text
)

// Output is the shape that an answer should have.
type Output struct {
	Form   Form
	Name   string          // of the schema, in letters that providers accept
	Schema json.RawMessage // lowered, for Native
}

// Request is one question to a model.
type Request struct {
	Model    string
	Messages []Message
	Tools    []Tool
	Choice   Choice
	Options  Options
	Output   Output
	// Context is the size of the context window to ask for, where a provider
	// can be asked; 0: its default.
	Context int64
	// Whole asks for the answer in one piece.
	Whole bool
	// Without are fields of the body that the server does not take.
	Without []string
}

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

// Finish says why a model stopped.
type Finish string

// The reasons that are known; Failed stands for all others.
const (
	Unfinished Finish = ""
	Stop       Finish = "stop"
	Length     Finish = "length"
	ToolCalls  Finish = "tool-calls"
	Refused    Finish = "refused"
	Failed     Finish = "error"
)

// Usage is what a provider says that an answer took. A negative count was not
// stated.
type Usage struct {
	In, Out, Cached, Reasoning int64
	// Written counts input tokens that were put into the provider's cache.
	Written int64
}

// Unstated is the usage of a provider that says nothing.
func Unstated() Usage { return Usage{In: -1, Out: -1} }

// RawCall is a call of a tool as far as it has arrived.
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
	// Signature, Data and Field are those of a Part.
	Signature, Data, Field string
	Call                   *RawCall
}

// Answer is what has arrived of an answer.
type Answer struct {
	Text, Reasoning strings.Builder
	text, reasoning Seam
	Refusal         strings.Builder
	Calls           []*RawCall
	Blocks          []*Block
	Finish          Finish
	FinishWord      string // as the provider wrote it
	Category        string // of a refusal, where it was named
	Assumed         bool   // the finish was concluded, not stated
	// Ended says that the formal end of the stream was seen, Resumed that text
	// came after a finish reason, which was not the end then.
	Ended, Resumed bool
	// Damaged counts the parts of the texts that are no characters.
	Damaged   int
	Usage     Usage
	Model     string // that served
	RequestID string
}

// NewAnswer is an answer of which nothing has arrived.
func NewAnswer() *Answer { return &Answer{Usage: Unstated()} }

// AddText appends a piece of the text, in the block with the index, and returns
// what can be shown of it.
func (a *Answer) AddText(index int, piece string) string {
	shown := a.add(&a.Text, &a.text, piece)
	a.Block(TextPart, index).Text.WriteString(shown)
	return shown
}

// AddReasoning appends a piece of the text before the answer, in the block with
// the index, and returns what can be shown of it.
func (a *Answer) AddReasoning(index int, piece string) string {
	shown := a.add(&a.Reasoning, &a.reasoning, piece)
	a.Block(ThinkingPart, index).Text.WriteString(shown)
	return shown
}

// Block gives the block of a kind with the index, which is made if it is new.
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

// AddArgs appends a piece of the arguments of a call and returns what can be
// shown of it.
func (a *Answer) AddArgs(c *RawCall, piece string) string { return a.add(&c.Args, &c.seam, piece) }

func (a *Answer) add(to *strings.Builder, seam *Seam, piece string) string {
	text, damaged := seam.Join(piece)
	a.Damaged += damaged
	to.WriteString(text)
	return text
}

// Torn counts the parts of the texts that are no characters. A text that ends
// inside a character has one more.
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

// Call gives the call with the index, which is made if it is new.
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
