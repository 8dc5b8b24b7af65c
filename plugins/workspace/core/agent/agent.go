package agent

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Capability is a permission that a request needs.
type Capability string

// The capabilities of agents. Administration is a permission of principals, not of agents.
const (
	ReadContext   Capability = "context/read"
	ReadWorkspace Capability = "workspace/read"
	Scan          Capability = "workspace/scan"
	Append        Capability = "frame/append"
	Generate      Capability = "frame/generate"
	Invalidate    Capability = "frame/invalidate"
	Synthesize    Capability = "frame/synthesize"
	Regenerate    Capability = "frame/regenerate"
)

// Capabilities returns all capabilities of agents.
func Capabilities() []Capability { return slices.Clone(roles[Synthesis]) }

// Role is a set of capabilities that an agent can have.
type Role string

// The roles. Each has the capabilities of the role before it and more.
const (
	Reader    Role = "reader"
	Writer    Role = "writer"
	Synthesis Role = "synthesis"
)

// roles are the capabilities of the roles.
var roles = map[Role][]Capability{
	Reader:    {ReadContext, ReadWorkspace},
	Writer:    {ReadContext, ReadWorkspace, Append, Generate, Invalidate, Scan},
	Synthesis: {ReadContext, ReadWorkspace, Append, Generate, Invalidate, Scan, Synthesize, Regenerate},
}

// Prompts are the prompt templates of an agent: the system prompt, and those
// for files and directories.
type Prompts struct{ System, File, Directory string }

// Agent is one agent. Its identity does not depend on a model. Only the Principals may act as it;
// nil permits every principal.
type Agent struct {
	ID   string
	Role Role
	// Capabilities narrow those of the role; nil means all of them.
	Capabilities []Capability
	Model        string // id of a model capability; empty for an agent without one
	// Principals are the callers that may act as the agent, by the names that the host
	// gives them; nil means every caller.
	Principals []string
	Prompts    Prompts
}

// BuiltIn returns the agents that every workspace has, one for each role.
func BuiltIn() []Agent {
	neutral := Prompts{
		System:    "You describe files and directories for people who have not read them. Be exact and brief.",
		File:      "Describe {path}: {content}",
		Directory: "Describe the directory {path} from these descriptions of its entries: {frames}",
	}
	return []Agent{
		{ID: "reader", Role: Reader, Prompts: neutral},
		{ID: "writer", Role: Writer, Prompts: neutral},
		{ID: "synthesis", Role: Synthesis, Prompts: neutral},
	}
}

// May reports whether the agent has a capability.
func (a *Agent) May(c Capability) bool {
	return slices.Contains(roles[a.Role], c) && (a.Capabilities == nil || slices.Contains(a.Capabilities, c))
}

var (
	ids    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	models = regexp.MustCompile(`^[^/\s]+/[^/\s]+$`)

	principals = regexp.MustCompile(`^(local|anonymous|uid/(0|[1-9][0-9]*)|user/[1-9][0-9]*|oidc/[^/\s]+/[!-~]+)$`)
)

// principalForms describes the patterns that principals matches.
const principalForms = "expected user/N for an account, such as user/3 (see `ferment user list`), " +
	"oidc/NAME/SUBJECT for the owner of a token of an issuer, uid/N for commands through a daemon, " +
	"local for commands without one, or anonymous"

// CheckID returns an error unless text is a valid agent id.
func CheckID(text string) error {
	if ids.MatchString(text) {
		return nil
	}
	return invalid(text, "id", "expected 1 to 128 of a-z 0-9 . _ - with a letter or digit first")
}

// Set holds the agents of the configuration in force.
type Set struct{ byID map[string]*Agent }

// New returns a set of agents. Declared agents replace built-in ones of the same
// id. hasModel reports whether a model capability exists. The error joins every
// problem of every agent.
func New(declared []Agent, hasModel func(id string) bool) (*Set, error) {
	s := &Set{byID: map[string]*Agent{}}
	for _, a := range BuiltIn() {
		s.byID[a.ID] = &a
	}
	var problems []error
	seen := map[string]bool{}
	for _, a := range declared {
		problems = append(problems, a.check(hasModel)...)
		if seen[a.ID] {
			problems = append(problems, invalid(a.ID, "id", "another agent has the same id"))
		}
		seen[a.ID] = true
		s.byID[a.ID] = &a
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return s, nil
}

// check returns every problem of a declaration.
func (a *Agent) check(hasModel func(id string) bool) (problems []error) {
	if err := CheckID(a.ID); err != nil {
		problems = append(problems, err)
	}
	granted, known := roles[a.Role]
	if !known {
		problems = append(problems, invalid(a.ID, "role", fmt.Sprintf("%q is not one of reader, writer, synthesis", a.Role)))
	}
	for _, c := range a.Capabilities {
		if !slices.Contains(roles[Synthesis], c) {
			problems = append(problems, invalid(a.ID, "capabilities", fmt.Sprintf("%q is not a capability of agents", c)))
		} else if known && !slices.Contains(granted, c) {
			problems = append(problems, invalid(a.ID, "capabilities", fmt.Sprintf("the role %s does not grant %q", a.Role, c)))
		}
	}
	for i, name := range a.Principals {
		if !principals.MatchString(name) {
			reason := fmt.Sprintf("%q is not the name of a caller: %s", name, principalForms)
			problems = append(problems, invalid(a.ID, "principals", reason).WithDetail("index", edn.Int(int64(i))))
		}
	}
	if a.Model == "" {
		return problems
	}
	if !models.MatchString(a.Model) || !hasModel(a.Model) {
		problems = append(problems, invalid(a.ID, "model", fmt.Sprintf("%q is not the id of a model capability", a.Model)))
	}
	return append(problems, a.missingPrompts()...)
}

// Problems returns the problems that prevent the agent from using its capabilities: an
// agent that may generate needs all prompts.
func (a *Agent) Problems() []error {
	if !a.May(Generate) {
		return nil
	}
	return a.missingPrompts()
}

// missingPrompts returns an error for each prompt that a model would need.
func (a *Agent) missingPrompts() (problems []error) {
	for _, p := range [][2]string{{"system", a.Prompts.System}, {"file", a.Prompts.File}, {"directory", a.Prompts.Directory}} {
		if strings.TrimSpace(p[1]) == "" {
			problems = append(problems, contract.Errorf("agent/prompt-missing", "no prompt %q is configured", p[0]).
				WithOp("agent", a.ID).WithDetail("prompt", edn.Text(p[0])))
		}
	}
	return problems
}

func invalid(id, field, reason string) *contract.Error {
	return contract.Errorf("agent/invalid", "%s: %s", field, reason).WithOp("agent", fmt.Sprintf("%.140q", id)).WithDetail("field", edn.K(field))
}

// Get returns the agent with an id, or the error agent/unknown.
func (s *Set) Get(id string) (*Agent, error) {
	a := s.byID[id]
	if a == nil {
		return nil, contract.Errorf("agent/unknown", "no agent with this id is configured").WithOp("agent", id)
	}
	return a, nil
}

// List returns all agents, sorted by id.
func (s *Set) List() []*Agent {
	var all []*Agent
	for _, a := range s.byID {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *Agent) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Request is a request to decide about. Only the host states the principal.
type Request struct {
	Agent     string
	Principal string
	Needs     Capability
}

// Allow returns the agent of a request, or the first of these errors: agent/required if none is
// given, agent/unknown, agent/impersonation if the principal may not act as it, agent/role-denied
// if it lacks the capability. For the capability Generate, it also returns agent/prompt-missing if
// a prompt is absent.
func (s *Set) Allow(r Request) (*Agent, error) {
	if r.Agent == "" {
		return nil, contract.Errorf("agent/required", "the operation requires an agent with the capability %s", r.Needs)
	}
	a, err := s.Get(r.Agent)
	if err != nil {
		return nil, err
	}
	if a.Principals != nil && !slices.Contains(a.Principals, r.Principal) {
		return nil, contract.Errorf("agent/impersonation", "the caller %q is not permitted to act as this agent",
			r.Principal).WithOp("agent", a.ID).
			WithHint(fmt.Sprintf("name another agent, or add %q to principals of agent %q in the config block of the plugin",
				r.Principal, a.ID))
	}
	if !a.May(r.Needs) {
		return nil, contract.Errorf("agent/role-denied", "the role %s or the capabilities of the agent do not include %s", a.Role, r.Needs).WithOp("agent", a.ID)
	}
	if r.Needs == Generate {
		if missing := a.Problems(); len(missing) > 0 {
			return nil, missing[0]
		}
	}
	return a, nil
}
