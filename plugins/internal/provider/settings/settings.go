package settings

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Settings are the settings of a config block: one account at one provider.
type Settings struct {
	Provider       string            `edn:"provider" enum:"openai,anthropic,gemini,mistral,groq,openrouter,azure,ollama,lmstudio,vllm,llama-server,compatible" doc:"the provider; compatible for any other server with a chat/completions endpoint"`
	APIKey         string            `edn:"api-key,omitempty" secret:"true" doc:"the key of the account"`
	BaseURL        string            `edn:"base-url,omitempty" doc:"address of the server with its scheme, if it is not the provider's own"`
	Preset         string            `edn:"preset,omitempty" enum:"openai,openai-responses,anthropic,gemini,mistral,groq,openrouter,azure,ollama,lmstudio,vllm,llama-server,mlx,generic" doc:"features of the server; default: the provider's name, or generic for a compatible one"`
	APIVersion     string            `edn:"api-version,omitempty" doc:"version of the interface where requests name one; the preset's own unless written"`
	Headers        map[string]string `edn:"headers,omitempty" doc:"headers of every request; a key belongs in api_key"`
	CAFile         string            `edn:"ca-file,omitempty" unit:"path" doc:"certificates that are trusted besides those of the system"`
	Proxy          string            `edn:"proxy,omitempty" doc:"HTTP proxy; none is taken from the environment"`
	AllowPlaintext bool              `edn:"allow-plaintext,omitempty" doc:"send the key over http to another machine"`
	OnRefusal      string            `edn:"on-refusal,omitempty" enum:"switch,stop" doc:"after a refusal by the model: switch, the default, tries the next candidate; stop ends the call"`
	Tolerant       bool              `edn:"tolerant,omitempty" doc:"accept an answer that may be incomplete, marked in its metadata; else it fails as stream/truncated"`
	MaxInFlight    int               `edn:"max-in-flight" min:"1" max:"1000" doc:"requests at once"`
	Queue          int               `edn:"queue" min:"0" max:"10000" doc:"calls that wait for their turn"`
	Timeouts       Timeouts          `edn:"timeouts" doc:"timers of a request"`
	ModelName      string            `edn:"model-name,omitempty" doc:"name of the model, for the model blocks that have none of their own"`
	Models         map[string]Model  `edn:"model" doc:"each is one capability, PROVIDER/LABEL"`
}

// Timeouts are in milliseconds.
type Timeouts struct {
	Connect int64 `edn:"connect" unit:"ms" min:"1" max:"3600000" doc:"until there is a connection"`
	First   int64 `edn:"first-token" unit:"ms" min:"1" max:"3600000" doc:"until the first part of the answer"`
	Silence int64 `edn:"silence" unit:"ms" min:"1" max:"3600000" doc:"without any byte"`
	Stall   int64 `edn:"stall" unit:"ms" min:"1" max:"3600000" doc:"without a further part of the answer"`
	Total   int64 `edn:"total" unit:"ms" min:"1" max:"86400000" doc:"for the whole answer"`
}

// Model holds the settings of one model, which becomes one capability.
type Model struct {
	Name          string         `edn:"name,omitempty" doc:"name of the model at the provider; model_name unless written"`
	Family        string         `edn:"family,omitempty" doc:"family of the model; a judge of the same family may not judge its answers"`
	Intents       []string       `edn:"intents,omitempty" doc:"intents that it serves, without colon; default model/chat"`
	Context       int64          `edn:"context,omitempty" min:"1" doc:"tokens that it can read"`
	Count         string         `edn:"count,omitempty" enum:"auto,endpoint,local,estimate" doc:"how tokens are counted: by the server, by the tables of OpenAI's models, by length; auto uses the best method of the preset"`
	Structured    string         `edn:"structured,omitempty" enum:"auto,native,json,prompt" doc:"how an answer with a schema is requested; auto uses the strictest form that works"`
	StrictOptions bool           `edn:"strict-options,omitempty" doc:"reject a call whose options the provider cannot express, instead of dropping them"`
	Options       Options        `edn:"options" doc:"default options of calls"`
	Price         Price          `edn:"price" doc:"decimals per million tokens"`
	Quirks        dialect.Quirks `edn:"quirks" doc:"where the server differs from its preset"`
}

// Options are the default options of requests.
type Options struct {
	Temperature      *float64             `edn:"temperature,omitempty" min:"0" max:"2"`
	TopP             *float64             `edn:"top-p,omitempty" min:"0" max:"1" doc:"above 0"`
	MaxTokens        int64                `edn:"max-tokens,omitempty" min:"1"`
	Stop             []string             `edn:"stop,omitempty" doc:"at most 16"`
	Seed             *int64               `edn:"seed,omitempty"`
	ReasoningEffort  string               `edn:"reasoning-effort,omitempty" enum:"none,minimal,low,medium,high,xhigh" doc:"reasoning effort, where the model supports it"`
	Headroom         *int64               `edn:"headroom,omitempty" min:"0" max:"262144" doc:"tokens that a request leaves for reasoning in addition to its limit; default 2048 for known reasoning models"`
	PresencePenalty  *float64             `edn:"presence-penalty,omitempty" min:"-2" max:"2"`
	FrequencyPenalty *float64             `edn:"frequency-penalty,omitempty" min:"-2" max:"2"`
	Extra            map[string]edn.Value `edn:"extra,omitempty" doc:"further fields of the request body"`
}

// Price is the price of a model. Amounts are decimals. The host puts a list
// price into a block without amounts, with its source and date.
type Price struct {
	Input       edn.Value `edn:"input,omitempty" unit:"decimal"`
	CachedInput edn.Value `edn:"cached-input,omitempty" unit:"decimal"`
	CacheWrite  edn.Value `edn:"cache-write,omitempty" unit:"decimal"`
	Output      edn.Value `edn:"output,omitempty" unit:"decimal"`
	Free        bool      `edn:"free,omitempty" doc:"the model is free, as on a local server"`
	UpTo        int64     `edn:"up-to,omitempty" min:"1" doc:"longest input, in tokens, to which the amounts apply; the cost of a longer one is a lower bound"`
	Listed      string    `edn:"listed,omitempty" doc:"VENDOR/MODEL in the price list, if the model has another name here, as for a deployment"`
	Source      string    `edn:"source,omitempty" doc:"where the amounts were read"`
	Date        string    `edn:"date,omitempty" doc:"day on which they were read, such as 2026-01-31"`
}

// The counting methods.
const (
	CountAuto     = "auto"
	CountEndpoint = "endpoint"
	CountLocal    = "local"
	CountEstimate = "estimate"
)

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{
		MaxInFlight: 8, Queue: 32,
		Timeouts: Timeouts{Connect: 5_000, First: 120_000, Silence: 30_000, Stall: 30_000, Total: 300_000},
	}
}

// Named returns s in which each model without a name has the default name
// ModelName.
func (s Settings) Named() Settings {
	models := make(map[string]Model, len(s.Models))
	for label, m := range s.Models {
		m.Name = cmp.Or(m.Name, s.ModelName)
		models[label] = m
	}
	s.Models = models
	return s
}

// PresetOf returns the preset named Preset, or else the one named Provider; if there
// is no such preset, the preset generic.
func (s Settings) PresetOf() dialect.Preset {
	p, ok := dialect.PresetNamed(cmp.Or(s.Preset, s.Provider))
	if !ok {
		p, _ = dialect.PresetNamed(plainest)
	}
	return p
}

// plainest is the preset of unknown servers.
const plainest = "generic"

// IntentsOf returns the intents of a model, by default model/chat.
func (m Model) IntentsOf() []string {
	if len(m.Intents) == 0 {
		return []string{"model/chat"}
	}
	return m.Intents
}

func (o Options) options() chat.Options {
	number := func(f *float64) json.Number {
		if f == nil {
			return ""
		}
		text, _ := json.Marshal(*f)
		return json.Number(text)
	}
	out := chat.Options{
		Temperature: number(o.Temperature), TopP: number(o.TopP),
		PresencePenalty: number(o.PresencePenalty), FrequencyPenalty: number(o.FrequencyPenalty),
		MaxTokens: o.MaxTokens, Effort: o.ReasoningEffort, Seed: o.Seed, Stop: slices.Clone(o.Stop),
	}
	for name, v := range o.Extra {
		if out.Extra == nil {
			out.Extra = map[string]json.RawMessage{}
		}
		out.Extra[name] = extra(v)
	}
	return out
}

// extra encodes a configuration value as JSON. Decimals become numbers, the
// only kind that JSON has.
func extra(v edn.Value) json.RawMessage {
	text, _ := json.Marshal(plain(v))
	return text
}

func plain(v edn.Value) any {
	switch v.Kind() {
	case edn.KindNil:
		return nil
	case edn.KindBool:
		b, _ := v.AsBool()
		return b
	case edn.KindInt:
		return json.Number(v.String())
	case edn.KindFloat, edn.KindDecimal:
		r, _ := v.AsNumber()
		f, _ := r.Float64()
		return f
	case edn.KindString:
		s, _ := v.AsString()
		return s
	case edn.KindKeyword:
		s, _ := v.AsKeyword()
		return s
	case edn.KindMap:
		m := map[string]any{}
		for k, part := range v.Entries() {
			name, ok := k.AsKeyword()
			if !ok {
				name, _ = k.AsString()
			}
			m[name] = plain(part)
		}
		return m
	case edn.KindVector, edn.KindList, edn.KindSet:
		list := []any{}
		for part := range v.Elems() {
			list = append(list, plain(part))
		}
		return list
	}
	return v.String()
}
