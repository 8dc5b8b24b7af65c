package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/clean"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// latency is the duration of the call.
func (a *attempt) latency() time.Duration { return a.ended.Sub(a.started) }

// extended is the time for which the call ran beyond its soft deadline; 0 if the
// deadline was not extended.
func (a *attempt) extended() time.Duration {
	if a.limits.extended && !a.limits.soft.IsZero() && a.ended.After(a.limits.soft) {
		return a.ended.Sub(a.limits.soft)
	}
	return 0
}

// process is the incarnation number of the process that answered; 0: the call
// was not delivered.
func (a *attempt) process() int { return a.answer.Generation }

// classifyLostCall sets error and outcome of a call without an answer.
// Cancellation and limits known to the host take precedence over the error of
// the executor.
func (a *attempt) classifyLostCall(ctx context.Context) {
	err, l, n := contract.AsError(a.failed), a.limits, a.n
	a.label, a.err = journal.OutcomeError, err
	late := func(at time.Time) bool { return !at.IsZero() && !a.ended.Before(at) }
	base := n.run.Base.Err()
	switch {
	case errors.Is(base, context.Canceled), base == nil && ctx.Err() != nil && !late(n.w.Deadline) &&
		a.recovery != contract.RecoveryOnce:
		a.err = contract.Errorf("canceled", "node %s: the call to :%s was canceled", n.w.Node, a.capability.ID)
		a.label, a.outcome = journal.OutcomeCanceled, flow.Unknown
		return
	case n.w.Wall && base == nil && late(n.w.Deadline):
		a.err = n.wallSpent().WithCause(cause(err))
		a.label, a.outcome, a.late = journal.OutcomeUnknown, flow.Unknown, true
		return
	case errors.Is(base, context.DeadlineExceeded), late(n.w.Deadline):
		a.err = contract.Errorf("timeout/hard", "node %s: the deadline passed while :%s worked", n.w.Node,
			a.capability.ID).WithCause(cause(err))
		a.label, a.outcome, a.late = journal.OutcomeUnknown, flow.Unknown, true
		return
	case late(l.end):
		within := l.given().String()
		if l.soft.IsZero() { // no limit of its own
			within = "its share of the time until the deadline"
		}
		a.err = contract.Errorf("timeout/soft", "node %s: :%s did not answer within %s", n.w.Node, a.capability.ID,
			within).WithCause(cause(err))
		a.label, a.outcome = journal.OutcomeUnknown, flow.Unknown
		return
	}
	err = a.replaceReservedType(err)
	a.err = err
	if unknownOutcome(err) {
		a.label, a.outcome = journal.OutcomeUnknown, flow.Unknown
		a.crashed = err.Type == "runtime/crashed" || err.Type == "runtime/unresponsive"
	}
}

// replaceReservedType replaces error types that only the host may use, such as
// canceled, journal/full and run/suspended, by runtime/invoke-failed (ATT-003).
// A capability with effects may return effects/outcome-unknown, such as that of a
// request that it made; without effects nothing can be unknown (JRN-041). A
// capability's own budget error gets class switch: it does not limit other
// candidates. Capabilities of the host itself may use every type.
func (a *attempt) replaceReservedType(err *contract.Error) *contract.Error {
	r, known := contract.Lookup(err.Type)
	switch {
	case !known || a.capability.Plugin == "", err.Type == "effects/outcome-unknown" && a.recovery != contract.RecoveryNone:
		return err
	case !r.FromCapability():
		return contract.Errorf("runtime/invoke-failed", "node %s: :%s returned the reserved error type :%s: %s",
			a.n.w.Node, a.capability.ID, err.Type, err.Message).WithCause(err)
	case contract.Namespace(err.Type) == "budget":
		return err.WithClass(contract.ClassSwitch)
	}
	return err
}

// beaten classifies an attempt that lost. An attempt that failed before it was
// stopped keeps its failure; of a later result only the usage is kept.
func (a *attempt) beaten() {
	var sent edn.Value
	switch err := contract.AsError(a.failed); {
	case err == nil:
		response, err := contract.CheckResponse(a.answer.Response, a.n.resultRules(a.capability))
		if err != nil {
			response = a.answer.Response
			if !a.lost {
				a.err, a.label = a.replaceReservedType(err), journal.OutcomeError
			}
		}
		a.usage = mapOrNil(response.Key("result").Key("usage"))
	case a.lost:
		sent = err.Details.Key("sent?")
	case err.Type != "canceled":
		a.classifyLostCall(context.Background())
	}
	if a.err == nil {
		a.label = journal.OutcomeCanceled
		a.err = contract.Errorf("race/lost", "node %s: another answer was accepted before that of :%s", a.n.w.Node,
			a.capability.ID)
		if !sent.IsNil() {
			a.err = a.err.WithDetail("sent?", sent)
		}
	}
}

// read sets the result of an attempt from its answer: it checks the form, cleans text,
// converts JSON to the types of the schema, and prepares the plan of a plan answer.
func (a *attempt) read(ctx context.Context) {
	a.label = journal.OutcomeOK
	rules := a.n.resultRules(a.capability)
	rules.Recorded = a.past != nil
	response, err := contract.CheckResponse(a.answer.Response, rules)
	if err != nil {
		err = a.replaceReservedType(err)
		a.err, a.label = err, journal.OutcomeError
		a.usage = mapOrNil(a.answer.Response.Key("result").Key("usage"))
		switch {
		case reportsUnknown(err):
			a.outcome, a.label = flow.Unknown, journal.OutcomeUnknown
		case err.Type == "runtime/invalid-result":
			a.outcome = outcomeAfterAnswer(a.recovery)
		}
		return
	}
	a.n.learn(response)
	result := response.Key("result")
	a.usage = mapOrNil(result.Key("usage"))
	a.meta = a.n.w.Policy.meta(response.Key("invoke/meta"), a.capability, &a.answer)
	if a.prompt.Hash != "" {
		a.meta = a.meta.AssocKey("prompt/hash", edn.Text(a.prompt.Hash))
	}
	a.kind, _ = result.Key("type").AsKeyword()
	switch a.kind {
	case "plan":
		if a.n.w.Around == nil {
			a.err = contract.Errorf("plan/invalid",
				"node %s: capability :%s answered with a plan, expected a value: this call is outside of a plan",
				a.n.w.Node, a.capability.ID).WithSource(contract.SourcePlugin).
				WithHint("remove \"plan\" from result_types of the intent, or use another capability")
			break
		}
		a.walk, a.err = a.n.w.Around.Plan(ctx, PlanAnswer{
			Attempt:  a.number,
			CapID:    a.capability.ID,
			Plan:     result.Key("plan"),
			Bindings: result.Key("bindings"),
			Stream:   a.stream.Child,
		})
	default:
		if response, a.err = a.clean(response); a.err != nil {
			a.outcome, a.kind = outcomeAfterAnswer(a.recovery), ""
		} else if a.kind == "value" {
			response = a.coerce(response, response.Key("result"))
			if a.err = a.n.w.Policy.checkOutputKeys(a.capability, response.Key("result").Key("out")); a.err != nil {
				a.outcome = outcomeAfterAnswer(a.recovery)
			}
		}
	}
	if a.err != nil {
		a.label = journal.OutcomeError
	}
	a.response = response
}

// coerce converts a JSON answer to the types of its schema if that makes it
// valid.
func (a *attempt) coerce(response, result edn.Value) edn.Value {
	sch := a.n.w.Policy.out
	out := result.Key("out")
	if sch == nil || sch.Valid(out) {
		return response
	}
	better := sch.CoerceJSON(out)
	if !sch.Valid(better) {
		return response
	}
	return response.AssocKey("result", result.AssocKey("out", better))
}

// clean removes reasoning and tool-call markup from the text of a model. The
// raw response is kept for the journal.
func (a *attempt) clean(response edn.Value) (edn.Value, *contract.Error) {
	how, ok := a.n.w.Policy.cleaning(a.capability, a.n.w.Input)
	if !ok {
		return response, nil
	}
	result := response.Key("result")
	out := result.Key("out")
	c := clean.Cleaner{
		How:       how,
		Input:     a.n.w.Input,
		Candidate: ":" + a.capability.ID,
		Node:      a.n.w.Node,
		Value:     a.n.w.Intent != prompt.ChatIntent && a.meta.HasKey("format/mode"),
	}
	cleaned, err := c.Answer(out)
	switch {
	case err != nil:
		a.raw = response
		return edn.Nil(), err
	case edn.Equal(cleaned, out):
		return response, nil
	}
	a.raw = response
	if c.Cut {
		a.meta = a.meta.AssocKey("text/cut?", edn.Bool(true))
	}
	found := cleaned.Key("tool/calls").Len() > out.Key("tool/calls").Len()
	if finish, _ := a.meta.Key("finish").AsKeyword(); found && finish == "stop" {
		a.meta = a.meta.AssocKey("finish", edn.K("tool-calls"))
	}
	return response.AssocKey("result", result.AssocKey("out", cleaned)), nil
}

// sample returns the Sample to which a verdict on the attempt is added. A plan answer
// has the zero Sample, which is not counted: other candidates produced its result.
func (a *attempt) sample() stats.Sample {
	if a.walk != nil {
		return stats.Sample{}
	}
	return stats.Sample{Candidate: a.stats, Edition: a.answer.Edition, Began: a.started}
}

// recordEnd records the outcome and the usage of the attempt, before the gates run.
func (a *attempt) recordEnd() {
	a.end = journal.AttemptFinished{
		Attempt:    a.number,
		Outcome:    a.label,
		Latency:    a.latency(),
		Usage:      a.usage,
		Result:     refOrNone(a.response),
		Raw:        refOrNone(a.raw),
		ResultType: a.kind,
		Meta:       a.meta,
		Err:        a.err,
		Extended:   a.extended(),
	}
	a.n.Record(&a.end)
}

// report passes the outcome of the attempt to the statistics of its candidate. draw is the
// ordinal of the random value that they may use.
func (a *attempt) report(draw int) {
	a.reported = true
	if a.stats == nil {
		return
	}
	var first time.Duration
	if !a.firstPiece.IsZero() {
		first = max(a.firstPiece.Sub(a.started), 1)
	}
	a.stats.Record(a.n.now(), a.permit, stats.End{
		Err:        a.err,
		Ignored:    a.late || a.label == journal.OutcomeCanceled,
		Crashed:    a.crashed,
		Plugin:     a.capability.Plugin,
		Edition:    a.answer.Edition,
		Process:    a.process(),
		Latency:    a.latency(),
		FirstPiece: first,
		Usage:      a.usage,
		Meta:       a.meta,
	}, func() float64 { return a.n.random(draw) })
}

// settlement returns the Settlement of the attempt.
func (a *attempt) settlement() funds.Settlement {
	unknown := a.outcome == flow.Unknown || a.label == journal.OutcomeCanceled
	if a.err != nil && a.err.Type == "race/lost" {
		unknown = a.usage.IsNil() // usage reported before the cancel is final
	}
	return settlementOf(a.usage, a.err, unknown)
}

// settlementOf returns the Settlement of a call that ended with err (nil: with an
// answer). unknown reports whether it may have continued.
func settlementOf(usage edn.Value, err *contract.Error, unknown bool) funds.Settlement {
	e := funds.Settlement{Usage: usage, Unknown: unknown}
	if err == nil {
		return e
	}
	switch err.Type {
	case "runtime/not-ready", "runtime/overloaded", "runtime/start-failed", "runtime/quarantined":
		e.Unsent, e.Unknown = !e.Unknown, false
	}
	// A model adapter reports whether its request left the machine (LLM-055).
	if sent, reported := err.Details.Key("sent?").AsBool(); reported && !sent && usage.IsNil() {
		e.Unsent, e.Unknown = true, false
	}
	return e
}

// cause returns the error of the executor, or nil if it only repeats the
// timeout.
func cause(err *contract.Error) *contract.Error {
	if err.Type == "timeout/hard" || err.Type == "canceled" {
		return nil
	}
	return err
}

// unknownOutcome reports whether the effect may have been done although no
// answer came. An error that the capability itself returns means "not done",
// unless its details say otherwise.
func unknownOutcome(err *contract.Error) bool {
	if reportsUnknown(err) {
		return true
	}
	switch err.Type {
	case "runtime/crashed", "runtime/unresponsive", "timeout/hard", "canceled", "stream/truncated", "runtime/protocol":
		return true
	default:
		return false
	}
}

func reportsUnknown(err *contract.Error) bool {
	state, _ := err.Details.Key("effect/state").AsKeyword()
	return state == "unknown"
}

// outcomeAfterAnswer is the outcome of an unusable answer: any effect of the
// call has happened.
func outcomeAfterAnswer(recovery contract.RecoveryClass) flow.Outcome {
	if recovery == contract.RecoveryNone {
		return flow.Definite
	}
	return flow.Judged
}

func refOrNone(v edn.Value) journal.Ref {
	if v.IsNil() {
		return journal.Ref{}
	}
	return journal.RefTo(v)
}

func mapOrNil(v edn.Value) edn.Value {
	if v.Kind() != edn.KindMap {
		return edn.Nil()
	}
	return v
}
