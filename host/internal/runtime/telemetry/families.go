package telemetry

import (
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
)

// Kind is the type of a metric.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
	Gauge     Kind = "gauge"
)

// Family is one metric of GET /metrics.
type Family struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string

	// OTel is the name for an OpenTelemetry collector, if the semantic conventions define one;
	// otherwise it is derived from Name.
	OTel string
	// Whole reports that the values of a histogram are numbers, not durations.
	Whole bool

	of     tally.Name // name in the counts of records
	source source
}

// source is the origin of the values of a family.
type source uint8

const (
	fromOwners  source = iota // Owner.Samples
	fromRecords               // Owner.Counts
	fromJournal               // Commits
)

// families describes every metric that the daemon defines (TEL-004). The values of labels are names
// of the configuration, types of the error catalogue, or words of a fixed set; all other values are
// replaced by tally.Other.
var families = []Family{
	{Name: "ferment_acts_total", Kind: Counter, Labels: []string{"intent", "status"}, of: tally.Acts, source: fromRecords,
		Help: "Acts that ended, by status; rejected ones never became a run."},
	{Name: "ferment_act_duration_seconds", Kind: Histogram, Labels: []string{"intent"}, of: tally.ActTime, source: fromRecords, OTel: spans.MetricWorkflow,
		Help: "Time from the acceptance of an act to its end."},
	{Name: "ferment_operations_total", Kind: Counter, Labels: []string{"intent", "outcome"}, of: tally.Operations, source: fromRecords,
		Help: "Executions of call and tool nodes that ended."},
	{Name: "ferment_operation_duration_seconds", Kind: Histogram, Labels: []string{"intent"}, of: tally.OperationTime, source: fromRecords,
		Help: "Time from the resolution of a call or tool node to its end."},
	{Name: "ferment_operations_must_failed_total", Kind: Counter, of: tally.MustFailed, source: fromRecords,
		Help: "Operations with a failed must verdict on any attempt."},
	{Name: "ferment_operations_must_failed_final_total", Kind: Counter, of: tally.MustFailedFinal, source: fromRecords,
		Help: "Operations with a failed must verdict on the last attempt."},
	{Name: "ferment_attempts_total", Kind: Counter, Labels: []string{"capability", "intent", "outcome"}, of: tally.Attempts, source: fromRecords,
		Help: "Dispatches to one candidate that ended."},
	{Name: "ferment_attempt_duration_seconds", Kind: Histogram, Labels: []string{"capability"}, of: tally.AttemptTime, source: fromRecords,
		Help: "Time of one dispatch to one candidate."},
	{Name: "ferment_model_duration_seconds", Kind: Histogram, Labels: []string{"capability", "error_type"}, of: tally.ModelTime,
		source: fromRecords, OTel: spans.MetricModelTime, Help: "Time of one dispatch to a language model, by the error type or none."},
	{Name: "ferment_model_tokens", Kind: Histogram, Labels: []string{"capability", "direction"}, of: tally.Tokens, source: fromRecords,
		OTel: spans.MetricTokens, Whole: true, Help: "Tokens of one dispatch to a language model, input or output."},
	{Name: "ferment_attempt_cost_usd_total", Kind: Counter, Labels: []string{"capability"}, of: tally.Cost, source: fromRecords,
		Help: "Settled cost of attempts."},
	{Name: "ferment_parse_failures_total", Kind: Counter, of: tally.ParseFailures, source: fromRecords,
		Help: "Attempts whose answer did not have the form that was asked for."},
	{Name: "ferment_retries_total", Kind: Counter, of: tally.Retries, source: fromRecords,
		Help: "Further attempts on the same candidate."},
	{Name: "ferment_fallbacks_total", Kind: Counter, of: tally.Fallbacks, source: fromRecords,
		Help: "Attempts on another candidate than the one before."},
	{Name: "ferment_gate_verdicts_total", Kind: Counter, Labels: []string{"gate", "severity", "verdict"}, of: tally.Verdicts, source: fromRecords,
		Help: "Verdicts of gates; error means that the gate itself failed."},
	{Name: "ferment_judge_verdicts_total", Kind: Counter, Labels: []string{"verdict"}, of: tally.JudgeVerdicts, source: fromRecords,
		Help: "Verdicts of judges."},
	{Name: "ferment_failures_total", Kind: Counter, Labels: []string{"type"}, of: tally.Failures, source: fromRecords,
		Help: "Final failures of operations and rejected acts, by error type."},
	{Name: "ferment_route_decisions_total", Kind: Counter, Labels: []string{"outcome"}, of: tally.Routings, source: fromRecords,
		Help: "Requests to routers, by outcome."},
	{Name: "ferment_cache_lookups_total", Kind: Counter, Labels: []string{"result"}, of: tally.CacheLookups, source: fromRecords,
		Help: "Acts of cacheable intents; a bypass is no lookup."},
	{Name: "ferment_queue_wait_seconds", Kind: Histogram, Labels: []string{"class"}, of: tally.QueueWait, source: fromRecords,
		Help: "Time from the acceptance of an act to its start."},

	{Name: "ferment_queue_depth", Kind: Gauge, Labels: []string{"class"}, Help: "Acts that wait for a worker."},
	{Name: "ferment_runs", Kind: Gauge, Labels: []string{"status"}, Help: "Runs that have not ended."},
	{Name: "ferment_budget_amount", Kind: Gauge, Labels: []string{"scope", "state", "unit"},
		Help: "Budgets of the host, and of all its callers together."},
	{Name: "ferment_sessions", Kind: Gauge, Labels: []string{"state"}, Help: "Sessions in memory."},
	{Name: "ferment_plugin_state", Kind: Gauge, Labels: []string{"capability", "state"},
		Help: "Processes that serve a capability, by their state."},
	{Name: "ferment_sse_subscribers", Kind: Gauge, Help: "Open streams of events."},
	{Name: "ferment_build_info", Kind: Gauge, Labels: []string{"version", "goversion"}, Help: "Always 1."},
	{Name: "ferment_plugin_restarts_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Starts of plugin processes after their first one, by the cause."},
	{Name: "ferment_auth_failures_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Requests of callers that were not identified or not permitted."},
	{Name: "ferment_trace_contexts_total", Kind: Counter, Labels: []string{"outcome"},
		Help: "Acts with a trace context of their caller: joined, malformed, or of an anonymous caller."},
	{Name: "ferment_otel_dropped_total", Kind: Counter, Labels: []string{"signal"},
		Help: "Spans, events and points of metrics that no collector has received."},

	{Name: "ferment_journal_commit_seconds", Kind: Histogram, source: fromJournal, Help: "Time of one transaction with records."},
	{Name: "ferment_journal_batch_records", Kind: Histogram, source: fromJournal, Help: "Records of one transaction."},
	{Name: "ferment_journal_bytes_total", Kind: Counter, source: fromJournal, Help: "Bytes that records and values have added."},
	{Name: "ferment_journal_damaged", Kind: Gauge, source: fromJournal,
		Help: "Damaged places of the journal that were found since the start."},
}

// Families returns the metrics that the daemon defines. The slice must not be modified.
func Families() []Family { return families }

// Owned reports whether the values of a family come from Owner.Samples.
func (f Family) Owned() bool { return f.source == fromOwners }
