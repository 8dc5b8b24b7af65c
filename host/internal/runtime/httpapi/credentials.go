package httpapi

import (
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"

	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
)

// SessionTokenHeader is the request header that carries the token of a session (AUTH-004).
const SessionTokenHeader = "X-Session-Token" //nolint:gosec // the name of a header

// credential is one credential of a request.
type credential struct {
	name  string // name in messages
	check func(*identity.Service) *contract.Error
}

// credentials returns all credentials of a request. More than one are an error, because a proxy and
// the daemon could use different ones (AUTH-001).
func (x *exchange) credentials() (all []credential) {
	for _, header := range x.r.Header.Values("Authorization") {
		all = append(all, credential{"the header Authorization", func(s *identity.Service) *contract.Error {
			return x.identifyCaller(s, header)
		}})
	}
	for _, text := range x.r.Header.Values(SessionTokenHeader) {
		all = append(all, credential{"the header " + SessionTokenHeader, func(s *identity.Service) (err *contract.Error) {
			x.who, err = s.SessionToken(x.r.Context(), x.settings.Identity, text)
			return err
		}})
	}
	if text, ok := x.loginCookie(); ok {
		all = append(all, credential{"the login cookie", func(s *identity.Service) (err *contract.Error) {
			if x.who, err = s.Browser(x.r.Context(), x.settings.Identity, text); err != nil && err.HTTPStatus() == http.StatusUnauthorized {
				x.setCookie("", -1) // so that the browser does not send it again
			}
			return err
		}})
	}
	names, _ := x.certificate()
	known := func(name string) bool { _, ok := x.settings.Identity.Certificates[name]; return ok }
	if slices.ContainsFunc(names, known) {
		all = append(all, credential{"the client certificate", func(s *identity.Service) (err *contract.Error) {
			if x.who, _, err = s.Certificate(x.r.Context(), x.settings.Identity, names); err != nil {
				x.ticket = names[slices.IndexFunc(names, known)]
			}
			return err
		}})
	}
	return all
}

// certificate returns the names in the client certificate; false if there is none, or if the
// authorities of the current configuration do not confirm it. They can have changed since the
// connection was opened.
func (x *exchange) certificate() (names []string, ok bool) {
	if x.r.TLS == nil || len(x.r.TLS.PeerCertificates) == 0 || x.settings.TLS == nil || x.settings.TLS.ClientCAs == nil {
		return nil, false
	}
	leaf, between := x.r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, c := range x.r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:         x.settings.TLS.ClientCAs,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, false
	}
	return namesOf(leaf), true
}

// namesOf returns the names in a certificate in the form of the configuration.
func namesOf(c *x509.Certificate) []string {
	names := []string{c.Subject.String()}
	for _, name := range c.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, name := range c.EmailAddresses {
		names = append(names, "email:"+name)
	}
	for _, name := range c.URIs {
		names = append(names, "uri:"+name.String())
	}
	for _, ip := range c.IPAddresses {
		names = append(names, "ip:"+ip.String())
	}
	return names
}

// unmapped returns the subject of a confirmed client certificate; empty if there is none.
func (x *exchange) unmapped() string {
	if names, ok := x.certificate(); ok {
		return names[0]
	}
	return ""
}

// loginCookieName has the prefix with which browsers accept a cookie only from this host over TLS
// or loopback, so that another host cannot set it.
const loginCookieName = "__Host-ferment"

// loginCookie returns the token in the login cookie, if the request comes from a page of the daemon
// or from the address bar. Cookies in requests of other pages are ignored, even if their origin may
// call the API (AUTH-032).
func (x *exchange) loginCookie() (text string, ok bool) {
	if x.settings.Identity.BrowserTTL <= 0 {
		return "", false
	}
	cookies := x.r.CookiesNamed(loginCookieName)
	if len(cookies) == 0 || !x.sameOrigin() {
		return "", false
	}
	return cookies[0].Value, true
}

// sameOrigin reports whether the headers of a browser state that the request comes from a page of
// this origin. A safe request may also come from the address bar.
func (x *exchange) sameOrigin() bool {
	site, origin := x.r.Header.Get("Sec-Fetch-Site"), x.r.Header.Get("Origin")
	if origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host != x.r.Host {
			return false
		}
	}
	safe := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	switch site {
	case "same-origin":
		return true
	case "none", "":
		return safe || site == "" && origin != ""
	}
	return false
}

// setCookie sets the login cookie; a negative age in seconds deletes it.
func (x *exchange) setCookie(text string, age int) {
	http.SetCookie(x.w, &http.Cookie{
		Name:     loginCookieName,
		Value:    text,
		Path:     "/",
		MaxAge:   age,
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}
