package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// API handles the requests of every listener.
type API struct {
	backend Backend
	log     hclog.Logger
	table   *table
	// actions are the actions of POST /v1/admin, sessions those of POST /v1/session.
	actions, sessions *actionTable

	origins *http.CrossOriginProtection
	streams streams
	buckets *buckets
	// executing holds the admin actions in progress that have an idempotency key.
	executing executing
	// document is the body of GET /openapi.json; it is immutable.
	document document
	// life ends when the server shuts down: streams of runs that continue are then closed.
	life context.Context
	end  context.CancelFunc
	// working ends when the server no longer waits for responses: actions whose callers are gone
	// are then canceled.
	working context.Context
	stop    context.CancelFunc
}

// New returns the API of a daemon. log may be nil.
func New(b Backend, log hclog.Logger) *API {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	a := &API{
		backend:  b,
		log:      log,
		table:    newTable(routes()),
		actions:  newActionTable("admin", Actions()),
		sessions: newActionTable("session", SessionActions()),
		origins:  http.NewCrossOriginProtection(),
		buckets:  newBuckets(),
	}
	a.life, a.end = context.WithCancel(context.Background())
	a.working, a.stop = context.WithCancel(context.Background())
	a.document = describe(a.table.rows, []*actionTable{a.actions, a.sessions}, b.Health().Version)
	return a
}

// listener describes the listener that a request arrived on.
type listener struct {
	// admin is set for the admin socket.
	admin bool
	// token authenticates callers of the admin socket.
	token string
	// open is set if other machines can reach the listener.
	open bool
	// hosts are the accepted values of the Host header.
	hosts []string
}

// exchange is one request in progress.
type exchange struct {
	api      *API
	via      *listener
	w        http.ResponseWriter
	r        *http.Request
	settings *Settings
	accept   mediaType
	events   bool // the response is a stream of events
	route    *Route
	params   map[string]string // parameters in the path
	run      string            // id of the run in the path, once its form is checked
	query    edn.Value         // query parameters, typed by the route
	who      identity.Principal
	begun    time.Time
	shown    string // name of the credential that was checked; empty: none
	claimed  string // user in that credential, if identity.Service.Named returns one
	ticket   string // id of the token or name of the certificate that was rejected
	// decisions has the decisions about operations so far, as records have them.
	decisions []edn.Value
	denied    bool   // the denial was recorded
	intent    string // intent of the act in the request; empty: unknown
	reached   bool   // access to objects of others was recorded
	counted   bool   // the request is within the rate limits
	// unverified reports that the request took a token from the bucket of its address.
	unverified bool
	// traceCounted reports that the outcome of the trace context was passed to Backend.Traced.
	traceCounted bool
	body         []byte
	taken        bool      // the body was read completely, or is empty
	sent         mediaType // format of the body
}

// form returns the format of errors for this request.
func (x *exchange) form() errorForm {
	if x.route != nil {
		return x.route.failed
	}
	return formPlain
}

// handler returns the handler of one listener.
func (a *API) handler(via *listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{api: a, via: via, w: w, r: r, begun: time.Now(), settings: a.backend.Settings()}
		if x.settings == nil {
			x.settings = &Settings{Limits: defaultLimits, Heartbeat: defaultHeartbeat, Identity: &identity.Settings{Required: true}, Access: &policy.Access{}, Open: true}
		}
		if r := x.answer(); !r.sent {
			x.hurry()
			x.write(r)
		}
	})
}

// answer executes the steps of the request up to the first error.
func (x *exchange) answer() (r reply) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			r = x.form().failure(x.defect(p))
		}
	}()
	defer func() { x.auditRefusal(r) }()
	setHeaders(x.w.Header(), x.r.URL.Path)
	if len(x.r.TransferEncoding) > 0 || !x.r.ProtoAtLeast(1, 1) {
		// The request may also have had a Content-Length, which net/http
		// drops. A proxy that used it would see the next request at another
		// offset. Of a request before HTTP/1.1 net/http drops the
		// Transfer-Encoding instead.
		x.w.Header().Set("Connection", "close")
	}
	var acceptable bool
	var allow string
	var events eventSupport
	x.route, x.params, allow = x.api.table.find(x.r.Method, x.r.URL.EscapedPath())
	if x.route != nil { // errors use its format
		events = x.route.events
	}
	x.accept, x.events, acceptable = negotiate(x.r.Header, events)
	if x.route != nil && x.route.text != "" {
		acceptable = acceptsText(x.r.Header, x.route.text)
	}
	for _, step := range []func() *contract.Error{x.checkOpen, x.checkHeaders, x.checkHost} {
		if err := step(); err != nil {
			return x.form().failure(err)
		}
	}
	x.letIn()
	if err := x.checkOrigin(); err != nil {
		return x.form().failure(err)
	}
	if x.preflight() {
		return reply{sent: true}
	}
	if x.route == nil {
		return notThere(x.r.Method, allow)
	}
	if !acceptable {
		return x.form().failure(contract.Errorf("http/not-acceptable", "the response is available as %s",
			x.route.forms()).WithHint("accept " + x.route.forms()))
	}
	for _, step := range []func() *contract.Error{x.checkPhase, x.admit, x.readTarget, x.readBody} {
		if err := step(); err != nil {
			return x.failure(err)
		}
	}
	return x.route.serve(x)
}

// failure returns the reply for err, with the id of the run in the path (HTTP-003).
func (x *exchange) failure(err *contract.Error) reply {
	r := x.form().failure(overHTTP(err, x.run))
	if r.run = x.run; r.run != "" {
		r.body = r.body.AssocKey("run/id", edn.Text(r.run))
	}
	return r
}

func notThere(method, allow string) reply {
	if allow == "" {
		return formPlain.failure(contract.Errorf("not-found", "no route has this path").
			WithHint("GET /routes lists the routes"))
	}
	r := formPlain.failure(contract.Errorf("method-not-allowed", "the path does not support %.20q", method).
		WithHint("use " + allow))
	r.allow = allow
	return r
}

// auditRefusal records an act that was rejected before it became a run. The outcome of a run is in
// the journal.
func (x *exchange) auditRefusal(r reply) {
	if x.route == nil || x.route.Operation != OpAct || r.err == nil || r.run != "" {
		return
	}
	trace := r.body.Key("trace").Key("id")
	x.api.backend.Rejected(Rejection{
		Principal:     x.who.Name,
		PrincipalType: x.who.Type,
		Roles:         x.who.Roles,
		Address:       x.client(),
		Intent:        x.intent,
		Trace:         trace,
		Err:           r.err,
		Took:          time.Since(x.begun),
		Kept:          x.counted,
	})
	if denied, decision := policy.Denial(r.err); denied != nil && !x.denied {
		x.deny(string(OpAct), denied, decision)
	}
}

// defect returns the error for a panic, with an id for the caller; the log has the stack under that
// id.
func (x *exchange) defect(p any) *contract.Error {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	x.api.log.Error("a handler panicked", "id", id, "method", x.r.Method, "path", truncate(x.r.URL.Path, 200),
		"panic", p, "stack", string(debug.Stack()))
	return contract.Errorf("runtime/internal", "a defect of the host; the log has it under %s", id)
}

// setHeaders sets the headers of every response (HTTP-010).
func setHeaders(h http.Header, path string) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'")
	if len(path) >= 4 && path[:4] == "/v1/" {
		h.Set("Cache-Control", "no-store")
	}
}
