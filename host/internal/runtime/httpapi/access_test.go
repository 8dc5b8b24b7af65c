package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// strict are settings under which callers need credentials.
func strict(s *httpapi.Settings) { s.Identity.Required = true }

// basic returns the header of a login with a password.
func basic(login, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(login, password)
	return r.Header.Get("Authorization")
}

// routeOperations are the routes by method and path, with the least role that may
// use each: "" is every caller, and any is every identified one.
var routeOperations = map[string]string{
	"GET /health": "", "GET /ready": "", "GET /routes": "", "GET /openapi.json": "",
	"GET /v1/whoami":                            "any",
	"POST /v1/auth/login":                       "",
	"POST /v1/auth/logout":                      "any",
	"POST /v1/act":                              "user",
	"POST /v1/session":                          "user",
	"GET /v1/runs":                              "user",
	"GET /v1/runs/stats":                        "user",
	"GET /v1/interrupts":                        "user",
	"GET /v1/runs/{id}":                         "user",
	"GET /v1/runs/{id}/records":                 "user",
	"GET /v1/runs/{id}/events":                  "user",
	"GET /v1/runs/{id}/verify":                  "user",
	"GET /v1/runs/{id}/diff/{other}":            "user",
	"POST /v1/runs/{id}/cancel":                 "user",
	"POST /v1/runs/{id}/interrupts/{interrupt}": "user",
	"GET /v1/act/jobs/{id}":                     "user",
	"POST /v1/act/jobs/{id}/cancel":             "user",
	"POST /v1/runs/{id}/resume":                 "operator",
	"POST /v1/runs/{id}/replay":                 "operator",
	"GET /v1/values/{hash}":                     "user",
	"GET /v1/admin/plugins/{name}/logs":         "admin",
	"GET /v1/admin/audit":                       "admin",
	"POST /v1/runs/{id}/pin":                    "admin",
	"POST /v1/runs/{id}/unpin":                  "admin",
	"DELETE /v1/runs/{id}":                      "admin",
	"POST /v1/admin":                            "admin",
	"GET /metrics":                              "operator",
	"GET /diag/telemetry":                       "operator",
	"POST /diag/telemetry":                      "operator",
}

// AUTH-010, AUTH-011, AUTH-012, AUTH-013: every route under every role. A denied
// request looks nothing up and is audited with the rule; of a route of runs, users
// get their own and operators all of them.
func TestEveryRouteUnderEveryRole(t *testing.T) {
	w := newWorld(t, strict, browsers)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	ranks := []string{"anonymous", "nothing", "user", "operator", "admin"}
	headers := map[string]string{}
	names := map[string]string{}
	for _, rank := range ranks[2:] {
		u := w.user(rank, "role/"+rank)
		headers[rank], _ = w.token(rank, policy.Narrowing{})
		names[rank] = u.ID
	}
	w.user("nothing")
	headers["nothing"], _ = w.token("nothing", policy.Narrowing{Roles: []string{}})
	covered := 0
	for r := range w.call("GET /routes", "").value(t).Key("routes").Elems() {
		method, _ := r.Key("method").AsString()
		path, _ := r.Key("path").AsString()
		what := method + " " + path
		least, known := routeOperations[what]
		require.True(t, known, "%s has no row here", what)
		covered++
		body := map[string]string{
			"POST /v1/act": jsonAct("t/any", "{}"), "POST /v1/admin": `{"action":"plugin-list"}`, "POST /v1/session": `{"action":"list"}`,
			"POST /v1/runs/{id}/interrupts/{interrupt}": `{"answer":1}`, "POST /v1/auth/login": loginBody("user", password),
		}[what]
		for rank, role := range ranks {
			w.denied()
			asked := w.asks()
			var more []string
			if headers[role] != "" && what != "POST /v1/auth/login" { // its body has the credentials
				more = []string{"Authorization", headers[role]}
			}
			a := w.call(concrete(what), body, more...)
			denied := w.denied()
			switch {
			case least == "":
				assert.Less(t, a.status, 400, "%s as %s: %s", what, role, a.body)
			case role == "anonymous":
				assert.Equal(t, 401, a.status, "%s as %s: %s", what, role, a.body)
				assert.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			case least == "any" || rank >= slices.Index(ranks, least):
				assert.NotContains(t, []int{401, 403}, a.status, "%s as %s: %s", what, role, a.body)
				assert.Empty(t, denied, "%s as %s", what, role)
				if strings.Contains(path, "{id}") && w.asks() > asked {
					owner := names[role]
					if rank >= slices.Index(ranks, "operator") {
						owner = ""
					}
					assert.Equal(t, owner, w.lastAsked().owner, "%s as %s: whose runs exist", what, role)
				}
			default:
				assert.Equal(t, 403, a.status, "%s as %s: %s", what, role, a.body)
				assert.Equal(t, "auth/forbidden", a.failure(t), "%s as %s", what, role)
				assert.Equal(t, asked, w.asks(), "%s as %s: nothing is looked up", what, role)
				require.Len(t, denied, 1, "%s as %s", what, role)
				assert.Equal(t, "auth/denied", denied[0].Event)
				assert.True(t, denied[0].Decision.HasKey("rule") && denied[0].Decision.HasKey("reason"), "%s", denied[0].Decision)
			}
		}
	}
	assert.Len(t, routeOperations, covered)
}

// AUTH-001: tokens, HTTP Basic, and nothing else; exactly one per request.
func TestCredentials(t *testing.T) {
	w := newWorld(t, strict)
	u := w.user("ann", policy.RoleOperator)
	token, id := w.token("ann", policy.Narrowing{Intents: []string{"t/*"}})
	for name, tc := range map[string]struct {
		header string
		status int
	}{
		"token":             {token, 200},
		"lower-case scheme": {"bearer" + strings.TrimPrefix(token, "Bearer"), 200},
		"password":          {basic("ann", password), 200},
		"password again":    {basic("ann", password), 200},
		"wrong password":    {basic("ann", password+"x"), 401},
		"unknown login":     {basic("bob", password), 401},
		"malformed basic":   {"Basic ???", 401},
		"another scheme":    {"Digest x", 401},
		"no scheme":         {"x", 401},
		"short token":       {token[:len(token)-1], 401},
		"admin token":       {"Bearer " + token, 401},
		"the daemon's":      {"Bearer the-token-of-this-start", 401},
	} {
		a := w.call("GET /v1/whoami", "", "Authorization", tc.header)
		assert.Equal(t, tc.status, a.status, "%s: %s", name, a.body)
		if tc.status == 401 {
			assert.NotEmpty(t, a.header.Get("WWW-Authenticate"), name)
		}
	}
	who := w.call("GET /v1/whoami", "", "Authorization", token).value(t)
	assert.Equal(t, []string{u.ID, "ann", id}, []string{text(who, "principal"), text(who, "login"), text(who, "token/id")})
	assert.Contains(t, string(w.call("GET /v1/whoami", "", "Authorization", token).body), `"narrow":{"intents":["t/*"]}`)
	w.tune(func(s *httpapi.Settings) { s.Identity.Basic.Enabled = false })
	assert.Equal(t, 401, w.call("GET /v1/whoami", "", "Authorization", basic("ann", password)).status)
}

// TEL-002, AUTH-013: the audit trail has no part of a credential that was sent in a wrong form, and
// names the token, and its user if its secret is right, of one that was refused.
func TestTrailOfRefusedCredentials(t *testing.T) {
	w := newWorld(t, strict)
	ann := w.user("ann", policy.RoleOperator)
	token, id := w.token("ann", policy.Narrowing{})
	secret := strings.TrimPrefix(token, "Bearer ")
	last := func(header string) httpapi.Denial {
		t.Helper()
		require.Equal(t, 401, w.call("GET /v1/whoami", "", "Authorization", header).status)
		all := w.denied()
		return all[len(all)-1]
	}
	for _, header := range []string{"hunter2secretpw", "Basic\t" + strings.TrimPrefix(basic("ann", "hunter2secretpw"), "Basic "), secret, "Bearer\t" + secret} {
		d := last(header)
		assert.Empty(t, d.Principal)
		for size := 6; size <= 12; size += 2 {
			assert.NotContains(t, d.Message, strings.TrimPrefix(header, "Bearer\t")[:size])
		}
	}
	_, refused := w.users.Lock(t.Context(), w.Settings().Identity, "ann", true, false)
	require.Nil(t, refused)
	d := last(token)
	assert.Equal(t, ann.ID, d.Principal)
	assert.Contains(t, d.Message, id)
	_, refused = w.users.RevokeToken(t.Context(), id, false)
	require.Nil(t, refused)
	d = last(token)
	assert.Empty(t, d.Principal, "it is not known any more")
	assert.Contains(t, d.Message, id)
	assert.NotContains(t, d.Message, secret)
}

// AUTH-031: without users, a listener that needs an identity says how the first one is
// made, and admin actions need an identity even where acts need none.
func TestWithoutUsers(t *testing.T) {
	w := newWorld(t, strict)
	for _, what := range []string{"GET /v1/whoami", "POST /v1/admin"} {
		a := w.call(what, `{"action":"list-users"}`)
		assert.Equal(t, "auth/not-configured", a.failure(t), what)
		assert.Contains(t, string(a.body), "ferment user add")
	}
	open := newWorld(t)
	open.user("ann", policy.RoleAdmin)
	open.tune(func(s *httpapi.Settings) { s.Identity.Anonymous = policy.RoleAdmin })
	assert.Equal(t, 200, open.call("GET /v1/runs", "").status)
	assert.Equal(t, "auth/unauthorized", open.call("POST /v1/admin", `{"action":"list-users"}`).failure(t))
	created := w.operator("POST /v1/admin", `{"action":"create-user","user":"root","roles":["admin"],"password":"`+password+`"}`)
	require.Equal(t, 200, created.status, "%s", created.body)
	entry := <-w.audited
	assert.NotContains(t, entry.Input.String(), password, "the audit trail has no password")
	assert.Equal(t, 200, w.call("POST /v1/admin", `{"action":"list-users"}`, "Authorization", basic("root", password)).status)
}

// AUTH-003, AUTH-011: limits of a token count within acts as well: another intent, and
// the operations of its owner within a request.
func TestNarrowTokensInActs(t *testing.T) {
	w := newWorld(t, strict)
	w.user("ann", policy.RoleOperator)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	act := func(n policy.Narrowing) answer {
		token, _ := w.token("ann", n)
		return w.call("POST /v1/act", jsonAct("t/any", "{}"), "Authorization", token)
	}
	assert.Equal(t, 200, act(policy.Narrowing{Intents: []string{"t/any"}}).status)
	assert.Equal(t, "auth/forbidden", act(policy.Narrowing{Intents: []string{"t/other"}}).failure(t))
	assert.Equal(t, "auth/forbidden", act(policy.Narrowing{Operations: []string{policy.ReadRuns}}).failure(t))
	assert.Equal(t, "auth/forbidden", act(policy.Narrowing{Roles: []string{"role/contractor"}}).failure(t))
}

// AUTH-003, AUTH-020: a revoked token, a locked account and a deleted one end at once, also the
// streams that are open and have nothing to write: their heartbeats are far away.
func TestRevokedAtOnce(t *testing.T) {
	w := streamWorld(t, strict, func(s *httpapi.Settings) { s.Heartbeat = time.Hour })
	w.exec.On("t/any", dispatchtest.Step{Pieces: []string{"a"}, Hang: true})
	w.idle.Store(true)
	ends := map[string]func(login, token string) *contract.Error{
		"revoke": func(_, token string) *contract.Error {
			_, err := w.users.RevokeToken(t.Context(), token, false)
			return err
		},
		"lock": func(login, _ string) *contract.Error {
			_, err := w.users.Lock(t.Context(), w.Settings().Identity, login, true, false)
			return err
		},
		"delete": func(login, _ string) *contract.Error {
			_, _, err := w.users.DeleteUser(t.Context(), w.Settings().Identity, login, false)
			return err
		},
	}
	for login, end := range ends {
		w.user(login, policy.RoleOperator)
		header, id := w.token(login, policy.Narrowing{})
		ended := map[string]chan error{}
		for _, route := range []string{"POST /v1/act", concrete("GET /v1/runs/{id}/events")} {
			method, path, _ := strings.Cut(route, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.address+path, strings.NewReader(jsonAct("t/any", "{}")))
			require.NoError(t, err)
			r.Header.Set("Authorization", header)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "text/event-stream")
			resp, next := w.events(w.client, r)
			require.Equal(t, 200, resp.StatusCode, route)
			for method == http.MethodPost {
				if e, err := next(); err != nil || e.name == "provisional" {
					require.NoError(t, err)
					break
				}
			}
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, resp.Body)
				done <- err
			}()
			ended[route] = done
		}
		require.Nil(t, end(login, id), login)
		assert.Equal(t, 401, w.call("GET /v1/whoami", "", "Authorization", header).status, login)
		for route, done := range ended {
			select {
			case err := <-done:
				require.NoError(t, err, "%s: %s", login, route)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: %s goes on", login, route)
			}
		}
	}
	assert.Equal(t, 401, w.call("GET /v1/whoami", "", "Authorization", basic("lock", password)).status)
}

// AUTH-020, AUTH-021, AUTH-033: failures lock an account for the network that they come
// from, as trusted proxies name it; what another caller writes into the header counts
// for nothing. Passwords have a rate of their own.
func TestLoginsBehindProxies(t *testing.T) {
	w := newWorld(t, strict)
	w.user("ann")
	try := func(password, forwarded string) string {
		a := w.call("GET /v1/whoami", "", "Authorization", basic("ann", password), "X-Forwarded-For", forwarded)
		if a.status == 200 {
			return ""
		}
		return a.failure(t)
	}
	for i := range 3 {
		assert.Equal(t, "auth/unauthorized", try("wrong password", fmt.Sprintf("192.0.2.%d", i)))
	}
	assert.Equal(t, "auth/locked", try(password, "192.0.2.9"), "all came from here: no proxy is trusted")
	w.tune(func(s *httpapi.Settings) { s.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	assert.Equal(t, "auth/unauthorized", try("wrong password", "192.0.2.9"))
	for range 3 {
		try("wrong password", "192.0.2.9, 127.0.0.2")
	}
	assert.Equal(t, "auth/locked", try(password, "203.0.113.1, 192.0.2.9"))
	assert.Empty(t, try(password, "192.0.2.9, 203.0.113.1"), "another network")
	assert.Equal(t, "auth/locked", w.call("GET /v1/whoami", "", "Authorization", basic("ann", "another wrong one"), "X-Forwarded-For", "not an address").failure(t))

	slow := newWorld(t, strict, func(s *httpapi.Settings) {
		s.Identity.Locks.Max = 100
		s.Limits.LoginRate = config.Rate{Events: 2, Per: 2 * time.Hour}
	})
	slow.user("ann")
	wrong := func() answer { return slow.call("GET /v1/whoami", "", "Authorization", basic("ann", "wrong password")) }
	assert.Equal(t, "auth/unauthorized", wrong().failure(t))
	assert.Equal(t, "auth/unauthorized", wrong().failure(t))
	limited := wrong()
	assert.Equal(t, "auth/rate-limited", limited.failure(t))
	assert.NotEmpty(t, limited.header.Get("Retry-After"))
}

// AUTH-033: an address whose rate is used up has no password checked, also not the right one
// of an account that it has not tried. A login that is remembered costs no check.
func TestSprayedLogins(t *testing.T) {
	w := newWorld(t, strict, func(s *httpapi.Settings) {
		s.Limits.AnonymousRate = config.Rate{Events: 1, Per: 24 * time.Hour} // a burst of two
	})
	w.user("ann")
	w.user("bob")
	try := func(name, password string) int {
		return w.call("GET /v1/whoami", "", "Authorization", basic(name, password)).status
	}
	assert.Equal(t, 200, try("bob", password))
	assert.Equal(t, 401, try("nil", password))
	assert.Equal(t, 429, try("ann", password))
	assert.Equal(t, 200, try("bob", password))
}

// AUTH-003: administration over HTTP needs the role, action by action; a token can be
// limited to one of them.
func TestAdminOverHTTP(t *testing.T) {
	w := newWorld(t, strict)
	w.user("root", policy.RoleAdmin)
	w.user("ann", policy.RoleOperator)
	one, _ := w.token("root", policy.Narrowing{Operations: []string{"admin/list-users"}})
	whole, _ := w.token("root", policy.Narrowing{})
	operator, _ := w.token("ann", policy.Narrowing{})
	for _, tc := range []struct {
		header, action string
		status         int
	}{
		{one, "list-users", 200}, {one, "plugin-list", 403}, {whole, "plugin-list", 200}, {operator, "plugin-list", 403},
	} {
		a := w.call("POST /v1/admin", `{"action":"`+tc.action+`"}`, "Authorization", tc.header)
		assert.Equal(t, tc.status, a.status, "%s: %s", tc.action, a.body)
		<-w.audited
	}
}

// AUTH-013: the denial of an action names the operation that decides, with its rule: of an action
// that another operation permits too, it is that one.
func TestDeniedActionNamesWhatDecides(t *testing.T) {
	w := newWorld(t, strict)
	w.user("ann")
	user, _ := w.token("ann", policy.Narrowing{})
	nothing, _ := w.token("ann", policy.Narrowing{Roles: []string{}})
	rules := policy.ShippedOperationRules()
	for _, tc := range []struct{ route, body, header, operation string }{
		{"POST /v1/admin", `{"action":"runs-replay","run":"last"}`, user, policy.ReplayRuns},
		{"POST /v1/admin", `{"action":"runs-purge","run":"last"}`, user, policy.PurgeRuns},
		{"POST /v1/admin", `{"action":"status"}`, user, policy.ReadDiag},
		{"POST /v1/admin", `{"action":"runs-list"}`, nothing, policy.ReadRuns},
		{"POST /v1/admin", `{"action":"plugin-list"}`, user, "admin/plugin-list"},
		{"POST /v1/session", `{"action":"expire"}`, user, policy.AnySession},
	} {
		w.denied()
		a := w.call(tc.route, tc.body, "Authorization", tc.header, "Accept", "application/edn")
		require.Equal(t, "auth/forbidden", strings.TrimPrefix(a.failure(t), ":"), tc.body)
		details := a.value(t).Key("error").Key("details")
		rule, _ := rules.For(tc.operation)
		assert.Equal(t, ":"+tc.operation, details.Key("operation").String(), tc.body)
		assert.Equal(t, rule.Value().String(), details.Key("rule").String(), tc.body)
		if denied := w.denied(); assert.Len(t, denied, 1, tc.body) {
			assert.Equal(t, tc.operation, denied[0].Operation, tc.body)
		}
		<-w.audited
	}
}

// AUTH-003: a token with a part of the rights of its user, of whatever kind, makes no
// credential and no right, which could be more than it has.
func TestNarrowTokensGrantNothing(t *testing.T) {
	w := newWorld(t, strict)
	w.user("root", policy.RoleAdmin)
	w.user("ann", policy.RoleOperator)
	granting := 0
	for _, a := range httpapi.Actions() {
		if a.Grants {
			granting++
		}
	}
	actions := []string{
		`{:action :token-create :user "root"}`, `{:action :create-user :user "eve" :roles #{:role/admin}}`, `{:action :create-role :role "boss" :includes #{:role/admin}}`,
		`{:action :grant-role :user "ann" :role :role/admin}`, `{:action :set-password :user "root" :password "a long password"}`,
		`{:action :unlock-user :user "ann"}`,
	}
	assert.Len(t, actions, granting)
	for name, n := range map[string]policy.Narrowing{
		"operations": {Operations: []string{"admin/*"}}, "intents": {Intents: []string{"text/*"}}, "roles": {Roles: []string{policy.RoleAdmin}},
	} {
		header, _ := w.token("root", n)
		for _, action := range actions {
			a := w.call("POST /v1/admin", action, "Authorization", header, "Content-Type", "application/edn")
			assert.Equal(t, 403, a.status, "%s: %s: %s", name, action, a.body)
			assert.Equal(t, "auth/forbidden", a.failure(t))
			<-w.audited
		}
	}
	one, _ := w.token("root", policy.Narrowing{Operations: []string{"admin/list-users"}})
	assert.Equal(t, `["admin/list-users"]`, w.call("GET /v1/whoami", "", "Authorization", one).value(t).Key("operations").String())
	whole, _ := w.token("root", policy.Narrowing{})
	assert.Equal(t, 200, w.call("POST /v1/admin", actions[0], "Authorization", whole, "Content-Type", "application/edn").status)
}

// asks returns the number of calls of runs so far.
func (w *world) asks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

// AUTH-011: an exported run says what the plugins provide only to a caller who may export all
// runs as an administrator, not to one who may read its own.
func TestExportedPluginsAreForAdministrators(t *testing.T) {
	w := newWorld(t, strict)
	for role, want := range map[string]string{policy.RoleUser: "nil", policy.RoleOperator: "nil", policy.RoleAdmin: `{:text "lines" :unknown ["x"]}`} {
		login := strings.TrimPrefix(role, "role/")
		w.user(login, role)
		header, _ := w.token(login, policy.Narrowing{})
		a := w.call("POST /v1/admin", `{"action":"runs-export","run":"last"}`, "Authorization", header)
		require.Equal(t, 200, a.status, "%s: %s", role, a.body)
		assert.Equal(t, want, a.value(t).Key("result").Key("plugins").String(), role)
	}
}
