package config

// reserved is a block or attribute that this build rejects because it lacks the
// feature behind it. Nothing is accepted and ignored.
type reserved struct {
	path string   // block types and attribute, with dots
	what string   // the feature, as the subject of a sentence
	only []string // supported values; empty: none
}

// partly reports whether some values are supported.
func (r reserved) partly() bool { return len(r.only) > 0 }

// reservedTable lists everything that this build rejects. A build that gains a
// feature removes its rows.
var reservedTable = []reserved{
	{path: "cluster", what: "running on several hosts"},
	{path: "router", what: "routing by a model"},
	{path: "operations", what: "access control"},
	{path: "auth", what: "access control"},
	{path: "session", what: "keeping sessions"},
	{path: "store", what: "the durable journal"},
	{path: "queue", what: "the queue of accepted acts"},
	{path: "cache", what: "caching of answers"},
	{path: "telemetry", what: "telemetry"},
	{path: "workspace", what: "the context engine"},
	{path: "error", what: "declaring error types"},

	{path: "effects.db", what: "tools for databases"},
	{path: "effects.scope.on_unknown", what: "resuming a run"},
	{path: "role.intents", what: "access control"},
	{path: "role.max_priority", what: "access control"},

	{path: "http.trusted_proxies", what: "access control"},
	{path: "http.tls_terminated_by_proxy", what: "access control"},
	{path: "http.cors_origins", what: "access control"},
	{path: "http.console", what: "the console"},
	{path: "http.stream_orphan_ttl", what: "streaming to clients"},
	{path: "http.tls.client_ca_file", what: "access control"},
	{path: "http.limits.session_body", what: "keeping sessions"},
	{path: "http.limits.run_subscribers", what: "streaming to clients"},
	{path: "http.limits.login_rate", what: "access control"},

	{path: "capability.model_key", what: "choosing models"},

	{
		path: "dispatch.policy", what: "learning the best candidate",
		only: []string{"declared", "quality-aware", "cost-first", "latency-first", "availability"},
	},
	{path: "dispatch.learned", what: "ordering candidates by learned results"},

	{path: "intent.model_key", what: "choosing models"},
	{path: "intent.plan", what: "the plan template"},
	{path: "intent.queue_class", what: "the queue of accepted acts"},
	{path: "intent.cacheable", what: "caching of answers"},
	{path: "intent.cache_scope", what: "caching of answers"},
	{path: "intent.on_unknown", what: "resuming a run"},
	{path: "intent.access", what: "access control"},
}

func reservedAt(path string) (reserved, bool) {
	for _, r := range reservedTable {
		if r.path == path {
			return r, true
		}
	}
	return reserved{}, false
}
