package flow

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Outcome classifies a failed attempt by whether its effect may have been done.
type Outcome int

// The outcomes that recovery distinguishes.
const (
	// Definite: the capability reported that it did nothing, or did not get the
	// call.
	Definite Outcome = iota
	// Unknown: crash, kill, lost connection, timeout, abandoned cancel.
	Unknown
	// Judged: an answer came and a gate refused it.
	Judged
)

// Action is the next step after a failed attempt.
type Action int

// Actions of the attempt table.
const (
	// End fails the node with the failure.
	End Action = iota
	// Again retries the same candidate, at once or after its backoff.
	Again
	// AgainWhenReady retries the same candidate as soon as it is ready; if it does
	// not become ready, Decide is called again without this possibility.
	AgainWhenReady
	// Next tries the next candidate, with its own retries.
	Next
	// Repair calls the same candidate again with the findings on its answer.
	Repair
)

// String returns the name of the action.
func (a Action) String() string {
	return [...]string{"end", "again", "again-when-ready", "next", "repair"}[a]
}

// Failure holds everything that the next action depends on. It is data: events
// carry it.
type Failure struct {
	Err       *contract.Error
	Class     contract.Class
	Outcome   Outcome
	Recovery  contract.RecoveryClass
	Expired   bool // the run is canceled or the deadline has passed
	Matched   bool // the type, or that of its cause, is in the switch set
	TriesLeft bool // on this candidate
	// Of a refused answer.
	Out, Findings edn.Value
	Score         edn.Value
	Owed          int  // attempt whose refusal is not yet counted against its candidate; 0: none
	Deterministic bool // the candidate gives equal answers to equal requests
	Crashed       bool // the process or the connection was lost
	Undelivered   bool // the process exited before the call reached it
	ComesBack     bool // the candidate is ready, has a standby or is respawning
	NextLeft      bool // another candidate is left
	RoundsLeft    bool // another repair round is possible
	RepairAsked   bool // the node requests repair
	Committed     bool // text of this attempt was shown and cannot be retracted
	OverBudget    bool // the budget did not allow the call
	DoneOnce      bool // an effect of class once was, or may have been, done (by a child plan, too)
	Done          bool // an earlier answer was refused after its effect was done
}

// Decide is the attempt table: the first matching row gives the action. row is
// its number, for tests and explanations.
func Decide(f Failure) (action Action, row int) {
	mayRetry, mayNext, mayRepair := allowed(f)
	switch {
	case f.Class == contract.ClassFinal || f.Expired || f.Committed:
		return End, 1
	case !mayRetry && !mayNext && !mayRepair:
		return End, 2
	case f.Class == contract.ClassRepair && f.RoundsLeft && mayRepair:
		return Repair, 3
	case !f.Matched:
		return End, 4
	case mayRetry && f.TriesLeft && retries(f):
		return Again, 5
	case mayRetry && f.TriesLeft && f.Crashed && f.ComesBack:
		return AgainWhenReady, 6
	case mayNext && f.NextLeft:
		return Next, 7
	default:
		return End, 8
	}
}

// retries reports whether the failure class calls for the same candidate. A
// deterministic candidate would repeat the refused answer.
func retries(f Failure) bool {
	if f.Outcome == Judged && f.Deterministic {
		return false
	}
	return f.Class == contract.ClassRetry || f.Class == contract.ClassRepair
}

// allowed is the recovery table: whether the same candidate may be retried,
// another candidate tried, or the answer repaired. After an effect was done, no
// other candidate is tried, whatever the result of later rounds.
func allowed(f Failure) (retry, next, repair bool) {
	if f.DoneOnce {
		return false, false, false
	}
	retry, next, repair = allowedAfter(f)
	return retry, next && !f.Done, repair
}

func allowedAfter(f Failure) (retry, next, repair bool) {
	switch {
	case f.Recovery == contract.RecoveryNone, f.Outcome == Definite:
		return true, true, true
	case f.Recovery == contract.RecoveryIdempotent && f.Outcome == Unknown:
		return true, false, false // another receiver has not seen the effect key
	case f.Recovery == contract.RecoveryIdempotent:
		return false, false, f.RepairAsked // a repair is another effect, so the node must request it
	default:
		return false, false, false
	}
}
