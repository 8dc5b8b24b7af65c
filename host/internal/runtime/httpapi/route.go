package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Operation is the name of an operation in access rules. Routes with OpOpen need no identity.
type Operation string

// Operations of the routes.
const (
	OpOpen  Operation = ""
	OpAny   Operation = "any" // permitted to every identified caller
	OpAct   Operation = policy.Act
	OpAdmin Operation = policy.Admin // each action is an operation of its own

	OpSession Operation = policy.Session

	OpReadRuns   Operation = policy.ReadRuns
	OpCancelRuns Operation = policy.CancelRuns
	OpAnswerRuns Operation = policy.AnswerRuns
	OpResumeRuns Operation = policy.ResumeRuns
	OpReplayRuns Operation = policy.ReplayRuns
	OpPurgeRuns  Operation = policy.PurgeRuns
)

// Route is one row of the table.
type Route struct {
	// Path may have segments in braces, which are parameters with a form in paramForms.
	Method, Path string
	Operation    Operation
	Summary      string
	Doc          string
	// Query has the query parameters as entries of a closed map schema, in EDN. A route without
	// entries and without parameters in its path ignores its query.
	Query string
	// Headers are the request headers that the handler reads.
	Headers []Header
	// Body describes the request body; nil: the route has none.
	Body *Body
	// Answers are the statuses that the handler itself returns. The method all adds those of
	// earlier steps.
	Answers []Answer
	// early marks routes that are served during the start.
	early  bool
	events eventSupport
	// failed is the format of error bodies.
	failed errorForm
	// text is the media type of a response that is text; empty: JSON or EDN.
	text  mediaType
	serve func(*exchange) reply

	query *schema.Schema // compiled Query; nil: the query is ignored
}

// eventSupport selects whether a route responds with a stream of events.
type eventSupport uint8

const (
	eventsNever  eventSupport = iota
	eventsAsked               // if the caller asks for them
	eventsAlways              // except for errors
)

// forms returns the media types of the response as text.
func (r *Route) forms() string {
	if r.text != "" {
		return r.text.bare()
	}
	switch r.events {
	case eventsAsked:
		return "application/json, application/edn or text/event-stream"
	case eventsAlways:
		return "text/event-stream"
	}
	return "application/json or application/edn"
}

// Body describes the body of a request.
type Body struct {
	Schema string // name of an envelope schema
	Types  []mediaType
	limit  func(*Settings) int
	// optional permits an empty body, which is read as an empty map.
	optional bool
}

// Header is a documented header.
type Header struct{ Name, Doc string }

// Answer is one documented status of a route.
type Answer struct {
	Status int
	Doc    string
	Schema string // name of an envelope schema
}

// routes returns the table of routes, from which dispatch and documentation are derived.
func routes() []Route {
	return append([]Route{
		{
			Method: http.MethodPost, Path: "/v1/act", Operation: OpAct,
			Summary: "request one accepted answer",
			Doc: "The body is a request envelope, or text as input of the intent text/respond. The answer is sent once it has passed its gates. " +
				"With Accept: text/event-stream the response is a stream of the events of the run: accepted, started, resolved, attempt, gate, commit and others; text of the answer as chunk or provisional, which retract withdraws; the last event, finished, holds the whole response. ?format=edn writes the events as EDN. " +
				"Closing the connection cancels the run, unless the request has an Idempotency-Key; a streamed run goes on for http.stream_orphan_ttl, and GET /v1/runs/{id}/events reads it further. " +
				"If the intent is cacheable, the header Ferment-Cache says hit, miss or bypass; Cache-Control: no-cache has the request executed, no-store also leaves the cache alone. Requests of one caller with one key share one run: while it goes on they wait for it, afterwards they get its response with the header Idempotency-Replayed; another request with that key is an error. With :response/type :accepted, or the header Prefer: respond-async, the answer is a job as soon as the act is on disk: it has the id of the run, and Location is its state. :queue chooses its class and priority. A plan is the :input of the intent :plan/run: {:plan {:nodes [...]}}. JSON has no keywords: only values that the form of a plan or a schema types as keywords become keywords, and a slot is always written as a map.",
			Body: &Body{Schema: "envelope/request", Types: []mediaType{typeJSON, typeEDN, typeText},
				limit: func(s *Settings) int { return s.Limits.ActBody }},
			Headers: []Header{
				{"Idempotency-Key", "requests of one caller with one key share one run"},
				{"Prefer", "respond-async has the same effect as :response/type :accepted"},
				{"Cache-Control", "no-cache has a cacheable act executed, no-store also leaves the cache alone"},
			},
			failed: formEnvelope,
			serve:  serveAct,
			events: eventsAsked,
			Answers: []Answer{
				{200, "the answer was accepted", "envelope/response"},
				{202, "the act was accepted and waits for its turn", "answer/job"},
				{400, "the request is wrong", "envelope/response"},
				{402, "the call cannot fit into a budget", "envelope/response"},
				{403, "a rule, a policy or a scope forbids it", "envelope/response"},
				{404, "the request names something that does not exist", "envelope/response"},
				{409, "the run was canceled, or its outcome must be decided", "envelope/response"},
				{410, "what the request refers to is no longer kept", "envelope/response"},
				{413, "the request exceeds the body limit or the context of a model", "envelope/response"},
				{422, "nothing serves the intent", "envelope/response"},
				{429, "a budget or a rate is used up", "envelope/response"},
				{500, "a defect of the host", "envelope/response"},
				{502, "no candidate gave an answer that was accepted", "envelope/response"},
				{503, "the host or every candidate is out of service", "envelope/response"},
				{504, "the deadline passed", "envelope/response"},
			},
		},
		{
			Method: http.MethodPost, Path: "/v1/admin", Operation: OpAdmin,
			Summary: "execute an admin action",
			Doc: "The body is a closed map with :action and the keys of the action; the namespace of an action is optional. Each action is an operation of its own, such as admin/drain. " +
				"With 202 the action continues after the response.",
			Body: &Body{Schema: "admin" + anyAction, Types: []mediaType{typeJSON, typeEDN},
				limit: func(s *Settings) int { return s.Limits.AdminBody }},
			Headers: []Header{{"Idempotency-Key", "requests of one caller with one key and one action are executed once, and have one answer"}},
			failed:  formAdmin,
			serve:   serveAdmin,
			Answers: []Answer{
				{200, "the action is done", "answer/admin"},
				{202, "the action was started and continues", "answer/admin"},
				{400, "the action or its input is wrong", "answer/admin"},
				{404, "no plugin, user, token or run has this name", "answer/admin"},
				{409, "the present state does not allow the action", "answer/admin"},
				{410, "the values of the run were purged", "answer/admin"},
				{422, "the configuration or a name is rejected", "answer/admin"},
				{500, "a defect of the host", "answer/admin"},
				{502, "a plugin does not start", "answer/admin"},
				{503, "the daemon is starting, or does not support the action", "answer/admin"},
			},
		},
		{
			Method: http.MethodPost, Path: "/v1/session", Operation: OpSession,
			Summary: "execute a session action",
			Doc: "The body is a closed map with :action and the keys of the action; the namespace of an action is optional. Sessions belong to the caller that opened them; only operators may use those of others. " +
				"In JSON a value is what JSON can express; send EDN for keywords, sets and instants.",
			Body: &Body{Schema: "session" + anyAction, Types: []mediaType{typeJSON, typeEDN},
				limit: func(s *Settings) int { return s.Limits.SessionBody }},
			failed: formAdmin,
			serve:  serveSession,
			Answers: []Answer{
				{200, "the action is done", "answer/admin"},
				{400, "the action, its input, the id or the name of a variable is wrong", "answer/admin"},
				{403, "the policy denies the use of a variable", "answer/admin"},
				{404, "no session of the caller has this id", "answer/admin"},
				{409, "the session has another version, is frozen, or has too many variables", "answer/admin"},
				{422, "a variable is too large, or its name is not allowed", "answer/admin"},
				{503, "the daemon is starting, or the store of sessions failed", "answer/admin"},
			},
		},
		{
			Method:  http.MethodGet,
			Path:    "/health",
			early:   true,
			Summary: "health of the process",
			Doc:     "Returns 200 while the main loop of the daemon runs. It never depends on plugins.",
			failed:  formPlain,
			serve:   serveHealth,
			Answers: []Answer{{200, "healthy", "answer/health"}, {503, "the main loop is stuck", "answer/health"}},
		},
		{
			Method: http.MethodGet, Path: "/ready", early: true,
			Summary: "readiness for acts", Doc: "Returns 503 with every condition that fails and the time since when.",
			failed: formPlain, serve: serveReady,
			Answers: []Answer{{200, "acts are served", "answer/ready"}, {503, "acts are not served", "answer/ready"}},
		},
		{
			Method: http.MethodGet, Path: "/routes",
			Summary: "list the routes", failed: formPlain, serve: serveRoutes,
			Answers: []Answer{{200, "the routes", "answer/routes"}},
		},
		{
			Method:  http.MethodGet,
			Path:    "/openapi.json",
			Summary: "this document",
			Doc:     "OpenAPI 3.1, generated from the table of routes and the schemas of the contract. As EDN it is the same value.",
			failed:  formPlain,
			serve:   serveOpenAPI,
			Answers: []Answer{{200, "the document", "answer/openapi"}},
		},
	}, slices.Concat(loginRoutes(), runRoutes(), jobRoutes(), valueRoutes(), logRoutes(), telemetryRoutes(), trailRoutes())...)
}

// admin reports whether the route is for administration and therefore always needs an identity
// (AUTH-031).
func (r *Route) admin() bool { return strings.HasPrefix(string(r.Operation), "admin/") }

// hasParameters reports whether the path has parameters.
func (r *Route) hasParameters() bool { return strings.Contains(r.Path, "{") }

// checksQuery reports whether the query is validated.
func (r *Route) checksQuery() bool { return r.hasParameters() || r.Query != "" }

// all returns the answers of the route and of the steps before its handler.
func (r *Route) all() []Answer {
	form := r.failed.schema()
	out := slices.Clone(r.Answers)
	add := func(status int, doc string) {
		if !slices.ContainsFunc(out, func(a Answer) bool { return a.Status == status }) {
			out = append(out, Answer{status, doc, form})
		}
	}
	if r.Operation != OpOpen {
		add(401, "the caller is not identified")
	}
	switch {
	case r.Operation != OpOpen && r.Operation != OpAny:
		add(403, "the roles of the caller do not permit the operation")
	case r.Method != http.MethodGet:
		add(403, "a page of another origin may not call the daemon")
	}
	if r.Body != nil {
		add(408, "the body did not arrive in time")
		add(413, "the body exceeds its limit")
		add(415, "the media type, character set or content encoding of the body is not supported")
	}
	if r.checksQuery() {
		add(400, "a query parameter is wrong")
	}
	add(500, "a defect of the host, or damage of its journal")
	add(406, "the response has none of the accepted media types")
	add(421, "the daemon does not serve this host name")
	add(431, "the headers exceed their limit")
	if !r.early {
		add(429, "the caller exceeds its rate limit")
		add(503, "the daemon is starting or has no identities for this listener")
	}
	slices.SortFunc(out, func(a, b Answer) int { return a.Status - b.Status })
	return out
}

// Value returns the row in the format of GET /routes.
func (r *Route) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("method", edn.Text(r.Method))
	b.Key("path", edn.Text(r.Path))
	if r.Operation == OpOpen {
		b.Key("open?", edn.Bool(true))
	} else {
		b.Key("open?", edn.Bool(false))
		b.Key("operation", edn.K(string(r.Operation)))
	}
	b.Key("summary", edn.Text(r.Summary))
	return b.Map()
}

// table finds routes by method and path.
type table struct {
	rows     []Route
	paths    map[string][]*Route
	patterns []string // paths with parameters
}

func newTable(rows []Route) *table {
	t := &table{rows: rows, paths: map[string][]*Route{}}
	for i := range t.rows {
		r := &t.rows[i]
		pattern := r.hasParameters()
		if r.checksQuery() {
			r.query = schema.MustCompile(edn.MustRead("[:map {:closed true} " + r.Query + "]"))
		}
		if pattern && t.paths[r.Path] == nil {
			t.patterns = append(t.patterns, r.Path)
		}
		t.paths[r.Path] = append(t.paths[r.Path], r)
	}
	return t
}

// match returns the parameters of a pattern in a path, by name; ok is false if the path does not
// match.
func match(pattern, path string) (params map[string]string, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params = map[string]string{}
	for i, segment := range want {
		switch name, isParam := strings.CutPrefix(segment, "{"); {
		case isParam && got[i] != "":
			params[strings.TrimSuffix(name, "}")] = got[i]
		case segment != got[i]:
			return nil, false
		}
	}
	return params, true
}

// find returns the route for a method and an unmodified path, with the parameters in the path. If
// there is none, allow has the methods of the path; it is empty for an unknown path.
func (t *table) find(method, path string) (route *Route, params map[string]string, allow string) {
	var rows []*Route
	if !strings.Contains(path, "{") {
		rows = t.paths[path]
	}
	for i := 0; rows == nil && i < len(t.patterns); i++ {
		if found, ok := match(t.patterns[i], path); ok {
			rows, params = t.paths[t.patterns[i]], found
		}
	}
	var methods []string
	for _, r := range rows {
		if r.Method == method || r.Method == http.MethodGet && method == http.MethodHead {
			return r, params, ""
		}
		methods = append(methods, r.Method)
		if r.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return nil, params, strings.Join(methods, ", ")
}
