package dialect

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Name is a wire format.
type Name string

// The formats.
const (
	OpenAI    Name = "openai-chat"
	Anthropic Name = "anthropic-messages"
	Ollama    Name = "ollama-chat"
	Responses Name = "openai-responses"
)

// Terminator is the condition for a complete stream.
type Terminator string

// The conditions under which a stream is complete.
const (
	Either Terminator = "either" // a finish reason, or the formal end
	Strict Terminator = "strict" // the formal end
	EOF    Terminator = "eof"    // the end of the body suffices
)

// Preset describes the features of one kind of server.
type Preset struct {
	Name    string
	Dialect Name
	// Path is the endpoint, below the base URL, and EmbedPath that of vectors, ""
	// for none. {model} and {version} stand for the model name and the interface
	// version.
	Path, EmbedPath string
	// Version is the interface version in requests, "" for none.
	Version string
	// Base is the default base URL, "" for none.
	Base string
	// Auth is the header of the key, and Scheme the prefix of its value.
	Auth, Scheme string
	// Headers are additional headers of each request.
	Headers map[string]string
	// Keyed means that a key is required.
	Keyed bool
	// LimitField is the name of the limit of output tokens.
	LimitField string
	// Renames are request fields with another name on this server, and Refuses
	// those that it rejects.
	Renames map[string]string
	Refuses []string
	// Native means that the server enforces a JSON Schema, JSONMode that it
	// enforces JSON.
	Native, JSONMode bool
	Tools            bool
	// ToolsStream means that tool calls arrive in streams too.
	ToolsStream bool
	Terminator  Terminator
	// UsageInStream means that a streaming request can and must ask for usage.
	UsageInStream bool
	// UsageUnder is another event field that may hold usage. UsageTotal means
	// that reasoning tokens are included only in the total.
	UsageUnder string
	UsageTotal bool
	SystemRole string
	// ReasoningFields are the fields that may hold reasoning text. Thinks means that
	// reasoning is sent back among the parts of the content, where it came.
	ReasoningFields []string
	Thinks          bool
	// CallExtra is a field of tool calls, and MessageExtra one of messages, with
	// opaque data that must be sent back; "" for none. ExtraSource is the
	// documentation.
	CallExtra, MessageExtra, ExtraSource string
	// CallIDs is the form of the ids of calls that the server accepts, nil for any.
	CallIDs *regexp.Regexp
	// Tables means that the tokenizer tables apply to the models.
	Tables bool
	// CountPath is an endpoint that counts tokens, "" for none. One with a
	// CountField takes a text in that field and returns its tokens; it is
	// beside the version path, not below it. Counts means that it is used by
	// default.
	CountPath, CountField string
	Counts                bool
	// WindowPath is an endpoint, beside the version path, that returns the
	// context window of the loaded model in tokens, "" for none.
	WindowPath string
	// Caches is the source for the fact that the server caches prompt prefixes
	// by itself, so that a mark changes nothing; "" if it does not.
	Caches string
	// Source is the documentation of the other fields, Date when it was read.
	Source, Date string
}

// Presets returns all presets in the order of the documentation.
func Presets() []Preset {
	rows := rows()
	for i := range rows {
		rows[i].fill()
	}
	return rows
}

// rows is the table of the differences between kinds of servers.
func rows() []Preset {
	const read = "2026-11-25"
	return []Preset{
		{
			Name: "openai", Base: "https://api.openai.com/v1", Keyed: true, LimitField: "max_completion_tokens",
			Native: true, JSONMode: true, Tools: true, UsageInStream: true, Tables: true, CallIDs: fortyLetters,
			Caches: "OpenAI, prompt caching guide: automatic from 1,024 tokens on",
			Source: "OpenAI, reference of chat completions", Date: "2026-11-22",
		},
		{
			Name: "openai-responses", Dialect: Responses, Path: "/responses", Base: "https://api.openai.com/v1", Keyed: true,
			LimitField: "max_output_tokens", Native: true, JSONMode: true, Tools: true, Terminator: Strict, Tables: true,
			CallIDs: sixtyFourLetters,
			Caches:  "OpenAI, prompt caching guide: as for chat completions",
			Source:  "openai-python, types/responses", Date: read,
		},
		{
			Name: "anthropic", Dialect: Anthropic, Path: "/v1/messages", Base: "https://api.anthropic.com", Keyed: true,
			Auth: "X-Api-Key", Headers: map[string]string{"Anthropic-Version": "2023-06-01"},
			Native: true, Tools: true, CountPath: "/v1/messages/count_tokens", Counts: true, CallIDs: plainID,
			Source: "Anthropic, reference of the messages interface", Date: "2026-11-22",
		},
		{
			Name: "gemini", Base: "https://generativelanguage.googleapis.com/v1beta/openai", Keyed: true,
			Native: true, JSONMode: true, Tools: true, UsageInStream: true,
			Refuses: []string{"seed", "frequency_penalty"}, UsageTotal: true, CallExtra: "extra_content",
			ExtraSource: "Google, thought signatures; the field as in crmne/ruby_llm#591 and earendil-works/pi#6733, 2026-11-27",
			Source: "Google, OpenAI compatibility; status 400 for the fields: mcpchecker/mcpchecker#188, " +
				"versun/RSSBox#132; usage: mozilla-ai/any-llm#1290",
			Date: read,
		},
		{
			Name: "mistral", Base: "https://api.mistral.ai/v1", Keyed: true,
			Native: true, JSONMode: true, Tools: true, // usage is always sent; asking for it is rejected
			Renames: map[string]string{"seed": "random_seed"}, Thinks: true, CallIDs: nineLetters,
			Source: "posit-dev/chatlas#145; status 422 for the fields: editor-code-assistant/eca#231, " +
				"Vali-98/ChatterUI#143; reasoning: client-python, models/thinkchunk.py, and @ai-sdk/mistral 3.0.52",
			Date: read,
		},
		{
			Name: "groq", Base: "https://api.groq.com/openai/v1", Keyed: true, LimitField: "max_completion_tokens",
			JSONMode: true, Tools: true, UsageInStream: true, UsageUnder: "x_groq",
			Refuses: []string{"logprobs", "logit_bias", "top_logprobs"},
			Source:  "Groq, OpenAI compatibility; usage: vercel/ai#1651, withceleste/celeste-python#351", Date: read,
		},
		{
			Name: "openrouter", Base: "https://openrouter.ai/api/v1", Keyed: true,
			Native: true, JSONMode: true, Tools: true, // usage is always sent; asking has no effect
			MessageExtra: "reasoning_details", CallIDs: fortyLetters,
			ExtraSource: "OpenRouter, docs/use-cases/reasoning-tokens: preserving reasoning blocks; " +
				"fragments as in langchain-ai/langchain#36400, 2026-11-27",
			Source: "OpenRouter, streaming, usage accounting and errors", Date: read,
		},
		{
			Name: "azure", Path: "/openai/deployments/{model}/chat/completions?api-version={version}", Version: "2024-10-21",
			EmbedPath: "/openai/deployments/{model}/embeddings?api-version={version}",
			Auth:      "Api-Key", Keyed: true, LimitField: "max_completion_tokens",
			Native: true, JSONMode: true, Tools: true, UsageInStream: true, Tables: true, CallIDs: fortyLetters,
			Source: "Microsoft, Azure OpenAI REST API reference", Date: read,
		},
		{
			Name: "ollama", Dialect: Ollama, Path: "/api/chat", Base: "http://127.0.0.1:11434", LimitField: "num_predict",
			Native: true, JSONMode: true, Tools: true, ReasoningFields: []string{"thinking"}, WindowPath: "/api/ps",
			Caches: "ollama, llm/llama_server.go: models run in llama-server, see there",
			Source: "Ollama, reference of the chat endpoint", Date: "2026-11-22",
		},
		{
			Name: "lmstudio", Base: "http://127.0.0.1:1234/v1", Native: true, Tools: true, UsageInStream: true,
			WindowPath: "/api/v0/models",
			Source:     "LM Studio, OpenAI compatible endpoints and structured output", Date: read,
		},
		{
			Name: "vllm", Base: "http://127.0.0.1:8000/v1", Native: true, JSONMode: true, Tools: true, UsageInStream: true,
			CountPath: "/tokenize", CountField: "prompt", WindowPath: "/v1/models",
			Caches: "vLLM, automatic prefix caching: enabled by default",
			Source: "vLLM, OpenAI-compatible server", Date: read,
		},
		{
			Name: "llama-server", Base: "http://127.0.0.1:8080/v1",
			Native: true, JSONMode: true, Tools: true, UsageInStream: true,
			CountPath: "/tokenize", CountField: "content", Counts: true, WindowPath: "/props",
			Caches: "llama.cpp, tools/server/README.md: cache_prompt is true unless written",
			Source: "llama.cpp, llama-server; a tour of its endpoints with build b8681", Date: read,
		},
		{
			Name: "mlx", Tools: true, UsageInStream: true,
			Caches: "mlx-lm, server.py: LRUPromptCache finds the longest common beginning",
			Source: "mlx-lm, its server", Date: "2026-11-22",
		},
		{
			Name: "generic", UsageInStream: true, WindowPath: "/api/ps", // that of Ollama, which cuts long prompts here
			Source: "what servers of chat completions have in common", Date: "2026-11-22",
		},
	}
}

// fill sets the defaults of a row: most servers copy chat completions.
func (p *Preset) fill() {
	if p.Dialect == "" {
		p.Dialect = OpenAI
		p.Path = cmp.Or(p.Path, "/chat/completions")
		p.ReasoningFields = []string{"reasoning_content", "reasoning", "thinking"}
	}
	p.EmbedPath = cmp.Or(p.EmbedPath, p.Dialect.format().embedPath)
	p.LimitField = cmp.Or(p.LimitField, "max_tokens")
	p.Terminator = cmp.Or(p.Terminator, Either)
	p.SystemRole = "system"
	p.ToolsStream = true
	if p.Auth == "" {
		p.Auth, p.Scheme = "Authorization", "Bearer "
	}
}

// At returns the preset with its paths completed for a model. If version is
// empty, the version of the preset is used.
func (p Preset) At(model, version string) Preset {
	version = url.QueryEscape(cmp.Or(version, p.Version))
	names := strings.NewReplacer("{model}", url.PathEscape(model), "{version}", version)
	p.Path, p.EmbedPath = names.Replace(p.Path), names.Replace(p.EmbedPath)
	return p
}

// PresetNamed returns the preset with a name; ok is false if there is no such preset.
func PresetNamed(name string) (Preset, bool) {
	all := Presets()
	i := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return all[i], true
}

// Quirks correct a preset for one model, from the configuration. Unset fields
// keep the preset's values.
type Quirks struct {
	ResponseFormat  string     `edn:"response-format,omitempty" enum:"json_schema,json_object,none"`
	Tools           *bool      `edn:"tools,omitempty"`
	ToolsStream     *bool      `edn:"tools-stream,omitempty"`
	Terminator      Terminator `edn:"terminator,omitempty" enum:"either,strict,eof" doc:"what makes a stream complete: a finish reason or the formal end, the formal end alone, or the end of the body"`
	UsageInStream   *bool      `edn:"usage-in-stream,omitempty"`
	SystemRole      string     `edn:"system-role,omitempty" enum:"system,developer,user"`
	ReasoningFields []string   `edn:"reasoning-fields,omitempty"`
}

// With returns the corrected preset.
func (p Preset) With(q Quirks) Preset {
	switch q.ResponseFormat {
	case "json_schema":
		p.Native = true
	case "json_object":
		p.Native, p.JSONMode = false, true
	case "none":
		p.Native, p.JSONMode = false, false
	}
	for to, from := range map[*bool]*bool{
		&p.Tools: q.Tools, &p.ToolsStream: q.ToolsStream, &p.UsageInStream: q.UsageInStream,
	} {
		if from != nil {
			*to = *from
		}
	}
	p.Terminator, p.SystemRole = cmp.Or(q.Terminator, p.Terminator), cmp.Or(q.SystemRole, p.SystemRole)
	if len(q.ReasoningFields) > 0 {
		p.ReasoningFields = q.ReasoningFields
	}
	return p
}
