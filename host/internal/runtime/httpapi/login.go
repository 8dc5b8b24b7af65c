package httpapi

import (
	"net/http"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// loginRoutes returns the routes for logging browsers in and out, and GET /v1/whoami.
func loginRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Path: "/v1/auth/login",
			Summary: "log a browser in",
			Doc: "Returns what GET /v1/whoami does and sets a cookie, which counts for pages of the daemon only. " +
				"It ends after auth.browser.ttl, with POST /v1/auth/logout, and when the user is locked or gets another password.",
			Body: &Body{Schema: "auth/login", Types: []mediaType{typeJSON, typeEDN},
				limit: func(s *Settings) int { return s.Limits.AdminBody }},
			failed: formPlain,
			serve:  serveLogin,
			Answers: []Answer{
				{200, "the browser is logged in", "answer/whoami"},
				{400, "the body is wrong, or the request has credentials besides", "answer/error"},
				{401, "login or password are wrong", "answer/error"},
				{404, "browsers cannot log in (auth.browser.enabled)", "answer/error"},
			},
		},
		{
			Method: http.MethodPost, Path: "/v1/auth/logout", Operation: OpAny,
			Summary: "end the login of a browser", failed: formPlain, serve: serveLogout,
			Answers: []Answer{
				{200, "the browser is logged out", "answer/logout"},
				{400, "the caller is not identified by a login cookie", "answer/error"},
			},
		},
		{
			Method: http.MethodGet, Path: "/v1/whoami", Operation: OpAny,
			Summary: "the caller: its roles and what they permit", failed: formPlain, serve: serveWhoami,
			Answers: []Answer{{200, "the caller", "answer/whoami"}},
		},
	}
}

// serveLogin handles POST /v1/auth/login.
func serveLogin(x *exchange) reply {
	who, err := x.logIn()
	if err != nil {
		x.auditFailure(err)
		return formPlain.failure(err)
	}
	return who
}

func (x *exchange) logIn() (reply, *contract.Error) {
	set := x.settings.Identity
	if set.BrowserTTL <= 0 || x.via.admin {
		return reply{}, contract.Errorf("not-found", "browsers cannot log in at this host").
			WithHint("set auth { browser { enabled = true } }, or send Bearer with a token")
	}
	service := x.api.backend.Identity()
	if service == nil {
		return reply{}, contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	if len(x.r.Header.Values("Authorization"))+len(x.r.Header.Values(SessionTokenHeader)) > 0 {
		return reply{}, contract.Errorf("auth/ambiguous", "the request has credentials in its headers besides the login in its body")
	}
	body, err := x.decode(edn.Config)
	if err != nil {
		return reply{}, err
	}
	if found := envelopes()["auth/login"].Validate(body); len(found) > 0 {
		return reply{}, contract.Errorf("invalid-request", "the body is not a login: expected a map with the texts :login and :password")
	}
	x.shown = "the login"
	x.claimed = service.Named(text(body, "login"))
	login := identity.Login{Name: text(body, "login"), Password: text(body, "password"), Network: network(x.client())}
	if err := x.identifyLogin(service, login); err != nil {
		return reply{}, err
	}
	token, until, err := service.LogIn(x.r.Context(), set, &x.who)
	if err != nil {
		return reply{}, err
	}
	x.setCookie(token, int(time.Until(until).Seconds()))
	return serveWhoami(x), nil
}

// serveLogout handles POST /v1/auth/logout.
func serveLogout(x *exchange) reply {
	service := x.api.backend.Identity()
	if service == nil {
		return formPlain.failure(contract.Errorf("runtime/starting", "the daemon is coming up"))
	}
	if _, ok := x.loginCookie(); !ok || x.via.admin {
		return formPlain.failure(contract.Errorf("invalid-request", "the caller is not identified by a login cookie").
			WithHint("send the login cookie; other credentials end when they expire or are revoked"))
	}
	if err := service.LogOut(x.r.Context(), &x.who); err != nil {
		return formPlain.failure(err)
	}
	x.identified("auth/logout", "the login of a browser was ended")
	x.setCookie("", -1)
	return reply{status: 200, body: edn.MustMap(edn.K("ok?"), edn.Bool(true))}
}
