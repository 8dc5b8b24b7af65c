package act

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Resumption describes how a run is resumed. Why is journal.ResumedCrash, ResumedRestart
// or ResumedDecision. With ResumedDecision, a suspended run needs one of Decisions for
// each open question, and a failed run takes none. Cancel, if set, cancels the run
// instead. By is the principal that continues a failed run. Lasts is the new time limit
// of a failed run; 0: the limit with which it was accepted. TraceParent is the trace
// context of the caller that resumes; empty: none. What the run does must be permitted to
// Also, in addition to its caller.
type Resumption struct {
	Why       string
	Decisions []Decision
	Cancel    *journal.CancelRequested
	By        string
	Lasts     time.Duration
	Also      []policy.Caller

	TraceParent string
}

// Decision answers an open question of a suspended run. Value is the answer of the call,
// for the choice journal.DecisionDone only.
type Decision struct {
	Node   string // id of the node, or the text of its path; may be empty for the only question
	Choice string // journal.DecisionRetry, DecisionDone or DecisionFail
	Value  edn.Value
	By     string // principal
}

// suspendFor suspends the run until each of nodes has a decision. If none needs one, it is
// suspended because the configuration lacks what they need. A run whose cancellation was
// requested is not suspended: it is canceled, and its error names the calls.
func (f *flight) suspendFor(nodes []eval.Undecided) {
	records, err := f.service.config.Journal.Records(f.id)
	if err != nil {
		f.halt(contract.AsError(err))
		return
	}
	past := journal.NewHistory(records)
	body := &journal.RunSuspended{Why: "effects/outcome-unknown"}
	slices.SortFunc(nodes, func(a, b eval.Undecided) int { return journal.ComparePaths(a.Path, b.Path) })
	for _, n := range nodes {
		if n.Lacks != nil {
			body.Err = cmp.Or(body.Err, n.Lacks)
			continue
		}
		tried := past.At(n.Path).Attempts
		last := tried[len(tried)-1].Started
		body.Open = append(body.Open, journal.Question{
			Path: n.Path, Node: n.Node, Attempt: last.Attempt, CapID: last.CapID, EffectKey: last.EffectKey,
		})
	}
	if len(body.Open) == 0 {
		body.Why = journal.WhyNotReady
	} else {
		body.Err = nil // it is found again once the calls are decided
	}
	if past.Canceled != nil {
		f.unknown = questions(body.Open)
		return
	}
	_ = f.suspend(body)
}

// unready returns the error of a resumed run whose remaining nodes do not fit the present
// configuration and its plugins. If these lack something that was there when the run was accepted,
// the run is suspended, so that it can continue once it is back.
func (f *flight) unready(err *contract.Error) *contract.Error {
	ended := f.undecided(err)
	if ended != err || !f.waits() || !lacking(err) {
		return ended
	}
	return f.suspend(&journal.RunSuspended{Why: journal.WhyNotReady, Err: err})
}

// lacking reports whether an error of a resumed run is about what the configuration lacks, and
// not about rights or budgets.
func lacking(err *contract.Error) bool {
	switch family, _, _ := strings.Cut(err.Type, "/"); family {
	case "auth", "budget", "effects", "policy":
		return false
	}
	return !plan.DeniesEffect(err)
}

// waits reports whether a resumed run can be suspended: it has a journal that outlives the host
// and does not end anyway.
func (f *flight) waits() bool {
	return f.halt != nil && f.ctx.Err() == nil && f.past.Canceled == nil && f.asked == nil
}

// undecided returns err, with which a resumed run ends before any of its nodes continues. If
// the outcome of a call is unknown, the run is suspended instead: the call needs its decision
// in any case.
func (f *flight) undecided(err *contract.Error) *contract.Error {
	if !f.waits() {
		return err
	}
	reg := f.service.config.Registry
	body := &journal.RunSuspended{Why: "effects/outcome-unknown"}
	for _, q := range f.past.Unknown() {
		place := f.past.At(q.Path)
		var intent *registry.Intent
		if place.Resolved != nil {
			intent, _ = reg.Intent(place.Resolved.Intent)
		}
		capability, _ := reg.Capability(q.CapID)
		if f.grant.OnUnknown(intent, capability) != registry.UnknownSuspends {
			continue
		}
		if last := place.Attempt(q.Attempt); last.Lost && !last.Closed {
			lost := &journal.AttemptFinished{Attempt: q.Attempt, Outcome: journal.OutcomeUnknown, Err: dispatch.LostWithHost()}
			if failed := f.recorder.Record(q.Path, q.Node, lost); failed != nil {
				return contract.AsError(failed)
			}
		}
		body.Open = append(body.Open, q)
	}
	if len(body.Open) == 0 {
		return err
	}
	return f.suspend(body)
}

// suspend records body as the last record of this epoch and cancels the run's work. It
// returns the error for the caller: that of the suspension, or of the journal if the
// record could not be written.
func (f *flight) suspend(body *journal.RunSuspended) *contract.Error {
	err := suspended(f.id, body)
	if failed := f.recorder.End(body, err); failed != nil {
		err = contract.AsError(failed)
	} else {
		f.stopped = err
	}
	if f.halt != nil {
		f.halt(err)
	}
	return err
}

// suspended returns the error for the caller of a suspended run: run/suspended,
// run/poison or run/restored.
func suspended(run string, why *journal.RunSuspended) *contract.Error {
	if why.Why == "run/poison" {
		return contract.Errorf("run/poison", "run %s is suspended: the host crashed %d times in a row while it executed the run", run, maxCrashes).
			WithWhere("run", edn.Text(run)).WithHint(fmt.Sprintf("\"ferment runs resume %s\" continues it, \"ferment runs cancel %[1]s\" ends it", run))
	}
	if why.Why == "run/restored" {
		return contract.Errorf("run/restored", "run %s is suspended: it was restored from a backup, and the original may still be executing", run).
			WithWhere("run", edn.Text(run)).WithHint(fmt.Sprintf("\"ferment runs resume %s\" continues it here, \"ferment runs cancel %[1]s\" ends it", run))
	}
	if why.Why == "journal/damaged" {
		return contract.Errorf("run/suspended", "run %s is suspended: it lost records when the journal was repaired", run).
			WithWhere("run", edn.Text(run)).WithHint(fmt.Sprintf("\"ferment runs show %s\" shows the remaining records, \"ferment runs resume %[1]s\" continues "+
			"after them, \"ferment runs cancel %[1]s\" ends it", run))
	}
	if why.Why == journal.WhyNotReady {
		return contract.Errorf("run/suspended", "run %s is suspended: what is left of it does not fit the configuration of this host: %w",
			run, why.Err).WithWhere("run", edn.Text(run)).
			WithHint(fmt.Sprintf("restore what is missing; then \"ferment runs resume %s\" continues it. \"ferment runs cancel %[1]s\" ends it", run))
	}
	open := make([]edn.Value, len(why.Open))
	for i, q := range why.Open {
		open[i] = q.Value()
	}
	return contract.Errorf("run/suspended", "run %s waits for a decision: it is not known whether %s", run, questions(why.Open)).
		WithWhere("run", edn.Text(run)).WithDetail("open", edn.Vector(open...)).
		WithHint(fmt.Sprintf("\"ferment runs show %s\" shows the open calls, \"ferment runs resume %[1]s --decide NODE=retry\" decides", run))
}

// questions returns the clause of a message that names the calls whose outcome is
// unknown.
func questions(open []journal.Question) string {
	all := make([]string, len(open))
	for i, q := range open {
		all[i] = fmt.Sprintf(":%s did its work for node %s", q.CapID, q.Node)
	}
	return strings.Join(all, ", or ")
}

// decide checks the decisions of a resume and returns its record; nil if how.Why is
// empty. It adds the secrets in the decided values to mask. The error is
// run/not-resumable, run/decision-required, run/decision-invalid, or that of a
// suspended run.
func (s *Service) decide(run string, past *journal.History, how Resumption, mask *journal.Mask) (*journal.RunResumed, *contract.Error) {
	if how.Why == "" {
		return nil, nil // the run has not started, or its new epoch is recorded already
	}
	r := s.resumption(how.Why, past.Config)
	r.TraceParent = how.TraceParent
	switch by := how.Why == journal.ResumedDecision; {
	case by && past.Suspended == nil:
		return nil, contract.Errorf("run/not-resumable", "run %s is not suspended: it continues without a decision", run)
	case !by && past.Suspended != nil:
		return nil, suspended(run, past.Suspended)
	case !by || how.Cancel != nil:
		return r, nil
	case past.Canceled != nil:
		return nil, contract.Errorf("run/not-resumable", "run %s cannot be resumed: its cancellation was requested", run).
			WithWhere("run", edn.Text(run)).WithHint(fmt.Sprintf("\"ferment runs cancel %s\" ends it", run))
	}
	open := slices.Clone(past.Suspended.Open)
	var values edn.MapBuilder
	done := 0
	for i, d := range how.Decisions {
		if i > 0 && slices.ContainsFunc(how.Decisions[:i], func(e Decision) bool { return e.Node == d.Node }) {
			return nil, contract.Errorf("run/decision-invalid", "there are two decisions about %s", aboutNode(d.Node)).
				WithDetail("reason", edn.K("decided-twice")).WithWhere("run", edn.Text(run))
		}
		q, err := decided(&open, d)
		if err == nil && d.Choice == journal.DecisionDone {
			done++
			values.Set(q.Path, d.Value)
			place := past.At(q.Path)
			sch, name := s.outSchema(place)
			mask.Learn(sch, d.Value)
			if place != nil && place.Resolved != nil { // a plugin may make another request than the recorded one
				err = fits(sch, name, d)
			}
		}
		if err != nil {
			return nil, err.WithWhere("run", edn.Text(run))
		}
		r.Decisions = append(r.Decisions, journal.Decision{Path: q.Path, Choice: d.Choice, By: d.By})
	}
	if len(open) > 0 {
		return nil, contract.Errorf("run/decision-required", "run %s needs a decision: it is not known whether %s", run, questions(open)).
			WithWhere("run", edn.Text(run)).
			WithHint(fmt.Sprintf("\"ferment runs resume %s --decide %s=retry\" calls it again; skip-as-done and fail are the other decisions", run, open[0].Node))
	}
	if done > 0 {
		r.Values = journal.RefTo(values.Map())
	}
	return r, nil
}

// aboutNode names the node of a decision.
func aboutNode(node string) string { return cmp.Or(node, "the call") }

// nodesOf names the nodes of questions, each once.
func nodesOf(open []journal.Question) []string {
	var out []string
	for _, q := range open {
		if name := aboutNode(q.Node); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// decided removes and returns the question that a decision answers.
func decided(open *[]journal.Question, d Decision) (q journal.Question, err *contract.Error) {
	invalid := func(reason, format string, args ...any) *contract.Error {
		return contract.Errorf("run/decision-invalid", "decision about %s: "+format, append([]any{aboutNode(d.Node)}, args...)...).
			WithDetail("reason", edn.K(reason))
	}
	var found []int
	for i, q := range *open {
		if q.Node == d.Node || q.Path.String() == d.Node || d.Node == "" && len(*open) == 1 {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 0 && len(*open) == 0:
		return q, invalid("no-question", "the run has no open question")
	case len(found) == 0 && d.Node == "":
		return q, invalid("node-missing",
			"%d calls need a decision: name the node of one, such as %s", len(*open), (*open)[0].Node)
	case len(found) == 0:
		return q, invalid("node-unknown",
			"the run has no open question about this node, expected one of %s", strings.Join(nodesOf(*open), ", "))
	case len(found) > 1:
		return q, invalid("node-ambiguous",
			"%d nodes have this id: name one by its path, such as %s", len(found), (*open)[found[0]].Path)
	}
	switch given := !d.Value.IsNil(); d.Choice {
	case journal.DecisionRetry, journal.DecisionFail:
		if given {
			return q, invalid("value-unwanted", "%s takes no value", d.Choice)
		}
	case journal.DecisionDone:
		if !given {
			return q, invalid("value-missing", "%s needs the value that the call would have given", d.Choice).
				WithHint("write it as :value of the decision, on the command line as --value NODE=VALUE")
		}
	default:
		return q, invalid("choice-unknown", "%q is not one of retry, skip-as-done, fail", d.Choice)
	}
	q = (*open)[found[0]]
	*open = slices.Delete(*open, found[0], found[0]+1)
	return q, nil
}

// outSchema returns the schema of the answer of a recorded node, or of a recorded request of a plugin, and
// its name; nil if it has no known schema.
func (s *Service) outSchema(place *journal.Place) (*schema.Schema, string) {
	reg, intent, required := s.config.Registry, "", ""
	switch {
	case place == nil:
		return nil, ""
	case place.Resolved != nil:
		intent, required = place.Resolved.Intent, place.Resolved.OutSchema
		if tool, ok := reg.Tool(place.Resolved.ToolID); ok {
			intent = tool.ToolIntent()
		}
	case place.Plan != nil && place.Plan.Source == sourceIntent:
		node, _ := place.Plan.Plan.Value().Key("nodes").Nth(0)
		intent, _ = node.Key("intent").AsKeyword()
		required, _ = node.Key("requires").Key("out-schema").AsKeyword()
	}
	name := reg.OutSchema(intent, required)
	sch, _ := reg.Schema(name)
	return sch, name
}

// fits checks the value of a decision against the schema of its node. A nil schema accepts any value.
func fits(sch *schema.Schema, name string, d Decision) *contract.Error {
	if sch == nil {
		return nil
	}
	if found := sch.Validate(d.Value); len(found) > 0 {
		return contract.Errorf("run/decision-invalid", "decision about %s: the value does not fit :%s: %s", aboutNode(d.Node), name, found[0]).
			WithDetail("reason", edn.K("value-invalid")).WithDetail("findings", schema.Findings(found))
	}
	return nil
}
