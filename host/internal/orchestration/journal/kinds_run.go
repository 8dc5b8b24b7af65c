package journal

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ReplayFill is the mode of a replay that makes the calls that are not recorded. A
// strict replay creates no run and needs no mode.
const ReplayFill = "fill"

// RunAccepted is the first record of a run: its caller, request and configuration.
type RunAccepted struct {
	Principal     string
	PrincipalType string
	Roles         []string
	Narrow        edn.Value // limits of the credential, a map; nil: none
	Tenant        string    // of the caller; empty: the host itself
	Operation     string
	Intent        string
	Request       Ref
	Fingerprint   Ref // the client's request without its transport keys; only its hash is stored
	ResponseType  string
	Class         string
	Priority      int
	DeadlineAt    time.Time
	Config        string // hash of the configuration
	Evaluator     int
	Seed          int64
	Budget        edn.Value
	Trace         edn.Value
	Access        []edn.Value
	Key           string // hash of the idempotency key
	RequestID     string
	Dir           string // working directory of the caller, for relative paths
	// SessionID, SessionOwner and SessionCreated identify the session of the run; an id can
	// be used again after its session was deleted.
	SessionID, SessionOwner string
	SessionCreated          time.Time
	SessionVersion          int
	// ReplayOf is the run that this one replays, ReplayMode the mode of the replay; empty:
	// none. ReplayBy is the principal that replays it.
	ReplayOf, ReplayMode, ReplayBy string
}

// Kind implements Body.
func (*RunAccepted) Kind() Kind { return KindRunAccepted }

func (*RunAccepted) describe() description { return runAccepted }

var runAccepted = kindOf(KindRunAccepted, false,
	text("principal", func(x *RunAccepted) *string { return &x.Principal }),
	keyword("principal/type", func(x *RunAccepted) *string { return &x.PrincipalType }),
	keywords("roles", func(x *RunAccepted) *[]string { return &x.Roles }),
	value("narrow", tMap, func(x *RunAccepted) *edn.Value { return &x.Narrow }, isMap).optional("the credential has a part of these rights"),
	text("tenant", func(x *RunAccepted) *string { return &x.Tenant }).optional("the caller has a tenant"),
	keyword("operation", func(x *RunAccepted) *string { return &x.Operation }),
	keyword("intent", func(x *RunAccepted) *string { return &x.Intent }),
	reference("request", func(x *RunAccepted) *Ref { return &x.Request }),
	fingerprint("fingerprint", func(x *RunAccepted) *Ref { return &x.Fingerprint }),
	enum("response/type", func(x *RunAccepted) *string { return &x.ResponseType }, "value", "stream", "accepted"),
	keyword("class", func(x *RunAccepted) *string { return &x.Class }),
	number("priority", func(x *RunAccepted) *int { return &x.Priority }),
	instant("deadline-at", func(x *RunAccepted) *time.Time { return &x.DeadlineAt }),
	hash("config", func(x *RunAccepted) *string { return &x.Config }),
	ordinal("evaluator", func(x *RunAccepted) *int { return &x.Evaluator }),
	field(always("seed", tInt, func(x *RunAccepted) edn.Value { return edn.Int(x.Seed) }, nil),
		func(x *RunAccepted) *int64 { return &x.Seed }, edn.Value.AsInt),
	amounts("budget", func(x *RunAccepted) *edn.Value { return &x.Budget }),
	value("trace", tMap, func(x *RunAccepted) *edn.Value { return &x.Trace }, isMap),
	decisions(func(x *RunAccepted) *[]edn.Value { return &x.Access }),
	hash("key", func(x *RunAccepted) *string { return &x.Key }).optional("an idempotency key was given"),
	text("request/id", func(x *RunAccepted) *string { return &x.RequestID }).optional("given"),
	text("dir", func(x *RunAccepted) *string { return &x.Dir }).optional("a caller on this machine named its working directory"),
	text("session/id", func(x *RunAccepted) *string { return &x.SessionID }).optional("a session was given"),
	text("session/owner", func(x *RunAccepted) *string { return &x.SessionOwner }).optional("a session was given"),
	instant("session/created-at", func(x *RunAccepted) *time.Time { return &x.SessionCreated }).optional("a session was given"),
	ordinal("session/version", func(x *RunAccepted) *int { return &x.SessionVersion }).as(tInt).optional("a session was given"),
	text("replay/of", func(x *RunAccepted) *string { return &x.ReplayOf }).optional("it replays another run"),
	enum("replay/mode", func(x *RunAccepted) *string { return &x.ReplayMode }, ReplayFill).optional("it replays another run"),
	text("replay/by", func(x *RunAccepted) *string { return &x.ReplayBy }).optional("a principal replays another run"),
)

// RunStarted records the host that executes the run.
type RunStarted struct {
	Host   string
	Boot   string // identity of this host process
	Config string
	// Protocol is the hash of the protocol package; empty if there is none.
	Protocol string
}

// Kind implements Body.
func (*RunStarted) Kind() Kind { return KindRunStarted }

func (*RunStarted) describe() description { return runStarted }

var runStarted = kindOf(KindRunStarted, false,
	text("host", func(x *RunStarted) *string { return &x.Host }),
	text("boot", func(x *RunStarted) *string { return &x.Boot }),
	hash("config", func(x *RunStarted) *string { return &x.Config }),
	hash("protocol", func(x *RunStarted) *string { return &x.Protocol }).optional("the host has a protocol package"),
)

// The reasons for which a run was resumed.
const (
	ResumedCrash   = "crash"   // its host ended without a shutdown
	ResumedRestart = "restart" // its host was shut down before it finished
	ResumedLease   = "lease"   // another host lost its lease on the run, for an unknown reason
	// ResumedDecision: it was suspended or had failed, and a caller continued it.
	ResumedDecision = "decision"
	ResumedKey      = "key"   // it had failed, and a request with its idempotency key continued it
	ResumedRetry    = "retry" // it failed, and is retried as a job
)

// The decisions about a call whose outcome is unknown (JRN-044).
const (
	DecisionRetry = "retry"        // call again, with the same effect key
	DecisionDone  = "skip-as-done" // it did its work; the value is given
	DecisionFail  = "fail"         // its node fails
)

// Decision is a decision about the call at a path whose outcome is unknown.
type Decision struct {
	Path   edn.Value
	Choice string
	By     string // principal
}

func (d Decision) value() edn.Value {
	return edn.MustMap(edn.K("path"), d.Path, edn.K("decision"), Keyword(d.Choice), edn.K("by"), edn.Text(d.By))
}

func decisionFrom(v edn.Value) (d Decision, ok bool) {
	var is bool
	d.Path = v.Key("path")
	d.Choice, ok = v.Key("decision").AsKeyword()
	d.By, is = v.Key("by").AsString()
	return d, ok && is && d.Path.IsVector()
}

func (d Decision) good() bool {
	return d.Path.IsVector() && (d.Choice == DecisionRetry || d.Choice == DecisionDone || d.Choice == DecisionFail)
}

// RunResumed starts a new epoch of a run that was started before. A failed run is
// reopened: its failed nodes are executed again (RUN-015, RUN-022).
type RunResumed struct {
	Host   string
	Boot   string // identity of this host process
	Config string
	Was    string // configuration of the epoch before
	Why    string
	// Decisions are the decisions about the open questions of a suspended run. Values maps
	// the paths of calls with DecisionDone to their values.
	Decisions []Decision
	Values    Ref
	// The following fields are set if a failed run is reopened. DeadlineAt is its new
	// deadline, By the principal that continues it. A job is retried at RetryAt; Err is the
	// failure before, for which there is no run/finished.
	DeadlineAt time.Time
	By         string
	RetryAt    time.Time
	Err        *contract.Error
	// TraceParent is the trace context of the request that continues it.
	TraceParent string
}

// Reopens reports whether the resume reopens a failed run: only then does it have a deadline.
func (x *RunResumed) Reopens() bool { return !x.DeadlineAt.IsZero() }

func (x *RunResumed) retries() bool { return x.Why == ResumedRetry }

// Kind implements Body.
func (*RunResumed) Kind() Kind { return KindRunResumed }

func (*RunResumed) describe() description { return runResumed }

var runResumed = kindOf(KindRunResumed, false,
	text("host", func(x *RunResumed) *string { return &x.Host }),
	text("boot", func(x *RunResumed) *string { return &x.Boot }),
	hash("config", func(x *RunResumed) *string { return &x.Config }),
	hash("config/was", func(x *RunResumed) *string { return &x.Was }),
	enum("why", func(x *RunResumed) *string { return &x.Why },
		ResumedCrash, ResumedRestart, ResumedLease, ResumedDecision, ResumedKey, ResumedRetry),
	list("decisions", `[:vector [:map {:closed true} [:path :any] [:decision [:enum :retry :skip-as-done :fail]] [:by :string]]]`,
		func(x *RunResumed) *[]Decision { return &x.Decisions }, Decision.value, decisionFrom, Decision.good).
		only("decisions were taken", func(x *RunResumed) bool { return len(x.Decisions) > 0 }),
	reference("values", func(x *RunResumed) *Ref { return &x.Values }).optional("a node is done by decision"),
	instant("deadline-at", func(x *RunResumed) *time.Time { return &x.DeadlineAt }).optional("the run had failed"),
	text("by", func(x *RunResumed) *string { return &x.By }).optional("a caller continues a run that had failed"),
	instant("retry-at", func(x *RunResumed) *time.Time { return &x.RetryAt }).needed("why is retry", (*RunResumed).retries),
	failure("error", func(x *RunResumed) **contract.Error { return &x.Err }).needed("why is retry", (*RunResumed).retries),
	text("traceparent", func(x *RunResumed) *string { return &x.TraceParent }).optional("its caller has a trace context"),
)

// Question is a call whose outcome is unknown and that must not be repeated
// without a decision.
type Question struct {
	Path      edn.Value
	Node      string
	Attempt   int
	CapID     string
	EffectKey string
}

// Value returns the question as a map.
func (q Question) Value() edn.Value {
	return edn.MustMap(edn.K("path"), q.Path, edn.K("node"), edn.Text(q.Node), edn.K("attempt"), edn.Int(int64(q.Attempt)),
		edn.K("cap/id"), Keyword(q.CapID), edn.K("effect/key"), edn.Text(q.EffectKey))
}

func questionFrom(v edn.Value) (q Question, ok bool) {
	var is [4]bool
	var n int64
	q.Path = v.Key("path")
	q.Node, is[0] = v.Key("node").AsString()
	n, is[1] = v.Key("attempt").AsInt()
	q.CapID, is[2] = v.Key("cap/id").AsKeyword()
	q.EffectKey, is[3] = v.Key("effect/key").AsString()
	q.Attempt = int(n)
	return q, q.Path.IsVector() && is == [4]bool{true, true, true, true}
}

func (q Question) good() bool {
	return q.Path.IsVector() && q.Attempt > 0 && q.CapID != "" && isHash(q.EffectKey)
}

// RunSuspended ends an epoch of a run that continues only after a decision about each
// open question. Why is an error type. Err is set if Why is WhyNotReady: what is left of
// the run does not fit the configuration of the host that resumed it.
type RunSuspended struct {
	Why  string
	Open []Question
	Err  *contract.Error
}

// WhyNotReady is the Why of a run that is suspended because the configuration lacks
// something that its remaining nodes need.
const WhyNotReady = "runtime/not-ready"

// Kind implements Body.
func (*RunSuspended) Kind() Kind { return KindRunSuspended }

func (*RunSuspended) describe() description { return runSuspended }

var runSuspended = kindOf(KindRunSuspended, false,
	keyword("why", func(x *RunSuspended) *string { return &x.Why }),
	list("open", `[:vector [:map {:closed true} [:path :any] [:node :string] [:attempt :int] [:cap/id :keyword] [:effect/key :string]]]`,
		func(x *RunSuspended) *[]Question { return &x.Open }, Question.Value, questionFrom, Question.good),
	failure("error", func(x *RunSuspended) **contract.Error { return &x.Err }).
		needed("why is runtime/not-ready", func(x *RunSuspended) bool { return x.Why == WhyNotReady }),
)

// CancelRequested records a request to cancel the run.
type CancelRequested struct {
	By  string
	Why string
}

// Kind implements Body.
func (*CancelRequested) Kind() Kind { return KindCancelRequested }

func (*CancelRequested) describe() description { return cancelRequested }

var cancelRequested = kindOf(KindCancelRequested, false,
	text("by", func(x *CancelRequested) *string { return &x.By }),
	text("why", func(x *CancelRequested) *string { return &x.Why }).optional("given"),
)

// The final states of a run.
const (
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCanceled  = "canceled"
	StatusExpired   = "expired"
)

// The ways in which a run used the cache of answers (RUN-032).
const (
	CacheHit    = "hit"    // its answer is that of another run
	CacheMiss   = "miss"   // no answer was cached; that of the run may be stored
	CacheBypass = "bypass" // the cache was not used
)

// RunFinished ends a run. Executed reports whether any attempt was dispatched.
type RunFinished struct {
	Status   string
	Response Ref
	Executed bool
	Latency  time.Duration
	Totals   edn.Value // {:operations {..} :attempts {..}}
	Err      *contract.Error
	// Cache is one of the Cache constants; empty: the intent of the run is not cacheable. CacheRun
	// is the run that gave the answer of a hit.
	Cache, CacheRun string
	// SessionID is the session to which the run adds SessionTurns, a vector of maps with
	// :role and :text; empty: none. A store that keeps sessions adds them in the transaction
	// of the record (SES-031). SessionOwner and SessionCreated distinguish the session from
	// others with the same id; older records lack them.
	SessionID, SessionOwner string
	SessionCreated          time.Time
	SessionTurns            Ref
}

// Kind implements Body.
func (*RunFinished) Kind() Kind { return KindRunFinished }

func isTotals(v edn.Value) bool {
	parts := 2
	if v.Key("cost-usd").IsNumber() {
		parts++
	}
	return isMap(v) && v.Len() == parts && isMap(v.Key("operations")) && isMap(v.Key("attempts"))
}

func (*RunFinished) describe() description { return runFinished }

var runFinished = kindOf(KindRunFinished, false,
	enum("status", func(x *RunFinished) *string { return &x.Status }, StatusCompleted, StatusFailed, StatusCanceled, StatusExpired),
	reference("response", func(x *RunFinished) *Ref { return &x.Response }),
	flag("executed?", func(x *RunFinished) *bool { return &x.Executed }),
	duration("latency-ms", func(x *RunFinished) *time.Duration { return &x.Latency }),
	value("totals", `[:map {:closed true} [:operations :map] [:attempts :map] [:cost-usd {:optional true} :decimal]]`, func(x *RunFinished) *edn.Value { return &x.Totals }, isTotals),
	failure("error", func(x *RunFinished) **contract.Error { return &x.Err }).
		required("not completed", func(x *RunFinished) bool { return x.Status != StatusCompleted }),
	enum("cache", func(x *RunFinished) *string { return &x.Cache }, CacheHit, CacheMiss, CacheBypass).optional("the intent is cacheable"),
	text("cache/run", func(x *RunFinished) *string { return &x.CacheRun }).optional("the answer is that of another run, from the cache"),
	text("session/id", func(x *RunFinished) *string { return &x.SessionID }).optional("turns are added to a session"),
	text("session/owner", func(x *RunFinished) *string { return &x.SessionOwner }).optional("turns are added to a session"),
	instant("session/created-at", func(x *RunFinished) *time.Time { return &x.SessionCreated }).optional("turns are added to a session"),
	reference("session/turns", func(x *RunFinished) *Ref { return &x.SessionTurns }).optional("turns are added to a session"),
)

// EnvRead records a clock or random value that a decision of the run depends
// on.
type EnvRead struct {
	What    string // "clock" or "random"
	Ordinal int
	Value   edn.Value
}

// Kind implements Body.
func (*EnvRead) Kind() Kind { return KindEnvRead }

func isReading(v edn.Value) bool { return v.Kind() == edn.KindInt || v.Kind() == edn.KindInst }

func (*EnvRead) describe() description { return envRead }

var envRead = kindOf(KindEnvRead, true,
	enum("what", func(x *EnvRead) *string { return &x.What }, "clock", "random"),
	count("ordinal", func(x *EnvRead) *int { return &x.Ordinal }),
	value("value", `[:or :inst :int]`, func(x *EnvRead) *edn.Value { return &x.Value }, isReading),
)
