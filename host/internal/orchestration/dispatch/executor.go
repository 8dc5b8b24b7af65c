package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Executor calls capabilities. Adapters implement it.
//
// The steps of one call:
//  1. State returns whether a capability can take a call now; it never blocks.
//  2. Invoke makes one call and returns when the capability answered, failed,
//     or ctx ended. It does not retry or evaluate the answer.
//  3. After a crash, Await returns when the capability is ready again, or with
//     the reason why it will not be.
//
// Every error is a *contract.Error. Invoke returns promptly when ctx ends, with
// the plugin's context canceled. When Call.Stop is closed, the plugin's context
// is canceled too, but Invoke waits until ctx ends for an answer that reports
// usage. All methods are safe for concurrent use.
type Executor interface {
	Invoke(ctx context.Context, c Call) (Answer, error)
	State(capID string) CapState
	Await(ctx context.Context, capID string) error
}

// Call is one request to one capability, with its host-side parameters.
type Call struct {
	CapID    string
	Run      string
	Epoch    int    // number of times that the run was started or resumed
	Session  string // empty: none
	Node     string
	Path     edn.Value // node path, a vector
	Attempt  int       // from 1, over all candidates of the node
	Deadline time.Time // zero: none
	Request  edn.Value // the envelope as a plugin sees it
	Effects  []string  // effects that this call may have
	Scope    edn.Value // limits of those effects: a map from effect to scope
	// Allowed are the effects that the node allows, and AllowedScope are their limits.
	// They bound the host calls of a capability that the host provides, and are set for
	// such a capability only.
	Allowed      []string
	AllowedScope edn.Value
	Principal    string        // the caller of the run
	Behalf       Behalf        // of an agent; zero: unknown, or not an agent
	Permits      []string      // operations that plugins check and the caller may do
	Caller       policy.Caller // its rights, for host calls made by the capability
	EffectKey    string        // the same for every attempt at the same effect
	Budget       edn.Value     // amounts that the call may still spend
	Within       budget.Chain  // the scopes that pay for host calls made by the capability
	Deepest      request.Limit // limit of the nesting of plans, maps and host calls
	AtLeast      bool          // calls of unknown price are allowed
	Stack        []string      // capabilities that led to this call, outermost first
	Trace        edn.Value
	Shadow       bool // the answer is not used and not recorded in the run
	// OnDelta and OnProgress are called in order, from one goroutine, before Invoke
	// returns; they may be nil.
	OnDelta    func(edn.Value)
	OnProgress func(edn.Value)
	Stop       <-chan struct{} // closed when the answer is no longer needed; nil: never
}

// Behalf names the conversation and turn on behalf of which an agent runs. Only the
// host sets it; a request cannot.
type Behalf struct {
	Principal    string // owner of the conversations of sub-agents
	Conversation string
	Turn         string // the last one before the answer of the agent
	// Unkept is set within shadow calls and replays: conversations between agents are
	// not stored there.
	Unkept bool
}

// Answer is a whole response envelope and the process that returned it.
type Answer struct {
	Response   edn.Value
	Plugin     string
	Edition    int    // changes with the program or its configuration
	Generation int    // incarnation number of the process
	Binary     string // hash of the plugin's binary
	// Enforcement is "port-only" if the network of the process is restricted to
	// ports but not to addresses; else empty.
	Enforcement string
}

// CapState is the supervisor's current state of a capability.
type CapState struct {
	Ready      bool
	Reason     string          // "runtime/not-ready" or "runtime/quarantined" when not ready
	Why        *contract.Error // the cause behind Reason
	Respawning bool            // it will be ready again without an operator
	Standby    bool            // another instance is ready to take over at once

	// The process that would take a call now; empty while unknown.
	Plugin     string
	Edition    int
	Generation int
	Binary     string
	// Enforcement: see [Answer].
	Enforcement string
}

// willReturn reports whether a capability is ready or will be without an
// operator. It may have become ready since binding.
func (st CapState) willReturn() bool { return st.Ready || st.Standby || st.Respawning }

// Trials is an optional interface of an Executor that runs a new edition of a
// plugin beside the current one and compares the verdicts of the gates.
type Trials interface {
	// Judged records the verdict of the gates on an answer of the current edition.
	Judged(capID string, a Answer, pass bool)
	// Shadowing reports cheaply whether Shadow would call a trial edition now.
	Shadowing(capID string) bool
	// Shadow sends c to the edition on trial, if there is one and a call to it is
	// due, and evaluates its answer with judge. It returns at once. Calls with
	// effects must not be shadowed.
	Shadow(c Call, judge Judge)
}

// Judge runs the gates of a node on an answer that is not used. counts is false
// if a gate could not run.
type Judge func(ctx context.Context, a Answer) (pass, counts bool)
