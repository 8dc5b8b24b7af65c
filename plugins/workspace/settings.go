package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// settings are the config block of the plugin.
type settings struct {
	AllowedRoots []string `edn:"allowed-roots,omitempty" unit:"path" doc:"directories that may be workspaces, with all below them"`
	DataDir      string   `edn:"data-dir,omitempty" unit:"path" doc:"where the stores of new workspaces lie; without it in the directory itself, below .ferment"`
	Scheme       string   `edn:"scheme" enum:"b3,s2,git-auto,git-sha1,git-sha256" doc:"hashes of new workspaces"`
	Workers      int      `edn:"workers,omitempty" min:"0" max:"1024" doc:"goroutines of a scan, 0 for the number of CPUs"`
	DefaultAgent string   `edn:"default-agent,omitempty" doc:"agent of requests that name none"`
	Boundaries   []string `edn:"boundaries,omitempty" doc:"directories whose frames a regeneration of their parents leaves as they are"`
	StorePrompts bool     `edn:"store-prompts" doc:"keep the text of prompts with the frames that models wrote"`
	NeverSend    []string `edn:"never-send,omitempty" doc:"patterns, as in .gitignore, of paths that no model gets"`
	MaxFrame     int64    `edn:"max-frame" unit:"bytes" min:"1" max:"16777216" doc:"largest text of a frame"`
	MaxNodes     int      `edn:"max-nodes" min:"1" max:"5000000" doc:"most files and directories of a workspace"`
	MaxBatch     int      `edn:"max-batch" min:"1" max:"10000" doc:"most calls of a batch"`
	Nested       string   `edn:"nested" enum:"descend,boundary" doc:"what a nested repository is outside of the schemes of git: a directory or a leaf"`
	OneFS        bool     `edn:"one-file-system,omitempty" doc:"leave out directories on other file systems"`
	IdleClose    int      `edn:"idle-close" unit:"ms" min:"1000" max:"86400000" doc:"a workspace that no request used for this long is closed"`

	Agents map[string]agentBlock `edn:"agent,omitempty" doc:"who may write frames, and how it asks models"`
	Views  map[string]viewBlock  `edn:"view,omitempty" doc:"which frames of a node are read, and in which order"`
}

// agentBlock declares an agent (WS-060, WS-064).
type agentBlock struct {
	Role         string       `edn:"role" enum:"reader,writer,synthesis" doc:"what the agent may do"`
	Capabilities []string     `edn:"capabilities,omitempty" doc:"narrows the role, such as [\"frame/append\", \"context/read\"]"`
	Model        string       `edn:"model,omitempty" unit:"capability" doc:"id of the model capability that the agent asks first"`
	Principals   []string     `edn:"principals,omitempty" doc:"callers that may act as the agent: user/N, oidc/NAME/SUBJECT, uid/N, local or anonymous; without it every caller"`
	Prompts      promptsBlock `edn:"prompts,omitempty" doc:"what a model is asked; required with model"`
}

type promptsBlock struct {
	System    string `edn:"system,omitempty" doc:"instructions of the operator"`
	File      string `edn:"file,omitempty" doc:"about a file; {path} {node_type} {file_size} {content} are filled in"`
	Directory string `edn:"directory,omitempty" doc:"about a directory; {path} {node_type} {frames} are filled in"`
}

// viewBlock declares a named view (WS-080).
type viewBlock struct {
	MaxFrames *int     `edn:"max-frames" min:"0" max:"1000" doc:"most frames"`
	MaxBytes  *int64   `edn:"max-bytes" unit:"bytes" min:"0" max:"8388608" doc:"most bytes of all texts"`
	Select    string   `edn:"select,omitempty" enum:"heads,history,fresh" doc:"which frames of the node"`
	Ordering  string   `edn:"ordering,omitempty" enum:"recency,type,agent" doc:"what comes first"`
	Order     []string `edn:"order,omitempty" doc:"types or agents in the order in which they come"`
	Types     []string `edn:"types,omitempty" doc:"only frames of these types"`
	Agents    []string `edn:"agents,omitempty" doc:"only frames of these agents"`
	Origins   []string `edn:"origins,omitempty" doc:"only frames of these origins: authored, extracted, synthesized, generated"`
	Include   []string `edn:"include,omitempty" doc:"also stale, deleted or invalid frames; stale without it"`
	Content   *bool    `edn:"content,omitempty" doc:"return the texts too; true without it"`
}

// defaults are the default settings.
var defaults = settings{
	Scheme:       id.B3.String(),
	StorePrompts: true,
	NeverSend:    []string{".env*", "*.pem", "*.key", "id_*"},
	MaxFrame:     1 << 20,
	MaxNodes:     1_000_000,
	MaxBatch:     1000,
	Nested:       "descend",
	IdleClose:    int((5 * time.Minute).Milliseconds()),
}

// checkSettings reports every problem that the schema cannot express.
func checkSettings(cfg settings) error {
	var problems []error
	if cfg.AllowedRoots != nil && len(cfg.AllowedRoots) == 0 {
		problems = append(problems, sdk.Problem("no directory is allowed: name at least one", edn.K("allowed-roots")))
	}
	for i, root := range cfg.AllowedRoots {
		if !filepath.IsAbs(root) {
			problems = append(problems, sdk.Problem(fmt.Sprintf("the path %q is not absolute", root), edn.K("allowed-roots"),
				edn.Int(int64(i))))
		}
	}
	if cfg.DefaultAgent != "" {
		if _, declared := cfg.Agents[cfg.DefaultAgent]; !declared && !builtIn(cfg.DefaultAgent) {
			problems = append(problems,
				sdk.Problem(fmt.Sprintf("unknown agent %q: expected the label of an agent block or a built-in agent",
					cfg.DefaultAgent), edn.K("default-agent")))
		}
	}
	for i, pattern := range cfg.NeverSend {
		if err := ignore.Check(pattern); err != nil {
			problems = append(problems, sdk.Problem(fmt.Sprintf("the pattern %q cannot be used: %v", pattern, err),
				edn.K("never-send"), edn.Int(int64(i))))
		}
	}
	for name, block := range cfg.Agents {
		problems = append(problems, agentProblems(name, block)...)
	}
	for i, path := range cfg.Boundaries {
		if _, err := store.CheckPath(path); err != nil {
			problems = append(problems, sdk.Problem(fmt.Sprintf("the path %q is not one of a workspace: %s", path,
				contract.AsError(err).Message), edn.K("boundaries"), edn.Int(int64(i))))
		}
	}
	for name, block := range cfg.Views {
		found := block.filterProblems(name)
		if _, err := block.view(&cfg); err != nil && found == nil {
			found = append(found, viewProblem(name, err))
		}
		problems = append(problems, found...)
	}
	return errors.Join(problems...)
}

func builtIn(name string) bool {
	for _, a := range agent.BuiltIn() {
		if a.ID == name {
			return true
		}
	}
	return false
}

// agentProblems returns the problems of one agent, each at the setting that
// causes it (WS-064).
func agentProblems(name string, block agentBlock) (problems []error) {
	_, err := agent.New([]agent.Agent{block.agent(name)}, anyModel)
	for _, e := range flatten(err) {
		at := []edn.Value{edn.K("agent"), edn.Text(name)}
		refused := contract.AsError(e)
		if field, ok := refused.Details.Key("field").AsKeyword(); ok && field != "id" {
			at = append(at, edn.K(field))
			if i := refused.Details.Key("index"); !i.IsNil() {
				at = append(at, i)
			}
		}
		if prompt, ok := refused.Details.Key("prompt").AsString(); ok {
			at = append(at, edn.K("prompts"), edn.K(prompt))
		}
		problems = append(problems, sdk.Problem(refused.Message, at...))
	}
	return problems
}

// flatten returns the typed errors of a joined error.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if _, typed := err.(*contract.Error); typed || !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// anyModel accepts every model: only the host can check that a capability exists. It checks the
// settings that name one.
func anyModel(string) bool { return true }

func (b agentBlock) agent(name string) agent.Agent {
	a := agent.Agent{
		ID:         name,
		Role:       agent.Role(b.Role),
		Model:      b.Model,
		Principals: b.Principals,
		Prompts:    agent.Prompts{System: b.Prompts.System, File: b.Prompts.File, Directory: b.Prompts.Directory},
	}
	for _, c := range b.Capabilities {
		a.Capabilities = append(a.Capabilities, agent.Capability(c))
	}
	return a
}

// agents returns the agents in force.
func (cfg *settings) agents() (*agent.Set, error) {
	var declared []agent.Agent
	for name, block := range cfg.Agents {
		declared = append(declared, block.agent(name))
	}
	return agent.New(declared, anyModel)
}

// derivation returns the settings of the engine that makes frames.
func (cfg *settings) derivation() derive.Settings {
	return derive.Settings{
		Boundaries:  cfg.Boundaries,
		NeverSend:   ignore.Parse("never_send", "", []byte(strings.Join(cfg.NeverSend, "\n"))),
		DropPrompts: !cfg.StorePrompts,
		MaxFrame:    int(cfg.MaxFrame),
	}
}

// views returns the declared views by name.
func (cfg *settings) views() (map[string]view.View, error) {
	all := map[string]view.View{}
	for name, block := range cfg.Views {
		v, err := block.view(cfg)
		if err != nil {
			return nil, err
		}
		all[name] = v
	}
	return all, nil
}

// view returns the view that a block declares. The block and the view of a
// request are read by the same code.
func (b viewBlock) view(cfg *settings) (view.View, error) {
	var m edn.MapBuilder
	if b.MaxFrames != nil {
		m.Key("max-frames", number(*b.MaxFrames))
	}
	if b.MaxBytes != nil {
		m.Key("max-bytes", number(*b.MaxBytes))
	}
	m.OptKeyword("select", b.Select)
	m.OptKeyword("ordering", b.Ordering)
	if b.Order != nil {
		m.Key("order", texts(b.Order))
	}
	var filters []edn.Value
	for _, f := range []struct {
		kind string
		any  []edn.Value
	}{{"type", textValues(b.Types)}, {"agent", textValues(b.Agents)}, {"origin", keywords(b.Origins)}} {
		if len(f.any) > 0 {
			filters = append(filters, edn.Vector(edn.K(f.kind), edn.SetOf(f.any...)))
		}
	}
	if filters != nil {
		m.Key("filters", edn.Vector(filters...))
	}
	if b.Include != nil {
		m.Key("include", edn.SetOf(keywords(b.Include)...))
	}
	if b.Content != nil {
		m.Key("content?", edn.Bool(*b.Content))
	}
	return view.Parse(m.Map(), view.Options{})
}

// filterProblems returns the problems of the filters of a view, each at its entry.
func (b viewBlock) filterProblems(name string) (problems []error) {
	for _, filter := range []struct {
		setting string
		any     []string
		check   func(string) error
	}{{"types", b.Types, store.CheckFrameType}, {"agents", b.Agents, agent.CheckID}, {"origins", b.Origins, checkOrigin}} {
		for i, text := range filter.any {
			if err := filter.check(text); err != nil {
				problems = append(problems, sdk.Problem(contract.AsError(err).Message,
					edn.K("view"), edn.Text(name), edn.K(filter.setting), edn.Int(int64(i))))
			}
		}
	}
	return problems
}

func checkOrigin(text string) error {
	switch store.Origin(text) {
	case store.Authored, store.Extracted, store.Synthesized, store.Generated:
		return nil
	}
	return contract.Errorf("input/invalid", "%.80q is not an origin: expected authored, extracted, synthesized or generated", text)
}

// viewProblem returns the problem of a view at the setting that causes it.
func viewProblem(name string, err error) error {
	at := []edn.Value{edn.K("view"), edn.Text(name)}
	refused := contract.AsError(err)
	for key := range refused.Details.Key("path").Elems() {
		if setting, ok := key.AsKeyword(); ok {
			at = append(at, edn.K(setting))
			break
		}
	}
	return sdk.Problem(refused.Message, at...)
}
