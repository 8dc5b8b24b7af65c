package clean

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// maxDrift bounds the excerpt of the answer in a format/drift error, in bytes.
const maxDrift = 4 << 10

// proseKeys hold prose of a model, which is cleaned. Text under :code and
// :patch is not cleaned: there a tag can be part of a program.
var proseKeys = [...]string{"text", "content", "summary", "answer", "explanation"}

// Cleaner cleans one answer.
type Cleaner struct {
	How       text.Cleaning
	Input     edn.Value // of the request: its messages, and the tools that it offers
	Candidate string    // for messages
	Node      string    // for messages
	Value     bool      // the adapter read the answer as JSON or EDN: what its strings say is content
	Cut       bool      // set if a text was shortened

	calls []edn.Value
}

// Answer returns the answer without reasoning and control characters, and with the
// tool calls of its text as structured ones. The error is format/drift or
// provider/empty.
func (c *Cleaner) Answer(out edn.Value) (edn.Value, *contract.Error) {
	if s, ok := out.AsString(); ok {
		clean, err := c.prose(s, "text")
		if err == nil && len(c.calls) > 0 {
			return c.withCalls(edn.MustMap(edn.K("text"), edn.Text(clean))), nil
		}
		if err == nil && clean == "" {
			err = c.empty()
		}
		return edn.Text(clean), err
	}
	if out.Kind() != edn.KindMap {
		return out, nil
	}
	if controlled(out.Key("parts")) {
		out = out.Dissoc(edn.K("parts"))
	}
	hasProse, remains := false, false
	for _, key := range proseKeys {
		s, ok := out.Key(key).AsString()
		if !ok {
			continue
		}
		clean, err := c.prose(s, key)
		if err != nil {
			return edn.Nil(), err
		}
		if clean != s {
			out = out.AssocKey(key, edn.Text(clean))
		}
		// An explanation may be empty; the answer itself may not.
		hasProse = hasProse || key == "text" || key == "content" || clean != s
		remains = remains || clean != ""
	}
	if len(c.calls) > 0 {
		out = c.withCalls(out)
		if finish, _ := out.Key("finish").AsKeyword(); finish == "stop" {
			out = out.AssocKey("finish", edn.K("tool-calls")) // as for calls outside of the text
		}
	}
	if hasProse && !remains && !saysMore(out) {
		return edn.Nil(), c.empty()
	}
	return out, nil
}

// controlled reports whether a text of the parts of an answer holds a control
// character. Such parts are dropped, not cleaned: a provider accepts them in later
// requests only unchanged, and rejects a NUL in them. The text of the answer has the
// same content.
func controlled(parts edn.Value) bool {
	if !parts.IsVector() && !parts.IsList() {
		return false
	}
	for part := range parts.Elems() {
		if s, _ := part.Key("text").AsString(); text.WithoutControls(s) != s {
			return true
		}
	}
	return false
}

// prose cleans one text. Only the key :text is limited in length; other keys
// are parts of a structure.
func (c *Cleaner) prose(s, key string) (string, *contract.Error) {
	if c.Value {
		return text.WithoutControls(s), nil
	}
	how := c.How
	if key != "text" {
		how.MaxChars = 0
	}
	clean := text.Clean(s, how)
	if clean.Broken || len(clean.Calls) > 0 && c.Input.Key("tools").Len() == 0 {
		return "", c.drift(s, "wrote a tool call into its text")
	}
	for _, call := range clean.Calls {
		v, err := c.call(call)
		if err != nil {
			return "", c.drift(s, "wrote a tool call into its text, and "+err.Error())
		}
		c.calls = append(c.calls, v)
	}
	c.Cut = c.Cut || clean.Cut
	return clean.Text, nil
}

// withCalls adds the extracted tool calls to the answer.
func (c *Cleaner) withCalls(out edn.Value) edn.Value {
	all := slices.Collect(out.Key("tool/calls").Elems())
	taken, seed := c.callIDs(all), edn.Hash(c.Input)
	for _, call := range c.calls {
		stated, _ := call.Key("id").AsString()
		all = append(all, call.AssocKey("id", edn.Text(conversation.CallID(stated, seed, taken))))
	}
	return out.AssocKey("tool/calls", edn.Vector(all...))
}

// saysMore reports whether an answer without prose has other content.
func saysMore(out edn.Value) bool {
	if out.Key("tool/calls").Len() > 0 {
		return true
	}
	for _, key := range [...]string{"code", "patch"} {
		if s, _ := out.Key(key).AsString(); strings.TrimSpace(s) != "" {
			return true
		}
	}
	return false
}

func (c *Cleaner) empty() *contract.Error {
	return contract.Errorf("provider/empty", "node %s: the text of %s is empty after its reasoning is removed",
		c.Node, c.Candidate)
}

func (c *Cleaner) drift(raw, what string) *contract.Error {
	return contract.Errorf("format/drift", "node %s: %s %s", c.Node, c.Candidate, what).
		WithSource(contract.SourcePlugin).
		WithDetail("raw", edn.Text(excerpt(text.WithoutReasoning(raw), maxDrift)))
}

// excerpt returns the first bytes of a text, up to most, without broken characters.
func excerpt(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }
