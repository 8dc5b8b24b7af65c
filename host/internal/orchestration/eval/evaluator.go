package eval

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Version is the version of the evaluator. It is recorded with each run. A change that
// would give a recorded run another outcome needs a new version.
const Version = 1

// Evaluator serves the runs of one configuration. All fields except Effects, Access and
// Panicked are required; none may change after the first run.
type Evaluator struct {
	Registry   *registry.Registry
	Policies   *policy.Book
	Dispatcher *dispatch.Dispatcher
	// Effects are the rules for effects; nil permits none.
	Effects *policy.Effects
	// Access holds the rules of operations and intents; nil permits no operation
	// and every intent.
	Access *policy.Access
	Clock  dispatch.Clock
	Limits plan.Limits
	// Panicked is called with a defect before the run ends with
	// runtime/internal.
	Panicked func(run, where string, value any, stack []byte)
}

// Task is one run: a program and its parameters.
type Task struct {
	Run     string
	Session string // empty: none
	Seed    int64
	Program *plan.Program
	// Source is the origin of the plan: request, intent, template or route.
	Source   string
	Warnings []plan.Finding
	Bindings edn.Value // nil or a map
	// Request is the layer that every node inherits; nil: none.
	Request *policy.Layer
	// PolicyCache is shared with other runs of the same program under the same
	// Request; nil: call policies are cached for this run only.
	PolicyCache *PolicyCache
	Trace       edn.Value
	// Principal names the caller, Caller holds its rights.
	Principal string
	Caller    policy.Caller
	// Behalf names the conversation and turn on behalf of which its agents run.
	Behalf dispatch.Behalf
	// Explain records the figures of every candidate.
	Explain bool
	// Stack holds the capabilities that wait for the run, outermost first; nil
	// for an external caller.
	Stack []string
	// Dir is the base of relative paths in inputs; empty leaves them
	// unchanged.
	Dir      string
	Recorder *Recorder
	Started  *journal.RunStarted
	// Past holds the records of a run that is resumed or replayed; nil for a new run.
	// Nodes whose commit is recorded keep their value, and recorded attempts of other
	// nodes are not made again. With Replay, nothing is done that is not recorded there:
	// the run fails with replay/miss if a record is missing or a node ends differently
	// (JRN-050).
	Past   *journal.History
	Replay bool
	// Fill, if set, makes the run a replay of another one, whose records are Past:
	// calls that are recorded there are not made (JRN-051).
	Fill *dispatch.Fill
	// Suspend, if set, is called when no node can continue and the given nodes wait for
	// a decision, because their call may have had its effect (JRN-044). It must cancel
	// the context of the run; it may be called again until all nodes have ended. If nil,
	// such nodes fail.
	Suspend func([]Undecided)
	// Rebinds is set for a run with an earlier epoch under another configuration. A node for
	// which the present one lacks every candidate then waits in Suspend too, instead of
	// failing, unless the run goes on with its failure.
	Rebinds bool
	// Interrupts are the questions of the run to people; nil: it cannot ask any.
	Interrupts *interrupt.Table
	// Secrets collects the secrets of the run, and restores those that are masked in its
	// records; nil: no schema marks any.
	Secrets *journal.Mask
	// Streams forwards text of the answer according to the stream policy: it is
	// recorded, or sent to Text if that is set. Pace blocks plugins while the reader is
	// behind, and Live forwards events that are not recorded; both may be nil.
	Streams bool
	Pace    *stream.Pace
	Live    *stream.Live
	// Text, if set, receives the text of the answer, which then is not
	// recorded.
	Text func(journal.Body)

	// Inside is the place of a host call in the run of its parent call; nil
	// for a top-level run. Started is nil for a host call
	// and for a resumed run.
	Inside *Place

	// Account is the budget of the run, Budget the scopes around its nodes. Without an
	// Account nothing is counted; without scopes only the limits of nodes are. AtLeast
	// allows calls of unknown price, and Depth limits the nesting of plans.
	Account *budget.Account
	Budget  budget.Chain
	AtLeast bool
	Depth   request.Limit
	// Host are the scopes of the host itself; Grading marks a request for a
	// judge's verdict on a labelled answer: see dispatch.Run.
	Host    budget.Chain
	Grading bool
	// Deepest is the nesting limit of the parent call of a host call, counted
	// from the root of the run.
	Deepest request.Limit
	// Worst is the worst-case cost of the run, for the record; nil if it was
	// not computed. Unbounded marks one without a finite worst case.
	Worst     edn.Value
	Unbounded bool
	// Route describes the influence of a router on the program, for the record; nil:
	// none was called. Author is the kind of author of the program.
	Route  edn.Value
	Author plan.Author
	// Routing marks the program that calls a router: a plan that the router answers
	// with is not run but returned in the :result of the slot.
	Routing bool
}

// RoutePath returns the path of the plan that calls a router before the plan of the run.
func RoutePath() []edn.Value { return []edn.Value{edn.Text("route")} }

// Place is the place of a host call in its run, or of the plan that calls a
// router.
type Place struct {
	// Path is the path of the parent call with "h<n>" appended, or RoutePath; Node is the id of its
	// node.
	Path []edn.Value
	Node string
	// CapID is the capability that makes the host call.
	CapID string
	// Request is the request of the host call without its transport keys.
	Request journal.Ref
}

// levels returns the number of plans, maps and host calls around the place:
// each starts with the index of a node.
func (p *Place) levels() int {
	n := 0
	for _, step := range p.Path {
		if _, ok := step.AsInt(); ok {
			n++
		}
	}
	return n
}

// Outcome is the result of a run: the emitted value, or Err.
type Outcome struct {
	// Out is the value of the last executed emit, in the form of an :out; the
	// empty map without emit.
	Out edn.Value
	// Emitted reports whether any emit was executed.
	Emitted bool
	// Last is the result of the last node, the answer of a one-node plan; nil if that
	// node makes no call or was not committed.
	Last *dispatch.Result
	// Slot is the slot of the last node; the zero value with Err.
	Slot plan.Slot
	// Degraded are the candidates that were out of service when a later one
	// served (dispatch.Result).
	Degraded []policy.Rejection
	Err      *contract.Error
}

// run is the state that all scopes of one run share.
type run struct {
	ev   *Evaluator
	task *Task
	call dispatch.Run

	verbose bool // let and emit write records
	nodes   atomic.Int64

	// frames guards access to frames beyond the slots of finished nodes,
	// because frames cache lookups.
	frames sync.Mutex

	own PolicyCache // of scopes that no other run has

	mu       sync.Mutex
	degraded []policy.Rejection

	waiting undecided
}

// PolicyCache holds the call policies of the nodes of a program. The zero value
// is empty and ready to use. It is safe for concurrent use by several runs.
type PolicyCache struct {
	mu       sync.Mutex
	policies map[policyKey]*dispatch.CallPolicy
}

type policyKey struct {
	layer         *policy.Layer // of the node; nil for a node without settings
	scope         *policy.Layer
	intent, capID string
}

// Run evaluates the program. It records plan/resolved, run/started and
// everything that happens at nodes, and returns when all work of the run has
// ended. The end of ctx, by cancellation or deadline, ends the run. An error is in
// out.Err.
func (ev *Evaluator) Run(ctx context.Context, t *Task) (out Outcome) {
	if t.Request == nil {
		t.Request = &policy.Layer{}
	}
	r := &run{ev: ev, task: t, verbose: calls(t.Program)}
	r.call = dispatch.Run{
		ID:         t.Run,
		Epoch:      t.Recorder.Epoch(),
		Session:    t.Session,
		Principal:  t.Principal,
		Behalf:     t.Behalf,
		Permits:    ev.Access.Permitted(policy.PluginOperations, t.Caller),
		Seed:       t.Seed,
		Trace:      t.Trace,
		Recorder:   t.Recorder,
		Grant:      ev.Effects.Grant(t.Caller),
		Base:       ctx,
		Account:    t.Account,
		AtLeast:    t.AtLeast,
		Host:       t.Host,
		Grading:    t.Grading,
		Interrupts: t.Interrupts,
		Explain:    t.Explain,
		Fill:       t.Fill,
		Secrets:    t.Secrets,
		Overriding: ev.Access.Denied(policy.OverridePrompt, t.Caller),
	}
	if in := t.Inside; in != nil {
		r.call.Asked = in.Request.Hash()
		if ev.Registry.Permits(in.CapID, policy.OverridePrompt) {
			r.call.Overriding = nil
		}
	}
	root := &scope{
		author: t.Author, run: r, history: t.Past, prog: t.Program, path: nil, layer: t.Request, stack: t.Stack,
		frame: plan.NewFrame(t.Program, t.Bindings), budget: t.Budget,
	}
	if in := t.Inside; in != nil {
		root.path, root.depth = in.Path, in.levels()
		if most := ev.Limits.Levels; root.depth > most {
			return Outcome{Err: contract.Errorf("plan/too-deep", "plans, maps and host calls nest more than %d levels deep", most).WithSource(contract.SourcePlugin)}
		}
	}
	root.deepest = deepest(t.Deepest, root.depth, t.Depth)
	if err := tooDeep(root.depth, t.Deepest); err != nil {
		return Outcome{Err: err}
	}
	root.answer = t.Program.Answer
	if t.Source == "intent" {
		root.answer = plan.Answer{Node: 0} // a plan without emit
	}
	root.stream()
	resolved := &journal.PlanResolved{Plan: journal.RefTo(t.Program.Plan.Source), Source: t.Source, Warnings: warnings(t.Warnings), WorstCase: t.Worst, Unbounded: t.Unbounded, Route: t.Route}
	if !t.Bindings.IsNil() {
		resolved.Bindings = journal.RefTo(t.Bindings)
	}
	node := ""
	if in := t.Inside; in != nil {
		node, resolved.Request = in.Node, in.Request
	}
	if err := root.recordPlan(edn.Vector(root.path...), node, resolved); err != nil {
		return Outcome{Err: err}
	}
	if t.Started != nil {
		if err := t.Recorder.Record(edn.Nil(), "", t.Started); err != nil {
			return Outcome{Err: contract.AsError(err)}
		}
	}
	r.waiting.suspend = t.Suspend
	r.waiting.working.Store(1)
	out.Err = root.walk(ctx)
	out.Out, out.Emitted = contract.EmitOut(root.emitted), root.hasEmitted
	out.Last = root.last
	if n := len(root.ended); n > 0 && out.Err == nil {
		out.Slot = root.ended[n-1].slot
	}
	out.Degraded = r.degraded
	return out
}

func warnings(fs []plan.Finding) []edn.Value {
	var out []edn.Value
	for _, f := range fs {
		if f.Severity == plan.Warning {
			out = append(out, f.Value())
		}
	}
	return out
}

// calls reports whether any node of the program, at any level, makes calls.
func calls(p *plan.Program) bool {
	for i := range p.Plan.Nodes {
		switch p.Plan.Nodes[i].Op {
		case plan.OpCall, plan.OpTool:
			return true
		case plan.OpPlan, plan.OpMap:
			if p.Subs[i] != nil && calls(p.Subs[i]) {
				return true
			}
		}
	}
	return false
}

// callPolicy returns the call policy of a node. Nodes with the same layer, above all
// those without settings, share one.
func (r *run) callPolicy(scope *policy.Layer, intent, capID string, node *policy.Layer) (*dispatch.CallPolicy, *contract.Error) {
	cache := &r.own
	if scope == r.task.Request && r.task.PolicyCache != nil {
		cache = r.task.PolicyCache
	}
	key := policyKey{node, scope, intent, capID}
	cache.mu.Lock()
	p, ok := cache.policies[key]
	cache.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := r.makeCallPolicy(scope, intent, capID, node)
	if err != nil {
		return nil, err
	}
	cache.mu.Lock()
	if cache.policies == nil {
		cache.policies = make(map[policyKey]*dispatch.CallPolicy)
	}
	cache.policies[key] = p
	cache.mu.Unlock()
	return p, nil
}

func (r *run) makeCallPolicy(scope *policy.Layer, intent, capID string, node *policy.Layer) (*dispatch.CallPolicy, *contract.Error) {
	p, err := r.resolve(scope, intent, node)
	if err != nil {
		return nil, err
	}
	return r.ev.Dispatcher.CallPolicy(p, intent, capID), nil
}

func (r *run) resolve(scope *policy.Layer, intent string, node *policy.Layer) (policy.Policy, *contract.Error) {
	layer := policy.Merge(r.ev.Policies.For(intent), *scope)
	if node != nil {
		layer = policy.Merge(layer, *node)
	}
	p, err := layer.Resolve()
	if err != nil {
		return p, contract.Errorf("plan/invalid", "policy of :%s: %w", intent, err)
	}
	if len(p.Conflicts) > 0 {
		return p, contract.Errorf("plan/invalid", "policy of :%s: :requires has two values of :%s", intent, p.Conflicts[0])
	}
	return p, nil
}

func (r *run) degrade(rs []policy.Rejection) {
	if len(rs) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.degraded = append(r.degraded, rs...)
}

// recovered converts a panic to an error. A defect ends the run, but the run
// is finalized and the host continues.
func (r *run) recovered(where string, value any) *contract.Error {
	if r.ev.Panicked != nil {
		r.ev.Panicked(r.task.Run, where, value, debug.Stack())
	}
	return contract.Errorf("runtime/internal", "%s: the evaluator panicked: %s", where, fmt.Sprint(value))
}

// nodeDeadline returns the deadline of a node that starts now; zero if only the run
// bounds it. wall reports that it comes from the wall-clock budget of the node.
func (r *run) nodeDeadline(p *dispatch.CallPolicy) (end time.Time, wall bool) {
	least := p.Deadline
	if p.Wall > 0 && (least <= 0 || p.Wall < least) {
		least, wall = p.Wall, true
	}
	if least <= 0 {
		return time.Time{}, false
	}
	return r.ev.Clock.Now().Add(least), wall
}
