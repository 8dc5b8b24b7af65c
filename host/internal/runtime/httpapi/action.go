package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Control executes admin actions. Its methods are safe for concurrent use.
type Control interface {
	// Plugins returns every plugin with its processes, Inspect one of them. The error for an
	// unknown plugin, here and below, is not-found.
	Plugins() edn.Value
	Inspect(name string) (edn.Value, *contract.Error)
	// Explain returns the candidates for an intent with reasons. capability, if not empty, is
	// pinned.
	Explain(intent, capability string, streamed bool) (edn.Value, *contract.Error)
	// Protocol returns the protocol package that new acts use.
	Protocol() edn.Value
	// Logs returns the last lines of a plugin's log, oldest first.
	Logs(name string, lines int) (edn.Value, *contract.Error)
	// FollowLog returns a function that reads the last lines of a plugin's log and then new lines
	// as they are written.
	FollowLog(name string, lines int) (FollowingLog, *contract.Error)
	// ResetBreaker closes the breakers of a capability for one intent, or for all if intent is
	// empty, and returns them.
	ResetBreaker(capability, intent string) (edn.Value, *contract.Error)
	// Events returns the events of plugins and candidates after a cursor of the host stream. If
	// there are none, it waits for one until ctx ends.
	Events(ctx context.Context, after string) (edn.Value, *contract.Error)
	// Trail returns a page of the audit trail. If it has no rows, it waits for one until ctx ends.
	Trail(ctx context.Context, q TrailQuery) (Trail, *contract.Error)
	// Restart, DrainPlugin, Release, Quarantine and Swap start an operation and return; Plugins
	// shows its outcome.
	Restart(name string) *contract.Error
	DrainPlugin(name string) *contract.Error
	Release(name string) *contract.Error
	Quarantine(name, reason string) *contract.Error
	// The cursor of Swap is a position in the host stream; the outcome is recorded after it.
	Swap(name string) (cursor string, err *contract.Error)
	// Approve writes the lock file entry of a plugin from the current description of its program,
	// and reloads.
	Approve(ctx context.Context, name string) (edn.Value, *contract.Error)
	// Attach replaces the process of a plugin by one that was started elsewhere and whose attach
	// record is file. An empty file restores the plugin's own process.
	Attach(ctx context.Context, name, file string) (edn.Value, *contract.Error)
	// Reload applies the configuration files, all or nothing; with dryRun it only returns what it
	// would do.
	Reload(ctx context.Context, dryRun bool) (edn.Value, *contract.Error)
	// Diff compares the files with the configuration in force and returns what a reload would do,
	// including reasons to reject it.
	Diff(ctx context.Context) (edn.Value, *contract.Error)
	// Show returns the configuration in force, or the part of it at a path.
	Show(ShowQuery) (edn.Value, *contract.Error)
	// Budgets returns the balances of the host and of its callers; a non-empty
	// user selects one caller.
	Budgets(ctx context.Context, user string) (edn.Value, *contract.Error)
	// AdjustBudget changes a budget and returns its balance.
	AdjustBudget(context.Context, BudgetChange) (edn.Value, *contract.Error)
	// Judges returns every judge with its calibration.
	Judges() edn.Value
	// Calibrate has a judge grade labelled answers and stores the calibration.
	// It blocks until that is done; ctx cancels it.
	Calibrate(ctx context.Context, c Calibration) (edn.Value, *contract.Error)
	// Runs returns the recorded runs; never nil.
	Runs() Runs
	// ExportedPlugins returns the lines that describe plugins in an export file, as :text, and the
	// names of plugins without a description, as :unknown. It returns the EDN nil if the caller may
	// not see them.
	ExportedPlugins() edn.Value
	// Database returns the maintenance of the database of the journal; never nil.
	Database() Database
	// SetLogLevel changes the level of a module of the log and returns the levels. With an empty
	// module it changes the level of all modules without a level of their own; if both arguments
	// are empty, it changes nothing.
	SetLogLevel(module, level string) (edn.Value, *contract.Error)
	// Status returns an overview of the daemon.
	Status() edn.Value
	// Drain starts the shutdown of the daemon and returns at once.
	Drain()
	// Answers returns the store of responses to actions with an idempotency key; never nil.
	Answers() Answers
	// Audit records an executed action and its principal.
	Audit(AuditEntry)
	// Auditable returns journal/full if the record of an action cannot be written; the action must
	// then not be executed. Otherwise it returns nil.
	Auditable() *contract.Error
}

// ShowQuery selects a part of the configuration by path, and whether to
// include defaults, the origin of each value, and the HCL text.
type ShowQuery struct {
	Only                    string
	Defaults, Origins, Text bool
}

// BudgetChange changes a budget until its window ends. Grant and Charge are maps from dimension to
// number; nil: no change.
type BudgetChange struct {
	User   string // empty: the budget of a tenant
	Tenant string // empty: the tenant of the host
	Grant  edn.Value
	Charge edn.Value
}

// Calibration selects how a judge is measured.
type Calibration struct {
	Judge string
	// File has the labelled answers; empty: the file in the block of the judge.
	File string
	// Reset makes this measurement the baseline of later ones.
	Reset bool
	// Parallel is the maximum number of concurrent verdicts, Deadline the time limit of each; 0:
	// the defaults.
	Parallel int
	Deadline time.Duration
}

// AuditEntry describes an action that was executed or rejected, for the audit trail (HTTP-008).
type AuditEntry struct {
	Action             string // name with namespace
	Principal, Address string
	Input              edn.Value
	Err                *contract.Error
	// Replayed marks the answer to an earlier request with the same idempotency key.
	Replayed bool
	// TraceParent is the trace context of the caller; empty: none.
	TraceParent string
	// Access has the decisions about the operations of the request, in the form of
	// policy.Decision.Value.
	Access []edn.Value
}

// Action is one admin action or session action.
type Action struct {
	Name string // without the namespace of its table
	Doc  string
	// Input lists the action's own keys as entries of a closed map schema, in
	// EDN.
	Input string
	// Also is another operation that permits the action to callers that may not execute the action
	// itself; empty: none. Such callers see only their own runs, unless they may see all runs.
	Also string
	// Grants marks actions that create rights or credentials. They are denied to a credential with
	// only a part of the rights of its user, because it could create one with more rights
	// (AUTH-003).
	Grants bool
	// Secret is a key of the result that is only in the first response: a repeated request with the
	// same idempotency key gets the result without it.
	Secret string
	// Made is a key of the result that is also written to the audit trail: the id of the object
	// that the action created or deleted, which the input may not name; empty: none.
	Made string
	// made, if set, adds what the action made to the input instead of Made.
	made func(logged, result edn.Value) edn.Value
	// Reads marks actions that change nothing. A repeated request with the same idempotency key is
	// executed again, and its answer, which may contain content of runs, is not stored.
	Reads bool
	// Frees marks actions that an operator needs when the disk is full: they are executed although
	// their audit record must wait for space.
	Frees bool
	// Content has the paths of keys of the input whose values are content of runs. The audit trail
	// has only hashes of them, and no error texts, which may quote them.
	Content [][]string
	// inJSON converts the result to a form that JSON can represent; nil: no conversion.
	inJSON func(result edn.Value) edn.Value
	// quiet reports whether a successful call is not recorded in the audit trail; nil: every call
	// is recorded.
	quiet func(in, result edn.Value) bool
	// Later marks actions that continue after the response, which then is 202.
	Later bool
	do    func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error)
	// onSession replaces do in a session action.
	onSession func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error)
	// onIdentity replaces do in an action on users and tokens.
	onIdentity func(ctx context.Context, c identityCall) (edn.Value, *contract.Error)

	space  string // namespace: "admin" or "session"
	schema *schema.Schema
}

// Operation returns the name of the action in access rules, with its namespace.
func (a *Action) Operation() string {
	if strings.Contains(a.Name, "/") {
		return a.Name
	}
	return a.space + "/" + a.Name
}

const pluginEntry = `[:plugin {:doc "name of the plugin block"} [:string {:min 1 :max 64}]]`

// amountEntry is an amount in budget dimensions; money may be an integer.
const amountEntry = `[:map {:closed true} [:usd {:optional true} [:or :decimal [:int {:min 0}]]] [:tokens-in {:optional true} [:int {:min 0}]] [:tokens-out {:optional true} [:int {:min 0}]]
	[:roundtrips {:optional true} [:int {:min 0}]] [:attempts {:optional true} [:int {:min 0}]] [:judge-calls {:optional true} [:int {:min 0}]]]`

// Actions returns all admin actions. The command line has one command for each.
func Actions() []Action {
	onPlugin := func(
		f func(Control, string) *contract.Error,
	) func(context.Context, Control, edn.Value) (edn.Value, *contract.Error) {
		return func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
			name := text(in, "plugin")
			if err := f(c, name); err != nil {
				return edn.Nil(), err
			}
			return edn.MustMap(edn.K("plugin"), edn.Text(name)), nil
		}
	}
	return append([]Action{
		{Name: "status", Reads: true, Doc: "an overview of the daemon", Also: policy.ReadDiag,
			do: func(_ context.Context, c Control, _ edn.Value) (edn.Value, *contract.Error) {
				return c.Status(), nil
			}},
		{Name: "plugin-list", Reads: true, Doc: "every plugin with its processes",
			do: func(_ context.Context, c Control, _ edn.Value) (edn.Value, *contract.Error) {
				return c.Plugins(), nil
			}},
		{Name: "plugin-inspect", Reads: true, Doc: "one plugin: program, processes, capabilities", Input: pluginEntry,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Inspect(text(in, "plugin"))
			}},
		{Name: "explain", Reads: true, Doc: "the candidates for an intent in order, with their figures, and the rejected ones with reasons",
			Input: `[:intent :keyword] [:capability {:optional true :doc "as if the request pinned it"} :keyword] [:stream {:optional true :doc "as if the answer were streamed"} :boolean]`,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				intent, _ := in.Key("intent").AsKeyword()
				capability, _ := in.Key("capability").AsKeyword()
				return c.Explain(intent, capability, in.Key("stream").Truthy())
			}},
		{Name: "protocol-export", Reads: true,
			Doc: "the protocol package: intents, schemas, prompts, policies, routing and errors, with its hash",
			do: func(_ context.Context, c Control, _ edn.Value) (edn.Value, *contract.Error) {
				return c.Protocol(), nil
			}},
		{Name: "plugin-logs", Reads: true, Doc: "the last lines of a plugin's log", Input: pluginEntry +
			` [:lines {:optional true :default 100} [:int {:min 1 :max 1000}]]`,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Logs(text(in, "plugin"), int(intOr(in, "lines", defaultLines)))
			}},
		{Name: "breaker-reset", Doc: "close the breakers of a capability and forget the failures that they count",
			Input: `[:capability :keyword] [:intent {:optional true :doc "default: each that it serves"} :keyword]`,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				capability, _ := in.Key("capability").AsKeyword()
				intent, _ := in.Key("intent").AsKeyword()
				return c.ResetBreaker(capability, intent)
			}},
		{Name: "plugin-restart", Doc: "stop the processes of a plugin gracefully and start new ones; ends a quarantine",
			Input: pluginEntry, Later: true, do: onPlugin(Control.Restart)},
		{Name: "plugin-drain", Doc: "stop the processes of a plugin gracefully and start none", Input: pluginEntry,
			Later: true, do: onPlugin(Control.DrainPlugin)},
		{Name: "plugin-release", Doc: "start a plugin that is quarantined or was stopped", Input: pluginEntry,
			Later: true, do: onPlugin(Control.Release)},
		{Name: "plugin-quarantine", Doc: "take a plugin out of service until it is released", Input: pluginEntry +
			` [:reason {:optional true} [:string {:min 1 :max 200}]]`, Later: true,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				reason := text(in, "reason")
				if reason == "" {
					reason = "an operator took it out of service"
				}
				if err := c.Quarantine(text(in, "plugin"), reason); err != nil {
					return edn.Nil(), err
				}
				return edn.MustMap(edn.K("plugin"), edn.Text(text(in, "plugin"))), nil
			}},
		{Name: "plugin-swap", Doc: "start new processes of a plugin beside the old ones, then replace those",
			Input: pluginEntry, Later: true,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				cursor, err := c.Swap(text(in, "plugin"))
				if err != nil {
					return edn.Nil(), err
				}
				return edn.MustMap(
					edn.K("plugin"), edn.Text(text(in, "plugin")),
					edn.K("cursor"), edn.Text(cursor),
				), nil
			}},
		{Name: "events", Reads: true, Doc: "events of plugins and candidates, oldest first, and the cursor for later ones", Also: policy.ReadDiag,
			quiet: func(in, _ edn.Value) bool { return waits(in) },
			Input: `[:after {:optional true :doc "a cursor; default: the latest events"} [:string {:max 40}]] [:wait-ms {:optional true :doc "time to wait for an event" :default 0} [:int {:min 0 :max 60000}]]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				wait, _ := in.Key("wait-ms").AsInt()
				ctx, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
				defer cancel()
				return c.Events(ctx, text(in, "after"))
			}},
		{Name: "plugin-approve",
			Doc:   "approve the present program of a plugin, with all its needs, in the lock file, and reload",
			Input: pluginEntry,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Approve(ctx, text(in, "plugin"))
			}},
		{Name: "config-show", Reads: true, Doc: "the configuration in force, secrets masked",
			Input: `[:only {:optional true :doc "a block or an attribute, such as plugin.chess"} [:string {:min 1 :max 300}]] [:defaults? {:optional true} :boolean] [:origins? {:optional true} :boolean] [:text? {:optional true :doc "as HCL too"} :boolean]`,
			do: func(_ context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Show(ShowQuery{
					Only:     text(in, "only"),
					Defaults: in.Key("defaults?").Truthy(),
					Origins:  in.Key("origins?").Truthy(),
					Text:     in.Key("text?").Truthy(),
				})
			}},
		{Name: "plugin-attach", Doc: "use a plugin process started elsewhere, for example under a debugger",
			Input: pluginEntry + ` [:file {:doc "the attach record that the process wrote"} [:string {:min 1 :max 4096}]]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Attach(ctx, text(in, "plugin"), text(in, "file"))
			}},
		{Name: "plugin-detach", Doc: "go back to the plugin's own process", Input: pluginEntry,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Attach(ctx, text(in, "plugin"), "")
			}},
		{Name: "config-reload", Doc: "apply the configuration files, all or nothing",
			Input: `[:dry-run? {:optional true} :boolean]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				dry, _ := in.Key("dry-run?").AsBool()
				return c.Reload(ctx, dry)
			}},
		{Name: "config-diff", Reads: true, Doc: "how the files differ from the configuration in force, and what a reload would do",
			do: func(ctx context.Context, c Control, _ edn.Value) (edn.Value, *contract.Error) {
				return c.Diff(ctx)
			}},
		{Name: "budget-show", Reads: true, Doc: "limit, use, reservations and rest of each budget of this host, its tenants and its callers",
			Input: `[:user {:optional true :doc "only this caller"} [:string {:min 1 :max 128}]]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				return c.Budgets(ctx, text(in, "user"))
			}},
		{Name: "budget-adjust", Doc: "raise the limit of a budget until its window ends, or charge it without a call",
			Input: `[:scope [:enum :tenant :user]] [:user {:optional true :doc "the caller, for scope user"} [:string {:min 1 :max 128}]]
				[:tenant {:optional true :doc "for scope tenant; default: that of callers without one"} [:string {:min 1 :max 64}]]
				[:grant {:optional true :doc "added to the limits"} ` + amountEntry + `] [:charge {:optional true :doc "counted as spent"} ` + amountEntry + `]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				change := BudgetChange{User: text(in, "user"), Tenant: text(in, "tenant"), Grant: in.Key("grant"), Charge: in.Key("charge")}
				scope, _ := in.Key("scope").AsKeyword()
				switch {
				case scope == "user" && change.User == "":
					return edn.Nil(), contract.Errorf("invalid-request", "budget-adjust with :scope :user lacks :user")
				case scope == "tenant" && change.User != "":
					return edn.Nil(), contract.Errorf("invalid-request",
						"budget-adjust has a :user and :scope :tenant, which covers all callers of a tenant").
						WithHint("write :scope :user for one caller")
				case scope == "user" && change.Tenant != "":
					return edn.Nil(), contract.Errorf("invalid-request", "budget-adjust has a :tenant and :scope :user, which is for one caller").
						WithHint("write :scope :tenant for a tenant")
				}
				return c.AdjustBudget(ctx, change)
			}},
		{Name: "judge-list", Reads: true, Doc: "every judge: its agreement with people, the time of the last and the next measurement, and the outcome", do: func(_ context.Context, c Control, _ edn.Value) (edn.Value, *contract.Error) {
			return c.Judges(), nil
		}},
		{Name: "judge-calibrate",
			Doc: "measure the agreement of a judge on labelled answers and store it; the response is sent at the end",
			Input: `[:judge [:string {:min 1 :max 128}]] [:file {:optional true :doc "of labelled answers; default: the file that the judge's block names"} [:string {:min 1 :max 4096}]]
				[:reset? {:optional true :doc "this measurement is the baseline of later ones"} :boolean] [:parallel {:optional true :default 4} [:int {:min 1 :max 64}]] [:deadline-ms {:optional true :doc "time limit of one verdict"} [:int {:min 1 :max 86400000}]]`,
			do: func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
				how := Calibration{
					Judge:    text(in, "judge"),
					File:     text(in, "file"),
					Reset:    in.Key("reset?").Truthy(),
					Parallel: 4,
				}
				if n, ok := in.Key("parallel").AsInt(); ok {
					how.Parallel = int(n)
				}
				if ms, ok := in.Key("deadline-ms").AsInt(); ok {
					how.Deadline = time.Duration(ms) * time.Millisecond
				}
				return c.Calibrate(ctx, how)
			}},
		{Name: "drain", Frees: true, Doc: "stop the daemon when the runs in progress have finished", Later: true,
			do: func(_ context.Context, c Control, _ edn.Value) (edn.Value, *contract.Error) {
				c.Drain()
				return edn.MustMap(edn.K("phase"), edn.K("draining")), nil
			}},
	}, slices.Concat(runActions(), databaseActions(), identityActions(), telemetryActions(), trailActions())...)
}

func text(m edn.Value, key string) string {
	s, _ := m.Key(key).AsString()
	return s
}

type actionTable struct {
	space  string
	rows   []Action
	byName map[string]*Action
	names  []string
}

func newActionTable(space string, rows []Action) *actionTable {
	t := &actionTable{space: space, rows: rows, byName: map[string]*Action{}}
	for i := range t.rows {
		a := &t.rows[i]
		a.space = space
		names := ":" + a.Name
		if a.Operation() != a.Name {
			names += " :" + a.Operation()
		}
		spec := fmt.Sprintf("[:map {:closed true} [:action [:enum %s]] %s]", names, a.Input)
		a.schema = schema.MustCompile(edn.MustRead(spec))
		t.byName[a.Name] = a
		t.names = append(t.names, a.Name)
	}
	return t
}

// schemaName returns the name of the action's schema in the OpenAPI document.
func (a *Action) schemaName() string { return a.Operation() }

// hint returns the hint for an error about the name of an action: all names if they fit into a
// hint, else where they are listed.
func (t *actionTable) hint() string {
	if all := "one of " + strings.Join(t.names, ", "); len(all) <= contract.MaxMessage {
		return all
	}
	return "GET /openapi.json lists the actions, and \"ferment admin action --help\" those of administrators"
}

// find returns the action of a body.
func (t *actionTable) find(body edn.Value) (*Action, *contract.Error) {
	if !body.IsMap() {
		return nil, contract.Errorf("invalid-request", "the body of :%s/*: expected a map with :action, got %s", t.space, body.Kind())
	}
	name, ok := body.Key("action").AsKeyword()
	if s, isText := body.Key("action").AsString(); isText { // JSON has no keywords
		name, ok = strings.TrimPrefix(s, ":"), true
	}
	switch {
	case !ok && body.HasKey("action"):
		return nil, contract.Errorf("invalid-request", ":action: expected the name of an action, got %s",
			body.Key("action").Kind()).WithHint(t.hint())
	case !ok:
		return nil, contract.Errorf("invalid-request", "the body lacks :action").
			WithHint(t.hint())
	}
	if a := t.byName[strings.TrimPrefix(name, t.space+"/")]; a != nil {
		return a, nil
	}
	err := contract.Errorf("invalid-request", "there is no action %.80q", name).
		WithHint(t.hint())
	return nil, err.DidYouMean(contract.Nearest(strings.TrimPrefix(name, t.space+"/"), t.names))
}

// admitted is an action that the caller may execute.
type admitted struct {
	logged edn.Value // input for the audit log
	do     func(context.Context) (edn.Value, *contract.Error)
}

// act handles a body with an action of a table. admit decides whether the caller may execute it;
// with an error it also returns the input for the audit log.
func (x *exchange) act(t *actionTable, limits edn.Limits, admit func(*Action, edn.Value) (admitted, *contract.Error)) reply {
	body, err := x.decode(limits)
	if err != nil {
		return formAdmin.failure(err)
	}
	action, err := t.find(body)
	if err != nil {
		return formAdmin.failure(err)
	}
	if x.sent == typeJSON {
		body = action.schema.CoerceJSON(body)
	}
	if found := action.schema.Validate(body); len(found) > 0 {
		return formAdmin.failure(action.wrongInput(found))
	}
	key, err := x.actionKey(t, action, body)
	if err != nil {
		return formAdmin.failure(err)
	}
	control := x.api.backend.Control()
	if control == nil {
		return formAdmin.failure(contract.Errorf("runtime/starting", "the daemon is coming up"))
	}
	audit := func(logged, result edn.Value, err *contract.Error, replayed bool) {
		if err == nil && action.quiet != nil && action.quiet(body, result) {
			return
		}
		control.Audit(AuditEntry{
			Action:      action.Operation(),
			Principal:   x.who.Name,
			Address:     x.client(),
			Input:       action.input(logged, result),
			Err:         action.unquoted(err),
			Replayed:    replayed,
			TraceParent: x.traceParent(),
			Access:      x.decisions,
		})
	}
	may, err := admit(action, body)
	if err != nil {
		audit(may.logged, edn.Nil(), err, false)
		return formAdmin.failure(err)
	}
	if err := action.recordable(control); err != nil {
		return formAdmin.failure(err)
	}
	execute := func(ctx context.Context) reply {
		result, err := may.do(x.traced(x.called(ctx)))
		audit(may.logged, result, err, false)
		if err != nil {
			return formAdmin.failure(err)
		}
		if action.inJSON != nil && x.accept == typeJSON {
			result = action.inJSON(result)
		}
		return action.done(result)
	}
	if key == "" || action.Reads {
		return execute(x.r.Context())
	}
	r, use := x.once(control.Answers(), action, key, body, execute)
	if use != keyExecuted {
		audit(may.logged, r.body.Key("result"), r.err, use == keyReplayed)
	}
	return r
}

// recordable returns an error for an action that changes something while its audit record cannot be
// written. Actions with Frees are permitted.
func (a *Action) recordable(control Control) *contract.Error {
	if a.Reads || a.Frees || a.space != "admin" {
		return nil
	}
	return control.Auditable()
}

// input returns the input and what the action made, as the audit trail may contain them.
func (a *Action) input(logged, result edn.Value) edn.Value {
	switch {
	case a.made != nil:
		logged = a.made(logged, result)
	case a.Made != "" && result.HasKey(a.Made):
		logged = logged.AssocKey(a.Made, result.Key(a.Made))
	}
	return a.withoutContent(logged)
}

// withoutContent returns an input in which content is replaced by hashes.
func (a *Action) withoutContent(in edn.Value) edn.Value {
	for _, path := range a.Content {
		in = hashedAt(in, path)
	}
	return in
}

// hashedAt replaces the value at a path by its hash, in each element of vectors on the path.
func hashedAt(v edn.Value, path []string) edn.Value {
	switch {
	case len(path) == 0:
		return edn.Text(edn.Hash(v))
	case v.IsVector():
		var all []edn.Value
		for e := range v.Elems() {
			all = append(all, hashedAt(e, path))
		}
		return edn.Vector(all...)
	case !v.IsMap() || !v.HasKey(path[0]):
		return v
	}
	return v.AssocKey(path[0], hashedAt(v.Key(path[0]), path[1:]))
}

// unquoted returns an error in a form that the audit trail may contain.
func (a *Action) unquoted(err *contract.Error) *contract.Error {
	if err == nil || a.Content == nil {
		return err
	}
	return contract.Errorf(err.Type, "the action failed")
}

// done returns the reply to an executed action.
func (a *Action) done(result edn.Value) reply {
	status := 200
	if a.Later {
		status = 202
	}
	return reply{status: status, body: edn.MustMap(
		edn.K("ok?"), edn.Bool(true),
		edn.K("action"), edn.K(a.Operation()),
		edn.K("result"), result,
	)}
}

// serveAdmin handles POST /v1/admin.
func serveAdmin(x *exchange) reply {
	return x.act(x.api.actions, edn.Config, func(a *Action, body edn.Value) (admitted, *contract.Error) {
		may := admitted{logged: withTokenID(body.Dissoc(edn.K("password")))}
		control, operation := x.api.backend.Control(), a.Operation()
		if a.Also != "" && !x.may(operation) { // Also decides, and a denial names it
			operation, control = a.Also, ownRuns{control, x, body}
		}
		if err := x.permit(operation); err != nil {
			return may, err
		}
		may.do = func(ctx context.Context) (edn.Value, *contract.Error) { return a.do(ctx, control, body) }
		if a.onIdentity == nil {
			return may, nil
		}
		call, err := x.onIdentity(a, body)
		may.do = func(ctx context.Context) (edn.Value, *contract.Error) { return a.onIdentity(ctx, call) }
		return may, err
	})
}

// withTokenID replaces :token of a body by the id in it, as :token/id, because the audit trail
// hides the values of secret names. Without an id the body is unchanged.
func withTokenID(body edn.Value) edn.Value {
	name, _ := body.Key("token").AsString()
	id, ok := identity.IDOf(name)
	if !ok {
		return body
	}
	return body.Dissoc(edn.K("token")).AssocKey("token/id", edn.Text(id))
}

// ownRuns is a Control that is limited to the runs that a caller may see (AUTH-012).
type ownRuns struct {
	Control
	x  *exchange
	in edn.Value // input of the action
}

// Runs implements Control.
func (o ownRuns) Runs() Runs { return o.x.reach(o.Control.Runs(), o.in) }

// ExportedPlugins implements Control. It returns nil.
func (ownRuns) ExportedPlugins() edn.Value { return edn.Nil() }
