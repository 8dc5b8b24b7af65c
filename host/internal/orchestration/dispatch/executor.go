package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Executor reaches the capabilities. Adapters implement it.
//
// One call goes like this:
//  1. State tells whether a capability can take a call now; it never blocks.
//  2. Invoke makes one call and returns when the capability answered, failed,
//     or ctx ended. It does not retry and judges nothing.
//  3. After a crash, Await returns when the capability is ready again, or with
//     the reason why it will not be.
//
// Every error is a *contract.Error. Invoke returns promptly when ctx ends; the
// plugin's context has then been canceled. When Call.Stop is closed the plugin's
// context is canceled too, and Invoke waits for the answer to that, which tells
// the usage, as long as one may come before ctx ends. All methods may be called from many
// goroutines.
type Executor interface {
	Invoke(ctx context.Context, c Call) (Answer, error)
	State(capID string) CapState
	Await(ctx context.Context, capID string) error
}

// Call is one request to one capability, with what travels beside it.
type Call struct {
	CapID     string
	Run       string
	Session   string // empty: none
	Node      string
	Path      edn.Value      // node path, a vector
	Attempt   int            // from 1, over all candidates of the node
	Deadline  time.Time      // zero: none
	Request   edn.Value      // the envelope as a plugin sees it
	Effects   []string       // effects that this call may have
	Scope     edn.Value      // limits of those effects: a map from effect to scope
	Roles     []string       // of the caller, for what is asked on behalf of the call
	EffectKey string         // the same for every try of the same effect
	Budget    edn.Value      // what the call may still spend
	Within    budget.Chain   // the scopes that count what is asked on behalf of the call
	Deepest   contract.Limit // how deep plans, maps and host calls may nest
	AtLeast   bool           // calls of unknown price are let through
	Stack     []string       // capabilities on whose behalf the call is made, outermost first
	Trace     edn.Value
	Shadow    bool            // nobody sees the answer: nothing of the call belongs to its run
	OnDelta   func(edn.Value) // called in order, from one goroutine, before Invoke returns; may be nil
	Stop      <-chan struct{} // closed when the answer is of no use any more; nil: never
}

// Answer is a whole response envelope and who gave it.
type Answer struct {
	Response   edn.Value
	Plugin     string
	Edition    int    // changes when the program or its configuration do
	Generation int    // number of the process
	Binary     string // hash of the plugin's binary
	// Enforcement is "port-only" of a process whose network is held to ports and
	// not to addresses; empty of all others.
	Enforcement string
}

// CapState is what the supervisor knows about a capability at this moment.
type CapState struct {
	Ready      bool
	Reason     string          // "runtime/not-ready" or "runtime/quarantined" when not ready
	Why        *contract.Error // the cause behind Reason
	Respawning bool            // it will be ready again without an operator
	Standby    bool            // another instance is ready to take over at once

	// Who would serve a call now; empty while that is not known.
	Plugin     string
	Edition    int
	Generation int
	Binary     string
	// Enforcement is that of [Answer].
	Enforcement string
}

// Trials is what an executor may offer besides: it tries a new edition of a
// plugin beside the current one, and has the gates judge both.
type Trials interface {
	// Judged tells how the gates of a node took an answer.
	Judged(capID string, a Answer, pass bool)
	// Shadowing tells at no cost whether Shadow is of any use now.
	Shadowing(capID string) bool
	// Shadow asks an edition on trial for what c asks too, if there is one and
	// it is its turn, and has its answer judged. It returns at once. Calls with
	// effects are not to be shadowed.
	Shadow(c Call, judge Judge)
}

// Judge runs the gates of a node over an answer that nobody will see. It counts
// only if the gates could be asked.
type Judge func(ctx context.Context, a Answer) (pass, counts bool)
