package flow

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Rules are the limits and the strategy of an operation. They do not change while
// it runs.
type Rules struct {
	Node string // for messages
	// Strategy is a name of package policy. Attempts run one after another
	// (cascade), or the first ones in parallel.
	Strategy string
	// Width is the number of attempts that a race or tournament starts with.
	// Joining is the maximum number of attempts that a hedge adds to its first one: one
	// each time After passes without an accepted answer.
	Width, Joining int
	After          time.Duration
	// MaxCandidates limits the candidates that are tried.
	MaxCandidates int
	Limits        Limits
	// SwitchOn are the error types after which another attempt may be made.
	SwitchOn policy.SwitchSet
}

// Limits returns the retry and repair limits of single candidates. Its methods
// must be deterministic: resume and replay call them again.
type Limits interface {
	// Retries returns the maximum number of further calls of a candidate after
	// failures of this type.
	Retries(failureType string) int
	// Repairs returns the maximum number of repair rounds of a candidate.
	Repairs(capID string) int
}

// Kind is the type of a command.
type Kind int

// The commands. Each is answered by one event.
const (
	// Find asks for the Situation. With Wait it is answered once a candidate can be
	// called, or as soon as none will be callable in time.
	Find Kind = iota
	// Start records the start of an attempt at CapID, if its budget and breaker
	// allow it. The event has the number of the attempt, or the failure.
	Start
	// Call makes the call of an attempt. The event comes when it has ended.
	Call
	// Judge evaluates the answer of an attempt. The event has the failure; none
	// means that the answer is accepted.
	Judge
	// Discard records the end of an attempt that lost: the answer of another one was
	// accepted, or its text was shown.
	Discard
	// Refuse counts the refused answer of an attempt against its candidate.
	Refuse
	// Look asks for the Situation after a failure of CapID.
	Look
	// Ready waits until CapID may be called again: for its backoff after Failure,
	// and with Wait until its process is ready.
	Ready
	// Timer waits for After.
	Timer
	// Stop cancels the command Target, which is a call or a timer. The event of that
	// command answers both.
	Stop
	// Finish ends the operation with the answer of Attempt or, if there is none,
	// with Failure. No event follows.
	Finish
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{
		"find", "start", "call", "judge", "discard", "refuse", "look", "ready", "timer", "stop", "finish",
	}[k]
}

// Command is one step that the driver must carry out. The kind determines which
// fields are set.
type Command struct {
	ID      int // from 1, in the order of the commands
	Kind    Kind
	CapID   string
	Attempt int
	Target  int  // ID of the command to stop
	Wait    bool // Find, Ready
	// Parallel: attempts of the operation run in parallel. Joins: this one joins
	// others.
	Parallel, Joins bool
	Round           int       // repair round; 0: none
	Repair          edn.Value // the :repair of the request
	Try             int       // Ready: number of the call that failed
	After           time.Duration
	Failure         *Failure
	Outscored       []int // Finish: accepted attempts of a tournament that did not win
}

// Event is the result of a command. Which fields are set depends on its kind.
type Event struct {
	Of int // ID of the command
	// Attempt is the number of a started attempt.
	Attempt int
	Failure *Failure
	// Score and Cost of an accepted answer of a tournament.
	Score, Cost edn.Value
	// Committed is the attempt whose text cannot be retracted; 0: none, -1: an
	// attempt of another operation.
	Committed int
	// Ready reports that the candidate may be called again. Otherwise Late reports
	// that the backoff would have exceeded the deadline.
	Ready, Late bool
	Expired     bool // the operation has no time left
	Situation   Situation
}

// Situation is the state of the candidates at one moment.
type Situation struct {
	// Accepted are the candidates that can be called now, in the order of the
	// policy. Returning cannot be called now but will be ready without an operator.
	Accepted, Returning []string
	// ComesBack reports that the failed candidate is ready, or will be without an
	// operator.
	ComesBack bool
	// Limited reports that the budget limits the number of calls; it allows Left
	// more attempts.
	Limited bool
	Left    int64
}
