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
}

// Kind implements Body.
func (*PlanResolved) Kind() Kind { return KindPlanResolved }

func (x *PlanResolved) fault() string {
	switch {
	case !x.Plan.Set():
		return "plan"
	case !oneOf(x.Source, "request", "template", "intent", "route", "answer", "inline"):
		return "source"
	case !isAmount(x.WorstCase):
		return "worst-case"
	case x.Source == "answer" && (x.Attempt < 1 || x.CapID == ""):
		return "attempt"
	}
	for _, w := range x.Warnings {
		if !isMap(w) {
			return "warnings"
		}
	}
	return ""
}

func (x *PlanResolved) fields(b *edn.MapBuilder) {
	p := put{b}
	p.ref("plan", x.Plan)
	p.kw("source", x.Source)
	p.amounts("worst-case", x.WorstCase)
	b.Key("warnings", edn.Vector(x.Warnings...))
	if x.Unbounded {
		b.Key("unbounded?", edn.Bool(true))
	}
	p.ref("bindings", x.Bindings)
	p.positive("attempt", x.Attempt)
	p.kw("cap/id", x.CapID)
}

func (x *PlanResolved) refs(yield func(Ref)) {
	yield(x.Plan)
	yield(x.Bindings)
}

// Candidate is one accepted capability of a node, in rank order.
type Candidate struct {
	CapID   string
	Figures edn.Value // basis of the order; nil for the declared order
}

// Rejection is a capability that binding rejected. Why is the cause of the
// reason, if there is one.
type Rejection struct {
	CapID  string
	Reason string
	Why    string
	// Figures are present only if the run is to be explained.
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
	Width      int         // of a race or tournament; else 0
	Coerced    []edn.Value // paths in the request where the text of a slot was taken
	Stream     string      // streaming policy, if the node gives the answer of a streaming run
}

// Kind implements Body.
func (*NodeResolved) Kind() Kind { return KindNodeResolved }

func (x *NodeResolved) fault() string {
	switch {
	case !oneOf(x.Op, "call", "tool"):
		return "op"
	case x.Op == "call" && x.Intent == "":
		return "intent"
	case x.Op == "tool" && x.ToolID == "":
		return "tool/id"
	case x.Policy == "":
		return "policy"
	case x.Strategy == "":
		return "strategy"
	case x.Stream != "" && !oneOf(x.Stream, "gate-passed", "first-token", "provisional"):
		return "stream"
	}
	for _, c := range x.Candidates {
		if c.CapID == "" || !isMapOrNone(c.Figures) {
			return "candidates"
		}
	}
	for _, r := range x.Rejected {
		if r.CapID == "" || r.Reason == "" || !isMapOrNone(r.Figures) {
			return "rejected"
		}
	}
	for _, c := range x.Coerced {
		if c.Kind() != edn.KindVector {
			return "coerced"
		}
	}
	return ""
}

func (x *NodeResolved) fields(b *edn.MapBuilder) {
	p := put{b}
	p.kw("op", x.Op)
	p.kw("intent", x.Intent)
	p.kw("tool/id", x.ToolID)
	cands := make([]edn.Value, len(x.Candidates))
	for i, c := range x.Candidates {
		var m edn.MapBuilder
		m.Key("cap/id", Keyword(c.CapID))
		put{&m}.val("figures", c.Figures)
		cands[i] = m.Map()
	}
	b.Key("candidates", edn.Vector(cands...))
	b.Key("rejected", RejectionsValue(x.Rejected))
	p.kw("policy", x.Policy)
	p.kw("strategy", x.Strategy)
	p.positive("width", x.Width)
	if len(x.Coerced) > 0 {
		b.Key("coerced", edn.Vector(x.Coerced...))
	}
	p.kw("stream", x.Stream)
}

func (x *NodeResolved) refs(func(Ref)) {}

// RejectionsValue returns rejections as an EDN vector of maps.
func RejectionsValue(rs []Rejection) edn.Value {
	out := make([]edn.Value, len(rs))
	for i, r := range rs {
		var m edn.MapBuilder
		p := put{&m}
		p.kw("cap/id", r.CapID)
		p.kw("reason", r.Reason)
		p.kw("why", r.Why)
		p.val("figures", r.Figures)
		out[i] = m.Map()
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

func (x *NodeSkipped) fault() string {
	if x.Op == "" {
		return "op"
	}
	return ""
}

func (x *NodeSkipped) fields(b *edn.MapBuilder) {
	put{b}.kw("op", x.Op)
	b.Key("when", x.When)
}

func (x *NodeSkipped) refs(func(Ref)) {}

// AttemptStarted is written before a request is sent to a plugin. Attempt
// counts from 1 over all candidates of the node.
type AttemptStarted struct {
	Attempt    int
	CapID      string
	CapVersion string
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
}

// Kind implements Body.
func (*AttemptStarted) Kind() Kind { return KindAttemptStarted }

func (x *AttemptStarted) fault() string {
	switch {
	case x.Attempt < 1:
		return "attempt"
	case x.CapID == "":
		return "cap/id"
	case x.CapVersion == "":
		return "cap/version"
	case !x.Request.Set():
		return "request"
	case !oneOf(x.Recovery, "none", "idempotent", "once"):
		return "recovery"
	case !isHash(x.EffectKey):
		return "effect/key"
	case !isAmount(x.Budget):
		return "budget"
	case !isHashOrNone(x.Binary):
		return "binary"
	case x.Enforcement != "" && x.Enforcement != "port-only":
		return "enforcement"
	case x.Entrant != "" && !oneOf(x.Entrant, "race", "hedge", "tournament"):
		return "entrant"
	}
	return ""
}

func (x *AttemptStarted) fields(b *edn.MapBuilder) {
	p := put{b}
	p.positive("attempt", x.Attempt)
	p.kw("cap/id", x.CapID)
	p.str("cap/version", x.CapVersion)
	p.ref("request", x.Request)
	b.Key("effects", keywordSet(x.Effects))
	p.kw("recovery", x.Recovery)
	p.hash("effect/key", x.EffectKey)
	p.amounts("budget", x.Budget)
	p.hash("binary", x.Binary)
	p.positive("generation", x.Generation)
	p.kw("enforcement", x.Enforcement)
	p.positive("round", x.Round)
	p.kw("entrant", x.Entrant)
	p.positive("waited-ms", int(millis(x.Waited)))
}

func (x *AttemptStarted) refs(yield func(Ref)) { yield(x.Request) }

// The outcomes of an attempt. Unknown means that the plugin may have done the
// work although no answer arrived.
const (
	OutcomeOK       = "ok"
	OutcomeError    = "error"
	OutcomeCanceled = "canceled"
	OutcomeUnknown  = "unknown"
)

// AttemptFinished records the end of an attempt, before its gates.
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

func (x *AttemptFinished) fault() string {
	switch {
	case x.Attempt < 1:
		return "attempt"
	case !oneOf(x.Outcome, OutcomeOK, OutcomeError, OutcomeCanceled, OutcomeUnknown):
		return "outcome"
	case !isMapOrNone(x.Usage):
		return "usage"
	case !isMapOrNone(x.Meta):
		return "meta"
	case x.Result.Set() && !oneOf(x.ResultType, "value", "plan", "stream"):
		return "result/type"
	case x.Outcome != OutcomeOK && x.Err == nil:
		return "error"
	}
	return ""
}

func (x *AttemptFinished) fields(b *edn.MapBuilder) {
	p := put{b}
	p.positive("attempt", x.Attempt)
	p.kw("outcome", x.Outcome)
	b.Key("latency-ms", edn.Int(millis(x.Latency)))
	p.amounts("usage", x.Usage)
	p.ref("result", x.Result)
	p.kw("result/type", x.ResultType)
	p.ref("raw", x.Raw)
	p.val("meta", x.Meta)
	p.err("error", x.Err)
	if x.Err != nil {
		b.Key("source", x.Err.Value().Key("source"))
	}
	p.positive("extended-ms", int(millis(x.Extended)))
}

func (x *AttemptFinished) refs(yield func(Ref)) {
	yield(x.Result)
	yield(x.Raw)
}

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

func (x *GateVerdict) fault() string {
	switch {
	case x.Attempt < 0:
		return "attempt"
	case x.Gate == "":
		return "gate"
	case !oneOf(x.Severity, "must", "should"):
		return "severity"
	case x.Tier < 0 || x.Tier > 3:
		return "tier"
	case x.Score.bad():
		return "score"
	case x.CapID != "" && x.CapVersion == "":
		return "cap/version"
	case !isMapOrNone(x.Usage):
		return "usage"
	case x.JudgeCalls < 0:
		return "judge-calls"
	}
	return ""
}

func (x *GateVerdict) fields(b *edn.MapBuilder) {
	p := put{b}
	b.Key("attempt", edn.Int(int64(x.Attempt)))
	p.kw("gate", x.Gate)
	p.kw("severity", x.Severity)
	b.Key("tier", edn.Int(int64(x.Tier)))
	b.Key("pass", edn.Bool(x.Pass))
	p.val("score", x.Score.Value())
	p.ref("findings", x.Findings)
	if x.NotApplicable {
		b.Key("applicable?", edn.Bool(false))
	}
	if x.CapID != "" {
		p.kw("cap/id", x.CapID)
		p.str("cap/version", x.CapVersion)
		b.Key("latency-ms", edn.Int(millis(x.Latency)))
		p.amounts("usage", x.Usage)
	}
	p.hash("judge/key", x.JudgeKey)
	if len(x.Votes) > 0 {
		b.Key("votes", edn.Vector(x.Votes...))
	}
	if x.Memo {
		b.Key("memo?", edn.Bool(true))
	}
	p.positive("judge-calls", x.JudgeCalls)
	p.err("error", x.Err)
}

func (x *GateVerdict) refs(yield func(Ref)) { yield(x.Findings) }

// NodeCommitted publishes the value of a node. With FailureType the value is a
// kept error.
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

func (x *NodeCommitted) fault() string {
	switch {
	case !x.Value.Set():
		return "value"
	case x.Score.bad():
		return "score"
	}
	return ""
}

func (x *NodeCommitted) fields(b *edn.MapBuilder) {
	p := put{b}
	p.ref("value", x.Value)
	p.kw("as", x.As)
	p.kw("cap/id", x.CapID)
	p.positive("attempt", x.Attempt)
	p.val("score", x.Score.Value())
	p.kw("failure/type", x.FailureType)
	if len(x.Outscored) > 0 {
		attempts := make([]edn.Value, len(x.Outscored))
		for i, n := range x.Outscored {
			attempts[i] = edn.Int(int64(n))
		}
		b.Key("outscored", edn.Vector(attempts...))
	}
}

func (x *NodeCommitted) refs(yield func(Ref)) { yield(x.Value) }

// NodeFailed records a node whose error ends its plan.
type NodeFailed struct {
	Err      *contract.Error
	Attempts int
	Findings Ref
}

// Kind implements Body.
func (*NodeFailed) Kind() Kind { return KindNodeFailed }

func (x *NodeFailed) fault() string {
	if x.Err == nil || x.Err.Type == "" {
		return "error"
	}
	if x.Attempts < 0 {
		return "attempts"
	}
	return ""
}

func (x *NodeFailed) fields(b *edn.MapBuilder) {
	p := put{b}
	e := x.Err.Value()
	p.kw("failure/type", x.Err.Type)
	p.val("class", e.Key("class"))
	p.val("source", e.Key("source"))
	p.val("error", e)
	b.Key("attempts", edn.Int(int64(x.Attempts)))
	p.ref("findings", x.Findings)
}

func (x *NodeFailed) refs(yield func(Ref)) { yield(x.Findings) }
