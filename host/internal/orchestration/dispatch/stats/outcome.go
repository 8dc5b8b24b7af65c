package stats

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// End describes the end of a call.
type End struct {
	Err        *contract.Error // nil: with an answer
	Ignored    bool            // the capability did not cause the end
	Crashed    bool            // Err reports that the process was lost
	Plugin     string
	Edition    int // of the plugin that answered
	Process    int // incarnation number of the process that answered; 0: the call was not delivered
	Latency    time.Duration
	FirstPiece time.Duration // time to the first piece of text; 0: there was none
	Usage      edn.Value
	Meta       edn.Value // nil without an answer
}

// Record counts the result of an admitted call: in the breaker, in the crash counters,
// and for a success in latency, speed and cost. draw returns a random value in [0, 1)
// and is called at most once.
func (cs *Candidate) Record(now time.Time, permit breaker.Permit, e End, draw func() float64) {
	cs.learnHeadroom(e.Err, e.Edition)
	outcome := outcomeOf(e.Err, cs.capID)
	if e.Ignored {
		outcome = breaker.Ignored
	}
	if outcome == breaker.Failure && e.Crashed && cs.sameCrash(e.Err) {
		outcome = breaker.Ignored
	}
	outcome = e.countBackendCrashes(now, cs.table, cs.capID, outcome)
	if isConfigurationFailure(e.Err) {
		cs.trip(now, permit, e.Edition, e.Err)
		return
	}
	u := 0.0
	if outcome == breaker.Failure {
		u = draw()
	}
	cs.report(now, permit, outcome, RetryAfter(e.Err), u)
	if outcome == breaker.Success {
		cs.performance.add(e.Latency, speedOf(e.Usage, e.FirstPiece), e.Usage.Key("cost-usd"))
	}
}

// sameCrash reports whether this process crash was counted already: one crash
// can end many calls and counts as one failure.
func (cs *Candidate) sameCrash(err *contract.Error) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	known := cs.crash == err.Message
	cs.crash = err.Message
	return known
}

// maxRetryAfter bounds the retry-after of a server: a day in milliseconds.
const maxRetryAfter = 24 * 60 * 60 * 1000

// RetryAfter returns the wait that an error asks for; 0 without one.
func RetryAfter(err *contract.Error) time.Duration {
	if err == nil {
		return 0
	}
	ms, ok := err.Details.Key("retry-after-ms").AsInt()
	if !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxRetryAfter)) * time.Millisecond
}

// isConfigurationFailure reports whether an error recurs until the
// configuration or the account changes (LLM-030).
func isConfigurationFailure(err *contract.Error) bool {
	if err == nil {
		return false
	}
	switch err.Type {
	case "provider/auth-failed", "provider/quota-exhausted", "provider/model-not-found":
		return true
	}
	return false
}

// outcomeOf maps the end of an attempt to a breaker outcome. An answer is a
// success whatever the gates decide. An error is a failure only if the plugin
// or its backend caused it.
func outcomeOf(err *contract.Error, capID string) breaker.Outcome {
	switch {
	case err == nil:
		return breaker.Success
	case relayed(err, capID):
		return breaker.Ignored
	case err.Class != contract.ClassRetry && err.Class != contract.ClassSwitch:
		return breaker.Ignored
	case err.Source == contract.SourcePlugin, err.Source == contract.SourceDownstream:
		return breaker.Failure
	}
	return breaker.Ignored
}

// relayed reports whether the cause of an error is the answer to a request that the
// capability made to the host: the request was refused, or another capability failed,
// which its own breaker counts. Otherwise one model could close the capability that calls
// it to all others.
func relayed(err *contract.Error, capID string) bool {
	if err.Source != contract.SourceDownstream {
		return false
	}
	for cause := range err.Cause.Chain() {
		refused := cause.Source == contract.SourceRequest || cause.Source == contract.SourceHost
		if of, ok := cause.Where.Key("cap/id").AsKeyword(); refused || ok && of != capID {
			return true
		}
	}
	return false
}
