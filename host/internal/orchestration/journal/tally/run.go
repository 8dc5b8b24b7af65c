package tally

import (
	"math/big"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Run is the state of one run, computed from its records in their order. The zero value
// has read no record.
type Run struct {
	accepted *journal.RunAccepted
	at       time.Time // of run/accepted
	started  bool
	ended    bool
	nodes    map[string]*operation
}

// operation is one execution of a :call or :tool node.
type operation struct {
	asked    string // intent or tool
	begun    time.Time
	open     bool
	attempts []*attempt
}

// attempt is one dispatch of an operation.
type attempt struct {
	*journal.AttemptStarted
	finished time.Time // zero: in progress
	misread  bool      // counted as a parse failure
	must     bool      // a must verdict failed
	paid     bool      // its cost is counted
	settled  *big.Rat  // settled before it finished
}

// counter receives the counts, durations and costs of a run with their times.
type counter interface {
	count(at time.Time, k Key)
	time(at time.Time, k Key, took time.Duration)
	spend(at time.Time, k Key, usd *big.Rat)
}

// unheard is a counter that discards everything, for records that only restore the state
// of a run.
type unheard struct{}

func (unheard) count(time.Time, Key)               {}
func (unheard) time(time.Time, Key, time.Duration) {}
func (unheard) spend(time.Time, Key, *big.Rat)     {}

// period is a counter that adds to Counts if the time is from since to before until.
type period struct {
	*Counts
	since, until time.Time
}

func (p period) has(at time.Time) bool { return !at.Before(p.since) && at.Before(p.until) }

func (p period) count(at time.Time, k Key) {
	if p.has(at) {
		p.Counts.count(k, 1)
	}
}

func (p period) time(at time.Time, k Key, took time.Duration) {
	if p.has(at) {
		p.Counts.time(k, took)
	}
}

func (p period) spend(at time.Time, k Key, usd *big.Rat) {
	if p.has(at) {
		p.Counts.spend(k, usd)
	}
}

// Read adds the counts of a run for the period from since to before until. records are
// all records of the run. Items that had not ended at the end of the period are added to
// Now, the run itself under state. Records after the period count only if they complete
// an attempt that ended in it, for example with its cost.
func (c *Counts) Read(records []journal.Record, since, until time.Time, state string) {
	var r Run
	to, over := period{c, since, until}, false
	for _, rec := range records {
		if !over && !rec.At.Before(until) {
			over = true
			r.readOpen(c, state)
		}
		r.add(rec, to)
	}
	if !over {
		r.readOpen(c, state)
	}
}

// readOpen adds the run, its operations and its attempts that have not ended to c.Now.
func (r *Run) readOpen(c *Counts, state string) {
	if r.accepted == nil || r.ended {
		return
	}
	c.open(Acts, r.accepted.Intent, state)
	for _, o := range r.nodes {
		if o.open {
			c.open(Operations, o.asked, "running")
		}
		for _, a := range o.attempts {
			if a.finished.IsZero() && !a.Recorded {
				c.open(Attempts, a.CapID, o.asked, "open")
			}
		}
	}
}

// ReadFacts adds a finished run whose records were deleted. errorType is empty for a
// completed run, usd nil if the cost is unknown.
func (c *Counts) ReadFacts(intent, status, errorType string, took time.Duration, usd edn.Value) {
	c.Unread++
	c.count(keyOf(Acts, intent, status), 1)
	c.time(keyOf(ActTime, intent), took)
	if errorType != "" {
		c.count(keyOf(ActErrors, errorType), 1)
	}
	if cost, ok := usd.AsNumber(); ok {
		c.spend(keyOf(Cost, ""), cost)
		c.spend(keyOf(ActCost, intent), cost)
	}
}

// add updates the run by one record and adds its counts to the counter to.
func (r *Run) add(rec journal.Record, to counter) {
	switch b := rec.Body.(type) {
	case *journal.ActRejected:
		to.count(rec.At, keyOf(Acts, Other, "rejected"))
		to.count(rec.At, keyOf(Failures, b.Err.Type))
	case *journal.RunAccepted:
		r.accepted, r.at = b, rec.At
	case *journal.RunStarted:
		if !r.started && r.accepted != nil {
			to.time(rec.At, keyOf(QueueWait, r.accepted.Class), between(r.at, rec.At))
		}
		r.started = true
	case *journal.RunResumed:
		r.ended = false
	case *journal.RunFinished:
		r.finish(rec.At, b, to)
	case *journal.PlanResolved:
		if outcome, ok := b.Route.Key("outcome").AsKeyword(); ok {
			to.count(rec.At, keyOf(Routings, outcome))
		}
	default:
		r.addToNode(rec, to)
	}
}

func (r *Run) addToNode(rec journal.Record, to counter) {
	switch b := rec.Body.(type) {
	case *journal.NodeResolved:
		r.resolve(rec, b)
	case *journal.AttemptStarted:
		r.start(rec, b, to)
	case *journal.AttemptFinished:
		r.end(rec, b, to)
	case *journal.BudgetSettled:
		r.settle(rec, b, to)
	case *journal.GateVerdict:
		r.judge(rec, b, to)
	case *journal.NodeCommitted:
		switch o := r.current(rec); {
		case o == nil:
		case b.FailureType != "":
			to.count(rec.At, keyOf(Failures, b.FailureType))
			o.close(rec.At, "kept", to)
		default:
			o.close(rec.At, "committed", to)
		}
	case *journal.NodeFailed:
		if o := r.current(rec); o != nil {
			to.count(rec.At, keyOf(Failures, b.Err.Type))
			o.close(rec.At, "failed", to)
		}
	}
}

// current returns the open operation of a record, nil if there is none.
func (r *Run) current(rec journal.Record) *operation {
	if o := r.nodes[rec.Path.String()]; o != nil && o.open {
		return o
	}
	return nil
}

// resolve begins an operation, unless the node is resolved again during one.
func (r *Run) resolve(rec journal.Record, b *journal.NodeResolved) {
	if r.current(rec) != nil {
		return
	}
	asked := b.Intent
	if asked == "" {
		asked = b.ToolID
	}
	if r.nodes == nil {
		r.nodes = map[string]*operation{}
	}
	r.nodes[rec.Path.String()] = &operation{asked: asked, begun: rec.At, open: true}
}

// start adds an attempt. It counts as a retry or a fallback if it follows another
// attempt, unless it is recorded in a replay or part of a race.
func (r *Run) start(rec journal.Record, b *journal.AttemptStarted, to counter) {
	o := r.current(rec)
	if o == nil {
		return
	}
	if n := len(o.attempts); n > 0 && !b.Recorded && b.Entrant == "" {
		if o.attempts[n-1].CapID == b.CapID {
			to.count(rec.At, keyOf(Retries))
		} else {
			to.count(rec.At, keyOf(Fallbacks))
		}
	}
	o.attempts = append(o.attempts, &attempt{AttemptStarted: b})
}

// attempt returns the operation at the path of a record and its newest attempt with a number; both
// are nil if there is no such attempt. The end of an attempt may follow the end of its operation.
func (r *Run) attempt(rec journal.Record, number int) (*operation, *attempt) {
	o := r.nodes[rec.Path.String()]
	if o == nil {
		return nil, nil
	}
	for i := len(o.attempts) - 1; i >= 0; i-- {
		if o.attempts[i].Attempt == number {
			return o, o.attempts[i]
		}
	}
	return nil, nil
}

func (r *Run) end(rec journal.Record, b *journal.AttemptFinished, to counter) {
	o, a := r.attempt(rec, b.Attempt)
	if a == nil || a.Recorded || !a.finished.IsZero() {
		return
	}
	a.finished = rec.At
	to.count(rec.At, keyOf(Attempts, a.CapID, o.asked, b.Outcome))
	to.time(rec.At, keyOf(AttemptTime, a.CapID), b.Latency)
	if a.CapKind == kindModel {
		a.model(rec.At, b, to)
	}
	if b.Err != nil && (b.Err.Type == "schema/invalid" || b.Err.Type == "format/drift") {
		a.misreads(to)
	}
	if usd, ok := b.Usage.Key("cost-usd").AsNumber(); ok {
		r.pay(a, usd, to)
	} else if a.settled != nil {
		r.pay(a, a.settled, to)
	}
}

// kindModel is the capability kind of language models.
const kindModel = "llm"

// model counts an attempt at a language model.
func (a *attempt) model(at time.Time, b *journal.AttemptFinished, to counter) {
	failed := NoError
	if b.Err != nil {
		failed = b.Err.Type
	} else if b.Outcome != "ok" {
		failed = b.Outcome
	}
	to.time(at, keyOf(ModelTime, a.CapID, failed), b.Latency)
	for way, key := range map[string]string{"input": "tokens-in", "output": "tokens-out"} {
		if n, ok := b.Usage.Key(key).AsInt(); ok {
			to.time(at, keyOf(Tokens, a.CapID, way), time.Duration(min(n, maxTokens))*time.Millisecond)
		}
	}
}

// maxTokens bounds the tokens of one attempt that are counted.
const maxTokens = 1 << 30

// misreads counts an attempt as parse failure, at its end.
func (a *attempt) misreads(to counter) {
	if !a.misread {
		a.misread = true
		to.count(a.finished, keyOf(ParseFailures))
	}
}

// pay counts the cost of an attempt, at its end.
func (r *Run) pay(a *attempt, usd *big.Rat, to counter) {
	if !a.paid {
		a.paid = true
		r.spend(a.finished, a.CapID, usd, to)
	}
}

func (r *Run) spend(at time.Time, capID string, usd *big.Rat, to counter) {
	to.spend(at, keyOf(Cost, capID), usd)
	if r.accepted != nil {
		to.spend(at, keyOf(ActCost, r.accepted.Intent), usd)
	}
}

// settle takes the cost of an attempt from its reservation if the attempt does not
// report it.
func (r *Run) settle(rec journal.Record, b *journal.BudgetSettled, to counter) {
	if b.Of == nil || b.Of.For != "attempt" && b.Of.For != "entrant" && b.Of.For != "repair" {
		return
	}
	_, a := r.attempt(rec, b.Of.Attempt)
	usd, ok := b.Amount.Key("usd").AsNumber()
	switch {
	case a == nil || !ok || a.Recorded:
	case a.finished.IsZero():
		a.settled = usd
	default:
		r.pay(a, usd, to)
	}
}

// judge counts a verdict. Verdicts that a replay took from another run are not counted.
func (r *Run) judge(rec journal.Record, b *journal.GateVerdict, to counter) {
	_, a := r.attempt(rec, b.Attempt)
	if b.NotApplicable || a != nil && a.Recorded {
		return
	}
	if usd, ok := b.Usage.Key("cost-usd").AsNumber(); ok && b.Called() {
		r.spend(rec.At, b.CapID, usd, to)
	}
	verdict := VerdictOf(b)
	to.count(rec.At, keyOf(Verdicts, b.Gate, b.Severity, verdict))
	if b.Tier == tierJudge {
		to.count(rec.At, keyOf(JudgeVerdicts, verdict))
	}
	if a == nil || b.Pass || b.Severity != "must" {
		return
	}
	a.must = true
	if b.Gate == "schema-valid" && !a.finished.IsZero() {
		a.misreads(to)
	}
}

// tierJudge is the tier of a judge in a verdict.
const tierJudge = 3

// VerdictOf returns the verdict of a gate in one word: pass, fail, or error if the
// gate itself failed.
func VerdictOf(b *journal.GateVerdict) string {
	switch {
	case b.Err != nil:
		return "error"
	case b.Pass:
		return "pass"
	}
	return "fail"
}

// close ends an operation and counts it, unless a replay took all its attempts from
// another run.
func (o *operation) close(at time.Time, outcome string, to counter) {
	o.open = false
	made, any, final := 0, false, false
	for _, a := range o.attempts {
		if !a.Recorded {
			made++
		}
		any, final = any || a.must, a.must
	}
	if made == 0 && len(o.attempts) > 0 {
		return
	}
	to.count(at, keyOf(Operations, o.asked, outcome))
	to.time(at, keyOf(OperationTime, o.asked), between(o.begun, at))
	if any {
		to.count(at, keyOf(MustFailed))
	}
	if final {
		to.count(at, keyOf(MustFailedFinal))
	}
}

func (r *Run) finish(at time.Time, b *journal.RunFinished, to counter) {
	if r.accepted == nil || r.ended {
		return
	}
	r.ended = true
	to.count(at, keyOf(Acts, r.accepted.Intent, b.Status))
	to.time(at, keyOf(ActTime, r.accepted.Intent), b.Latency)
	if b.Err != nil {
		to.count(at, keyOf(ActErrors, b.Err.Type))
		if b.Err.Type == "route/decide-failed" {
			to.count(at, keyOf(Routings, "closed"))
		}
	}
	if b.Cache != "" {
		to.count(at, keyOf(CacheLookups, b.Cache))
	}
	for _, o := range r.nodes {
		if o.open {
			o.close(at, "canceled", to)
		}
	}
}

// between returns the duration between two times that are truncated to milliseconds, as
// in stored records; at least 0.
func between(from, to time.Time) time.Duration {
	return max(0, to.Truncate(time.Millisecond).Sub(from.Truncate(time.Millisecond)))
}
