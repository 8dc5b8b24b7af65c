package journal

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HostEvent records a change of a candidate outside of attempts: its breaker
// opened, its quality fell below the floor. It is in the event stream of the
// host, and in the run that caused it.
type HostEvent struct {
	Event   string
	Details edn.Value // a map
	CapID   string
	Intent  string
}

// Kind implements Body.
func (*HostEvent) Kind() Kind { return KindHostEvent }

func (*HostEvent) describe() description { return hostEvent }

var hostEvent = kindOf(KindHostEvent, false,
	keyword("event", func(x *HostEvent) *string { return &x.Event }),
	value("details", tMap, func(x *HostEvent) *edn.Value { return &x.Details }, isMap),
	keyword("cap/id", func(x *HostEvent) *string { return &x.CapID }).optional("it concerns one"),
	keyword("intent", func(x *HostEvent) *string { return &x.Intent }).optional("it concerns one"),
)

// PluginTransition records a change of the state of a process of a plugin. It is in the
// event stream of the host.
type PluginTransition struct {
	Plugin string
	// Generation is the incarnation number of the process, counted over all editions and
	// instances of the plugin.
	Generation int
	Instance   int
	From, To   string
	Cause      string
	PID        int // 0 if the plugin has no process
	Calls      int // calls that were in progress when the process ended
	Err        *contract.Error
}

// Kind implements Body.
func (*PluginTransition) Kind() Kind { return KindPluginTransition }

func (*PluginTransition) describe() description { return pluginTransition }

var pluginTransition = kindOf(KindPluginTransition, false,
	text("plugin", func(x *PluginTransition) *string { return &x.Plugin }),
	count("generation", func(x *PluginTransition) *int { return &x.Generation }),
	count("instance", func(x *PluginTransition) *int { return &x.Instance }),
	keyword("from", func(x *PluginTransition) *string { return &x.From }),
	keyword("to", func(x *PluginTransition) *string { return &x.To }),
	keyword("cause", func(x *PluginTransition) *string { return &x.Cause }),
	ordinal("pid", func(x *PluginTransition) *int { return &x.PID }).optional("there is a process"),
	ordinal("calls", func(x *PluginTransition) *int { return &x.Calls }).optional("the end of the process has cut calls"),
	failure("error", func(x *PluginTransition) **contract.Error { return &x.Err }).optional("failed"),
)

// ActRejected records an act that was rejected before it became a run. It is in the
// event stream of the host.
type ActRejected struct {
	Operation string
	Trace     edn.Value // a map
	Err       *contract.Error
	Latency   time.Duration
	Principal string
	Address   string
	// PrincipalType and Roles are those of the caller; empty if it was not identified.
	PrincipalType string
	Roles         []string
	Intent        string // empty: the request was not read, or names none
	Status        string // ActWasRejected; empty in records of earlier versions
}

// ActWasRejected is the status of an ActRejected.
const ActWasRejected = "rejected"

// Kind implements Body.
func (*ActRejected) Kind() Kind { return KindActRejected }

func (*ActRejected) describe() description { return actRejected }

var actRejected = kindOf(KindActRejected, false,
	keyword("operation", func(x *ActRejected) *string { return &x.Operation }),
	value("trace", tMap, func(x *ActRejected) *edn.Value { return &x.Trace }, isMap),
	failure("error", func(x *ActRejected) **contract.Error { return &x.Err }).
		unless(func(x *ActRejected) bool { return x.Err == nil || x.Err.Type == "" }),
	duration("latency-ms", func(x *ActRejected) *time.Duration { return &x.Latency }),
	text("principal", func(x *ActRejected) *string { return &x.Principal }).optional("the caller is known"),
	text("address", func(x *ActRejected) *string { return &x.Address }).optional("it came over the network"),
	keyword("principal/type", func(x *ActRejected) *string { return &x.PrincipalType }).optional("the caller is known"),
	keywords("roles", func(x *ActRejected) *[]string { return &x.Roles }).
		only("the caller is known and has roles", func(x *ActRejected) bool { return len(x.Roles) > 0 }),
	keyword("intent", func(x *ActRejected) *string { return &x.Intent }).optional("the request was read and names one"),
	keyword("status", func(x *ActRejected) *string { return &x.Status }).optional("not written by earlier versions"),
)

// Outcomes of an ActFinished.
const (
	ActOK    = "ok"
	ActError = "error"
)

// ActFinished is the row of a finished run in the audit trail (TEL-002). Create it with
// ActOf.
type ActFinished struct {
	Run           string
	Operation     string
	Trace         edn.Value // a map
	RequestID     string
	SessionID     string
	Principal     string
	PrincipalType string
	Roles         []string
	Intent        string
	CapID         string
	Outcome       string
	Status        string
	ErrorType     string
	Latency       time.Duration
	Executed      bool
	Message       string
	// ReplayOf is the run that this one replays, ReplayBy the principal that replays it;
	// empty: none.
	ReplayOf, ReplayBy string
}

// Kind implements Body.
func (*ActFinished) Kind() Kind { return KindActFinished }

func (*ActFinished) describe() description { return actFinished }

var actFinished = kindOf(KindActFinished, false,
	text("act/run", func(x *ActFinished) *string { return &x.Run }),
	keyword("operation", func(x *ActFinished) *string { return &x.Operation }),
	value("trace", tMap, func(x *ActFinished) *edn.Value { return &x.Trace }, isMap),
	text("request/id", func(x *ActFinished) *string { return &x.RequestID }).optional("given"),
	text("session/id", func(x *ActFinished) *string { return &x.SessionID }).optional("session"),
	text("principal", func(x *ActFinished) *string { return &x.Principal }),
	keyword("principal/type", func(x *ActFinished) *string { return &x.PrincipalType }),
	keywords("roles", func(x *ActFinished) *[]string { return &x.Roles }),
	keyword("intent", func(x *ActFinished) *string { return &x.Intent }),
	keyword("cap/id", func(x *ActFinished) *string { return &x.CapID }).optional("a capability has answered"),
	enum("outcome", func(x *ActFinished) *string { return &x.Outcome }, ActOK, ActError),
	keyword("status", func(x *ActFinished) *string { return &x.Status }),
	keyword("error/type", func(x *ActFinished) *string { return &x.ErrorType }).optional("an error"),
	duration("latency-ms", func(x *ActFinished) *time.Duration { return &x.Latency }),
	flag("executed?", func(x *ActFinished) *bool { return &x.Executed }),
	text("message", func(x *ActFinished) *string { return &x.Message }).optional("an error"),
	text("replay/of", func(x *ActFinished) *string { return &x.ReplayOf }).optional("it replays another run"),
	text("replay/by", func(x *ActFinished) *string { return &x.ReplayBy }).optional("a principal replays another run"),
)

// ActOf returns the row of the audit trail for a finished run. records must start with
// run/accepted and end with run/finished; else the result is nil. Secrets in the error
// message are hidden.
func ActOf(records []Record) *ActFinished {
	if len(records) == 0 {
		return nil
	}
	accepted, begun := records[0].Body.(*RunAccepted)
	finished, ended := records[len(records)-1].Body.(*RunFinished)
	if !begun || !ended {
		return nil
	}
	a := &ActFinished{
		Run: records[0].Run, Operation: accepted.Operation, Trace: orEmpty(accepted.Trace), RequestID: accepted.RequestID,
		SessionID: accepted.SessionID, Principal: accepted.Principal, PrincipalType: accepted.PrincipalType,
		Roles: slices.Clone(accepted.Roles), Intent: accepted.Intent, Outcome: ActOK, Status: finished.Status,
		Latency: finished.Latency, Executed: finished.Executed, ReplayOf: accepted.ReplayOf, ReplayBy: accepted.ReplayBy,
	}
	if finished.Err != nil {
		a.Outcome, a.ErrorType, a.Message = ActError, finished.Err.Type, HideText(finished.Err.Message)
	}
	for _, rec := range slices.Backward(records) {
		if node, ok := rec.Body.(*NodeCommitted); ok && node.CapID != "" {
			a.CapID = node.CapID
			break
		}
	}
	return a
}

// Levels of an AuthEvent.
const (
	LevelInfo = "info"
	LevelWarn = "warn"
)

// AuthEvent records a login, a request that was denied, or one that was permitted to reach objects
// of other callers.
type AuthEvent struct {
	Event     string
	User      string
	Address   string // in IPv6 form
	Operation string
	Success   bool
	Level     string
	Message   string
	Rule      edn.Value // the decision of a rule, a map; nil: none has decided
	Reason    string    // error type
	Run       string    // that the request names
	SessionID string    // that the request names
}

// Kind implements Body.
func (*AuthEvent) Kind() Kind { return KindAuthEvent }

func (*AuthEvent) describe() description { return authEvent }

var authEvent = kindOf(KindAuthEvent, false,
	keyword("event", func(x *AuthEvent) *string { return &x.Event }),
	text("user", func(x *AuthEvent) *string { return &x.User }).
		optional("the caller is known or named one; the hash of an unknown login"),
	text("address", func(x *AuthEvent) *string { return &x.Address }).optional("it came over the network"),
	keyword("operation", func(x *AuthEvent) *string { return &x.Operation }),
	flag("success?", func(x *AuthEvent) *bool { return &x.Success }),
	enum("level", func(x *AuthEvent) *string { return &x.Level }, LevelInfo, LevelWarn),
	text("message", func(x *AuthEvent) *string { return &x.Message }),
	value("rule", tMap, func(x *AuthEvent) *edn.Value { return &x.Rule }, isMap).optional("a rule decided"),
	keyword("reason", func(x *AuthEvent) *string { return &x.Reason }).optional("it was refused"),
	text("act/run", func(x *AuthEvent) *string { return &x.Run }).optional("it reaches a run of another caller"),
	text("session/id", func(x *AuthEvent) *string { return &x.SessionID }).optional("it reaches a session of another caller"),
)

// SessionAction records an action on a session.
type SessionAction struct {
	Action    string
	Principal string
	SessionID string
	Keys      []string // names of variables, never values
	OK        bool
	Err       *contract.Error
	// TraceParent is the trace context of the caller.
	TraceParent string
	Access      []edn.Value // decisions about operations, with rule and reason
}

// Kind implements Body.
func (*SessionAction) Kind() Kind { return KindSessionAction }

func (*SessionAction) describe() description { return sessionAction }

var sessionAction = kindOf(KindSessionAction, false,
	keyword("action", func(x *SessionAction) *string { return &x.Action }),
	text("principal", func(x *SessionAction) *string { return &x.Principal }),
	text("session/id", func(x *SessionAction) *string { return &x.SessionID }).optional("it names one"),
	names("keys", func(x *SessionAction) *[]string { return &x.Keys }),
	flag("ok?", func(x *SessionAction) *bool { return &x.OK }),
	failure("error", func(x *SessionAction) **contract.Error { return &x.Err }).optional("failed"),
	text("traceparent", func(x *SessionAction) *string { return &x.TraceParent }).optional("its caller has a trace context"),
	access(func(x *SessionAction) *[]edn.Value { return &x.Access }),
)

// AdminAction records an action of an operator.
type AdminAction struct {
	Action    string
	Principal string
	Address   string
	Input     edn.Value // a map, secrets replaced
	OK        bool
	Err       *contract.Error
	// Replayed is set if the answer was that to an earlier request with the same idempotency
	// key.
	Replayed bool
	// TraceParent is the trace context of the caller.
	TraceParent string
	Access      []edn.Value // decisions about operations, with rule and reason
}

// Kind implements Body.
func (*AdminAction) Kind() Kind { return KindAdminAction }

func (*AdminAction) describe() description { return adminAction }

var adminAction = kindOf(KindAdminAction, false,
	keyword("action", func(x *AdminAction) *string { return &x.Action }),
	text("principal", func(x *AdminAction) *string { return &x.Principal }),
	text("address", func(x *AdminAction) *string { return &x.Address }).optional("it came over the network"),
	mapping("input", func(x *AdminAction) *edn.Value { return &x.Input }),
	flag("ok?", func(x *AdminAction) *bool { return &x.OK }),
	failure("error", func(x *AdminAction) **contract.Error { return &x.Err }).optional("failed"),
	mark("replayed?", "the answer was that to an earlier request with its idempotency key", true, func(x *AdminAction) *bool { return &x.Replayed }),
	text("traceparent", func(x *AdminAction) *string { return &x.TraceParent }).optional("its caller has a trace context"),
	access(func(x *AdminAction) *[]edn.Value { return &x.Access }),
)

// ConfigReloaded records that another configuration is in force.
type ConfigReloaded struct {
	Old, New string // hashes
	Actions  []edn.Value
}

// Kind implements Body.
func (*ConfigReloaded) Kind() Kind { return KindConfigReloaded }

func (*ConfigReloaded) describe() description { return configReloaded }

var configReloaded = kindOf(KindConfigReloaded, false,
	hash("old", func(x *ConfigReloaded) *string { return &x.Old }),
	hash("new", func(x *ConfigReloaded) *string { return &x.New }),
	list("actions", tMaps, func(x *ConfigReloaded) *[]edn.Value { return &x.Actions }, same, anything, isMap),
)

// access makes the column for the decisions by which an action was permitted or denied (AUTH-013).
// Records of earlier versions have none.
func access[T any](at func(x *T) *[]edn.Value) column[T] {
	return decisions(at).only("an operation was decided", func(x *T) bool { return len(*at(x)) > 0 })
}

// names makes a column for a set of strings.
func names[T any](key string, at func(x *T) *[]string) column[T] {
	c := always(key, `[:set :string]`, func(x *T) edn.Value {
		all := make([]edn.Value, len(*at(x)))
		for i, name := range *at(x) {
			all[i] = edn.Text(name)
		}
		return edn.SetOf(all...)
	}, nil)
	return field(c, at, func(v edn.Value) ([]string, bool) { return elements(v, edn.KindSet, edn.Value.AsString) })
}
