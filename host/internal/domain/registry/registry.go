package registry

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Spec is the input of New. Order matters where stated.
type Spec struct {
	// Capabilities in the order of their declaration, which is the order of
	// candidates for an intent that names none.
	Capabilities []Capability
	// Absent are capabilities that the configuration names and no plugin provides.
	Absent []Absent
	// Undescribed are enabled plugins without a description.
	Undescribed []Undescribed
	// Intents that blocks declare.
	Intents []Intent
	// Checks that can be named, built-in ones included.
	Checks []Check
	// Judges that intents can name.
	Judges []Judge
	// Schemas that can be named; nil means none.
	Schemas *schema.Registry
}

// Registry is the immutable set of everything that has a name in a plan.
type Registry struct {
	caps    map[string]*Capability
	absent  map[string]*Absent
	intents map[string]*Intent
	checks  map[string]*Check
	judges  map[string]*Judge
	serving map[string][]string
	schemas *schema.Registry

	undescribed []Undescribed

	capNames, intentNames, modelIntents, checkNames []string
}

// New builds a registry. Intents that a capability advertises and spec does not declare are
// implied: they take the schemas of the first capability that serves them (SCH-015). The
// error names both parties of a duplicate.
func New(spec Spec) (*Registry, error) {
	r := &Registry{
		caps:        make(map[string]*Capability, len(spec.Capabilities)),
		absent:      make(map[string]*Absent, len(spec.Absent)),
		intents:     make(map[string]*Intent, len(spec.Intents)),
		checks:      make(map[string]*Check, len(spec.Checks)),
		judges:      make(map[string]*Judge, len(spec.Judges)),
		serving:     make(map[string][]string),
		schemas:     spec.Schemas,
		undescribed: spec.Undescribed,
	}
	for i := range spec.Intents {
		in := spec.Intents[i]
		if in.ID == "" {
			return nil, fmt.Errorf("registry: intent %d has no id", i)
		}
		if was, ok := r.intents[in.ID]; ok {
			return nil, fmt.Errorf("registry: intent :%s is declared twice (%s and %s)", in.ID, was.Where, in.Where)
		}
		r.intents[in.ID] = &in
	}
	for i := range spec.Checks {
		c := spec.Checks[i]
		if c.Name == "" {
			return nil, fmt.Errorf("registry: check %d has no name", i)
		}
		if was, ok := r.checks[c.Name]; ok {
			return nil, fmt.Errorf("registry: check :%s is declared twice (%s and %s)", c.Name, was.Where, c.Where)
		}
		r.checks[c.Name] = &c
	}
	for i := range spec.Judges {
		j := spec.Judges[i]
		if was, ok := r.judges[j.Name]; ok {
			return nil, fmt.Errorf("registry: judge %q is declared twice (%s and %s)", j.Name, was.Where, j.Where)
		}
		r.judges[j.Name] = &j
	}
	if err := r.addCapabilities(spec.Capabilities); err != nil {
		return nil, err
	}
	for i := range spec.Absent {
		if a := spec.Absent[i]; r.caps[a.ID] == nil {
			r.absent[a.ID] = &a
		}
	}
	r.capNames = slices.DeleteFunc(sortedKeys(r.caps), func(id string) bool { return r.caps[id].Host })
	r.intentNames = slices.DeleteFunc(sortedKeys(r.intents), func(id string) bool { return r.intents[id].Host })
	r.checkNames = sortedKeys(r.checks)
	r.modelIntents = slices.DeleteFunc(slices.Clone(r.intentNames), func(intent string) bool {
		return intent != IntentChat && !slices.ContainsFunc(r.Candidates(intent), func(id string) bool {
			return r.caps[id] != nil && r.caps[id].Kind == ModelKind
		})
	})
	return r, nil
}

func (r *Registry) addCapabilities(caps []Capability) error {
	var open []string
	for i := range caps {
		c := caps[i]
		if c.ID == "" {
			return fmt.Errorf("registry: capability %d of plugin %q has no id", i, c.Plugin)
		}
		if c.Advertised == "" {
			c.Advertised = c.ID
		}
		if was, ok := r.caps[c.ID]; ok {
			return fmt.Errorf("registry: capability :%s is given by plugin %q and by plugin %q", c.ID, was.Plugin, c.Plugin)
		}
		r.caps[c.ID] = &c
		if len(c.Intents) == 0 {
			open = append(open, c.ID)
		}
		for _, in := range c.Intents {
			r.serving[in] = append(r.serving[in], c.ID)
			if _, ok := r.intents[in]; !ok {
				r.intents[in] = &Intent{ID: in, In: c.InSchema.For(in), Out: c.OutSchema.For(in), Implied: true}
			}
		}
	}
	// A capability without restriction serves every intent, after those that
	// name the intent themselves.
	for id := range r.intents {
		r.serving[id] = append(r.serving[id], open...)
	}
	return nil
}

// Capability returns the capability with this id.
func (r *Registry) Capability(id string) (*Capability, bool) {
	c, ok := r.caps[id]
	return c, ok
}

// Permits reports whether the calls and plans of a capability may do an operation
// for every caller.
func (r *Registry) Permits(id, operation string) bool {
	c, known := r.caps[id]
	return known && slices.Contains(c.Operations, operation)
}

// Absent returns the absent capability with this id.
func (r *Registry) Absent(id string) (*Absent, bool) {
	a, ok := r.absent[id]
	return a, ok
}

// Absences returns the ids of all absent capabilities, sorted.
func (r *Registry) Absences() []string { return sortedKeys(r.absent) }

// Known reports whether a capability has this id, absent ones included.
func (r *Registry) Known(id string) bool { return r.caps[id] != nil || r.absent[id] != nil }

// EffectsOf returns the distinct effects of some capabilities, sorted, without NoEffect.
// Unknown ids are ignored.
func (r *Registry) EffectsOf(ids []string) []string {
	var all []string
	for _, id := range ids {
		if c, ok := r.caps[id]; ok {
			all = append(all, c.Effects...)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(e string) bool { return e == NoEffect })
}

// Tool returns the capability that a plan names as a tool: the one with this
// id, else the one with this alias.
func (r *Registry) Tool(id string) (*Capability, bool) {
	if c, ok := r.caps[id]; ok {
		return c, true
	}
	if t, ok := effects.ToolNamed(id); ok {
		c, ok := r.caps[t.ID]
		return c, ok
	}
	return nil, false
}

// Intent returns the declared or implied intent with this id.
func (r *Registry) Intent(id string) (*Intent, bool) {
	in, ok := r.intents[id]
	return in, ok
}

// Check returns the check with this name.
func (r *Registry) Check(name string) (*Check, bool) {
	c, ok := r.checks[name]
	return c, ok
}

// Judge returns the judge with this name.
func (r *Registry) Judge(name string) (*Judge, bool) {
	j, ok := r.judges[name]
	return j, ok
}

// Judges returns the names of all judges, sorted.
func (r *Registry) Judges() []string { return sortedKeys(r.judges) }

// Schema returns the compiled schema with this name.
func (r *Registry) Schema(name string) (*schema.Schema, bool) {
	if r.schemas == nil || name == "" {
		return nil, false
	}
	return r.schemas.Lookup(name)
}

// Schemas returns all named schemas, or nil.
func (r *Registry) Schemas() *schema.Registry { return r.schemas }

// Serving returns the ids of the capabilities that serve the intent, in
// declared order, unrestricted ones last. The slice must not be changed.
func (r *Registry) Serving(intent string) []string { return r.serving[intent] }

// Candidates returns the base list of an intent: its configured candidates, or
// those that serve it. The slice must not be changed.
func (r *Registry) Candidates(intent string) []string {
	if in, ok := r.intents[intent]; ok && in.Candidates != nil {
		return in.Candidates
	}
	return r.serving[intent]
}

// Capabilities returns the ids of all capabilities of the configuration, sorted. The
// slice must not be changed.
func (r *Registry) Capabilities() []string { return r.capNames }

// Intents returns the ids of all intents of the configuration, sorted; those that the
// host serves itself are not among them. The slice must not be changed.
func (r *Registry) Intents() []string { return r.intentNames }

// ModelIntents returns IntentChat, if it is an intent of the configuration, and those with a language
// model among their candidates, sorted. The slice must not be changed.
func (r *Registry) ModelIntents() []string { return r.modelIntents }

// Checks returns all check names, sorted. The slice must not be changed.
func (r *Registry) Checks() []string { return r.checkNames }

// InSchema returns the name of the schema that the input of a call must fit: the required
// one if it is not empty, else that of the intent, "" if there is none.
func (r *Registry) InSchema(intent, required string) string {
	if required != "" {
		return required
	}
	if in, ok := r.intents[intent]; ok {
		return in.In
	}
	return ""
}

// OutSchema returns the name of the schema that the output of a call must fit: the required
// one if it is not empty, else that of the intent, "" if there is none.
func (r *Registry) OutSchema(intent, required string) string {
	if required != "" {
		return required
	}
	if in, ok := r.intents[intent]; ok {
		return in.Out
	}
	return ""
}

// NearestCapability returns the id most like name, or "".
func (r *Registry) NearestCapability(name string) string {
	return contract.Nearest(name, slices.Concat(r.capNames, r.Absences()))
}

// NearestTool returns the id or alias of a tool most like name, or "".
func (r *Registry) NearestTool(name string) string {
	known := slices.Clone(r.capNames)
	for _, t := range effects.Tools() {
		if _, ok := r.caps[t.ID]; ok && t.Alias != "" {
			known = append(known, t.Alias)
		}
	}
	return contract.Nearest(name, known)
}

// NearestIntent returns the intent most like name, or "".
func (r *Registry) NearestIntent(name string) string {
	return contract.Nearest(name, r.intentNames)
}

// NearestCheck returns the check most like name, or "".
func (r *Registry) NearestCheck(name string) string {
	return contract.Nearest(name, r.checkNames)
}

// NearestSchema returns the schema most like name, or "".
func (r *Registry) NearestSchema(name string) string {
	if r.schemas == nil {
		return ""
	}
	return r.schemas.Nearest(name)
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
