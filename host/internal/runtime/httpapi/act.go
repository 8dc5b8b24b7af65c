package httpapi

import (
	"net/http"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// DirHeader is the request header with the working directory of a caller on the admin socket, the
// base of relative paths in inputs. Other listeners ignore it.
const DirHeader = "Ferment-Dir"

// AnnounceHeader is a request header. With the value "run", the caller receives the id of its run
// at acceptance, in an interim response with status 103 and the header Ferment-Run-Id. It is
// optional because some simple clients cannot handle interim responses.
const (
	AnnounceHeader = "Ferment-Announce"
	announceRun    = "run"
)

// announce sends the id of an accepted run before its response.
func (x *exchange) announce(run string) {
	x.w.Header().Set("Ferment-Run-Id", run)
	x.w.WriteHeader(http.StatusEarlyHints)
}

// serveAct handles POST /v1/act.
func serveAct(x *exchange) reply {
	request, err := x.request()
	if err != nil {
		return refused(request, err)
	}
	turn, err := x.api.backend.Take()
	if err != nil {
		return refused(request, err)
	}
	defer turn.Release()
	if x.sent == typeJSON {
		request = FromJSON(request, turn.Registry())
	}
	if err := onlyValues(request, x.events, x.r.Header.Get("Accept")); err != nil {
		return refused(request, err)
	}
	a := act.Act{
		Request:       request,
		Principal:     x.who.Name,
		PrincipalType: x.who.Type,
		Roles:         x.who.Roles,
		Narrow:        x.who.Narrow,
		Tenant:        x.who.Tenant,
		Decisions:     x.decisions,
		TraceParent:   x.traceParent(),
	}
	if dir := x.r.Header.Get(DirHeader); x.via.admin && filepath.IsAbs(dir) {
		a.Dir = dir
	}
	a.Replayed, a.Cache = x.replayed, x.cacheUse()
	a.Cached = func(outcome string) { x.w.Header().Set(CacheHeader, outcome) }
	if form, _ := request.Key("response/type").AsKeyword(); form == "accepted" {
		return submitted(turn.Submit(a))
	}
	if x.events {
		return x.stream(turn, a)
	}
	if x.r.Header.Get(AnnounceHeader) == announceRun {
		a.Accepted = x.announce
	}
	return answered(turn.Do(x.r.Context(), a))
}

// request returns the request in the body, extended by headers and the credential. A short form is
// converted to an envelope first, so that they apply to it too.
func (x *exchange) request() (edn.Value, *contract.Error) {
	v, err := x.decode(edn.Body)
	if err == nil {
		v = request.Envelope(v, ulid.Make().String())
		x.intent = request.IntentOf(v)
		v, err = x.keyed(v)
	}
	if err == nil {
		v, err = x.bound(v)
	}
	if err == nil {
		v = x.preferred(v)
		err = x.unsupported(v)
	}
	return v, err
}

// bound returns the request with the session of a session token, which is the only session that its
// caller may use.
func (x *exchange) bound(request edn.Value) (edn.Value, *contract.Error) {
	of := x.who.Session
	if of == "" || !request.IsMap() {
		return request, nil
	}
	if id, given := request.Get(edn.K("session/id")); given && !id.Equal(edn.Text(of)) {
		return request, contract.Errorf("auth/forbidden", "the session token is for the session %s only", of).
			WithHint("leave :session/id out, or use another credential")
	}
	return request.AssocKey("session/id", edn.Text(of)), nil
}

// CacheHeader is the response header that reports how an act used the cache of answers: hit, miss
// or bypass. It is absent if the intent is not cacheable (RUN-032).
const CacheHeader = "Ferment-Cache"

// cacheUse returns how the act may use the cache of answers according to the header Cache-Control
// (RUN-033). Other directives are ignored.
func (x *exchange) cacheUse() act.CacheUse {
	use := act.CacheRead
	for _, line := range x.r.Header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			switch strings.ToLower(strings.TrimSpace(directive)) {
			case "no-store":
				return act.CacheBypass
			case "no-cache":
				use = act.CacheRefresh
			}
		}
	}
	return use
}

// answered returns the reply with the outcome of an act.
func answered(response edn.Value, failure *contract.Error) reply {
	r := reply{status: 200, body: response, err: failure}
	if failure != nil {
		r.status = formEnvelope.failure(failure).status
	}
	r.run, _ = response.Key("run/id").AsString()
	return r
}

// submitted returns the reply to an act that is answered before it runs (RUN-010).
func submitted(body edn.Value, failure *contract.Error) reply {
	if failure != nil {
		return answered(body, failure)
	}
	r := reply{status: http.StatusAccepted, body: body}
	r.run, _ = body.Key("job/id").AsString()
	r.location = jobPath + r.run
	return r
}

// refused returns the reply to a request that did not become a run.
func refused(request edn.Value, err *contract.Error) reply {
	r := formEnvelope.failure(err)
	if trace := request.Key("trace"); trace.IsMap() {
		r.body = r.body.AssocKey("trace", trace)
	}
	return r
}

// decode reads the body as one value. An empty body is an empty map; the contract check then
// reports missing keys.
func (x *exchange) decode(limits edn.Limits) (edn.Value, *contract.Error) {
	limits.Bytes = max(limits.Bytes, len(x.body))
	if len(x.body) == 0 {
		return edn.MustMap(), nil
	}
	var v edn.Value
	var err error
	switch x.sent {
	case typeText:
		if v, err = edn.String(string(x.body)); err != nil {
			return edn.Nil(), contract.Errorf("http/bad-encoding", "the body is not text: %w", err)
		}
		return v, nil
	case typeEDN:
		v, err = edn.Read(x.body, edn.WithLimits(limits), edn.WithSource("body"))
	default:
		v, err = edn.ReadJSON(x.body, edn.WithLimits(limits), edn.WithSource("body"))
	}
	if err != nil {
		return edn.Nil(), contract.SyntaxError("invalid-request", err)
	}
	return v, nil
}

// input reads the body as a value of an envelope schema. The error is invalid-request for a body
// that does not match it.
func (x *exchange) input(schema string) (edn.Value, *contract.Error) {
	body, err := x.decode(edn.Body)
	if err != nil {
		return edn.Nil(), err
	}
	form := envelopes()[schema]
	if x.sent == typeJSON {
		body = form.CoerceJSON(body)
	}
	if found := form.Validate(body); len(found) > 0 {
		return edn.Nil(), wrongInput("the body", found)
	}
	return body, nil
}

// replayed marks the response as a repetition of an earlier one (RUN-022).
func (x *exchange) replayed() { x.w.Header().Set(replayedHeader, "true") }

const replayedHeader = "Idempotency-Replayed"

// preferred returns the request with the response type of the header Prefer (HTTP-011), unless the
// request has one.
func (x *exchange) preferred(request edn.Value) edn.Value {
	for _, line := range x.r.Header.Values("Prefer") {
		for wish := range strings.SplitSeq(line, ",") {
			wish, _, _ = strings.Cut(wish, ";")
			if strings.EqualFold(strings.TrimSpace(wish), "respond-async") && request.IsMap() && !request.HasKey("response/type") &&
				!request.HasKey("stream?") && !x.events {
				return request.AssocKey("response/type", edn.K("accepted"))
			}
		}
	}
	return request
}

// keyed returns the request with the idempotency key of the header, if there is one (RUN-020). Two
// different keys are an error.
func (x *exchange) keyed(request edn.Value) (edn.Value, *contract.Error) {
	if !request.IsMap() {
		return request, nil
	}
	sent, err := x.sentKey()
	if err != nil || sent == "" {
		return request, err
	}
	key := edn.Text(sent)
	if body, given := request.Get(edn.K("idempotency/key")); given && !body.Equal(key) {
		return request, contract.Errorf("idempotency/invalid-key",
			"the request has two idempotency keys: %.128q in the header Idempotency-Key, and %.128s under :idempotency/key", sent, body).
			WithHint("send the key in one of the two places")
	}
	return request.AssocKey("idempotency/key", key), nil
}

// sentKey returns the idempotency key of the header; empty if there is none.
func (x *exchange) sentKey() (string, *contract.Error) {
	all := x.r.Header.Values("Idempotency-Key")
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", contract.Errorf("idempotency/invalid-key", "the header Idempotency-Key occurs %d times: with %.128q and %.128q", len(all), all[0], all[1])
	case !validKey(all[0]):
		return "", contract.Errorf("idempotency/invalid-key", "the header Idempotency-Key is %.128q with %d bytes, "+
			"expected 1 to 128 visible ASCII characters", all[0], len(all[0])).
			WithDetail("got", edn.Text(truncate(all[0], 200)))
	}
	return all[0], nil
}

func validKey(key string) bool {
	return len(key) > 0 && len(key) <= 128 && !strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' })
}

// unsupported rejects requests for guarantees that this host cannot give, because ignoring them
// would be wrong.
func (x *exchange) unsupported(request edn.Value) *contract.Error {
	if request.HasKey("idempotency/key") && !x.settings.Keys {
		return contract.Errorf("db/not-configured", "this host keeps no idempotency keys: its runs are in memory").
			WithHint("send the request without the key, or set store.driver = \"sqlite\"")
	}
	return nil
}

// onlyValues rejects a request for a stream if the Accept header does not permit one.
func onlyValues(request edn.Value, events bool, accept string) *contract.Error {
	form, _ := request.Key("response/type").AsKeyword()
	streams, _ := request.Key("stream?").AsBool()
	if !events && (form == "stream" || streams) {
		return wrongPart("header", "Accept: text/event-stream", "Accept: "+accept, "streaming requires the header Accept: text/event-stream").
			WithHint("send the header, or :response/type :value")
	}
	return nil
}

// RequestFromJSON converts the untyped JSON values of a request envelope to the types of the
// envelope schema. The input is not changed, because its types are those of the schema of the
// intent. Values that are not maps, and requests of protocol version 0.3, are returned unchanged.
func RequestFromJSON(v edn.Value) edn.Value {
	if !v.IsMap() || request.IsV03(v) {
		return v
	}
	return typedRequest().CoerceJSON(v)
}

// FromJSON converts the untyped JSON values of a request to the types of the envelope, of the input
// schema of the intent, and, in a plan, of plans (VAL-006).
func FromJSON(v edn.Value, reg *registry.Registry) edn.Value {
	if !v.IsMap() || request.IsV03(v) {
		return v
	}
	v = RequestFromJSON(v)
	intent, ok := v.Key("task").Key("intent").AsKeyword()
	if !ok {
		return v
	}
	required, _ := v.Key("task").Key("requires").Key("in-schema").AsKeyword()
	if s, ok := reg.Schema(reg.InSchema(intent, required)); ok && v.Key("input").IsMap() {
		v = v.AssocKey("input", s.CoerceJSON(v.Key("input")))
	}
	if source := v.Key("input").Key("plan"); intent == act.PlanIntent && source.IsMap() {
		v = v.AssocKey("input", v.Key("input").AssocKey("plan", plan.FromJSON(source, reg)))
	}
	return v
}
