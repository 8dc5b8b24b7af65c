package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sessionCall is one session action in progress.
type sessionCall struct {
	*session.Service
	who session.Caller
	ref session.Ref
	in  edn.Value
	// permitAny returns an error if the caller may not use the sessions of other callers. Otherwise
	// it records that all sessions are used.
	permitAny func() *contract.Error
}

const (
	sessionEntry = `[:session/id [:string {:min 1 :max 128}]]`
	openedEntry  = `[:session/id {:optional true :doc "default: a new one"} [:string {:min 1 :max 128}]]`
	tokenEntry   = ` [:token? {:optional true :doc "return a token for the session, in place of an earlier one"} :boolean]`
	versionEntry = ` [:session/version {:optional true :doc "the version that the session must have"} [:int {:min 1}]]`
	notesEntries = ` [:summary {:optional true} :string] [:snapshot {:optional true} :any] [:meta {:optional true} :map] [:facts {:optional true} :any]`
	intentEntry  = ` [:intent {:optional true :doc "whose policy applies"} :keyword]`
	keyEntry     = ` [:key {:doc "name of a variable"} [:or :keyword :string]]`
	keysEntry    = ` [:keys [:vector {:min 1 :max 1000} [:or :keyword :string]]]`
	ttlEntry     = ` [:ttl-ms {:optional true :doc "lifetime; the default and the maximum are those of the class"} [:int {:min 1 :max 315360000000}]]`
)

// SessionActions returns the actions of POST /v1/session.
func SessionActions() []Action {
	type withNotes = func(*session.Service, context.Context, session.Caller, session.Ref, edn.Value) (session.Session, *contract.Error)
	set := func(f withNotes) func(context.Context, sessionCall) (edn.Value, *contract.Error) {
		return func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
			var notes edn.MapBuilder
			for _, key := range session.NoteKeys() {
				notes.Opt(key, c.in.Key(key))
			}
			s, err := f(c.Service, ctx, c.who, c.ref, notes.Map())
			return s.Value(), err
		}
	}
	get := func(keys func(edn.Value) []string, answer func(edn.Value, session.Session, []session.Var) edn.Value) func(context.Context, sessionCall) (edn.Value, *contract.Error) {
		return func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
			s, vars, err := c.Vars(ctx, c.who, c.ref, keys(c.in))
			if err != nil {
				return edn.Nil(), err
			}
			return answer(c.in, s, vars), nil
		}
	}
	drop := func(keys func(edn.Value) []string) func(context.Context, sessionCall) (edn.Value, *contract.Error) {
		return func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
			s, dropped, err := c.Drop(ctx, c.who, c.ref, keys(c.in))
			return s.Value().AssocKey("deleted", keyVector(dropped)), err
		}
	}
	put := func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
		ttl, _ := c.in.Key("ttl-ms").AsInt()
		vars, err := varsOf(c.in)
		if err != nil {
			return edn.Nil(), err
		}
		s, err := c.Put(ctx, c.who, c.ref, vars, time.Duration(ttl)*time.Millisecond)
		return s.Value(), err
	}
	return []Action{
		{Name: "open", Doc: "open a session; it is created if there is none", Input: openedEntry + versionEntry + notesEntries + tokenEntry,
			onSession: set((*session.Service).Open)},
		{Name: "get", Doc: "a session, with its last turns if asked for", Input: sessionEntry + ` [:turns? {:optional true} :boolean]`,
			onSession: getSession},
		{Name: "list", Doc: "the sessions of the caller without their notes, those of all callers for an operator", Input: `[:after {:optional true :doc "id of the last session of the page before"} :string] [:limit {:optional true :default 200} [:int {:min 1 :max 200}]]`,
			onSession: listSessions},
		{Name: "thaw", Doc: "open a session that exists", Input: sessionEntry + versionEntry + notesEntries,
			onSession: set((*session.Service).Thaw)},
		{Name: "freeze", Doc: "freeze a session", Input: sessionEntry + versionEntry + notesEntries,
			onSession: set((*session.Service).Freeze)},
		{Name: "delete", Doc: "delete a session with its variables and turns", Input: sessionEntry + versionEntry,
			onSession: func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
				s, err := c.Delete(ctx, c.who, c.ref)
				return s.Value(), err
			}},
		{Name: "get-var", Doc: "the value of a variable", Input: sessionEntry + keyEntry + intentEntry, onSession: get(oneKey, oneVar)},
		{Name: "get-vars", Doc: "the values of variables; without :keys of all that may be read", Input: sessionEntry + optional(keysEntry) + intentEntry,
			onSession: get(allKeys, allVars)},
		{Name: "put-var", Doc: "write a variable", Input: sessionEntry + versionEntry + keyEntry + ` [:value :any]` + ttlEntry + intentEntry, onSession: put},
		{Name: "put-vars", Doc: "write variables, all or none", Input: sessionEntry + versionEntry + ` [:vars {:doc "values by name"} :map]` + ttlEntry + intentEntry, onSession: put},
		{Name: "del-var", Doc: "delete a variable", Input: sessionEntry + versionEntry + keyEntry + intentEntry, onSession: drop(oneKey)},
		{Name: "del-vars", Doc: "delete variables, all or none", Input: sessionEntry + versionEntry + keysEntry + intentEntry, onSession: drop(allKeys)},
		{Name: "del-all-vars", Doc: "delete all variables of a session, all or none", Input: sessionEntry + versionEntry + intentEntry, onSession: drop(allKeys)},
		{Name: "worker/thaw", Doc: "start the model servers that plugins run for a session, and permit their start", Input: sessionEntry,
			onSession: workers((*session.Service).ThawWorkers)},
		{Name: "worker/freeze", Doc: "stop the model servers that plugins run for a session, until they are thawed", Input: sessionEntry,
			onSession: workers((*session.Service).FreezeWorkers)},
		{Name: "expire", Doc: "delete the expired variables of all sessions now; for operators",
			onSession: func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
				if err := c.permitAny(); err != nil {
					return edn.Nil(), err
				}
				n, err := c.Upkeep(ctx)
				return edn.MustMap(edn.K("expired"), edn.Int(int64(n))), err
			}},
	}
}

func workers(f func(*session.Service, context.Context, session.Caller, string) (session.Session, int, *contract.Error)) func(context.Context, sessionCall) (edn.Value, *contract.Error) {
	return func(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
		s, n, err := f(c.Service, ctx, c.who, c.ref.ID)
		return s.Value().AssocKey("plugins", edn.Int(int64(n))), err
	}
}

// optional makes an entry of a map schema optional.
func optional(entry string) string {
	return strings.Replace(entry, "[:keys ", "[:keys {:optional true} ", 1)
}

func getSession(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
	s, err := c.Get(ctx, c.who, c.ref.ID)
	if err != nil || !c.in.Key("turns?").Truthy() {
		return s.Value(), err
	}
	turns, cut, err := c.Turns(ctx, c.who, c.ref.ID)
	listed := make([]edn.Value, len(turns))
	for i, t := range turns {
		listed[i] = t.Value()
	}
	return s.Value().AssocKey("session/turns", edn.Vector(listed...)).AssocKey("turns/cut?", edn.Bool(cut)), err
}

func listSessions(ctx context.Context, c sessionCall) (edn.Value, *contract.Error) {
	page, next, err := c.List(ctx, c.who, text(c.in, "after"), int(intOr(c.in, "limit", 0)))
	listed := make([]edn.Value, len(page))
	for i, s := range page {
		listed[i] = s.Brief()
	}
	var b edn.MapBuilder
	b.Key("sessions", edn.Vector(listed...))
	b.OptText("next", next)
	return b.Map(), err
}

// keyOf returns the name of a variable, which is a string in JSON.
func keyOf(v edn.Value) string {
	if k, ok := v.AsKeyword(); ok {
		return k
	}
	s, ok := v.AsString()
	if !ok {
		return v.String() // the service rejects it
	}
	return strings.TrimPrefix(s, ":")
}

func oneKey(in edn.Value) []string { return []string{keyOf(in.Key("key"))} }

func allKeys(in edn.Value) (out []string) {
	for v := range in.Key("keys").Elems() {
		out = append(out, keyOf(v))
	}
	return out
}

// varsOf returns the variables that a body sets.
func varsOf(in edn.Value) (map[string]edn.Value, *contract.Error) {
	if !in.HasKey("vars") {
		return map[string]edn.Value{keyOf(in.Key("key")): in.Key("value")}, nil
	}
	out := map[string]edn.Value{}
	for k, v := range in.Key("vars").Entries() {
		name := keyOf(k)
		if _, twice := out[name]; twice {
			return nil, contract.Errorf("invalid-request", "[:vars]: the variable %q has several values; a keyword and a text with or without colon are the same name",
				name).WithHint("name each variable once")
		}
		out[name] = v
	}
	return out, nil
}

func keyVector(keys []string) edn.Value {
	out := make([]edn.Value, len(keys))
	for i, key := range keys {
		out[i] = edn.K(key)
	}
	return edn.Vector(out...)
}

func oneVar(in edn.Value, s session.Session, vars []session.Var) edn.Value {
	var b edn.MapBuilder
	b.Key("session/id", edn.Text(s.ID))
	b.Key("session/version", edn.Int(s.Version))
	b.Key("key", edn.K(keyOf(in.Key("key"))))
	b.Key("found?", edn.Bool(len(vars) > 0))
	for _, v := range vars {
		b.Key("value", v.Value)
		if !v.Expires.IsZero() {
			b.Key("expires-at", edn.Inst(v.Expires))
		}
	}
	return b.Map()
}

func allVars(_ edn.Value, s session.Session, vars []session.Var) edn.Value {
	var values, expires, b edn.MapBuilder
	for _, v := range vars {
		values.Key(v.Key, v.Value)
		if !v.Expires.IsZero() {
			expires.Key(v.Key, edn.Inst(v.Expires))
		}
	}
	b.Key("session/id", edn.Text(s.ID))
	b.Key("session/version", edn.Int(s.Version))
	b.Key("vars", values.Map())
	b.Key("expires-at", expires.Map())
	return b.Map()
}

// auditedInput returns the input of a session action for the audit log: with the names of
// variables, but not their values.
func auditedInput(in edn.Value) edn.Value {
	var b edn.MapBuilder
	for _, key := range []string{"session/id", "session/version", "intent", "ttl-ms", "key", "keys", "after", "limit"} {
		b.Opt(key, in.Key(key))
	}
	if in.HasKey("vars") {
		var keys []edn.Value
		for k := range in.Key("vars").Entries() {
			keys = append(keys, k)
		}
		b.Key("keys", edn.Vector(keys...))
	}
	return b.Map()
}

// serveSession handles POST /v1/session.
func serveSession(x *exchange) reply {
	return x.act(x.api.sessions, edn.Body, func(a *Action, body edn.Value) (admitted, *contract.Error) {
		may, service := admitted{logged: auditedInput(body)}, x.api.backend.Sessions()
		if service == nil {
			return admitted{}, contract.Errorf("runtime/starting", "the daemon is coming up")
		}
		if err := x.ownSession(body); err != nil {
			return may, err
		}
		may.do = func(ctx context.Context) (edn.Value, *contract.Error) { return x.onSession(ctx, service, a, body) }
		return may, nil
	})
}

// onSession executes a session action.
func (x *exchange) onSession(ctx context.Context, service *session.Service, a *Action, body edn.Value) (edn.Value, *contract.Error) {
	intent, _ := body.Key("intent").AsKeyword()
	others, err := x.anySession(ctx, service, a, text(body, "session/id"))
	if err != nil {
		return edn.Nil(), err
	}
	v, err := a.onSession(ctx, sessionCall{
		Service: service,
		who: session.Caller{
			Principal: x.who.Name,
			Any:       others,
		},
		ref: session.Ref{
			ID:        text(body, "session/id"),
			Version:   intOr(body, "session/version", 0),
			Operation: a.Operation(),
			Intent:    intent,
		},
		in: body,
		permitAny: func() *contract.Error {
			d := x.decide(policy.AnySession)
			if !d.OK {
				return x.permit(policy.AnySession)
			}
			x.useOthers(d, "", "")
			return nil
		},
	})
	if err != nil {
		return v, err
	}
	return x.tokenOf(a, body, v)
}

// ownSession rejects a session action with a session token for another session.
func (x *exchange) ownSession(body edn.Value) *contract.Error {
	if of := x.who.Session; of != "" && text(body, "session/id") != of {
		return contract.Errorf("auth/forbidden", "the session token is for the session %s only", of).
			WithHint("name the session " + of + ", or use another credential")
	}
	return nil
}

// tokenOf adds a new token to the result of opening a session, if requested, and revokes the token
// of a deleted session.
func (x *exchange) tokenOf(a *Action, body, result edn.Value) (edn.Value, *contract.Error) {
	service, id := x.api.backend.Identity(), text(result, "session/id")
	switch {
	case service == nil:
		return result, nil
	case a.Name == "delete":
		return result, service.CloseSession(x.r.Context(), id)
	case !body.Key("token?").Truthy():
		return result, nil
	case text(result, "session/owner") != x.who.Name:
		return edn.Nil(), contract.Errorf("auth/forbidden", "the session %s belongs to another caller, so it has no token for this one", id).
			WithHint("name a session of your own, or open a new one")
	}
	token, until, err := service.OpenSession(x.r.Context(), x.settings.Identity, &x.who, id)
	if err != nil {
		return edn.Nil(), err
	}
	return result.AssocKey("session/token", edn.Text(token)).AssocKey("token/expires-at", edn.Inst(until)), nil
}
