package journal

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// PlanResolved records the plan at a path: the run's own, an inline one, a
// map's body, or a plan answer.
type PlanResolved struct {
	Plan      Ref
	Source    string
	WorstCase edn.Value
	Warnings  []edn.Value
	Unbounded bool
	Bindings  Ref
	Attempt   int
	CapID     string
	Request   Ref // that of a plugin to the host, without its transport keys; only its hash is kept
	// Route describes the influence of a router on the plan of the run; nil: no router was
	// called.
	Route edn.Value
}

// Kind implements Body.
func (*PlanResolved) Kind() Kind { return KindPlanResolved }

func fromAnswer(x *PlanResolved) bool { return x.Source == "answer" }

func (*PlanResolved) describe() description { return planResolved }

var planResolved = kindOf(KindPlanResolved, true,
	reference("plan", func(x *PlanResolved) *Ref { return &x.Plan }),
	enum("source", func(x *PlanResolved) *string { return &x.Source }, "request", "template", "intent", "route", "answer", "inline"),
	amounts("worst-case", func(x *PlanResolved) *edn.Value { return &x.WorstCase }),
	list("warnings", tMaps, func(x *PlanResolved) *[]edn.Value { return &x.Warnings }, same, anything, isMap),
	mark("unbounded?", "no finite worst case", true, func(x *PlanResolved) *bool { return &x.Unbounded }),
	reference("bindings", func(x *PlanResolved) *Ref { return &x.Bindings }).optional("the plan has bindings"),
	ordinal("attempt", func(x *PlanResolved) *int { return &x.Attempt }).
		required("the source is an answer", fromAnswer),
	keyword("cap/id", func(x *PlanResolved) *string { return &x.CapID }).
		required("the source is an answer", fromAnswer),
	fingerprint("request", func(x *PlanResolved) *Ref { return &x.Request }).optional("a plugin asked its host within a call"),
	value("route", tMap, func(x *PlanResolved) *edn.Value { return &x.Route }, isMap).optional("a router was asked"),
)

// Candidate is one accepted capability of a node, in rank order.
type Candidate struct {
	CapID   string
	Figures edn.Value // basis of the order; nil for the declared order
}

func (c Candidate) value() edn.Value {
	var m edn.MapBuilder
	m.Key("cap/id", Keyword(c.CapID))
	if !c.Figures.IsNil() {
		m.Key("figures", c.Figures)
	}
	return m.Map()
}

func candidateFrom(v edn.Value) (c Candidate, ok bool) {
	c.CapID, ok = v.Key("cap/id").AsKeyword()
	c.Figures = v.Key("figures")
	return c, ok
}

func (c Candidate) good() bool { return c.CapID != "" && isMapOrNone(c.Figures) }

// Rejection is a capability that was rejected as a candidate. Reason is the cause type;
// Why is the type of an underlying cause, empty if there is none.
type Rejection struct {
	CapID  string
	Reason string
	Why    string
	// Figures are the measurements behind the rejection, recorded only for a request with
	// :debug/plan?.
	Figures edn.Value
}

// NodeResolved records the candidates of a node and the rejected capabilities.
type NodeResolved struct {
	Op         string
	Intent     string
	ToolID     string
	Candidates []Candidate
	Rejected   []Rejection
	Policy     string
	Strategy   string
	Width      int         // number of concurrent attempts of a race or tournament; else 0
	Coerced    []edn.Value // paths in the request at which a slot value was converted to text
	OutSchema  string      // schema required of the answer; empty: that of the intent
	Stream     string      // streaming policy, if the node gives the answer of a streaming run
	Learned    *Learned    // decision of the policy :learned; nil: it did not order the candidates
}

// Kind implements Body.
func (*NodeResolved) Kind() Kind { return KindNodeResolved }

func coerced(x *NodeResolved) *[]edn.Value { return &x.Coerced }

func (*NodeResolved) describe() description { return nodeResolved }

var nodeResolved = kindOf(KindNodeResolved, true,
	enum("op", func(x *NodeResolved) *string { return &x.Op }, "call", "tool"),
	list("candidates", `[:vector [:map {:closed true} [:cap/id :keyword] [:figures {:optional true} :map]]]`,
		func(x *NodeResolved) *[]Candidate { return &x.Candidates }, Candidate.value, candidateFrom, Candidate.good),
	list("rejected", `[:vector [:map {:closed true} [:cap/id :keyword] [:reason :keyword] [:why {:optional true} :keyword] [:figures {:optional true} :map]]]`,
		func(x *NodeResolved) *[]Rejection { return &x.Rejected }, Rejection.value, rejectionFrom, Rejection.good),
	keyword("policy", func(x *NodeResolved) *string { return &x.Policy }),
	keyword("strategy", func(x *NodeResolved) *string { return &x.Strategy }),
	keyword("intent", func(x *NodeResolved) *string { return &x.Intent }).
		required("op call", func(x *NodeResolved) bool { return x.Op == "call" }),
	keyword("tool/id", func(x *NodeResolved) *string { return &x.ToolID }).
		required("op tool", func(x *NodeResolved) bool { return x.Op == "tool" }),
	ordinal("width", func(x *NodeResolved) *int { return &x.Width }).as(tInt).optional("strategy race or tournament"),
	keyword("out-schema", func(x *NodeResolved) *string { return &x.OutSchema }).optional("the request or the node requires a schema of the answer"),
	some(list("coerced", `[:vector [:vector :any]]`, coerced, same, anything, isVector), "a slot stands where text is wanted", coerced),
	enum("stream", func(x *NodeResolved) *string { return &x.Stream }, "gate-passed", "first-token", "provisional").optional("its text is the answer of a run that streams"),
	learned("learned", func(x *NodeResolved) **Learned { return &x.Learned }).optional("the policy learned has ordered several candidates"),
)

func (r Rejection) value() edn.Value {
	var m edn.MapBuilder
	m.Key("cap/id", Keyword(r.CapID))
	if r.Reason != "" {
		m.Key("reason", Keyword(r.Reason))
	}
	if r.Why != "" {
		m.Key("why", Keyword(r.Why))
	}
	if !r.Figures.IsNil() {
		m.Key("figures", r.Figures)
	}
	return m.Map()
}

func rejectionFrom(v edn.Value) (r Rejection, ok bool) {
	r.CapID, ok = v.Key("cap/id").AsKeyword()
	r.Reason, _ = v.Key("reason").AsKeyword()
	r.Why, _ = v.Key("why").AsKeyword()
	r.Figures = v.Key("figures")
	return r, ok
}

func (r Rejection) good() bool { return r.CapID != "" && r.Reason != "" && isMapOrNone(r.Figures) }

// RejectionsValue returns rejections as an EDN vector of maps.
func RejectionsValue(rs []Rejection) edn.Value {
	out := make([]edn.Value, len(rs))
	for i, r := range rs {
		out[i] = r.value()
	}
	return edn.Vector(out...)
}

// NodeSkipped records that the condition of a node was false.
type NodeSkipped struct {
	Op   string
	When edn.Value
}

// Kind implements Body.
func (*NodeSkipped) Kind() Kind { return KindNodeSkipped }

func (*NodeSkipped) describe() description { return nodeSkipped }

var nodeSkipped = kindOf(KindNodeSkipped, true,
	keyword("op", func(x *NodeSkipped) *string { return &x.Op }),
	field(always("when", `:any`, func(x *NodeSkipped) edn.Value { return x.When }, nil),
		func(x *NodeSkipped) *edn.Value { return &x.When }, anything),
)

// AttemptStarted is recorded before a request is sent to a plugin. Attempt counts from 1
// over all candidates of the node. Generation is the incarnation number of the plugin
// process; 0 if no plugin serves the capability.
type AttemptStarted struct {
	Attempt    int
	CapID      string
	CapVersion string
	CapKind    string // records of older hosts lack it
	Request    Ref
	Effects    []string
	Recovery   string
	EffectKey  string
	Budget     edn.Value
	Binary     string
	Generation int
	// Enforcement is "port-only" if the network of the process is confined to
	// ports and not to addresses; else empty.
	Enforcement string
	// Round counts the repairs of one candidate from 1; else 0.
	Round int
	// Entrant is "race", "hedge" or "tournament" if other attempts may run
	// concurrently; empty for a step of a cascade.
	Entrant string
	// Waited is the time that the node waited for a restarting process before
	// this attempt; 0: none.
	Waited time.Duration
	// Recorded marks an attempt of a fill replay that was not made: its result is that of
	// the replayed run.
	Recorded bool
}

// Kind implements Body.
func (*AttemptStarted) Kind() Kind { return KindAttemptStarted }

func (*AttemptStarted) describe() description { return attemptStarted }

var attemptStarted = kindOf(KindAttemptStarted, true,
	ordinal("attempt", func(x *AttemptStarted) *int { return &x.Attempt }),
	keyword("cap/id", func(x *AttemptStarted) *string { return &x.CapID }),
	text("cap/version", func(x *AttemptStarted) *string { return &x.CapVersion }),
	keyword("cap/kind", func(x *AttemptStarted) *string { return &x.CapKind }).optional("its host recorded it"),
	reference("request", func(x *AttemptStarted) *Ref { return &x.Request }),
	keywords("effects", func(x *AttemptStarted) *[]string { return &x.Effects }),
	enum("recovery", func(x *AttemptStarted) *string { return &x.Recovery }, "none", "idempotent", "once"),
	hash("effect/key", func(x *AttemptStarted) *string { return &x.EffectKey }),
	amounts("budget", func(x *AttemptStarted) *edn.Value { return &x.Budget }),
	hash("binary", func(x *AttemptStarted) *string { return &x.Binary }).optional("a plugin serves it"),
	ordinal("generation", func(x *AttemptStarted) *int { return &x.Generation }).as(tInt).optional("a plugin serves it"),
	enum("enforcement", func(x *AttemptStarted) *string { return &x.Enforcement }, "port-only").optional("the network of the process is held to ports alone"),
	ordinal("round", func(x *AttemptStarted) *int { return &x.Round }).optional("the candidate was told what was wrong"),
	enum("entrant", func(x *AttemptStarted) *string { return &x.Entrant }, "race", "hedge", "tournament").optional("it may run beside others"),
	spent("waited-ms", "it waited for a process that was coming back", func(x *AttemptStarted) *time.Duration { return &x.Waited }),
	mark("recorded?", "its end is that of the replayed run", true, func(x *AttemptStarted) *bool { return &x.Recorded }),
)

// The outcomes of an attempt. Unknown means that the plugin may have done the
// work although no answer arrived.
const (
	OutcomeOK       = "ok"
	OutcomeError    = "error"
	OutcomeCanceled = "canceled"
	OutcomeUnknown  = "unknown"
)

// AttemptFinished records the end of an attempt, before its gates run. Raw is the answer
// before clean-up, if clean-up changed it. Extended is the time by which the soft limit
// was extended.
type AttemptFinished struct {
	Attempt    int
	Outcome    string
	Latency    time.Duration
	Usage      edn.Value
	Result     Ref // the response envelope
	ResultType string
	Raw        Ref
	Meta       edn.Value
	Err        *contract.Error
	Extended   time.Duration
}

// Kind implements Body.
func (*AttemptFinished) Kind() Kind { return KindAttemptFinished }

func (*AttemptFinished) describe() description { return attemptFinished }

var attemptFinished = kindOf(KindAttemptFinished, true,
	ordinal("attempt", func(x *AttemptFinished) *int { return &x.Attempt }),
	enum("outcome", func(x *AttemptFinished) *string { return &x.Outcome }, OutcomeOK, OutcomeError, OutcomeCanceled, OutcomeUnknown),
	duration("latency-ms", func(x *AttemptFinished) *time.Duration { return &x.Latency }),
	mapping("usage", func(x *AttemptFinished) *edn.Value { return &x.Usage }),
	reference("result", func(x *AttemptFinished) *Ref { return &x.Result }).optional("an answer came"),
	enum("result/type", func(x *AttemptFinished) *string { return &x.ResultType }, "value", "plan", "stream").
		required("an answer came", func(x *AttemptFinished) bool { return x.Result.set }),
	reference("raw", func(x *AttemptFinished) *Ref { return &x.Raw }).optional("clean-up changed the answer"),
	value("meta", tMap, func(x *AttemptFinished) *edn.Value { return &x.Meta }, isMap).optional("the plugin gave it"),
	failure("error", func(x *AttemptFinished) **contract.Error { return &x.Err }).
		required("the outcome is not ok", func(x *AttemptFinished) bool { return x.Outcome != OutcomeOK }),
	ofError("source", "source", func(x *AttemptFinished) **contract.Error { return &x.Err }).optional("the outcome is not ok"),
	spent("extended-ms", "the soft limit was extended", func(x *AttemptFinished) *time.Duration { return &x.Extended }),
)

// GateVerdict records the result of one check on one answer. Attempt is 0 for
// the value of a plan or a map.
type GateVerdict struct {
	Attempt       int
	Gate          string
	Severity      string
	Tier          int
	Pass          bool
	Score         Score
	Findings      Ref
	NotApplicable bool
	CapID         string
	CapVersion    string
	Latency       time.Duration
	Usage         edn.Value
	Err           *contract.Error

	// For a judge: the key of everything that determines its grades except
	// task and answer, the grades in order, whether they were cached, and the
	// number of calls.
	JudgeKey   string
	Votes      []edn.Value
	Memo       bool
	JudgeCalls int
}

// Kind implements Body.
func (*GateVerdict) Kind() Kind { return KindGateVerdict }

func byCapability(x *GateVerdict) bool  { return x.CapID != "" }
func votes(x *GateVerdict) *[]edn.Value { return &x.Votes }

func (*GateVerdict) describe() description { return gateVerdict }

var gateVerdict = kindOf(KindGateVerdict, true,
	count("attempt", func(x *GateVerdict) *int { return &x.Attempt }),
	keyword("gate", func(x *GateVerdict) *string { return &x.Gate }),
	enum("severity", func(x *GateVerdict) *string { return &x.Severity }, "must", "should"),
	count("tier", func(x *GateVerdict) *int { return &x.Tier }).as(`[:int {:min 0 :max 3}]`).
		unless(func(x *GateVerdict) bool { return x.Tier < 0 || x.Tier > 3 }),
	flag("pass", func(x *GateVerdict) *bool { return &x.Pass }),
	score("score", func(x *GateVerdict) *Score { return &x.Score }).optional("the gate gives one"),
	reference("findings", func(x *GateVerdict) *Ref { return &x.Findings }).optional("there are any"),
	mark("applicable?", "the check cannot apply", false, func(x *GateVerdict) *bool { return &x.NotApplicable }),
	keyword("cap/id", func(x *GateVerdict) *string { return &x.CapID }).optional("a capability served it"),
	text("cap/version", func(x *GateVerdict) *string { return &x.CapVersion }).
		only("a capability served it", byCapability).
		unless(func(x *GateVerdict) bool { return x.CapID != "" && x.CapVersion == "" }),
	duration("latency-ms", func(x *GateVerdict) *time.Duration { return &x.Latency }).only("a capability served it", byCapability),
	mapping("usage", func(x *GateVerdict) *edn.Value { return &x.Usage }).
		only("a capability served it", byCapability).
		unless(func(x *GateVerdict) bool { return !isMapOrNone(x.Usage) }),
	hash("judge/key", func(x *GateVerdict) *string { return &x.JudgeKey }).optional("a judge graded"),
	some(list("votes", `[:vector `+tScore+`]`, votes, same, anything, isGrade), "a judge graded", votes),
	mark("memo?", "the judge graded an equal answer before", true, func(x *GateVerdict) *bool { return &x.Memo }),
	ordinal("judge-calls", func(x *GateVerdict) *int { return &x.JudgeCalls }).optional("the judge was called").
		unless(func(x *GateVerdict) bool { return x.JudgeCalls < 0 }),
	failure("error", func(x *GateVerdict) **contract.Error { return &x.Err }).optional("the gate itself failed"),
)

// NodeCommitted publishes the value of a node. If FailureType is set, the node failed
// with allow-failure and Value is its error.
type NodeCommitted struct {
	Value       Ref
	As          string
	CapID       string
	Attempt     int
	Score       Score
	FailureType string
	// Outscored are the attempts of a tournament that passed their gates and
	// lost.
	Outscored []int
}

// Kind implements Body.
func (*NodeCommitted) Kind() Kind { return KindNodeCommitted }

func outscored(x *NodeCommitted) *[]int { return &x.Outscored }

func (*NodeCommitted) describe() description { return nodeCommitted }

var nodeCommitted = kindOf(KindNodeCommitted, true,
	reference("value", func(x *NodeCommitted) *Ref { return &x.Value }),
	keyword("as", func(x *NodeCommitted) *string { return &x.As }).optional("the node names a slot"),
	keyword("cap/id", func(x *NodeCommitted) *string { return &x.CapID }).optional("ops call and tool"),
	ordinal("attempt", func(x *NodeCommitted) *int { return &x.Attempt }).optional("ops call and tool"),
	score("score", func(x *NodeCommitted) *Score { return &x.Score }).optional("gates ran"),
	keyword("failure/type", func(x *NodeCommitted) *string { return &x.FailureType }).optional("a failure was kept"),
	some(list("outscored", `[:vector `+tOrdinal+`]`, outscored, func(n int) edn.Value { return edn.Int(int64(n)) }, asInt, nil),
		"attempts of a tournament passed their gates and lost", outscored),
)

// NodeFailed records a node whose error fails its plan.
type NodeFailed struct {
	Err      *contract.Error
	Attempts int
	Findings Ref
}

// Kind implements Body.
func (*NodeFailed) Kind() Kind { return KindNodeFailed }

func (*NodeFailed) describe() description { return nodeFailed }

var nodeFailed = kindOf(KindNodeFailed, true,
	failure("error", func(x *NodeFailed) **contract.Error { return &x.Err }),
	ofError("failure/type", "type", func(x *NodeFailed) **contract.Error { return &x.Err }),
	ofError("class", "class", func(x *NodeFailed) **contract.Error { return &x.Err }),
	ofError("source", "source", func(x *NodeFailed) **contract.Error { return &x.Err }),
	count("attempts", func(x *NodeFailed) *int { return &x.Attempts }),
	reference("findings", func(x *NodeFailed) *Ref { return &x.Findings }).optional("a gate failed"),
)
