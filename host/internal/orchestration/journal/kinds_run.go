package journal

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RunAccepted starts a run: caller, request and configuration.
type RunAccepted struct {
	Principal      string
	PrincipalType  string
	Roles          []string
	Operation      string
	Intent         string
	Request        Ref
	Fingerprint    Ref // the client's request without its transport keys; only its hash is kept
	ResponseType   string
	Class          string
	Priority       int
	DeadlineAt     time.Time
	Config         string // hash of the configuration
	Evaluator      int
	Seed           int64
	Budget         edn.Value
	Trace          edn.Value
	Access         []edn.Value
	Key            string // hash of the idempotency key
	RequestID      string
	SessionID      string
	SessionVersion int
}

// Kind implements Body.
func (*RunAccepted) Kind() Kind { return KindRunAccepted }

func (x *RunAccepted) fault() string {
	switch {
	case x.Principal == "":
		return "principal"
	case x.PrincipalType == "":
		return "principal/type"
	case x.Operation == "":
		return "operation"
	case x.Intent == "":
		return "intent"
	case !x.Request.Set():
		return "request"
	case !x.Fingerprint.Set():
		return "fingerprint"
	case !oneOf(x.ResponseType, "value", "stream", "accepted"):
		return "response/type"
	case x.Class == "":
		return "class"
	case x.DeadlineAt.IsZero():
		return "deadline-at"
	case !isHash(x.Config):
		return "config"
	case x.Evaluator < 1:
		return "evaluator"
	case !isAmount(x.Budget):
		return "budget"
	case !isMap(x.Trace):
		return "trace"
	case !isHashOrNone(x.Key):
		return "key"
	}
	return ""
}

func (x *RunAccepted) fields(b *edn.MapBuilder) {
	p := put{b}
	p.str("principal", x.Principal)
	p.kw("principal/type", x.PrincipalType)
	b.Key("roles", keywordSet(x.Roles))
	p.kw("operation", x.Operation)
	p.kw("intent", x.Intent)
	p.ref("request", x.Request)
	p.ref("fingerprint", x.Fingerprint)
	p.kw("response/type", x.ResponseType)
	p.kw("class", x.Class)
	b.Key("priority", edn.Int(int64(x.Priority)))
	b.Key("deadline-at", edn.Inst(x.DeadlineAt))
	p.hash("config", x.Config)
	b.Key("evaluator", edn.Int(int64(x.Evaluator)))
	b.Key("seed", edn.Int(x.Seed))
	p.amounts("budget", x.Budget)
	p.val("trace", x.Trace)
	b.Key("access", edn.Vector(x.Access...))
	p.hash("key", x.Key)
	p.str("request/id", x.RequestID)
	p.str("session/id", x.SessionID)
	p.positive("session/version", x.SessionVersion)
}

func (x *RunAccepted) refs(yield func(Ref)) { yield(x.Request) }

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

func (x *RunStarted) fault() string {
	switch {
	case x.Host == "":
		return "host"
	case x.Boot == "":
		return "boot"
	case !isHash(x.Config):
		return "config"
	case x.Protocol != "" && !isHash(x.Protocol):
		return "protocol"
	}
	return ""
}

func (x *RunStarted) fields(b *edn.MapBuilder) {
	p := put{b}
	p.str("host", x.Host)
	p.str("boot", x.Boot)
	p.hash("config", x.Config)
	if x.Protocol != "" {
		p.hash("protocol", x.Protocol)
	}
}

func (x *RunStarted) refs(func(Ref)) {}

// CancelRequested records a request to cancel the run.
type CancelRequested struct {
	By  string
	Why string
}

// Kind implements Body.
func (*CancelRequested) Kind() Kind { return KindCancelRequested }

func (x *CancelRequested) fault() string {
	if x.By == "" {
		return "by"
	}
	return ""
}

func (x *CancelRequested) fields(b *edn.MapBuilder) {
	p := put{b}
	p.str("by", x.By)
	p.str("why", x.Why)
}

func (x *CancelRequested) refs(func(Ref)) {}

// The final states of a run.
const (
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCanceled  = "canceled"
	StatusExpired   = "expired"
)

// RunFinished ends a run. Executed reports whether any attempt was dispatched.
type RunFinished struct {
	Status   string
	Response Ref
	Executed bool
	Latency  time.Duration
	Totals   edn.Value // {:operations {..} :attempts {..}}
	Err      *contract.Error
}

// Kind implements Body.
func (*RunFinished) Kind() Kind { return KindRunFinished }

func (x *RunFinished) fault() string {
	switch {
	case !oneOf(x.Status, StatusCompleted, StatusFailed, StatusCanceled, StatusExpired):
		return "status"
	case !x.Response.Set():
		return "response"
	case !isMap(x.Totals) || x.Totals.Len() != 2 || !isMap(x.Totals.Key("operations")) ||
		!isMap(x.Totals.Key("attempts")):
		return "totals"
	case x.Err == nil && x.Status != StatusCompleted:
		return "error"
	}
	return ""
}

func (x *RunFinished) fields(b *edn.MapBuilder) {
	p := put{b}
	p.kw("status", x.Status)
	p.ref("response", x.Response)
	b.Key("executed?", edn.Bool(x.Executed))
	b.Key("latency-ms", edn.Int(millis(x.Latency)))
	p.val("totals", x.Totals)
	p.err("error", x.Err)
}

func (x *RunFinished) refs(yield func(Ref)) { yield(x.Response) }

// EnvRead records a clock or random value that a decision of the run depends
// on.
type EnvRead struct {
	What    string // "clock" or "random"
	Ordinal int
	Value   edn.Value
}

// Kind implements Body.
func (*EnvRead) Kind() Kind { return KindEnvRead }

func (x *EnvRead) fault() string {
	switch {
	case !oneOf(x.What, "clock", "random"):
		return "what"
	case x.Ordinal < 0:
		return "ordinal"
	case x.Value.Kind() != edn.KindInt && x.Value.Kind() != edn.KindInst:
		return "value"
	}
	return ""
}

func (x *EnvRead) fields(b *edn.MapBuilder) {
	p := put{b}
	p.kw("what", x.What)
	b.Key("ordinal", edn.Int(int64(x.Ordinal)))
	p.val("value", x.Value)
}

func (x *EnvRead) refs(func(Ref)) {}
