package policy

import (
	"maps"
	"slices"
)

// The operations that rules name (AUTH-011). Each route of the HTTP API has one.
const (
	Act     = "http.v1/act"
	Session = "http.v1/session"
	// AnySession uses the sessions of other principals (SES-021).
	AnySession = "session/any"

	ReadRuns   = "runs/read"
	CancelRuns = "runs/cancel"
	AnswerRuns = "runs/answer" // answers a question of a run
	ResumeRuns = "runs/resume"
	ReplayRuns = "runs/replay" // executes a run once more, to compare or complete it
	PurgeRuns  = "runs/purge"  // deletes data of a run, or sets how long it is kept
	// AnyRuns extends the others to the runs of other principals (AUTH-012).
	AnyRuns = "runs/any"

	// ReadMetrics reads the metrics of a daemon, ReadDiag its state and events.
	ReadMetrics = "metrics/read"
	ReadDiag    = "diag/read"

	// OverridePrompt sends a caller's own system prompt to a model (PRM-003).
	OverridePrompt = "prompt/override"
	// RaiseBudget lets a request exceed the budget of its intent (POL-001, PRM-006).
	RaiseBudget = "budget/raise"
	// PluginLogs reads the logs of plugins, as an admin action or as a stream.
	PluginLogs = "admin/plugin-logs"
	// AuditTrail reads the audit trail, as an admin action or as JSON lines.
	AuditTrail = "admin/audit"
	// AdminWorkspaces creates, repairs and deletes workspaces (WS-061).
	AdminWorkspaces = "workspace/admin"
	// Admin is the name of the rule of all admin actions. Each action is also an operation
	// of its own in this namespace.
	Admin = "admin/*"
)

// AdminOperations are the operations of all admin actions, sorted. A test compares them
// with the table of actions of the HTTP API.
var AdminOperations = []string{
	"admin/audit", "admin/backup", "admin/breaker-reset", "admin/budget-adjust", "admin/budget-show", "admin/config-diff", "admin/config-reload",
	"admin/config-show", "admin/create-role", "admin/create-user", "admin/db-status", "admin/delete-role", "admin/delete-user", "admin/dispatch-stats",
	"admin/drain", "admin/events", "admin/explain", "admin/gc", "admin/grant-role", "admin/judge-calibrate",
	"admin/judge-list", "admin/list-known-roles", "admin/list-roles", "admin/list-users", "admin/lock-user", "admin/log-level", "admin/migrate-db",
	"admin/plugin-approve", "admin/plugin-attach", "admin/plugin-detach", "admin/plugin-drain",
	"admin/plugin-inspect", "admin/plugin-list", "admin/plugin-logs", "admin/plugin-quarantine",
	"admin/plugin-release", "admin/plugin-restart", "admin/plugin-swap", "admin/protocol-export",
	"admin/reset-login-attempts", "admin/revoke-role", "admin/rollback-db", "admin/runs-answer",
	"admin/runs-cancel", "admin/runs-diff", "admin/runs-export", "admin/runs-import", "admin/runs-interrupts",
	"admin/runs-list", "admin/runs-pin", "admin/runs-purge", "admin/runs-records", "admin/runs-replay",
	"admin/runs-resume", "admin/runs-show", "admin/runs-stats", "admin/runs-unpin", "admin/runs-verify",
	"admin/set-password", "admin/show-user", "admin/status", "admin/token-create", "admin/token-list",
	"admin/token-revoke", "admin/unlock-user",
}

// PluginOperations are the operations that plugins check themselves. The host sends with each call
// those of them that the caller may do.
var PluginOperations = []string{AdminWorkspaces}

// ShippedOperationRules returns the default rules for operations, used where
// the configuration has none.
func ShippedOperationRules() Rules {
	users := Rule{Any: []string{RoleAdmin, RoleOperator, RoleUser}}
	operators := Rule{Any: []string{RoleAdmin, RoleOperator}}
	admins := Rule{All: []string{RoleAdmin}}
	return Rules{
		Act: users, Session: users, ReadRuns: users, CancelRuns: users, AnswerRuns: users,
		AnySession: operators, ResumeRuns: operators, ReplayRuns: operators, AnyRuns: operators, OverridePrompt: operators, RaiseBudget: operators,
		ReadMetrics: operators, ReadDiag: operators,
		PurgeRuns: admins, AdminWorkspaces: admins, Admin: admins,
	}
}

// Operations returns the names of all operations except admin actions, sorted.
func Operations() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(ShippedOperationRules())), func(name string) bool { return name == Admin })
}
