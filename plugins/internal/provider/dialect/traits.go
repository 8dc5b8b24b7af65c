package dialect

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// Traits are known properties of a model apart from its server.
type Traits struct {
	// Begins are prefixes of model names.
	Begins []string
	// Without are request fields that the models reject. They accept them if
	// Sampling is the reasoning effort.
	Without  []string
	Sampling string
	// Headroom is the number of tokens that the models may use for reasoning,
	// in addition to the limit of the answer: the limit of a request counts
	// both.
	Headroom int64
	// Lacks lists unsupported features of the format: an effort, adaptive
	// thinking, a budget, none for no reasoning, or a demand for a call.
	Lacks []string
	// Window is the context window in tokens, 0 if unknown. It has a table of its
	// own, since it differs more between models than the other traits.
	Window int64
	// Source is the documentation, Date when it was read.
	Source, Date string
}

// Headroom is the number of tokens that are left for reasoning if no other number is known.
const Headroom = 2048

// table is searched in order; the first row with a matching prefix applies.
func table() []Traits {
	sampling := []string{"temperature", "top_p", "presence_penalty", "frequency_penalty"}
	claude := []string{"temperature", "top_p"}
	return []Traits{
		{
			Begins: []string{"gpt-5-chat"}, Without: []string{"include"},
			Source: "OpenAI, models: gpt-5-chat-latest does not reason", Date: "2026-11-25",
		},
		{
			Begins: []string{"gpt-3.5", "gpt-4", "chatgpt-4o"}, Without: []string{"include"},
			Source: "OpenAI, the error of include: no encrypted content (NousResearch/hermes-agent, pull request 24234)",
			Date:   "2026-11-25",
		},
		{
			Begins: []string{"gpt-5.", "gpt-6"}, Without: sampling, Sampling: "none", Headroom: Headroom,
			Source: "OpenAI, latest-model guide: sampling parameters only with effort none", Date: "2026-11-25",
		},
		{
			Begins: []string{"gpt-5"}, Without: sampling, Headroom: Headroom,
			Source: "OpenAI, reasoning guide and the error unsupported_value of temperature", Date: "2026-11-25",
		},
		{
			Begins: []string{"o1", "o3", "o4"}, Without: append(slices.Clone(sampling), "stop"), Headroom: Headroom,
			Source: "OpenAI, reasoning guide and the error unsupported_parameter of temperature", Date: "2026-11-25",
		},
		{
			Begins: []string{"gpt-oss", "deepseek-r1", "deepseek-reasoner", "qwq", "magistral"}, Headroom: Headroom,
			Source: "the models' cards: the limit counts the reasoning", Date: "2026-11-25",
		},
		{
			Begins: []string{"claude-opus-4-5"}, Lacks: []string{"adaptive"},
			Source: "Anthropic, effort guide: the first model with an effort, without adaptive thinking", Date: "2026-11-25",
		},
		{
			Begins: []string{"claude-opus-4-6", "claude-sonnet-4-6"},
			Source: "Anthropic, adaptive thinking guide: effort, adaptive thinking, and budgets as before", Date: "2026-11-25",
		},
		{
			Begins:  []string{"claude-opus-5-5", "claude-fable-5-1"},
			Without: claude, Lacks: []string{"budget", "none", "demand"}, Headroom: Headroom,
			Source: "Anthropic, page of Claude Opus 5.5: reasoning is always on, and a demand for a call is an error",
			Date:   "2026-11-25",
		},
		{
			Begins:  []string{"claude-fable", "claude-mythos"},
			Without: claude, Lacks: []string{"budget", "none"}, Headroom: Headroom,
			Source: "Amazon Bedrock, adaptive thinking of Claude: neither budgets nor disabled thinking", Date: "2026-11-25",
		},
		{
			Begins: []string{"claude-opus-5"}, Without: claude, Lacks: []string{"budget"}, Headroom: Headroom,
			Source: "Anthropic, what is new in Claude Opus 5: it reasons unless told otherwise", Date: "2026-11-25",
		},
		{
			Begins:  []string{"claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5"},
			Without: claude, Lacks: []string{"budget"},
			Source: "Anthropic, migration guides: no budgets, sampling parameters are an error", Date: "2026-11-25",
		},
		{
			Begins: []string{"claude-3-7", "claude-sonnet-4", "claude-opus-4", "claude-haiku-4-5"},
			Lacks:  []string{"effort", "adaptive"},
			Source: "Anthropic, extended thinking guide: budgets alone", Date: "2026-11-25",
		},
		{
			Begins: []string{"claude-2", "claude-3", "claude-instant"}, Lacks: []string{"effort", "adaptive", "budget"},
			Source: "Anthropic, extended thinking guide: not among the models", Date: "2026-11-25",
		},
	}
}

// windows holds the context windows of hosted models, searched in order like
// table. Of several windows of a model it has the largest.
func windows() []Traits {
	const catalog = "models.dev f3fc692, providers"
	return []Traits{
		{
			Begins: []string{"gpt-5-chat", "gpt-5.1-chat"}, Window: 128_000,
			Source: "labring/fastgpt-plugin#297: corrected to 128,000", Date: "2026-11-27",
		},
		{
			Begins: []string{"gpt-5.2-chat", "gpt-4o", "chatgpt-4o", "o1-mini", "o1-preview"}, Window: 128_000,
			Source: catalog + "/openai, azure; MicrosoftDocs/azure-ai-docs#544", Date: "2026-11-28",
		},
		{
			Begins: []string{"gpt-5.4-mini", "gpt-5.4-nano"}, Window: 400_000,
			Source: "Vercel, ai-gateway/models/openai/gpt-5.4-mini-fast", Date: "2026-11-27",
		},
		{
			Begins: []string{"gpt-5.4", "gpt-5.5"}, Window: 1_050_000,
			Source: "Vercel, ai-gateway/models/gpt-5.4; RooCodeInc/Roo-Code#12170", Date: "2026-11-27",
		},
		{
			Begins: []string{"gpt-5.6"}, Window: 1_050_000,
			Source: "OpenAI, pages of GPT-5.6 Sol, Terra and Luna (theopenco/llmgateway#2970)", Date: "2026-11-28",
		},
		{
			Begins: []string{"gpt-6-astra", "gpt-6-sol", "gpt-6-luna", "gpt-6.1-sol", "gpt-6.1-terra"}, Window: 1_050_000,
			Source: "OpenAI, page of gpt-6.1-terra; Vercel, ai-gateway/models/gpt-6-astra and others", Date: "2026-11-28",
		},
		{
			Begins: []string{"gpt-5.1", "gpt-5-"}, Window: 400_000,
			Source: "OpenRouter, page of openai/gpt-5-mini; labring/fastgpt-plugin#297", Date: "2026-11-27",
		},
		{
			Begins: []string{"gpt-5.2"}, Window: 400_000,
			Source: catalog + "/openai; earendil-works/pi#1461", Date: "2026-11-28",
		},
		{
			Begins: []string{"gpt-4.1"}, Window: 1_047_576,
			Source: catalog + "/openai/models/gpt-4.1", Date: "2026-11-28",
		},
		{
			Begins: []string{"o1-", "o3-", "o4-mini"}, Window: 200_000,
			Source: catalog + "/openai; RooCodeInc/Roo-Code#2691", Date: "2026-11-28",
		},
		{
			Begins: []string{"gpt-3.5-turbo"}, Window: 16_385,
			Source: catalog + "/openai; MicrosoftDocs/azure-ai-docs#544", Date: "2026-11-28",
		},
		{
			Begins: []string{"claude-sonnet-4", "claude-opus-4-6", "claude-opus-4-7", "claude-sonnet-5"}, Window: 1_000_000,
			Source: "Anthropic, support article 8606395; of 4.7 and Sonnet 5: tygartmedia.com, docs.oxen.ai", Date: "2026-11-27",
		},
		{
			Begins: []string{"claude-opus-4-8", "claude-fable-5"}, Window: 1_000_000,
			Source: catalog + "/anthropic; of Fable 5.1: Anthropic, page of Claude Opus 5", Date: "2026-11-28",
		},
		{
			Begins: []string{"claude-opus-5", "claude-haiku-5-5"}, Window: 1_000_000,
			Source: "Anthropic, page of Claude Opus 5: how it compares to the current lineup", Date: "2026-11-28",
		},
		{
			Begins: []string{
				"claude-3", "claude-haiku-4-5", "claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-2025", "claude-opus-4-5",
			},
			Window: 200_000,
			Source: "Anthropic, support article 8606395: all others", Date: "2026-11-27",
		},
		{
			Begins: []string{"gemini-2.5-pro", "gemini-2.5-flash", "gemini-3.1-pro", "gemini-3.5-flash"}, Window: 1_048_576,
			Source: catalog + "/google; Google Cloud, page of Gemini 2.5 Flash-Lite; dimetron/pi-go#42", Date: "2026-11-28",
		},
		{
			Begins: []string{"gemini-3.6-flash", "gemini-3.7-flash"}, Window: 1_048_576,
			Source: "Google Cloud, page of Gemini 3.6 Flash; Google, page of Gemini 3.7 Flash", Date: "2026-11-28",
		},
		{
			Begins: []string{
				"mistral-large-2512", "mistral-small-2603", "devstral-2512", "ministral-3b-2512", "ministral-14b-2512",
			},
			Window: 262_144,
			Source: catalog + "/mistral, openrouter, kilo; of Ministral 3 3B its max_length", Date: "2026-11-28",
		},
		{
			Begins: []string{"codestral-2508"}, Window: 256_000,
			Source: catalog + "/llmgateway, cortecs; TanStack/ai#1308", Date: "2026-11-28",
		},
		{
			Begins: []string{"llama-3.1-8b-instant", "llama-3.3-70b-versatile", "gpt-oss-20b", "gpt-oss-120b"}, Window: 131_072,
			Source: catalog + "/groq; models/openai/gpt-oss-120b", Date: "2026-11-28",
		},
	}
}

// TraitsOf returns the traits of a model, the zero value if it is unknown. A
// name may be prefixed with that of its maker, as gateways write it.
func TraitsOf(model string) Traits {
	model = strings.ToLower(model[strings.LastIndex(model, "/")+1:])
	row := rowOf(table(), model)
	row.Window = rowOf(windows(), model+"-").Window // so that a prefix can end a version
	return row
}

func rowOf(rows []Traits, model string) Traits {
	for _, row := range rows {
		if slices.ContainsFunc(row.Begins, func(b string) bool { return strings.HasPrefix(model, b) }) {
			return row
		}
	}
	return Traits{}
}

// Refuses returns the fields that a request with this effort must not have.
func (t Traits) Refuses(effort string) []string {
	if t.Sampling != "" && effort == t.Sampling {
		return nil
	}
	return t.Without
}

// droppable returns the fields that a request can omit.
func droppable() []string {
	return []string{
		"temperature", "top_p", "presence_penalty", "frequency_penalty", "stop", "stop_sequences", "seed",
		"reasoning_effort", "think", "thinking", "stream_options", "max_tokens", "max_completion_tokens", "truncate", "shift",
		"reasoning", "include",
	}
}

// features returns the fields without which a request means something else.
func features() []string {
	return []string{"tools", "tool_choice", "response_format", "format", "output_config"}
}

// OtherLimit returns the other name of the output limit, "" if name is not a name of it.
func OtherLimit(name string) string {
	return map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[name]
}

// without removes fields from a body and returns the lost options. A limit is
// not lost, it gets its other name; neither is an answer that is not streamed; if
// encrypted reasoning is rejected, reasoning is disabled.
func without(body map[string]any, fields []string) []string {
	var lost []string
	for _, name := range fields {
		v, set := body[name]
		if !set {
			continue
		}
		delete(body, name)
		other := OtherLimit(name)
		switch {
		case other != "":
			body[other] = v
		case name == "reasoning":
			lost = append(lost, "reasoning-effort")
		case name != "include" && name != streamField:
			lost = append(lost, strings.ReplaceAll(name, "_", "-"))
		}
	}
	return lost
}

// rename renames fields of a body to the server's names.
func rename(body map[string]any, names map[string]string) {
	for name, other := range names {
		if v, set := body[name]; set {
			delete(body, name)
			body[other] = v
		}
	}
}

// Rejects returns the request field that the server does not support, the zero value for none: the
// parameter that it names, or the one quoted in its message, which includes its codes. If the server
// supports the field with other values, the result has the value too. A value outside the range of a
// field is an error of the request and not a rejected field. needed means that the request cannot omit
// the field. own is the message without what it repeats of the request.
func Rejects(param, message, own string, body map[string]any) (rejected chat.Rejected, needed bool) {
	message = strings.ToLower(message)
	if !holds(message, "support", "unknown", "unrecognized", "not permitted", "not allowed", "unexpected", "cannot both",
		"deprecated", "extra_forbidden", "must be one of", "input should be '") {
		return chat.Rejected{}, false
	}
	names := func(name string) bool {
		_, set := body[name]
		return set && (param == name || strings.HasPrefix(param, name+".") || param == "" && quotes(message, name))
	}
	if i := slices.IndexFunc(droppable(), names); i >= 0 {
		field := droppable()[i]
		value, err := marshal(body[field])
		switch {
		case unknownField(message):
			return chat.Rejected{Field: field}, false
		case err != nil || outOfRange(message):
			return chat.Rejected{}, false
		case !valued(message, string(value)):
			return chat.Rejected{Field: field}, false
		case OtherLimit(field) != "" || len(value) > maxValue:
			return chat.Rejected{}, false
		}
		return chat.Rejected{Field: field, Value: string(value)}, false
	}
	if i := slices.IndexFunc(features(), names); i >= 0 {
		return chat.Rejected{Field: features()[i]}, true
	}
	if body[streamField] == true && (param == streamField || param == "" && refusesStream.MatchString(own)) {
		return chat.Rejected{Field: streamField}, false
	}
	return chat.Rejected{}, false
}

// streamField requests a stream. In place of a rejected one, answers are requested in one piece: OpenAI
// streams some models only to verified organizations (continuedev/continue#7129).
const streamField = "stream"

// refusesStream matches what servers write of a model that they do not stream. The word alone also names
// types, files and tools of a caller, or a combination of fields, and each request has the field.
var refusesStream = regexp.MustCompile(`(?i)^stream:|` +
	`(?:parameter|field|argument|value|supplied):? ?['"` + "`" + `]?stream\b|\bto stream this model|` +
	`(?:does not|doesn't) support streaming(?:[.,;]|$| (?:for|with) th(?:is|e) model)|` +
	`(?:^|[.:-] )(?:stream|streaming) is not (?:supported|allowed)(?:[.,;]|$| (?:for|with|by) th(?:is|e) model)`)

// maxValue is the maximum length of a rejected value that is returned.
const maxValue = 256

// unknownField reports whether a message says that a server does not know a field. It may repeat the
// value too, as in "Extra inputs are not permitted, field: 'seed', value: 7" (Fireworks; older vLLM).
func unknownField(message string) bool {
	return holds(message, "extra input", "extra_forbidden", "unsupported parameter", "unsupported_parameter",
		"unknown parameter", "unknown_parameter", "unknown field", "unrecognized request argument")
}

// outOfRange reports whether a message is about the range of a value, as in "max_tokens is too large:
// 50000. This model supports at most 16384" (OpenAI), "Input should be less than or equal to 1.5"
// (Mistral) and "the supported range is from 0 to 2" (Google).
func outOfRange(message string) bool {
	return holds(message, "too large", "too small", "too high", "too low", "too long", "too many", "at most", "at least",
		"less than", "less_than", "greater than", "greater_than", "more than", "maximum", "minimum",
		"_above_max", "_below_min", "range", "between", "exceed", "negative", "<=", ">=")
}

// valued reports whether a message is about a value in JSON and not about all values of its field.
func valued(message, value string) bool {
	words := strings.FieldsFunc(message, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	repeats := slices.ContainsFunc(words, func(word string) bool {
		return strings.TrimRight(word, ".") == strings.Trim(strings.ToLower(value), `"`)
	})
	return (repeats || holds(message, "value", "must be one of", "should be '")) && !holds(message, "only the default")
}

// holds reports whether a text contains one of the parts.
func holds(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// contains reports whether a body has a rejected field with the rejected value.
func contains(body map[string]any, r chat.Rejected) bool {
	v, set := body[r.Field]
	if !set || r.Value == "" {
		return set
	}
	value, err := marshal(v)
	return err == nil && string(value) == r.Value
}

// quotes reports whether a message holds a name as a word of its own. Ollama writes
// thinking for think, and has either for the effort of chat completions (0.17.4,
// server/routes.go, ChatHandler, 2026-11-25).
func quotes(message, name string) bool {
	thinks := strings.Contains(message, "not support thinking") || strings.HasPrefix(message, "think value")
	if name == "reasoning_effort" && thinks {
		return true
	}
	words := strings.FieldsFunc(message, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	return slices.Contains(words, name) || slices.Contains(words, name+"ing")
}
