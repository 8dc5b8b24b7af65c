package answer

import (
	"context"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/plugins/internal/provider/shape"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/text"
)

// conclude returns the output of a complete answer, or the reason why it has
// none.
func (c *call) conclude(ctx context.Context) (edn.Value, *contract.Error) {
	a, q := c.answer, c.question
	if len(a.Calls) > 0 && a.Finish == chat.Stop {
		a.Finish = chat.ToolCalls // some servers use the same finish reason for calls and texts
	}
	structured := q.Shape != nil || len(q.Tools) > 0
	if err := c.readInPart(ctx); err != nil {
		return edn.Nil(), err
	}
	switch {
	case a.Finish == chat.Failed:
		return edn.Nil(), c.fail(failure.ProviderError, "the model stopped with %q", a.FinishWord)
	case a.Finish == chat.Refused || a.Refusal.Len() > 0:
		e := c.fail(failure.Refused, "the model refused to answer")
		if a.Category == "" {
			return edn.Nil(), e.WithHint("change the request, or use another model")
		}
		return edn.Nil(), e.WithDetail("category", edn.Text(c.provider.Report.Scrub.Clean(a.Category)))
	case len(c.losses()) > 0 && !c.tolerated(structured):
		return edn.Nil(), c.fail(failure.Truncated, "the answer may have lost a part: %s", strings.Join(c.losses(), ", "))
	case a.Finish == chat.ToolCalls && len(a.Calls) == 0:
		return edn.Nil(), c.raw(c.fail(failure.ToolCallInvalid, "the answer ends with a tool call that did not arrive"))
	case len(a.Calls) == 0 && emptied(a.Text.String()):
		return edn.Nil(), c.empty()
	case structured && a.Finish == chat.Length:
		if a.Usage.Reasoning > 0 || a.Reasoning.Len() > 0 {
			c.widen()
		}
		return edn.Nil(), c.raw(c.fail(failure.OutputTruncated, "the answer was cut at the limit of tokens"))
	}
	c.identify()
	calls, err := c.calls()
	if err != nil {
		return edn.Nil(), err
	}
	if how := q.Choice.Disobeyed(a.Calls); how != "" {
		return edn.Nil(), c.raw(c.fail(failure.ToolCallInvalid, "the answer %s", how))
	}
	return c.output(a.Text.String(), calls)
}

// empty returns the error of an answer without text. If reasoning used up the limit of tokens,
// later requests leave more room for it, because the same request would fail in the same way. If
// they cannot leave more, the class of the error is switch.
func (c *call) empty() *contract.Error {
	if c.answer.Finish != chat.Length {
		return c.fail(failure.Empty, "the answer has no text")
	}
	wider := c.widen()
	e := c.fail(failure.Empty, "the limit of tokens was used up before the first word of the answer").
		WithHint("raise :max-tokens, or lower the reasoning effort").
		WithDetail("finish", edn.K(string(chat.Length)))
	if c.question.Options.MaxTokens > 0 {
		limit := c.request.Options.MaxTokens
		// Without the budget for reasoning of this request: the host reserves it for others too.
		learned := c.model.Learned.room(c.model.Headroom)
		e = e.WithDetail("max-tokens", edn.Int(limit)).WithDetail("tokens/headroom", edn.Int(learned))
	}
	if !wider {
		e = e.WithClass(contract.ClassSwitch)
	}
	if n := c.answer.Usage.Reasoning; n > 0 {
		e = e.WithDetail("tokens-reasoning", edn.Int(n))
	}
	return e
}

// widen lets later requests leave more room for reasoning, which used up the limit of tokens of
// this one. It reports whether they can leave more than this one did.
func (c *call) widen() bool {
	if c.question.Options.MaxTokens == 0 {
		return false
	}
	c.model.Learned.widen(c.request.Options.MaxTokens)
	return c.room() > c.headroom
}

// The losses of an answer, as named in its metadata.
const (
	lostEnd    = "finish/assumed"
	lostTail   = "finish/unended"
	lostEvents = "stream/skipped"
	lostText   = "text/damaged"
)

// doubtedPrompt is the reason of a degraded answer whose server states too few
// tokens of the prompt: it may have read a part of it.
const doubtedPrompt = "prompt/doubted"

// losses returns the reasons why the answer may differ from the model's output.
func (c *call) losses() []string {
	var all []string
	if c.answer.Assumed {
		all = append(all, lostEnd)
	}
	if c.unended {
		all = append(all, lostTail)
	}
	if c.skipped > 0 {
		all = append(all, lostEvents)
	}
	if c.answer.Torn() > 0 {
		all = append(all, lostText)
	}
	return all
}

// tolerated reports whether the answer is accepted despite its losses. The end
// of the body counts as the end of the answer if the terminator permits it. An
// answer with a schema or tools must be complete.
func (c *call) tolerated(structured bool) bool {
	onlyEnd := slices.Equal(c.losses(), []string{lostEnd})
	return !structured && (c.provider.Tolerant || onlyEnd && c.model.Preset.Terminator == dialect.EOF)
}

// output returns the value that the intent requires.
func (c *call) output(said string, calls []edn.Value) (edn.Value, *contract.Error) {
	q := c.question
	var out edn.MapBuilder
	if len(calls) > 0 {
		out.Key("tool/calls", edn.Vector(calls...))
	}
	switch {
	case q.Intent == question.Chat:
		if q.Shape != nil && len(calls) == 0 { // the text is kept, but must contain the value
			if _, err := c.shaped(said); err != nil {
				return edn.Nil(), err
			}
		}
		if parts := c.parts(); len(parts) > 0 {
			out.Key("parts", edn.Vector(parts...))
		}
		out.Key("text", edn.Text(said))
		out.Key("finish", edn.K(string(c.answer.Finish)))
	case q.Shape == nil || len(calls) > 0:
		if q.TextKey == "code" || q.TextKey == "patch" {
			var clear bool
			if said, c.how, clear = shape.Program(said); !clear {
				return edn.Nil(), c.raw(c.fail(failure.FormatDrift, "the answer has text and fenced blocks, so it is unclear "+
					"which part is the program: answer with the program alone, or with all of it between lines of ````"))
			}
		}
		if said != "" {
			out.Key(q.TextKey, edn.Text(said))
		}
	default:
		v, err := c.shaped(said)
		if err != nil {
			return edn.Nil(), err
		}
		return contract.EmitOut(v), nil
	}
	return out.Map(), nil
}

// shaped parses the requested value from a text.
func (c *call) shaped(said string) (edn.Value, *contract.Error) {
	v, how, problem := c.question.Shape.Read(said)
	name := c.question.Shape.Name
	switch {
	case problem == nil:
		c.how = how
		return v, nil
	case !problem.Parsed:
		return edn.Nil(), c.raw(c.fail(failure.FormatDrift, "the answer contains no value that fits the schema %s",
			name).WithHint("the detail :raw has the answer; try again, or use a model with structured output"))
	}
	e := c.fail(failure.SchemaInvalid, "the answer does not fit the schema %s: %s", name, problem.Findings[0])
	return edn.Nil(), c.raw(e.WithDetail("findings", schema.Findings(problem.Findings)))
}

// raw adds the model's text, for a repair request.
func (c *call) raw(e *contract.Error) *contract.Error {
	text := edn.Text(c.provider.Report.Scrub.Clean(c.answer.Text.String()))
	return e.WithDetail("raw", text).WithDetail("output/hash", edn.Text(edn.Hash(text)))
}

// identify gives each call an id that no other call of the conversation has. Servers state none
// (llama.cpp issue 11992), an empty one (lmstudio-bug-tracker issue 830), or one twice.
func (c *call) identify() {
	taken := map[string]bool{}
	for _, m := range c.question.Messages {
		for _, earlier := range m.Calls {
			taken[earlier.ID] = true
		}
	}
	for _, one := range c.answer.Calls {
		one.ID = conversation.CallID(one.ID, c.question.Hash, taken)
	}
}

// calls returns the validated tool calls in order.
func (c *call) calls() ([]edn.Value, *contract.Error) {
	q := c.question
	var all []edn.Value
	for _, raw := range c.answer.Calls {
		id, known := q.Names.ID(raw.Name)
		compiled := q.Args[id]
		if !known || compiled == nil {
			return nil, c.invalidCall(raw, "calls a tool that was not offered")
		}
		text := strings.TrimSpace(raw.Args.String())
		if text == "" {
			text = "{}"
			if !compiled.Valid(edn.MustMap()) {
				return nil, c.invalidCall(raw, "has no arguments")
			}
		}
		if len(text) > question.MaxArgs {
			return nil, c.invalidCall(raw, "has arguments over 256 KiB")
		}
		args, err := edn.ReadJSON([]byte(text), edn.WithLimits(edn.Body))
		if err != nil {
			return nil, c.invalidCall(raw, "has arguments that are cut or no JSON")
		}
		if !args.IsMap() {
			return nil, c.invalidCall(raw, "has arguments that are not an object")
		}
		var m edn.MapBuilder
		m.Key("id", edn.Text(raw.ID))
		m.Key("tool/id", edn.K(id))
		m.Key("args", compiled.CoerceJSON(args))
		all = append(all, m.Map())
	}
	return all, nil
}

func (c *call) invalidCall(raw *chat.RawCall, what string) *contract.Error {
	e := c.fail(failure.ToolCallInvalid, "a call of %q %s", raw.Name, what)
	said := edn.Text(c.provider.Report.Scrub.Clean(raw.Args.String()))
	if len(raw.Args.String()) > question.MaxArgs {
		return e
	}
	return e.WithDetail("raw", said).WithDetail("output/hash", edn.Text(edn.Hash(said)))
}

// parts returns all parts of an answer that has reasoning or texts of several phases. Sent back as
// the :content of its message, they let the provider continue. It returns nil if text and calls
// contain everything, or if a part may be lost, because incomplete parts cannot be sent back.
func (c *call) parts() []edn.Value {
	reasons := func(b *chat.Block) bool { return b.Kind == chat.ThinkingPart || b.Kind == chat.RedactedPart }
	needed := func(b *chat.Block) bool { return reasons(b) || b.Field != "" }
	if len(c.losses()) > 0 || !slices.ContainsFunc(c.answer.Blocks, needed) {
		return nil
	}
	var all []edn.Value
	for _, b := range c.answer.Blocks {
		m := edn.MustMap(edn.K("type"), edn.K(string(b.Kind)))
		id, signature := "", b.Signature.String()
		if b.Call != nil {
			id = b.Call.ID
		}
		if b.Details != nil {
			signature = b.Details.String()
		}
		said := false
		for key, text := range map[string]string{
			"text": b.Text.String(), "data": b.Data, "signature": signature, "id": id,
		} {
			if text != "" {
				m, said = m.AssocKey(key, edn.Text(text)), true
			}
		}
		if !said {
			continue
		}
		if reasons(b) {
			m = m.AssocKey("model", edn.Text(c.model.wire()))
		}
		if b.Field != "" {
			m = m.AssocKey("field", edn.Text(b.Field))
		}
		all = append(all, m)
	}
	return all
}

// emptied reports whether nothing is left of a text after its clean-up.
func emptied(raw string) bool {
	return strings.TrimSpace(text.WithoutReasoning(text.WithoutControls(raw))) == ""
}
