package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

const login = "POST /v1/auth/login"

// browsers are settings under which browsers can log in.
func browsers(s *httpapi.Settings) { s.Identity.BrowserTTL = 12 * time.Hour }

// sessionTokens are settings with tokens of sessions.
func sessionTokens(operations ...string) func(*httpapi.Settings) {
	return func(s *httpapi.Settings) {
		s.Identity.Sessions = identity.SessionTokens{Operations: operations, IdleTTL: 30 * time.Minute, Refresh: 5 * time.Minute}
	}
}

func loginBody(name, password string) string {
	return fmt.Sprintf(`{"login":%q,"password":%q}`, name, password)
}

// cookieOf returns the only cookie of a response.
func cookieOf(t testing.TB, a answer) *http.Cookie {
	t.Helper()
	all := (&http.Response{Header: a.header}).Cookies()
	require.Len(t, all, 1)
	return all[0]
}

// logIn returns the cookie of a browser, as the browser sends it.
func (w *world) logIn(name string) string {
	w.t.Helper()
	a := w.call(login, loginBody(name, password))
	require.Equal(w.t, 200, a.status, "%s", a.body)
	c := cookieOf(w.t, a)
	return c.Name + "=" + c.Value
}

// asPage is a call by a page of the daemon in a browser with a cookie.
func (w *world) asPage(cookie, what, body string, more ...string) answer {
	w.t.Helper()
	return w.call(what, body, append([]string{"Cookie", cookie, "Origin", "http://" + w.address, "Sec-Fetch-Site", "same-origin"}, more...)...)
}

// AUTH-032: a login sets a cookie that scripts cannot read and other pages cannot use,
// for 12 hours; the logout ends it, and so do another password and a lock.
func TestBrowserLogin(t *testing.T) {
	w := newWorld(t, strict, browsers)
	u := w.user("ann", policy.RoleOperator)
	a := w.call(login, loginBody("ann", password))
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, u.ID, text(a.value(t), "principal"))
	c := cookieOf(t, a)
	assert.True(t, c.HttpOnly && c.Secure && c.SameSite == http.SameSiteStrictMode && c.Path == "/" && c.Domain == "", "%s", a.header)
	assert.True(t, strings.HasPrefix(c.Name, "__Host-"))
	assert.InDelta(t, 12*3600, c.MaxAge, 5)
	cookie := c.Name + "=" + c.Value
	who := func(cookie string) int { return w.asPage(cookie, "GET /v1/whoami", "").status }
	assert.Equal(t, 200, who(cookie))
	assert.Equal(t, 401, w.call("GET /v1/whoami", "", "Authorization", "Bearer "+c.Value).status, "it is no bearer token")
	program, _ := w.token("ann", policy.Narrowing{})
	assert.Equal(t, 401, who(c.Name+"="+strings.TrimPrefix(program, "Bearer ")), "a token for programs is no cookie")

	out := w.asPage(cookie, "POST /v1/auth/logout", "")
	require.Equal(t, 200, out.status, "%s", out.body)
	assert.Negative(t, cookieOf(t, out).MaxAge)
	late := w.asPage(cookie, "GET /v1/whoami", "")
	assert.Equal(t, 401, late.status)
	assert.Negative(t, cookieOf(t, late).MaxAge, "a browser stops sending a cookie that is refused")

	for what, end := range map[string]func(string) error{
		"another password": func(name string) error {
			_, err := w.users.SetPassword(t.Context(), w.Settings().Identity, name, password+"!")
			return orNil(err)
		},
		"lock": func(name string) error {
			_, err := w.users.Lock(t.Context(), w.Settings().Identity, name, true, false)
			return orNil(err)
		},
		"lock that was taken back": func(name string) error {
			_, err := w.users.Lock(t.Context(), w.Settings().Identity, name, true, false)
			require.Nil(t, err)
			_, err = w.users.Lock(t.Context(), w.Settings().Identity, name, false, false)
			return orNil(err)
		},
	} {
		name := strings.ReplaceAll(what, " ", "-")
		w.user(name)
		cookie := w.logIn(name)
		require.Equal(t, 200, who(cookie), what)
		require.NoError(t, end(name), what)
		assert.Equal(t, 401, who(cookie), what)
	}
	w.tune(func(s *httpapi.Settings) { s.Identity.BrowserTTL = 0 })
	assert.Equal(t, "not-found", w.call(login, loginBody("ann", password)).failure(t), "only where it is configured")
}

func orNil[E error](err E) error {
	if any(err) == any(*new(E)) {
		return nil
	}
	return err
}

// AUTH-020, AUTH-033: logins fail alike for a wrong password and an unknown login, lock
// the pair of account and network, and are audited without the password.
func TestBrowserLoginsFail(t *testing.T) {
	w := newWorld(t, strict, browsers)
	w.user("ann")
	wrong := w.call(login, loginBody("ann", "a wrong password"))
	unknown := w.call(login, loginBody("bob", "a wrong password"))
	assert.Equal(t, 401, wrong.status)
	assert.Equal(t, string(wrong.body), string(unknown.body))
	assert.Empty(t, wrong.header["Set-Cookie"])
	denials := w.denied()
	require.Len(t, denials, 2)
	assert.Equal(t, "auth/failed", denials[0].Event)
	assert.NotContains(t, fmt.Sprint(denials), "a wrong password")
	for range 2 {
		w.call(login, loginBody("ann", "a wrong password"))
	}
	assert.Equal(t, "auth/locked", w.call(login, loginBody("ann", password)).failure(t))
	assert.Equal(t, "auth/ambiguous", w.call(login, loginBody("ann", password), "Authorization", "Bearer x").failure(t))
}

// AUTH-032: which requests a cookie counts in. Browsers say where a request comes from;
// one that changes something has to say so.
func TestWhereCookiesCount(t *testing.T) {
	w := newWorld(t, strict, browsers, func(s *httpapi.Settings) { s.Origins = []string{"https://app.example"} })
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	w.user("ann")
	cookie, own := w.logIn("ann"), "http://"+w.address
	for name, tc := range map[string]struct {
		headers   []string
		get, post int
	}{
		"page of the daemon":              {[]string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, 200, 200},
		"page, old browser":               {[]string{"Origin", own}, 200, 200},
		"address bar":                     {[]string{"Sec-Fetch-Site", "none"}, 200, 401},
		"program":                         {nil, 200, 401},
		"another port":                    {[]string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, 401, 403},
		"another page":                    {[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 401, 403},
		"another page, old browser":       {[]string{"Origin", "https://evil.example"}, 401, 403},
		"link on another page":            {[]string{"Sec-Fetch-Site", "cross-site"}, 401, 403},
		"sandboxed page":                  {[]string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 401, 403},
		"page that may call the API":      {[]string{"Origin", "https://app.example", "Sec-Fetch-Site", "cross-site"}, 401, 401},
		"claims of the same site without": {[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"}, 401, 401},
	} {
		headers := append([]string{"Cookie", cookie}, tc.headers...)
		assert.Equal(t, tc.get, w.call("GET /v1/whoami", "", headers...).status, "%s: GET", name)
		assert.Equal(t, tc.post, w.call("POST /v1/act", jsonAct("t/any", "{}"), headers...).status, "%s: POST", name)
	}
}

// AUTH-032: pages of exactly the listed origins may call the API and read its answers,
// never with cookies.
func TestOtherOrigins(t *testing.T) {
	w := newWorld(t, strict, func(s *httpapi.Settings) { s.Origins = []string{"https://app.example"} })
	w.user("ann")
	token, _ := w.token("ann", policy.Narrowing{})
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	ask := func(origin string, more ...string) answer {
		return w.call("OPTIONS /v1/act", "", append([]string{"Origin", origin, "Access-Control-Request-Method", "POST", "Sec-Fetch-Site", "cross-site"}, more...)...)
	}
	ok := ask("https://app.example", "Access-Control-Request-Headers", "authorization,content-type")
	assert.Equal(t, 204, ok.status)
	assert.Equal(t, "https://app.example", ok.header.Get("Access-Control-Allow-Origin"))
	assert.Contains(t, ok.header.Get("Access-Control-Allow-Headers"), "Authorization")
	act := func(origin string) answer {
		return w.call("POST /v1/act", jsonAct("t/any", "{}"), "Origin", origin, "Sec-Fetch-Site", "cross-site", "Authorization", token)
	}
	done := act("https://app.example")
	assert.Equal(t, 200, done.status, "%s", done.body)
	assert.Equal(t, "https://app.example", done.header.Get("Access-Control-Allow-Origin"))
	assert.Contains(t, done.header.Values("Vary"), "Origin")
	for _, a := range []answer{ok, done} {
		assert.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
	}
	for _, origin := range []string{"https://app.example.evil.example", "http://app.example", "https://app.example:8443", "https://APP.example", "null", "*", "https://xapp.example"} {
		a := ask(origin)
		assert.Equal(t, 405, a.status, origin)
		assert.Empty(t, a.header.Get("Access-Control-Allow-Origin"), origin)
		a = act(origin)
		assert.Equal(t, "http/cross-origin", a.failure(t), origin)
		assert.Empty(t, a.header.Get("Access-Control-Allow-Origin"), origin)
		assert.Contains(t, a.header.Values("Vary"), "Origin")
	}
	refused := w.call("GET /v1/whoami", "", "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, 401, refused.status)
	assert.Equal(t, "https://app.example", refused.header.Get("Access-Control-Allow-Origin"), "a page reads why it is refused")
	assert.Equal(t, 405, w.operator("OPTIONS /v1/act", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST").status, "not on the admin socket")
	w.tune(func(s *httpapi.Settings) { s.Origins = nil })
	assert.Empty(t, w.call("GET /health", "", "Origin", "https://app.example").header.Get("Vary"), "off by default")
}

// open opens a session and returns its id and token.
func (w *world) open(authorization, body string) (id, token string) {
	w.t.Helper()
	a := w.call("POST /v1/session", body, "Authorization", authorization)
	require.Equal(w.t, 200, a.status, "%s", a.body)
	v := a.value(w.t).Key("result")
	return text(v, "session/id"), text(v, "session/token")
}

// AUTH-004, AUTH-012: a session token reads the runs of its session, also if its owner may
// read all.
func TestSessionTokenReadsItsRuns(t *testing.T) {
	w := newWorld(t, strict, sessionTokens(policy.Session, policy.ReadRuns, policy.AnyRuns))
	w.user("ann", policy.RoleOperator)
	maker, _ := w.token("ann", policy.Narrowing{})
	id, token := w.open(maker, `{"action":"open","token?":true}`)
	for _, what := range []string{"GET /v1/runs", "GET /v1/runs/" + sampleRun, "GET /v1/runs/" + sampleRun + "/records"} {
		require.Equal(t, 200, w.call(what, "", "X-Session-Token", token).status, what)
		assert.Equal(t, "session/"+id, w.lastAsked().owner, what)
	}
}

// AUTH-004: an act in a short form that is sent with the token of a session is one of that
// session.
func TestSessionTokenOfShortForms(t *testing.T) {
	w := newWorld(t, strict, sessionTokens(policy.Act))
	w.exec.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`)})
	ann := w.user("ann", policy.RoleOperator)
	maker, _ := w.token("ann", policy.Narrowing{})
	id, token := w.open(maker, `{"action":"open","token?":true}`)
	for i, form := range shortForms {
		a := w.call("POST /v1/act", form.body, "Content-Type", form.media, "X-Session-Token", token)
		require.Equal(t, 200, a.status, "%s: %s", form.body, a.body)
		turns, _, err := w.sessions.Turns(t.Context(), session.Caller{Principal: ann.ID}, id)
		require.Nil(t, err)
		assert.Len(t, turns, 2*(i+1), form.body)
	}
}

// AUTH-004: the token of a session is returned once, does the operations of the
// configuration for its session only, is replaced when another one is asked for, and
// ends with the credential that made it and with the session. An id never identifies.
func TestSessionTokens(t *testing.T) {
	w := newWorld(t, strict, sessionTokens(policy.Act, policy.Session))
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	ann := w.user("ann", policy.RoleOperator)
	maker, makerID := w.token("ann", policy.Narrowing{Intents: []string{"t/*"}})
	id, token := w.open(maker, `{"action":"open","token?":true}`)
	require.True(t, strings.HasPrefix(token, "fms_"), token)
	as := func(token, what, body string, more ...string) answer {
		return w.call(what, body, append([]string{"X-Session-Token", token}, more...)...)
	}
	who := as(token, "GET /v1/whoami", "").value(t)
	assert.Equal(t, []string{ann.ID, id}, []string{text(who, "principal"), text(who, "session/id")})
	for what, tc := range map[string]struct {
		a      answer
		status int
	}{
		"act":                          {as(token, "POST /v1/act", jsonAct("t/any", "{}")), 200},
		"act in its session":           {as(token, "POST /v1/act", strings.Replace(jsonAct("t/any", "{}"), `{`, `{"session/id":"`+id+`",`, 1)), 200},
		"act in another":               {as(token, "POST /v1/act", strings.Replace(jsonAct("t/any", "{}"), `{`, `{"session/id":"other",`, 1)), 403},
		"intent beyond its maker":      {as(token, "POST /v1/act", jsonAct("text/respond", `{"prompt":"x"}`)), 403},
		"its session":                  {as(token, "POST /v1/session", `{"action":"get","session/id":"`+id+`"}`), 200},
		"another session":              {as(token, "POST /v1/session", `{"action":"get","session/id":"other"}`), 403},
		"all sessions":                 {as(token, "POST /v1/session", `{"action":"list"}`), 403},
		"an operation that is not in":  {as(token, "GET /v1/runs", ""), 403},
		"the id alone":                 {as(id, "GET /v1/whoami", ""), 401},
		"as bearer":                    {w.call("GET /v1/whoami", "", "Authorization", "Bearer "+token), 401},
		"a bearer token in its header": {as(strings.TrimPrefix(maker, "Bearer "), "GET /v1/whoami", ""), 401},
		"two credentials":              {as(token, "GET /v1/whoami", "", "Authorization", maker), 400},
		"cut":                          {as(token[:len(token)-1], "GET /v1/whoami", ""), 401},
	} {
		assert.Equal(t, tc.status, tc.a.status, "%s: %s", what, tc.a.body)
	}
	again := as(token, "POST /v1/session", `{"action":"open","session/id":"`+id+`"}`)
	assert.False(t, again.value(t).Key("result").HasKey("session/token"), "it is returned when it is made only")
	next := text(as(token, "POST /v1/session", `{"action":"open","session/id":"`+id+`","token?":true}`).value(t).Key("result"), "session/token")
	assert.Equal(t, 401, as(token, "GET /v1/whoami", "").status, "it was replaced")
	require.Equal(t, 200, as(next, "GET /v1/whoami", "").status)

	other, second := w.open(maker, `{"action":"open","token?":true}`)
	require.Equal(t, 200, w.call("POST /v1/session", `{"action":"delete","session/id":"`+other+`"}`, "Authorization", maker).status)
	assert.Equal(t, 401, as(second, "GET /v1/whoami", "").status, "its session was deleted")
	w.tune(sessionTokens(policy.Session))
	assert.Equal(t, 403, as(next, "POST /v1/act", jsonAct("t/any", "{}")).status, "a reload counts at once")
	_, err := w.users.RevokeToken(t.Context(), makerID, false)
	require.Nil(t, err)
	assert.Equal(t, 401, as(next, "GET /v1/whoami", "").status, "its maker was revoked")
}

// AUTH-004: who gets no token for a session.
func TestWithoutSessionTokens(t *testing.T) {
	w := newWorld(t)
	w.user("ann", policy.RoleOperator)
	token, _ := w.token("ann", policy.Narrowing{})
	ask := `{"action":"open","token?":true}`
	assert.Equal(t, "auth/not-configured", w.call("POST /v1/session", ask, "Authorization", token).failure(t))
	w.tune(sessionTokens(policy.Act))
	assert.Equal(t, "auth/forbidden", w.call("POST /v1/session", ask).failure(t), "a caller without account")
	id, _ := w.open(basic("ann", password), ask)
	w.user("bob", policy.RoleOperator)
	assert.Equal(t, "auth/forbidden", w.call("POST /v1/session", `{"action":"open","token?":true,"session/id":"`+id+`"}`, "Authorization", basic("bob", password)).failure(t),
		"an operator may use the session of another, and gets no token for it")
}
