package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Runs reads and changes recorded runs. A run is named by its id, by a unique prefix of its id, or
// by "last". The error for an unknown run is run/not-found. The methods are safe for concurrent
// use.
type Runs interface {
	// OwnedBy returns a view of the runs of one principal. For its methods, other runs do not exist
	// (AUTH-012).
	OwnedBy(principal string) Runs
	// OfTenant returns a view of the runs of the callers of one tenant.
	OfTenant(tenant string) Runs
	// InSession returns a view of the runs of one session (AUTH-004).
	InSession(session string) Runs
	// Owner returns the id and the principal of a run.
	Owner(ctx context.Context, run string) (id, principal string, err *contract.Error)
	// List returns the summaries of the selected runs, the latest first.
	List(ctx context.Context, f RunFilter) (edn.Value, *contract.Error)
	// Show returns the summary of a run, its epochs and nodes, and the requested parts.
	Show(ctx context.Context, run string, with RunParts) (edn.Value, *contract.Error)
	// Records returns a page of the records of a run.
	Records(ctx context.Context, q RecordsQuery) (edn.Value, *contract.Error)
	// Diff compares two runs node by node.
	Diff(ctx context.Context, a, b string) (edn.Value, *contract.Error)
	// Watch returns a function that reads the events of a run after the record with number after,
	// past and future ones; nil if that is the last record of a finished or suspended run. The
	// error is stream/cursor-ahead for a record that does not exist, and stream/gone if the events
	// were removed.
	Watch(ctx context.Context, run string, after int) (Watching, *contract.Error)
	// Verify verifies the hashes of one run, or of all runs if run is empty. Damage is part of the
	// result, not an error.
	Verify(ctx context.Context, run string) (edn.Value, *contract.Error)
	// Replay executes a finished run again from its records, without plugins, and compares its
	// values. A difference is the error replay/miss. With Fill it makes the calls that are not
	// recorded, in a new run, and compares both runs.
	Replay(ctx context.Context, q ReplayQuery) (edn.Value, *contract.Error)
	// Export returns a part of the export file of a finished run from a byte offset on.
	Export(ctx context.Context, run string, offset int64) (edn.Value, *contract.Error)
	// Import stores the run of an export file.
	Import(ctx context.Context, file string) (edn.Value, *contract.Error)
	// Pin exempts a run from retention if on is set; otherwise it reverts that.
	Pin(ctx context.Context, run string, on bool) (edn.Value, *contract.Error)
	// Purge deletes the values of a finished run; with dryRun it only returns what it would delete.
	Purge(ctx context.Context, run string, dryRun bool) (edn.Value, *contract.Error)
	// Cancel requests the cancellation of a run. It returns when the request is durable; with
	// c.Wait it also waits for the end of the run, at most that long.
	Cancel(ctx context.Context, run string, c Cancellation) (edn.Value, *contract.Error)
	// Job returns the state of the job of a run in the schema res/job-status.
	Job(ctx context.Context, run string) (edn.Value, *contract.Error)
	// Resume continues a suspended run with a decision for each of its open questions, or a run
	// that failed with a retryable error. It returns when the run continues. by is the principal
	// that resumes it.
	Resume(ctx context.Context, run string, decisions []Decision, by string) (edn.Value, *contract.Error)
	// Statistics counts the runs that a filter selects by intent, caller and time:
	// outcomes, failures, latencies and costs, with attempts and gates.
	Statistics(ctx context.Context, f RunFilter) (edn.Value, *contract.Error)
	// Learned returns the current estimates of learned dispatch for the candidates of each intent,
	// and statistics of the decisions in the selected runs.
	Learned(ctx context.Context, f RunFilter) (edn.Value, *contract.Error)
	// Value returns the value with a hash from the records of a run, or of any run if run is empty.
	// The error is not-found, or replay/values-purged if the values of the run were purged.
	Value(ctx context.Context, hash, run string) (edn.Value, *contract.Error)
	// Interrupts lists the open interrupts of all runs.
	Interrupts(ctx context.Context) (edn.Value, *contract.Error)
	// Answer answers an open interrupt, which is named by its id or its node; empty names the only
	// one. The answer is durable when Answer returns.
	Answer(ctx context.Context, run, interrupt string, answer edn.Value, by string) (edn.Value, *contract.Error)
}

// Decision is the answer to an open question of a suspended run.
type Decision struct {
	Node   string // id or path of the node; empty for the only question
	Choice string // "retry", "skip-as-done" or "fail"
	Value  edn.Value
	By     string // principal that decides
}

const decisionEntry = `[:decisions {:optional true} [:vector [:map {:closed true}
	[:node {:optional true :doc "id or path of the node; not needed for the only question"} [:string {:min 1 :max 200}]]
	[:decision {:doc "retry calls again with the same effect key"} [:enum :retry :skip-as-done :fail]]
	[:value {:optional true :doc "of a node that is done"} :any]]]]`

// decisionsOf reads decisionEntry.
func decisionsOf(in edn.Value, by string) (out []Decision) {
	for d := range in.Key("decisions").Elems() {
		choice, _ := d.Key("decision").AsKeyword()
		out = append(out, Decision{text(d, "node"), choice, d.Key("value"), by})
	}
	return out
}

// RunFilter selects runs. A zero field, except Limit, does not restrict the selection.
type RunFilter struct {
	Status, Intent, Principal string
	Session                   string    // id of the session
	Since                     time.Time // accepted at this time or later
	Until                     time.Time // accepted before
	Before                    string    // id of a run; selects runs that were recorded before it
	Key                       string    // idempotency key of Principal
	Limit                     int       // 0: 20
}

// RunParts selects further parts of the result of Show.
type RunParts struct{ Response, Transcript bool }

// Watching calls show with the events of a run, in order. An event is passed when its record is
// durable; events that are durable by then are passed together. It returns nil when the run is
// finished, and otherwise the error of ctx, of show, or of reading the run.
type Watching func(ctx context.Context, show func([]journal.Event) error) error

// Cancellation is a request to cancel a run.
type Cancellation struct {
	By, Why string
	Wait    time.Duration // maximum time to wait for the end of the run
}

// RecordsQuery selects records of a run.
type RecordsQuery struct {
	Run    string
	After  int  // number of the record before the first one
	Limit  int  // 0: 500
	Values bool // include the values that the records refer to
}

// ReplayQuery selects a run to replay, and how.
type ReplayQuery struct {
	Run string
	// Fill makes the calls that are not recorded. The other fields need it.
	Fill bool
	// Swap maps capabilities to the capabilities that are called in their place.
	Swap map[string]string
	// Effects are the effects, in addition to reading, that calls may have.
	Effects []string
	// By is the caller, to which these calls must be permitted too; nil: the owner of this process.
	// Decisions admitted its request.
	By        *policy.Caller
	Decisions []edn.Value
}

const replayEntries = `[:mode {:optional true :doc "strict: nothing is called; fill: a new run makes the calls that are not recorded" :default :strict} [:enum :strict :fill]]
	[:swap {:optional true :doc "fill: capabilities, and those that are called in their place"} [:map-of :keyword :keyword]]
	[:effects {:optional true :doc "fill: effects that calls may have besides reading"} [:set :keyword]]`

// replayQuery reads replayEntries.
func replayQuery(run string, in edn.Value) (ReplayQuery, *contract.Error) {
	mode, _ := in.Key("mode").AsKeyword()
	q := ReplayQuery{Run: run, Fill: mode == journal.ReplayFill}
	for old, other := range in.Key("swap").Entries() {
		if q.Swap == nil {
			q.Swap = map[string]string{}
		}
		from, _ := old.AsKeyword()
		q.Swap[from], _ = other.AsKeyword()
	}
	for effect := range in.Key("effects").Elems() {
		name, _ := effect.AsKeyword()
		q.Effects = append(q.Effects, name)
	}
	if !q.Fill && (q.Swap != nil || q.Effects != nil) {
		return q, contract.Errorf("invalid-request", "a strict replay makes no calls: :swap and :effects need :mode :%s", journal.ReplayFill)
	}
	return q, nil
}

// callerKey is the key of the request of an action in a context.
type callerKey struct{}

// called returns a context for the action of a request.
func (x *exchange) called(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, x)
}

// caller returns the principal that called an action; "operator" without a daemon.
func caller(ctx context.Context) string {
	if x, ok := ctx.Value(callerKey{}).(*exchange); ok {
		return x.who.Name
	}
	return "operator"
}

// run executes a replay on the account of the caller of an action. One that makes calls needs
// the operation of an act as well.
func (q ReplayQuery) run(ctx context.Context, r Runs) (edn.Value, *contract.Error) {
	if x, ok := ctx.Value(callerKey{}).(*exchange); ok && q.Fill {
		if err := x.permit(policy.Act); err != nil {
			return edn.Nil(), err
		}
		by := x.who.Caller()
		q.By, q.Decisions = &by, x.decisions
	}
	return r.Replay(ctx, q)
}

func onRuns(
	do func(context.Context, Runs, edn.Value) (edn.Value, *contract.Error),
) func(context.Context, Control, edn.Value) (edn.Value, *contract.Error) {
	return func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
		return do(ctx, c.Runs(), in)
	}
}

const (
	runName  = `{:doc "its id, the beginning of its id, or last"} [:string {:min 1 :max 64}]`
	runEntry = `[:run ` + runName + `]`
)

// filterEntries are the input entries of runFilter.
const filterEntries = `[:status {:optional true :doc "open runs are running if this daemon executes them"} [:enum :open :queued :running :waiting :suspended :completed :failed :canceled :expired]]
	[:intent {:optional true} :keyword] [:principal {:optional true :doc "only runs of this caller"} [:string {:min 1 :max 128}]]
	[:session {:optional true :doc "only runs with this session"} [:string {:min 1 :max 128}]]
	[:since {:optional true :doc "accepted then or later"} :inst] [:until {:optional true :doc "accepted before"} :inst]`

// statisticsEntries select the runs of statistics.
const statisticsEntries = `[:intent {:optional true} :keyword] [:principal {:optional true :doc "only runs of this caller"} [:string {:min 1 :max 128}]]
	[:since {:optional true :doc "accepted then or later; default: 24 hours before until"} :inst] [:until {:optional true :doc "accepted before; default: now"} :inst]`

// replayMade adds the id of the new run to the input of a replay in the audit trail.
func replayMade(logged, result edn.Value) edn.Value {
	if result.HasKey("replay/of") {
		logged = logged.AssocKey("replay/run", result.Key("run"))
	}
	return logged
}

// runFilter reads filterEntries and a limit.
func runFilter(in edn.Value) RunFilter {
	f := RunFilter{Principal: text(in, "principal"), Session: text(in, "session"), Limit: int(intOr(in, "limit", 0))}
	f.Status, _ = in.Key("status").AsKeyword()
	f.Intent, _ = in.Key("intent").AsKeyword()
	f.Since, _ = in.Key("since").AsInst()
	f.Until, _ = in.Key("until").AsInst()
	return f
}

// runActions returns the admin actions on runs.
func runActions() []Action {
	return []Action{
		{Name: "runs-list", Reads: true, Also: policy.ReadRuns, Doc: "recorded runs, the latest first",
			Input: filterEntries + ` [:limit {:optional true :default 20} [:int {:min 1 :max 1000}]]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.List(ctx, runFilter(in))
			})},
		{Name: "runs-show", Reads: true, Also: policy.ReadRuns, Doc: "one run: summary, epochs and nodes, and its transcript and response",
			Input: runEntry + ` [:brief? {:optional true :doc "without transcript and response"} :boolean]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				whole := !in.Key("brief?").Truthy()
				return r.Show(ctx, text(in, "run"), RunParts{Response: whole, Transcript: whole})
			})},
		{Name: "runs-records", Reads: true, Also: policy.ReadRuns, Doc: "records of a run in order, a page of them", Input: runEntry + `
				[:after {:optional true :doc "number of the last record before them" :default 0} [:int {:min 0}]]
				[:limit {:optional true :default 500} [:int {:min 1 :max 10000}]] [:values? {:optional true :doc "with the values that they name"} :boolean]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Records(ctx, RecordsQuery{
					Run:    text(in, "run"),
					After:  int(intOr(in, "after", 0)),
					Limit:  int(intOr(in, "limit", 0)),
					Values: in.Key("values?").Truthy(),
				})
			})},
		{Name: "runs-diff", Reads: true, Also: policy.ReadRuns, Doc: "compare two runs node by node: plan, candidates, picks, outcomes, verdicts, values, cost and latency",
			Input: `[:a ` + runName + `] [:b ` + runName + `]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Diff(ctx, text(in, "a"), text(in, "b"))
			})},
		{Name: "runs-verify", Reads: true, Also: policy.ReadRuns, Doc: "compare the records and values of one run, or of all, with their hashes",
			Input: `[:run {:optional true :doc "default: all runs"} [:string {:min 1 :max 64}]]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Verify(ctx, text(in, "run"))
			})},
		{Name: "runs-replay", Also: policy.ReplayRuns, made: replayMade, Doc: "execute a finished run once more from its records and compare its values", Input: runEntry + " " + replayEntries,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				q, err := replayQuery(text(in, "run"), in)
				if err != nil {
					return edn.Nil(), err
				}
				return q.run(ctx, r)
			})},
		{Name: "runs-export", Reads: true, Also: policy.ReadRuns,
			Doc: "a part of the file of a finished run, with its records and values; :next is the offset of the next part. " +
				"For administrators the last part has :plugins, a map: :text are lines that may end the file and describe the plugins, " +
				":unknown names those whose description is not known",
			Input: runEntry + ` [:offset {:optional true :doc "in bytes" :default 0} [:int {:min 0}]]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				part, err := c.Runs().Export(ctx, text(in, "run"), intOr(in, "offset", 0))
				if plugins := c.ExportedPlugins(); err == nil && !plugins.IsNil() && !part.HasKey("next") {
					part = part.AssocKey("plugins", plugins)
				}
				return part, err
			}},
		{Name: "runs-import", Doc: "verify an exported run and store it, read-only",
			Input: `[:file {:doc "absolute path of the file"} [:string {:min 1 :max 4096}]]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Import(ctx, text(in, "file"))
			})},
		{Name: "runs-pin", Also: policy.PurgeRuns, Doc: "exempt a run from removal by age or size", Input: runEntry,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Pin(ctx, text(in, "run"), true)
			})},
		{Name: "runs-unpin", Also: policy.PurgeRuns, Doc: "let a pinned run be removed again", Input: runEntry,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Pin(ctx, text(in, "run"), false)
			})},
		{Name: "runs-purge", Also: policy.PurgeRuns, Doc: "delete the values of a finished run; its records and hashes stay",
			Input: runEntry + ` [:dry-run? {:optional true} :boolean]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Purge(ctx, text(in, "run"), in.Key("dry-run?").Truthy())
			})},
		{Name: "runs-cancel", Frees: true, Also: policy.CancelRuns, Doc: "request the cancellation of a run in progress",
			Input: runEntry + ` [:why {:optional true :doc "recorded with the run"} [:string {:min 1 :max 200}]]`,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Cancel(ctx, text(in, "run"), Cancellation{By: caller(ctx), Why: text(in, "why")})
			})},
		{Name: "runs-resume", Also: policy.ResumeRuns, Doc: "continue a suspended run with a decision for each of its open questions, or a failed run whose error is retryable",
			Input: runEntry + " " + decisionEntry, Content: [][]string{{"decisions", "value"}},
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Resume(ctx, text(in, "run"), decisionsOf(in, caller(ctx)), caller(ctx))
			})},
		{Name: "runs-stats", Reads: true, Also: policy.ReadRuns, Doc: "what the recorded runs of a period did: outcomes, failures, attempts, gates, latencies and costs",
			Input: statisticsEntries,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Statistics(ctx, runFilter(in))
			})},
		{Name: "dispatch-stats", Reads: true, Doc: "what the policy learned believes of the candidates, and what its decisions of a period say about them",
			Input: statisticsEntries,
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Learned(ctx, runFilter(in))
			})},
		{Name: "runs-interrupts", Reads: true, Also: policy.ReadRuns, Doc: "the open questions of all runs to people",
			do: onRuns(func(ctx context.Context, r Runs, _ edn.Value) (edn.Value, *contract.Error) {
				return r.Interrupts(ctx)
			})},
		{Name: "runs-answer", Also: policy.AnswerRuns, Doc: "answer a question that a run puts to people",
			Input:   runEntry + ` [:interrupt {:optional true :doc "its id, or the node that asks; not needed for the only one"} [:string {:min 1 :max 200}]] [:answer :any]`,
			Content: [][]string{{"answer"}},
			do: onRuns(func(ctx context.Context, r Runs, in edn.Value) (edn.Value, *contract.Error) {
				return r.Answer(ctx, text(in, "run"), text(in, "interrupt"), in.Key("answer"), caller(ctx))
			})},
	}
}

func intOr(m edn.Value, key string, otherwise int64) int64 {
	if n, ok := m.Key(key).AsInt(); ok {
		return n
	}
	return otherwise
}

// runsOnly is a Control for actions on runs; only its methods Runs and ExportedPlugins may be
// called.
type runsOnly struct {
	Control
	runs Runs
}

// Runs implements Control.
func (r runsOnly) Runs() Runs { return r.runs }

// ExportedPlugins implements Control. It returns nil, because there are no plugins without a
// daemon.
func (runsOnly) ExportedPlugins() edn.Value { return edn.Nil() }

// DoOnRuns executes an action on runs without a daemon, in the same way as POST /v1/admin.
func DoOnRuns(ctx context.Context, runs Runs, action edn.Value) (edn.Value, *contract.Error) {
	return doAlone(ctx, runActions(), runsOnly{runs: runs}, action)
}

func (a *Action) wrongInput(found []schema.Finding) *contract.Error {
	return wrongInput("the input of "+a.Name, found)
}

func wrongInput(what string, found []schema.Finding) *contract.Error {
	err := contract.Errorf("invalid-request", "%s is wrong: %s", what, found[0]).
		WithDetail("findings", schema.Findings(found))
	if known := found[0].Keys; known != nil {
		err = err.WithHint("use only the keys " + strings.Join(known, ", "))
		if len(known) == 0 {
			err = err.WithHint("remove the key: none is allowed here")
		}
	}
	return err
}
