package journal

import (
	"fmt"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Version is the value of :v. A change of the table below needs a new version.
const Version = 1

// Kind names a kind of record, without the leading colon.
type Kind string

// The kinds that this host writes.
const (
	KindRunAccepted      Kind = "run/accepted"
	KindRunStarted       Kind = "run/started"
	KindPlanResolved     Kind = "plan/resolved"
	KindNodeResolved     Kind = "node/resolved"
	KindNodeSkipped      Kind = "node/skipped"
	KindAttemptStarted   Kind = "attempt/started"
	KindAttemptChunk     Kind = "attempt/chunk"
	KindAttemptRetracted Kind = "attempt/retracted"
	KindAttemptFinished  Kind = "attempt/finished"
	KindGateVerdict      Kind = "gate/verdict"
	KindNodeCommitted    Kind = "node/committed"
	KindNodeFailed       Kind = "node/failed"
	KindBudgetReserved   Kind = "budget/reserved"
	KindBudgetSettled    Kind = "budget/settled"
	KindEnvRead          Kind = "env/read"
	KindCancelRequested  Kind = "cancel/requested"
	KindRunFinished      Kind = "run/finished"
	KindHostEvent        Kind = "host/event"
)

// column is one key of a kind: its EDN name, its schema as EDN text, and its
// condition. An empty condition means every record of the kind.
type column struct {
	key    string
	schema string
	when   string
}

type kindRow struct {
	kind    Kind
	pathed  bool // has :path, and :node unless the path is the run itself
	columns []column
}

// The types of the columns, as schemas.
const (
	tHash    = `[:re "^b3:[0-9a-f]{64}$"]`
	tKw      = `:keyword`
	tInt     = `:int`
	tCount   = `[:int {:min 0}]`
	tOrdinal = `[:int {:min 1}]`
	tStr     = `:string`
	tBool    = `:boolean`
	tInst    = `:inst`
	tScore   = `[:number {:min 0 :max 1}]`
	tMap     = `:map`
	tMaps    = `[:vector :map]`
	tPath    = `[:vector [:or :int :string]]`
	tKwSet   = `[:set :keyword]`
	tAmount  = `[:map-of :keyword :number]`
	tScopes  = `[:map-of {:min 1} [:enum :tenant :user :session :run :plan :node] [:map-of :keyword :number]]`
	tError   = `[:map [:type :keyword] [:message :string] [:class {:optional true} :keyword] [:source {:optional true} :keyword]]`
	tCands   = `[:vector [:map {:closed true} [:cap/id :keyword] [:figures {:optional true} :map]]]`
	tReject  = `[:vector [:map {:closed true} [:cap/id :keyword] [:reason :keyword] [:why {:optional true} :keyword] [:figures {:optional true} :map]]]`
	tTotals  = `[:map {:closed true} [:operations :map] [:attempts :map]]`
)

var headColumns = []column{
	{"v", `[:enum 1]`, ""},
	{"run", tStr, ""},
	{"seq", tOrdinal, ""},
	{"at", tInst, ""},
	{"epoch", tOrdinal, ""},
	{"kind", tKw, ""},
}

var pathColumns = []column{
	{"path", tPath, ""},
	{"node", tStr, "the path is not []"},
}

// kinds defines the keys of all records.
var kinds = []kindRow{
	{KindRunAccepted, false, []column{
		{"principal", tStr, ""},
		{"principal/type", tKw, ""},
		{"roles", tKwSet, ""},
		{"operation", tKw, ""},
		{"intent", tKw, ""},
		{"request", tHash, ""},
		{"fingerprint", tHash, ""},
		{"response/type", `[:enum :value :stream :accepted]`, ""},
		{"class", tKw, ""},
		{"priority", tInt, ""},
		{"deadline-at", tInst, ""},
		{"config", tHash, ""},
		{"evaluator", tOrdinal, ""},
		{"seed", tInt, ""},
		{"budget", tAmount, ""},
		{"trace", tMap, ""},
		{"access", `[:vector [:map [:what :any] [:rule :any] [:reason :any]]]`, ""},
		{"key", tHash, "an idempotency key was given"},
		{"request/id", tStr, "given"},
		{"session/id", tStr, "a session was given"},
		{"session/version", tInt, "a session was given"},
	}},
	{KindRunStarted, false, []column{
		{"host", tStr, ""},
		{"boot", tStr, ""},
		{"config", tHash, ""},
		{"protocol", tHash, "the host has a protocol package"},
	}},
	{KindPlanResolved, true, []column{
		{"plan", tHash, ""},
		{"source", `[:enum :request :template :intent :route :answer :inline]`, ""},
		{"worst-case", tAmount, ""},
		{"warnings", tMaps, ""},
		{"unbounded?", `[:enum true]`, "no finite worst case"},
		{"bindings", tHash, "the plan has bindings"},
		{"attempt", tOrdinal, "the source is an answer"},
		{"cap/id", tKw, "the source is an answer"},
	}},
	{KindNodeResolved, true, []column{
		{"op", `[:enum :call :tool]`, ""},
		{"candidates", tCands, ""},
		{"rejected", tReject, ""},
		{"policy", tKw, ""},
		{"strategy", tKw, ""},
		{"intent", tKw, "op call"},
		{"tool/id", tKw, "op tool"},
		{"width", tInt, "strategy race or tournament"},
		{"coerced", `[:vector [:vector :any]]`, "a slot stands where text is wanted"},
		{"stream", `[:enum :gate-passed :first-token :provisional]`, "its text is the answer of a run that streams"},
	}},
	{KindNodeSkipped, true, []column{
		{"op", tKw, ""},
		{"when", `:any`, ""},
	}},
	{KindAttemptStarted, true, []column{
		{"attempt", tOrdinal, ""},
		{"cap/id", tKw, ""},
		{"cap/version", tStr, ""},
		{"request", tHash, ""},
		{"effects", tKwSet, ""},
		{"recovery", `[:enum :none :idempotent :once]`, ""},
		{"effect/key", tHash, ""},
		{"budget", tAmount, ""},
		{"binary", tHash, "a plugin serves it"},
		{"generation", tInt, "a plugin serves it"},
		{"enforcement", `[:enum :port-only]`, "the network of the process is held to ports alone"},
		{"round", tOrdinal, "the candidate was told what was wrong"},
		{"entrant", "[:enum :race :hedge :tournament]", "it may run beside others"},
		{"waited-ms", tCount, "it waited for a process that was coming back"},
	}},
	{KindAttemptChunk, true, []column{
		{"attempt", tCount, ""},
		{"chunk", tCount, ""},
		{"text", tStr, ""},
		{"visible", `[:enum :chunk :provisional]`, ""},
	}},
	{KindAttemptRetracted, true, []column{
		{"attempt", tCount, ""},
		{"reason", tKw, ""},
	}},
	{KindAttemptFinished, true, []column{
		{"attempt", tOrdinal, ""},
		{"outcome", `[:enum :ok :error :canceled :unknown]`, ""},
		{"latency-ms", tCount, ""},
		{"usage", tMap, ""},
		{"result", tHash, "an answer came"},
		{"result/type", `[:enum :value :plan :stream]`, "an answer came"},
		{"raw", tHash, "clean-up changed the answer"},
		{"meta", tMap, "the plugin gave it"},
		{"error", tError, "the outcome is not ok"},
		{"source", tKw, "the outcome is not ok"},
		{"extended-ms", tCount, "the soft limit was extended"},
	}},
	{KindGateVerdict, true, []column{
		{"attempt", tCount, ""},
		{"gate", tKw, ""},
		{"severity", `[:enum :must :should]`, ""},
		{"tier", `[:int {:min 0 :max 3}]`, ""},
		{"pass", tBool, ""},
		{"score", tScore, "the gate gives one"},
		{"findings", tHash, "there are any"},
		{"applicable?", `[:enum false]`, "the check cannot apply"},
		{"cap/id", tKw, "a capability served it"},
		{"cap/version", tStr, "a capability served it"},
		{"latency-ms", tCount, "a capability served it"},
		{"usage", tMap, "a capability served it"},
		{"judge/key", tHash, "a judge graded"},
		{"votes", `[:vector ` + tScore + `]`, "a judge graded"},
		{"memo?", `[:enum true]`, "the judge graded an equal answer before"},
		{"judge-calls", tOrdinal, "the judge was called"},
		{"error", tError, "the gate itself failed"},
	}},
	{KindNodeCommitted, true, []column{
		{"value", tHash, ""},
		{"as", tKw, "the node names a slot"},
		{"cap/id", tKw, "ops call and tool"},
		{"attempt", tOrdinal, "ops call and tool"},
		{"score", tScore, "gates ran"},
		{"failure/type", tKw, "a failure was kept"},
		{"outscored", `[:vector ` + tOrdinal + `]`, "attempts of a tournament passed their gates and lost"},
	}},
	{KindNodeFailed, true, []column{
		{"failure/type", tKw, ""},
		{"class", tKw, ""},
		{"source", tKw, ""},
		{"error", tError, ""},
		{"attempts", tCount, ""},
		{"findings", tHash, "a gate failed"},
	}},
	{KindBudgetReserved, true, []column{
		{"for", `[:enum :run :attempt :entrant :repair :check :vote :plan]`, ""},
		{"amounts", tScopes, ""},
		{"attempt", tOrdinal, "not for run"},
		{"gate", tKw, "for check and vote"},
	}},
	{KindBudgetSettled, true, []column{
		{"of", tOrdinal, ""},
		{"amounts", tScopes, ""},
		{"mark", `[:enum :exact :estimated :at-least :unknown]`, ""},
	}},
	{KindEnvRead, true, []column{
		{"what", `[:enum :clock :random]`, ""},
		{"ordinal", tCount, ""},
		{"value", `[:or :inst :int]`, ""},
	}},
	{KindCancelRequested, false, []column{
		{"by", tStr, ""},
		{"why", tStr, "given"},
	}},
	{KindRunFinished, false, []column{
		{"status", `[:enum :completed :failed :canceled :expired]`, ""},
		{"response", tHash, ""},
		{"executed?", tBool, ""},
		{"latency-ms", tCount, ""},
		{"totals", tTotals, ""},
		{"error", tError, "not completed"},
	}},
	{KindHostEvent, false, []column{
		{"event", tKw, ""},
		{"details", tMap, ""},
		{"cap/id", tKw, "it concerns one"},
		{"intent", tKw, "it concerns one"},
	}},
}

func (r kindRow) all() []column {
	out := append([]column{}, headColumns...)
	if r.pathed {
		out = append(out, pathColumns...)
	}
	return append(out, r.columns...)
}

// spec returns the closed map schema of one kind, as EDN text.
func (r kindRow) spec() string {
	var b strings.Builder
	b.WriteString("[:map {:closed true}")
	for _, c := range r.all() {
		typ := c.schema
		if c.key == "kind" {
			typ = "[:enum :" + string(r.kind) + "]"
		}
		if c.when == "" {
			fmt.Fprintf(&b, " [:%s %s]", c.key, typ)
		} else {
			fmt.Fprintf(&b, " [:%s {:optional true} %s]", c.key, typ)
		}
	}
	b.WriteString("]")
	return b.String()
}

var compiled = sync.OnceValue(func() map[Kind]*schema.Schema {
	out := make(map[Kind]*schema.Schema, len(kinds))
	for _, row := range kinds {
		out[row.kind] = schema.MustCompile(edn.MustRead(row.spec()))
	}
	return out
})

// Kinds returns every kind that this host writes, in table order.
func Kinds() []Kind {
	out := make([]Kind, len(kinds))
	for i, row := range kinds {
		out[i] = row.kind
	}
	return out
}

// Schema returns the closed EDN schema of a kind.
func Schema(k Kind) (*schema.Schema, bool) {
	s, ok := compiled()[k]
	return s, ok
}

// Page returns the reference of all kinds in Markdown, the content of
// RECORDS.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Records of a run\n\nGenerated from the table in `table.go`; a test keeps it current. Version " +
		fmt.Sprint(Version) + ".\n")
	b.WriteString("\nEvery record is a closed EDN map. Hashes are the canonical hash of a value, written `b3:` and 64 hexadecimal digits.\n")
	section := func(title string, cols []column) {
		fmt.Fprintf(&b, "\n## %s\n\n| key | schema | present |\n|---|---|---|\n", title)
		for _, c := range cols {
			when := c.when
			if when == "" {
				when = "always"
			}
			fmt.Fprintf(&b, "| `:%s` | `%s` | %s |\n", c.key, c.schema, when)
		}
	}
	section("every record", headColumns)
	section("records of a plan, a node or an attempt", pathColumns)
	for _, row := range kinds {
		title := ":" + string(row.kind)
		if row.pathed {
			title += " (with a path)"
		}
		section(title, row.columns)
	}
	return b.String()
}
