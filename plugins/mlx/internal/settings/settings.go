package settings

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	provider "github.com/fermenthq/ferment/plugins/internal/provider/settings"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
)

// Settings are the settings of a config block: one model, and the server that
// runs it. Times are in milliseconds.
type Settings struct {
	Model       string            `edn:"model" min:"1" doc:"path or name of the model that the server runs"`
	Command     []string          `edn:"command" min:"1" doc:"the server and its arguments; {port} and {model} stand for the port and the model"`
	Preset      string            `edn:"preset" enum:"mlx,llama-server,lmstudio,vllm,generic" doc:"features of the server"`
	Port        int               `edn:"port,omitempty" min:"0" max:"65535" doc:"the server's port on 127.0.0.1, the first of max_workers with workers = \"per-session\"; 0: a free one out of 16 that follow from model and command"`
	Start       string            `edn:"start" enum:"lazy,eager" doc:"whether the server starts with the first call or with the plugin"`
	Cold        string            `edn:"cold" enum:"wait,switch" doc:"whether a call waits while the server loads, or goes to the next candidate"`
	Workers     string            `edn:"workers" enum:"shared,per-session" doc:"one server for all, or one for each session"`
	Serve       map[string]Serve  `edn:"serve" doc:"each is one capability, mlx/LABEL"`
	Env         map[string]string `edn:"env,omitempty" doc:"environment of the server, over that of the plugin"`
	Workdir     string            `edn:"workdir,omitempty" unit:"path" doc:"working directory of the server; the plugin's own directory if empty"`
	ReadyPath   string            `edn:"ready-path" min:"1" doc:"polled until it returns 200; if it does not exist, /v1/models is"`
	Startup     int64             `edn:"startup-timeout" unit:"ms" min:"100" max:"86400000" doc:"until the server has answered a first question"`
	IdleTTL     int64             `edn:"idle-ttl" unit:"ms" min:"0" max:"2592000000" doc:"time after which an idle server is stopped; 0: never"`
	MaxWorkers  int               `edn:"max-workers" min:"1" max:"64" doc:"servers at once with workers = \"per-session\""`
	MaxInFlight int               `edn:"max-in-flight" min:"1" max:"1000" doc:"requests at once to one server"`
	Queue       int               `edn:"queue" min:"0" max:"10000" doc:"calls that wait for a server or for their turn"`
	Drain       int64             `edn:"drain" unit:"ms" min:"0" max:"3600000" doc:"time for a stopping server to finish its calls"`
	Quit        Quit              `edn:"quit" doc:"graceful shutdown of the server before it gets a signal"`
	Offline     bool              `edn:"offline" doc:"tell the server's libraries not to download anything"`
	AllowModels []string          `edn:"allow-models,omitempty" doc:"further model names that requests and serve blocks may use"`
	Recheck     int64             `edn:"recheck" unit:"ms" min:"1000" max:"86400000" doc:"interval of checks for a server that cannot run here"`
	Timeouts    provider.Timeouts `edn:"timeouts" doc:"timers of a request"`
}

// Quit configures the quit request to a server.
type Quit struct {
	Path  string `edn:"path,omitempty" doc:"gets an empty POST"`
	Stdin string `edn:"stdin,omitempty" doc:"line for its standard input"`
}

// Serve holds the settings of one capability.
type Serve struct {
	Name          string           `edn:"name,omitempty" doc:"model name in requests, if not the started model; must be in allow_models"`
	Family        string           `edn:"family,omitempty" doc:"family of the model; a judge of the same family may not judge its answers"`
	Intents       []string         `edn:"intents,omitempty" doc:"intents that it serves, without colon; default model/chat"`
	Context       int64            `edn:"context,omitempty" min:"1" doc:"tokens that it can read"`
	Count         string           `edn:"count,omitempty" enum:"auto,endpoint,estimate" doc:"how tokens are counted: by the server or by length; auto uses the best method of the preset"`
	Structured    string           `edn:"structured,omitempty" enum:"auto,native,json,prompt" doc:"how an answer with a schema is requested; auto uses the strictest form that works"`
	StrictOptions bool             `edn:"strict-options,omitempty" doc:"reject a call whose options the server cannot express, instead of dropping them"`
	Options       provider.Options `edn:"options" doc:"default options of calls"`
	Price         provider.Price   `edn:"price" doc:"decimals per million tokens; free unless written"`
	Quirks        dialect.Quirks   `edn:"quirks" doc:"where the server differs from its preset"`
}

// Name is the first part of the capability IDs and the source of errors.
const Name = "mlx"

// Control is the label of the operators' capability.
const Control = "server"

const (
	perSession = "per-session"
	// maxTokens is the maximum number of tokens of an answer without another limit: the servers'
	// own defaults may be too low to be useful.
	maxTokens = 4096
)

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{
		Command: []string{"mlx_lm.server", "--host", "127.0.0.1", "--port", "{port}", "--model", "{model}"},
		Preset:  "mlx", Start: "lazy", Cold: "wait", Workers: "shared", ReadyPath: "/health",
		Startup: 120_000, IdleTTL: 900_000, MaxWorkers: 4, MaxInFlight: 4, Queue: 16, Drain: 10_000, Offline: true, Recheck: 300_000,
		Timeouts: provider.Defaults().Timeouts,
	}
}

// PerSession reports whether each session has its own server.
func (s Settings) PerSession() bool { return s.Workers == perSession }

// Eager reports whether the server starts with the plugin.
func (s Settings) Eager() bool { return s.Start == "eager" }

// Waits reports whether calls wait while a server loads.
func (s Settings) Waits() bool { return s.Cold == "wait" }

// Most returns the maximum number of concurrent servers.
func (s Settings) Most() int {
	if s.PerSession() {
		return s.MaxWorkers
	}
	return 1
}

// Places returns the number of calls that all servers together answer at once.
func (s Settings) Places() int { return s.Most() * s.MaxInFlight }

// Ports returns the ports of servers in the order in which they are tried. For
// port 0 they are derived from the command, so that they can be granted before
// the start and do not depend on the model; they lie below the ephemeral range.
func (s Settings) Ports() []uint16 {
	first, n := s.Port, s.Most()
	if s.Port == 0 {
		h := fnv.New32a()
		for _, part := range s.Command {
			_, _ = h.Write(append([]byte(part), 0))
		}
		first, n = lowest+int(h.Sum32()%blocks)*block, max(block, 2*n)
	}
	var all []uint16
	for p := first; p < first+n && p <= 65535; p++ {
		all = append(all, uint16(p))
	}
	return all
}

// Blocks of ports for port 0: 20000..31999.
const (
	lowest = 20000
	block  = 16
	blocks = 750
)

// Fill returns the command with the placeholders {port} and {model} replaced.
func (s Settings) Fill(port uint16) []string {
	replace := strings.NewReplacer("{port}", strconv.Itoa(int(port)), "{model}", s.Model)
	filled := make([]string, len(s.Command))
	for i, part := range s.Command {
		filled[i] = replace.Replace(part)
	}
	return filled
}

// Base returns the base URL of a server on a port.
func Base(port uint16) string { return "http://127.0.0.1:" + strconv.Itoa(int(port)) }

// provider returns the provider settings for a server on a port.
func (s Settings) provider(port uint16) provider.Settings {
	p := provider.Defaults()
	p.Provider, p.Preset, p.BaseURL = Name, s.Preset, Base(port)+"/v1"
	p.Timeouts, p.MaxInFlight, p.Queue = s.Timeouts, s.MaxInFlight, s.Queue
	p.Models = make(map[string]provider.Model, len(s.Serve))
	for label, v := range s.Serve {
		p.Models[label] = v.model(s)
	}
	return p
}

func (v Serve) model(s Settings) provider.Model {
	m := provider.Model{
		Name: v.Name, Family: v.Family, Intents: v.Intents, Context: v.Context, Count: v.Count, Structured: v.Structured,
		StrictOptions: v.StrictOptions, Options: v.Options, Price: v.Price, Quirks: v.Quirks,
	}
	if m.Name == "" {
		m.Name = s.Model
	}
	if m.Options.MaxTokens == 0 {
		m.Options.MaxTokens = maxTokens
	}
	p := m.Price
	if p.Input.IsNil() && p.Output.IsNil() && p.CachedInput.IsNil() && p.CacheWrite.IsNil() && p.Listed == "" {
		m.Price.Free = true
	}
	return m
}

// Models returns the capabilities as provider models, by label.
func (s Settings) Models() map[string]provider.Model { return s.provider(1).Models }

// Build returns the provider for a server on a port, and its models.
func (s Settings) Build(port uint16, clock transport.Clock) (*answer.Provider, map[string]*answer.Model, error) {
	p, models, err := s.provider(port).Build(clock, nil)
	if err != nil {
		return nil, nil, err
	}
	p.Report.NoServer = "check command and preset in the config block of the plugin: it starts its server itself"
	for label, m := range models {
		m.Wire = s.Wire(s.Serve[label].Name)
	}
	return p, models, nil
}

// Wire returns the name of a model in requests; for "" that of the started
// model. Servers of the preset mlx would load, and possibly download, any model
// that a request names, so for the started model they get a reserved name.
func (s Settings) Wire(name string) string {
	switch {
	case name != "" && name != s.Model:
		return name
	case s.Preset == "mlx":
		return "default_model"
	}
	return s.Model
}

// Environment returns the environment variables that the settings define for
// the server.
func (s Settings) Environment() map[string]string {
	env := map[string]string{"PYTHONUNBUFFERED": "1"}
	if s.Offline {
		for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"} {
			env[name] = "1"
		}
	}
	for name, value := range s.Env {
		env[name] = value
	}
	return env
}

// Duration converts milliseconds.
func Duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
