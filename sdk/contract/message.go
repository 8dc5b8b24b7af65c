package contract

import (
	"iter"
	"strings"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Keys and types of messages.
var (
	kRole    = edn.K("role")
	kContent = edn.K("content")
	kCalls   = edn.K("tool/calls")
	kToolID  = edn.K("tool/id")
	kCache   = edn.K("cache?")
	kArgs    = edn.K("args")
	kID      = edn.K("id")
	kFinish  = edn.K("finish")

	kImage    = edn.K("image")
	kThinking = edn.K("thinking")
	kRedacted = edn.K("redacted-thinking")
	kToolCall = edn.K("tool-call")
	kPointer  = edn.K("reference")
)

// MessageValue returns a message as data, in the form of the :messages of
// :req/chat.
//
// Content that is a single text is a string, any other content a vector of parts.
// Calls are listed under :tool/calls. If another part follows a call, the vector
// also has a part of type tool-call at the position of each call. :attribution and
// parts of type :reference are additions to :req/chat, which models do not read.
func MessageValue(m conversation.Message) edn.Value {
	w := messageWriter{last: -1}
	for p := range m.Parts() {
		w.all = append(w.all, p)
	}
	for i, p := range w.all {
		if marked, can := cacheMark(p); can {
			w.last, w.marked = i, marked
		}
	}
	var b edn.MapBuilder
	b.Set(kRole, edn.K(string(m.Role())))
	b.Opt("content", w.content())
	b.Opt("tool/calls", w.calls())
	if r, ok := m.Result(); ok {
		b.Set(kToolID, edn.Text(r.CallID))
		b.OptTrue("tool/failed?", r.Failed)
	}
	b.OptTrue("cache?", w.marked)
	b.Opt("attribution", attributionValue(m.Attribution()))
	return b.Map()
}

// intentChat is the intent whose input is the conversation alone.
const intentChat = "model/chat"

// MessagesInput returns the input of a request that has a language model answer
// messages: {:messages [..]}, without their attributions. For an intent other than
// model/chat it also has :prompt, the last text of the user, because schemas such
// as :req/text require a text; the model reads the messages.
func MessagesInput(intent string, messages iter.Seq[conversation.Message]) edn.Value {
	var list []edn.Value
	prompt := ""
	for m := range messages {
		list = append(list, MessageValue(m.WithAttribution(conversation.Attribution{})))
		if m.Role() == conversation.RoleUser && strings.TrimSpace(m.Text()) != "" {
			prompt = m.Text()
		}
	}
	var b edn.MapBuilder
	b.Key("messages", edn.Vector(list...))
	if intent != intentChat {
		b.OptText("prompt", prompt)
	}
	return b.Map()
}

// Paragraph separates the texts of the messages of one answer.
const Paragraph = "\n\n"

// AnswerText returns the text of an answer: the texts of its messages of the assistant,
// separated by [Paragraph].
func AnswerText(messages iter.Seq[conversation.Message]) string {
	var texts []string
	for m := range messages {
		if m.Role() == conversation.RoleAssistant && m.Text() != "" {
			texts = append(texts, m.Text())
		}
	}
	return strings.Join(texts, Paragraph)
}

// messageWriter writes the parts of a message.
type messageWriter struct {
	all    []conversation.Part
	last   int // index of the last part that can have a cache mark
	marked bool
}

// cacheMark returns whether a part has a cache mark, and whether it can have one.
func cacheMark(p conversation.Part) (marked, can bool) {
	switch p := p.(type) {
	case conversation.Text:
		return p.Cache, true
	case conversation.Image:
		return p.Cache, true
	case conversation.Call:
		return p.Cache, true
	}
	return false, false
}

func (w *messageWriter) content() edn.Value {
	places := w.placed()
	var parts []edn.Value
	for i, p := range w.all {
		switch p := p.(type) {
		case conversation.Result:
		case conversation.Call:
			if places {
				parts = append(parts, edn.MustMap(kType, kToolCall, kID, edn.Text(p.ID)))
			}
		default:
			parts = append(parts, partValue(p, i != w.last))
		}
	}
	if len(parts) == 1 && parts[0].Len() == 2 && parts[0].HasKey("text") && edn.Equal(parts[0].Key("type"), kText) {
		return parts[0].Key("text")
	}
	if len(parts) == 0 {
		return edn.Nil()
	}
	return edn.Vector(parts...)
}

// placed reports whether another part follows a call.
func (w *messageWriter) placed() bool {
	called := false
	for _, p := range w.all {
		_, isCall := p.(conversation.Call)
		if called && !isCall {
			return true
		}
		called = called || isCall
	}
	return false
}

func (w *messageWriter) calls() edn.Value {
	var calls []edn.Value
	for _, p := range w.all {
		if c, ok := p.(conversation.Call); ok {
			calls = append(calls, edn.MustMap(kID, edn.Text(c.ID), kToolID, nameValue(c.Tool), kArgs, argsValue(c.Args)))
		}
	}
	if len(calls) == 0 {
		return edn.Nil()
	}
	return edn.Vector(calls...)
}

// argsValue reads the arguments of a call; a text that is not EDN stays a text.
func argsValue(text string) edn.Value {
	if v, err := edn.Read([]byte(text)); err == nil {
		return v
	}
	return edn.Text(text)
}

// partValue returns a part of the content; own is set if its cache mark is not
// that of the message.
func partValue(p conversation.Part, own bool) edn.Value {
	var b edn.MapBuilder
	switch p := p.(type) {
	case conversation.Text:
		b.Set(kType, kText)
		b.Set(kText, edn.Text(p.Text))
		b.OptText("field", p.Field)
	case conversation.Image:
		b.Set(kType, kImage)
		b.OptText("media-type", p.MediaType)
		b.OptText("data", p.Data)
		b.OptText("url", p.URL)
	case conversation.Reference:
		b.Set(kType, kPointer)
		b.OptText("hash", p.Hash)
		b.OptText("media-type", p.MediaType)
	case conversation.Reasoning:
		b.Set(kType, kThinking)
		if p.Data != "" {
			b.Set(kType, kRedacted)
		}
		b.OptText("text", p.Text)
		b.OptText("data", p.Data)
		b.OptText("signature", p.Signature)
		b.OptText("field", p.Field)
		b.OptText("model", p.Model)
	}
	marked, _ := cacheMark(p)
	b.OptTrue("cache?", marked && own)
	return b.Map()
}

func attributionValue(by conversation.Attribution) edn.Value {
	if by == (conversation.Attribution{}) {
		return edn.Nil()
	}
	var b edn.MapBuilder
	b.OptText("agent/id", by.Agent)
	b.OptText("model", by.Model)
	b.OptText("run", by.Run)
	if by.Capability != "" {
		b.Set(kCapID, nameValue(by.Capability))
	}
	if by.Finish != "" {
		b.Set(kFinish, nameValue(by.Finish))
	}
	return b.Map()
}

// nameValue returns a name as a keyword, or as a text if it cannot be one.
func nameValue(name string) edn.Value {
	if k, err := edn.Keyword(name); err == nil {
		return k
	}
	return edn.Text(name)
}
