package derive

import (
	"cmp"
	"io"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/extract"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of the package.
const (
	// MaxTransaction is the number of frames after which a level ends its
	// transaction.
	MaxTransaction = 10_000
	// MaxPlanTargets is the largest number of targets of plan mode.
	MaxPlanTargets = 300
	// MaxSource is the largest file that is read into memory to describe it.
	MaxSource = 16 << 20

	maxHead            = 64 << 10 // bytes that describe a larger file
	defaultInput       = 256 << 10
	defaultConcurrency = 3
	maxAttempts        = 3
)

// Options configure an Engine.
type Options struct {
	Store *store.Store
	// Open opens a file of the workspace. The engine compares the content id of its bytes with
	// that of the tree.
	Open func(path string) (io.ReadCloser, error)
	// Agents and Settings return the configuration in force. They are called
	// for every request, so a reload takes effect at once.
	Agents   func() *agent.Set
	Settings func() Settings
	// Invoke calls an intent through the host. If it is nil, requests that need
	// it fail with provider/not-configured.
	Invoke       Invoke
	Synthesizers []policy.Synthesizer
	// Now is the clock for durations, in nanoseconds.
	Now func() int64
}

// Settings are the settings of the engine from the configuration.
type Settings struct {
	// Boundaries are directories that a regeneration does not rebuild unless one
	// of them is its target.
	Boundaries []string
	// NeverSend are the patterns of paths whose content must not be sent to an
	// intent: no call is made about these paths, and no directory frame is made
	// from their frames.
	NeverSend *ignore.List
	// DropPrompts keeps the texts of prompts out of the store.
	DropPrompts bool
	MaxFrame    int // bytes of the text of a frame; 0 means store.MaxFrame
	MaxInput    int // bytes of the input of a model; 0 means 256 KiB
	Concurrency int // calls of one agent at once; 0 means 3
}

// Engine makes frames. It is safe for concurrent use.
type Engine struct {
	o        Options
	registry policy.Registry
	flight   flight
	calls    limiter
}

// New returns an engine. It sets the resolver of the store, so that heads become
// stale when an extractor, a policy or a prompt changes.
func New(o Options) *Engine {
	e := &Engine{o: o, registry: policy.Registry{}}
	if e.o.Settings == nil {
		e.o.Settings = func() Settings { return Settings{} }
	}
	for _, s := range o.Synthesizers {
		e.registry[s.Name] = s
	}
	o.Store.SetResolver(e.resolve)
	return e
}

// allow returns the agent of a request if it may do what it needs.
func (e *Engine) allow(c Caller, needs agent.Capability) (*agent.Agent, error) {
	return e.o.Agents().Allow(agent.Request{Agent: c.Agent, Principal: c.Principal, Needs: needs})
}

// actor returns the name of a caller in the log.
func (c Caller) actor() string { return cmp.Or(c.Principal, c.Agent) }

// mayRemake returns an error unless the agent of a recipe exists and may write frames of the
// origin. The capability frame/generate suffices for synthesized frames too, because generation
// also describes directories.
func (e *Engine) mayRemake(agentID string, origin store.Origin) error {
	a, err := e.o.Agents().Get(agentID)
	if err != nil {
		return err
	}
	if a.May(agent.Generate) || origin == store.Synthesized && a.May(agent.Synthesize) {
		return nil
	}
	return contract.Errorf("agent/role-denied", "the agent is no longer permitted to write frames of origin %s",
		origin).WithOp("agent", a.ID)
}

// resolve returns the present value of an input of a frame that depends on the configuration: an
// extractor, a policy or a prompt. Other inputs are returned unchanged.
func (e *Engine) resolve(f *store.Frame, in store.Input) store.Input {
	switch {
	case in.Kind == id.InputPolicy && f.Origin == store.Extracted:
		in.Text = []byte(extractDigest(f.Producer()))
	case in.Kind == id.InputPolicy && f.Origin == store.Synthesized:
		if p, sel, err := e.policyOf(f); err == nil {
			if digest, err := e.digest(p, sel); err == nil {
				in.Text = []byte(digest)
			}
		}
	case in.Kind == id.InputPrompt && f.Origin == store.Generated:
		if now, ok := e.promptNow(f); ok {
			in.ID = now
		}
	}
	return in
}

// extractDigest returns a hash of the name and the version of an extractor.
func extractDigest(name string) string {
	x, _ := extract.Get(name)
	return edn.Hash(edn.MustMap(edn.K("producer"), edn.K(cmp.Or(x.Name, "none")), edn.K("version"), edn.Int(int64(x.Version))))
}

// policyOf returns policy and selection of a synthesized frame.
func (e *Engine) policyOf(f *store.Frame) (*policy.Policy, store.Selection, error) {
	sel, _, err := f.SelectionOf()
	if err != nil {
		return nil, sel, err
	}
	p, err := policy.Parse(f.Recipe.Key("policy"), e.registry)
	if err != nil {
		return nil, sel, err
	}
	params := f.Recipe.Key("params")
	if order, ok := params.Key("order").AsKeyword(); ok {
		p.Order = store.Word(order)
	}
	p.Truncate, _ = params.Key("truncate?").AsBool()
	bindInputs(p, &sel)
	return p, sel, nil
}

// bindInputs completes a policy and a selection with store.BindsInputs: the basis holds
// what the policy reads of each entry, and the order of the text follows from the basis.
func bindInputs(p *policy.Policy, sel *store.Selection) {
	if sel.Binds != store.BindsInputs {
		return
	}
	sel.Bound = p.Reads(*sel)
	p.Order = policy.OrderName
}

// synthesisRecipe is the recipe that policyOf reads.
func synthesisRecipe(p *policy.Policy, sel store.Selection) (edn.Value, error) {
	params, err := edn.Encode(sel)
	if err != nil {
		return edn.Nil(), contract.Errorf("runtime/internal", "encode the parameters of a synthesis recipe: %w", err)
	}
	if p.Order != policy.OrderNode {
		params = params.AssocKey("order", edn.K(string(p.Order)))
	}
	if p.Truncate {
		params = params.AssocKey("truncate?", edn.Bool(true))
	}
	return store.Recipe("synthesize", p.Value(), params), nil
}

// maxInput is the largest input of a model, in bytes.
func (s Settings) maxInput() int { return cmp.Or(s.MaxInput, defaultInput) }

// denied returns the pattern of NeverSend that forbids to send a path, "" if none does. The root
// has no name, so no pattern matches it.
func (s Settings) denied(path string, mode id.Mode) string {
	if path == "" {
		return ""
	}
	if p := s.NeverSend.Ignores(path, mode == id.Dir || mode == id.Repo); p != nil {
		return p.Text
	}
	return ""
}

// Denied reports whether NeverSend matches a path, as a file or as a directory.
func (s Settings) Denied(path string) bool {
	return s.denied(path, id.File) != "" || s.denied(path, id.Dir) != ""
}

// refuse returns an error if the path of a job may not be sent.
func (s Settings) refuse(j *job) error {
	pattern := s.denied(j.item.Path, j.now.Mode)
	if pattern == "" {
		return nil
	}
	return contract.Errorf("generate/denied", "the path matches %q of never_send", pattern).
		WithOp("generate", store.Shown(j.item.Path)).WithDetail("pattern", edn.Text(pattern))
}

// sendable returns the frames whose paths no pattern of NeverSend matches.
func (s Settings) sendable(children []store.Child) []store.Child {
	return slices.DeleteFunc(slices.Clone(children), func(c store.Child) bool { return s.denied(c.Path, c.Mode) != "" })
}

// digest returns the digest of a policy and a selection. It includes the patterns of NeverSend,
// because they withhold frames from the policy.
func (e *Engine) digest(p *policy.Policy, sel store.Selection) (string, error) {
	digest, err := p.Digest(sel)
	patterns := e.o.Settings().NeverSend.Texts()
	if err != nil || len(patterns) == 0 {
		return digest, err
	}
	withheld := make([]edn.Value, len(patterns))
	for i, text := range patterns {
		withheld[i] = edn.Text(text)
	}
	return edn.Hash(edn.MustMap(edn.K("policy"), edn.Text(digest), edn.K("never-send"), edn.Vector(withheld...))), nil
}
