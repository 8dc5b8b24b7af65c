package dispatch

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Outcome is what is known about the effect of a failed attempt.
type Outcome int

// The outcomes that recovery distinguishes.
const (
	// Definite: the capability said that it did not do it, or never got it.
	Definite Outcome = iota
	// Unknown: crash, kill, lost connection, timeout, abandoned cancel.
	Unknown
	// Judged: an answer came and a gate refused it.
	Judged
)

// Action is what follows a failed attempt.
type Action int

// The actions of the attempt table.
const (
	// End the node with the failure.
	End Action = iota
	// Again: the same candidate, at once or after its backoff.
	Again
	// AgainWhenReady: the same candidate as soon as it is ready; if it does not
	// get ready, decide again without that possibility.
	AgainWhenReady
	// Next candidate, with tries of its own.
	Next
	// Repair: the same candidate, told what was wrong.
	Repair
)

// String names the action.
func (a Action) String() string {
	return [...]string{"end", "again", "again-when-ready", "next", "repair"}[a]
}

// Failure is everything that the next action depends on.
type Failure struct {
	Err       *contract.Error
	Class     contract.Class
	Outcome   Outcome
	Recovery  contract.RecoveryClass
	Expired   bool // the run is canceled, or the deadline has passed
	Matched   bool // the type, or that of its cause, is in the switch set
	TriesLeft bool // on this candidate
	// Of an answer that was refused: the answer, the findings and the score.
	Out, Findings edn.Value
	Score         edn.Value
	owed          sample
	Deterministic bool // the candidate answers equal requests equally
	Crashed       bool // the process or the connection was lost
	Undelivered   bool // the process went before the call reached it
	ComesBack     bool // a standby is ready, or the supervisor respawns
	NextLeft      bool // another candidate is left
	RoundsLeft    bool // it repairs, and may be told once more what was wrong
	RepairAsked   bool // the node itself wants its answer repaired
	Committed     bool // a part of the answer was shown for good
	OverBudget    bool // it was not asked: there is too little left for it
	DoneOnce      bool // a child plan of this attempt did an effect of class once
	Done          bool // an answer before this one was refused after its effect was done
}

// Decide is the attempt table: the first row that fits gives the action. Row is
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

// retries tells whether the class of the failure asks for the same executor. A
// deterministic one would give the answer that was just refused.
func retries(f Failure) bool {
	if f.Outcome == Judged && f.Deterministic {
		return false
	}
	return f.Class == contract.ClassRetry || f.Class == contract.ClassRepair
}

// allowed is the recovery table: may the same candidate be asked again, may
// another one be asked, may the same one be told what was wrong. An effect that
// was done is not done elsewhere, however the rounds after it ended.
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
		return true, false, false // another receiver does not know the effect key
	case f.Recovery == contract.RecoveryIdempotent:
		return false, false, f.RepairAsked // it is another effect, so somebody has to want it
	default:
		return false, false, false
	}
}
