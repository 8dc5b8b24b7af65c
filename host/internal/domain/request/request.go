package request

import (
	"cmp"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// maxDeadlineMS bounds every time of a request, in milliseconds.
const maxDeadlineMS = 86_400_000

// Deadlines are the default deadlines of requests, and the longest deadline that a request may set
// (RUN-006). A zero field has its default: 2 minutes, 15 minutes, 24 hours.
type Deadlines struct {
	Usual    time.Duration // of a request whose caller waits
	Accepted time.Duration // of one with :response/type :accepted
	Most     time.Duration // the maximum, also of the defaults above
}

// of returns the deadline of a request that sets none, in milliseconds.
func (d Deadlines) of(responseType string) int64 {
	deadline := cmp.Or(d.Usual, 2*time.Minute)
	if responseType == "accepted" {
		deadline = cmp.Or(d.Accepted, 15*time.Minute)
	}
	return min(deadline.Milliseconds(), d.most())
}

func (d Deadlines) most() int64 {
	if d.Most == 0 {
		return maxDeadlineMS
	}
	return d.Most.Milliseconds()
}

// Request is a validated request. Fields that the sender left out have the
// defaults of the contract; omitted maps are empty maps.
type Request struct {
	Proto int
	// Trace is a map with :id and optionally :turn and :parent.
	Trace edn.Value
	// Intent is the requested intent, without a colon.
	Intent string
	// CapID pins the first candidate; "" leaves the choice to the evaluator.
	CapID string
	// Requires are required properties of the capability and the answer.
	Requires Requires

	Dispatch, Input, Context, Constraints, Done, Budget, Effects edn.Value

	// BudgetLimits is Budget, parsed.
	BudgetLimits Budget

	Role, Model, System  string
	RequestID, SessionID string
	// ResponseType is value, stream or accepted.
	ResponseType string
	Routing      edn.Value
	QueueClass   string
	Priority     int
	// DeadlineMS counts from the time at which the request was accepted.
	DeadlineMS     int64
	IdempotencyKey string

	DebugPlan, DebugTranscript bool
}

// Requires are the hard requirements of a request. An empty field requires
// nothing.
type Requires struct {
	InSchema, OutSchema string
	ResultType          string
	CapKind             string
	CapTags             []string // sorted
	Effects             []string // sorted; the only effects that the capability may have
	// HasEffects distinguishes a requirement of no effects from no requirement.
	HasEffects bool
}

// Env is the environment of the validation. A nil function or a zero Names disables the
// checks that need it.
type Env struct {
	// Intents are the declared or advertised intents.
	Intents Names
	// Unserved returns the reason why the plugin with the namespace of an unknown intent
	// does not serve it, nil if no plugin of the configuration has that namespace.
	Unserved func(intent string) *contract.Error
	// Schemas are the names of the known schemas.
	Schemas Names
	// Schema returns a named schema.
	Schema func(name string) (*schema.Schema, bool)
	// InSchema returns the name of the input schema of an intent, which applies
	// unless the request requires another; "" for none.
	InSchema func(intent string) string
	// Checks are the checks that :done may name.
	Checks    Names
	Deadlines Deadlines
	// Classes are the queue classes that a caller may name.
	Classes []string
	// Ceiling returns the largest budget that the caller of a request may set, nil for no
	// ceiling.
	Ceiling func(r *Request) *Budget
}

// Names is a set of names. List provides the suggestions in the error for an unknown name.
type Names struct {
	Has  func(name string) bool
	List func() []string
}

func (n Names) known(name string) bool { return n.Has == nil || n.Has(name) }

func (n Names) list() []string {
	if n.List == nil {
		return nil
	}
	return n.List()
}

// unknownIntent returns the error for an intent that is neither declared nor served. If a
// plugin would serve it, the error names the plugin instead of a similar intent.
func unknownIntent(intent string, env *Env) *contract.Error {
	f := invalidRequest("intent/not-supported", "the intent is neither declared nor served: :"+intent, path(kTask, kIntent))
	if env.Unserved != nil {
		if why := env.Unserved(intent); why != nil {
			f.Message += ": " + why.Message
			return f.Named(edn.K(intent), nil).Err().WithHint(why.Hint).WithCause(why)
		}
	}
	err := f.Named(edn.K(intent), env.Intents.list()).Err()
	if hint := ModelHint(intent); hint != "" {
		err = err.WithHint(hint)
	}
	return err
}

// Parse validates a request in the form of the contract (see [Translate]). Of
// several faults it reports the first in the order of the contract: shape,
// intent, requires, done, effects, dispatch, budget. The error is of type
// invalid-request. [Request.CheckInput] checks the input.
func Parse(v edn.Value, env Env) (Request, *contract.Error) {
	var r Request
	if err := r.readShape(v, env); err != nil {
		return Request{}, err
	}
	if !env.Intents.known(r.Intent) {
		return Request{}, unknownIntent(r.Intent, &env)
	}
	task := v.Key("task")
	var err *contract.Error
	if r.Requires, err = parseRequires(task.Key("requires"), &env); err != nil {
		return Request{}, err
	}
	if err := checkDone(r.Done, &env); err != nil {
		return Request{}, err
	}
	if err := checkEffects(r.Effects); err != nil {
		return Request{}, err
	}
	if !r.Effects.Has(kAllowed) {
		r.Effects = r.Effects.Merge(noEffects)
	}
	if err := checkDispatch(r.Dispatch); err != nil {
		return Request{}, err
	}
	if err := r.checkBudget(&env); err != nil {
		return Request{}, err
	}
	return r, nil
}

func (r *Request) checkBudget(env *Env) *contract.Error {
	limits, err := ParseBudget(r.Budget)
	if err != nil {
		return err
	}
	r.BudgetLimits = limits
	if env.Ceiling == nil {
		return nil
	}
	ceiling := env.Ceiling(r)
	if ceiling == nil {
		return nil
	}
	key := limits.Raises(*ceiling)
	if key == "" {
		return nil
	}
	most := ceiling.Value().Key(key)
	return invalidRequest("budget/raised", "the budget allows more than the intent does", path(kBudget, edn.K(key))).
		Expecting(edn.Vector(kNumber, edn.MustMap(edn.K("max"), most)), limits.Value().Key(key)).Err().
		WithHint("ask for at most " + most.String() + ", or permit a role of the caller: operations { rule \"budget/raise\" { any = [...] } }")
}

// CheckInput validates the input. The error is of type invalid-request.
func (r *Request) CheckInput(env *Env) *contract.Error {
	name, findings := r.InputFindings(env)
	if len(findings) == 0 {
		return nil
	}
	f := invalidRequest("input/schema-invalid", "the input does not fit :"+name+": "+findings[0].String(), path(kInput))
	f.Findings = schema.Findings(findings)
	return f.Err()
}

// InputFindings validates the input against the schema that the request requires, otherwise
// against the schema of its intent. It returns the name of that schema.
func (r *Request) InputFindings(env *Env) (name string, findings []schema.Finding) {
	name = r.Requires.InSchema
	if name == "" && env.InSchema != nil {
		name = env.InSchema(r.Intent)
	}
	if name == "" || env.Schema == nil {
		return name, nil
	}
	s, found := env.Schema(name)
	if !found {
		return name, nil
	}
	return name, s.Validate(r.Input)
}
