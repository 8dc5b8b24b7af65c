package dialect

import "slices"

// Name is a wire format.
type Name string

// The formats.
const (
	OpenAI    Name = "openai-chat"
	Anthropic Name = "anthropic-messages"
	Ollama    Name = "ollama-chat"
	Responses Name = "openai-responses"
)

// Terminator says what makes a stream complete.
type Terminator string

// The ends of a stream.
const (
	Either Terminator = "either" // a finish reason, or the formal end
	Strict Terminator = "strict" // the formal end
	EOF    Terminator = "eof"    // the end of the body will do
)

// Preset is what servers of one kind can do.
type Preset struct {
	Name    string
	Dialect Name
	// Path of the endpoint, below the base URL.
	Path string
	// Base is the URL that holds if none is configured, "" for none.
	Base string
	// Keyed says that no request is made without a key.
	Keyed bool
	// LimitField is the name of the limit of output tokens.
	LimitField string
	// Native says that the server enforces a JSON Schema, JSONMode that it
	// enforces JSON.
	Native, JSONMode bool
	Tools            bool
	// ToolsStream says that calls of tools arrive in streams too.
	ToolsStream bool
	Terminator  Terminator
	// UsageInStream says that usage has to be asked for and can be.
	UsageInStream bool
	SystemRole    string
	// ReasoningFields are where the text before the answer stands.
	ReasoningFields []string
	// Tables says that the models are those whose tables are known.
	Tables bool
	// CountPath is an endpoint that counts tokens, "" for none. One with a
	// CountField takes a text in that field and gives its tokens; it lies beside
	// the version of the interface, not below it. Counts says that it is asked
	// unless the configuration says otherwise.
	CountPath, CountField string
	Counts                bool
	// WindowPath is an endpoint, beside the version of the interface, that says how
	// many tokens the loaded model reads, "" for none.
	WindowPath string
}

// Presets are all presets in the order of the documentation.
func Presets() []Preset {
	reasoning := []string{"reasoning_content", "reasoning", "thinking"}
	compatible := Preset{
		Dialect: OpenAI, Path: "/chat/completions", LimitField: "max_tokens", Terminator: Either,
		UsageInStream: true, SystemRole: "system", ToolsStream: true, ReasoningFields: reasoning,
	}
	named := func(name string, change func(*Preset)) Preset {
		p := compatible
		p.Name = name
		change(&p)
		return p
	}
	return []Preset{
		named("openai", func(p *Preset) {
			p.Base, p.Keyed, p.LimitField = "https://api.openai.com/v1", true, "max_completion_tokens"
			p.Native, p.JSONMode, p.Tools, p.Tables = true, true, true, true
		}),
		{
			Name: "anthropic", Dialect: Anthropic, Path: "/v1/messages", Base: "https://api.anthropic.com", Keyed: true, LimitField: "max_tokens",
			Native: true, Tools: true, ToolsStream: true, Terminator: Either, SystemRole: "system", CountPath: "/v1/messages/count_tokens", Counts: true,
		},
		{
			Name: "ollama", Dialect: Ollama, Path: "/api/chat", Base: "http://127.0.0.1:11434", LimitField: "num_predict",
			Native: true, JSONMode: true, Tools: true, ToolsStream: true, Terminator: Either, SystemRole: "system", ReasoningFields: []string{"thinking"},
			WindowPath: "/api/ps",
		},
		named("lmstudio", func(p *Preset) { p.Native, p.Tools, p.WindowPath = true, true, "/api/v0/models" }),
		named("vllm", func(p *Preset) {
			p.Native, p.JSONMode, p.Tools, p.CountPath, p.CountField = true, true, true, "/tokenize", "prompt"
			p.WindowPath = "/v1/models"
		}),
		named("llama-server", func(p *Preset) {
			p.Native, p.JSONMode, p.Tools, p.CountPath, p.CountField, p.Counts = true, true, true, "/tokenize", "content", true
			p.WindowPath = "/props"
		}),
		named("mlx", func(p *Preset) { p.Tools = true }),
		named("generic", func(*Preset) {}),
		{
			Name: "openai-responses", Dialect: Responses, Path: "/responses",
			Base: "https://api.openai.com/v1", Keyed: true, LimitField: "max_output_tokens",
			Native: true, JSONMode: true, Tools: true, ToolsStream: true, Terminator: Strict,
			SystemRole: "system", Tables: true,
		},
	}
}

// PresetNamed finds a preset.
func PresetNamed(name string) (Preset, bool) {
	all := Presets()
	i := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return all[i], true
}

// PresetNames are the names of all presets.
func PresetNames() []string {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	return names
}

// Quirks correct a preset for one model. What is unset stays.
type Quirks struct {
	ResponseFormat  string // json_schema, json_object or none
	Tools           *bool
	ToolsStream     *bool
	Terminator      Terminator
	UsageInStream   *bool
	SystemRole      string
	ReasoningFields []string
}

// With is the preset as corrected.
func (p Preset) With(q Quirks) Preset {
	switch q.ResponseFormat {
	case "json_schema":
		p.Native = true
	case "json_object":
		p.Native, p.JSONMode = false, true
	case "none":
		p.Native, p.JSONMode = false, false
	}
	set := func(to *bool, from *bool) {
		if from != nil {
			*to = *from
		}
	}
	set(&p.Tools, q.Tools)
	set(&p.ToolsStream, q.ToolsStream)
	set(&p.UsageInStream, q.UsageInStream)
	if q.Terminator != "" {
		p.Terminator = q.Terminator
	}
	if q.SystemRole != "" {
		p.SystemRole = q.SystemRole
	}
	if len(q.ReasoningFields) > 0 {
		p.ReasoningFields = q.ReasoningFields
	}
	return p
}

// OwnFields are the fields of a request body that this package sets, which
// extra fields must not hide.
func OwnFields(d Name) []string {
	switch d {
	case Anthropic:
		return []string{"model", "messages", "system", "max_tokens", "stream", "temperature", "top_p", "stop_sequences", "tools", "output_config"}
	case Ollama:
		return []string{"model", "messages", "stream", "format", "tools", "options", "truncate", "shift"}
	case Responses:
		return []string{
			"model", "input", "stream", "store", "include", "max_output_tokens", "temperature", "top_p", "tools", "text",
		}
	}
	return []string{"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed",
		"presence_penalty", "frequency_penalty", "tools", "response_format", "n"}
}
