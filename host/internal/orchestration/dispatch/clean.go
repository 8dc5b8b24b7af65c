package dispatch

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// respond is the intent whose answers are shown to people unchanged.
const respond = "text/respond"

// defaultChars limits an answer of respond without a configured limit.
const defaultChars = 1200

// maxDrift bounds the excerpt of the answer in a format/drift error, in bytes.
const maxDrift = 4 << 10

// proseKeys hold prose of a model, which is cleaned. Text under :code and
// :patch is not cleaned: there a tag can be part of a program.
var proseKeys = [...]string{"text", "content", "summary", "answer", "explanation"}

// cleaning returns how the text of a model is cleaned (TXT-001); ok is false
// for other capabilities.
func (p *CallPolicy) cleaning(c *registry.Capability) (text.Cleaning, bool) {
	if c.Kind != registry.ModelKind {
		return text.Cleaning{}, false
	}
	clean := text.Cleaning{Packs: p.languages}
	if most, ok := p.Constraints.Key("max-chars").AsInt(); ok {
		clean.MaxChars = int(min(max(most, 1), text.MaxChars))
	}
	if language, ok := p.Constraints.Key("language").AsKeyword(); ok {
		clean.Language = language
	}
	if p.intent == respond {
		clean.Collapse = true
		if clean.MaxChars == 0 {
			clean.MaxChars = defaultChars
		}
	}
	return clean, true
}

// cleaner cleans one answer.
type cleaner struct {
	how             text.Cleaning
	tools           edn.Value // offered by the request
	candidate, node string

	calls []edn.Value
	cut   bool
}

func (c *cleaner) answer(out edn.Value) (edn.Value, *contract.Error) {
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
	}
	if hasProse && !remains && !saysMore(out) {
		return edn.Nil(), c.empty()
	}
	return out, nil
}

// prose cleans one text. Only the key :text is limited in length; other keys
// are parts of a structure.
func (c *cleaner) prose(s, key string) (string, *contract.Error) {
	how := c.how
	if key != "text" {
		how.MaxChars = 0
	}
	clean := text.Clean(s, how)
	if clean.Broken || len(clean.Calls) > 0 && c.tools.Len() == 0 {
		return "", c.drift(s, "wrote a tool call into its text")
	}
	for _, call := range clean.Calls {
		v, err := c.call(call)
		if err != nil {
			return "", c.drift(s, "wrote a tool call into its text, and "+err.Error())
		}
		c.calls = append(c.calls, v)
	}
	c.cut = c.cut || clean.Cut
	return clean.Text, nil
}

// withCalls adds the extracted tool calls to the answer.
func (c *cleaner) withCalls(out edn.Value) edn.Value {
	all := slices.Collect(out.Key("tool/calls").Elems())
	for _, call := range c.calls {
		if _, named := call.Key("id").AsString(); !named {
			call = call.AssocKey("id", edn.Text(freshID(all)))
		}
		all = append(all, call)
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

func (c *cleaner) empty() *contract.Error {
	return contract.Errorf("provider/empty", "node %s: nothing is left of the text of %s without its reasoning",
		c.node, c.candidate)
}

func (c *cleaner) drift(raw, what string) *contract.Error {
	return contract.Errorf("format/drift", "node %s: %s %s", c.node, c.candidate, what).
		WithSource(contract.SourcePlugin).
		WithDetail("raw", edn.Text(excerpt(text.WithoutReasoning(raw), maxDrift)))
}

// excerpt returns the start of a text, at most so many bytes.
func excerpt(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }
