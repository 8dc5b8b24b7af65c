package flow

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Rules are what an operation may do. They do not change while it runs.
type Rules struct {
	Node string // for messages
	// Strategy is a name of package policy. Attempts run one after another
	// (cascade), or the first ones in parallel.
	Strategy string
	// Width is the number of attempts that a race or tournament starts with, and
	// Joining the number that a hedge adds, one each time no answer came for
	// After.
	Width, Joining int
	After          time.Duration
	// MaxCandidates limits the candidates that are tried.
	MaxCandidates int
	Limits        Limits
	// SwitchOn are the types after which another attempt is made.
	SwitchOn policy.SwitchSet
}

// Limits are those of single candidates. The results depend on the arguments
// only.
type Limits interface {
	// Retries returns how often a candidate is called again after a failure of
	// this type.
	Retries(failureType string) int
	// Repairs returns how many repair rounds a candidate has.
	Repairs(capID string) int
}

// Kind is what a command asks for.
type Kind int

// The commands. Each is answered by one event.
const (
	// Find asks for the candidates. With Wait it is answered when one of them can
	// be called or none will be in time.
	Find Kind = iota
	// Start records the start of an attempt at CapID, if its budget and breaker
	// allow it. The event has the number of the attempt, or the failure.
	Start
	// Call makes the call of an attempt. The event comes when it has ended.
	Call
	// Judge evaluates the answer of an attempt. The event has the failure; none
	// means that the answer is accepted.
	Judge
	// Discard records an attempt that another one has beaten.
	Discard
	// Refuse counts the refused answer of an attempt against its candidate.
	Refuse
	// Look asks for the candidates after a failure.
	Look
	// Ready waits until CapID may be called again: for its backoff after Failure,
	// and with Wait until its process is ready.
	Ready
	// Timer waits for After.
	Timer
	// Stop ends the command Target, which is a call or a timer. The event of that
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

// Command is something to be done. Which fields are used depends on the kind.
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

// Event is what came of a command.
type Event struct {
	Of int // ID of the command
	// Attempt is the number of a started attempt.
	Attempt int
	Failure *Failure
	// Score and Cost of an accepted answer of a tournament.
	Score, Cost edn.Value
	// Committed is the attempt whose text cannot be retracted; 0: none, -1: text
	// of a plan answer.
	Committed int
	// Ready reports that the candidate may be called again. Otherwise Late tells
	// that there was no time for the backoff.
	Ready, Late bool
	Expired     bool // the operation has no time left
	Situation   Situation
}

// Situation is the state of the candidates at one moment.
type Situation struct {
	// Accepted can be called, in the order of the policy. Returning cannot, but
	// will be able to without an operator.
	Accepted, Returning []string
	// ComesBack reports that the candidate which failed is ready or will be.
	ComesBack bool
	// Limited: the budget leaves calls for Left more attempts.
	Limited bool
	Left    int64
}
