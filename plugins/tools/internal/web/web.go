package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	words "github.com/fermenthq/ferment/sdk/text"
)

// Client makes one request. Tool and Scope must be set. It must not be reused.
type Client struct {
	Tool  effects.Tool
	Scope *effects.Scope
	// Secrets are the secrets that the request may use, by name.
	Secrets map[string]Secret
	// Key is the idempotency key, sent in the header that the scope names.
	Key string
	// Roots are the trusted certificates; nil: those of the system.
	Roots *x509.CertPool
	// Resolve and Dial replace the functions of the system; nil for those.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)

	sent   atomic.Bool    // a byte of a request may have been sent
	hidden *words.Secrets // removes the secrets from answers; built on first use
}

// Do makes the request that the input describes, follows its redirects within the scope, and
// returns the response. A status of 400 or more is not an error. The time limit is that of the
// input or the scope; ctx can end the request earlier.
func (c *Client) Do(ctx context.Context, input edn.Value) (edn.Value, *contract.Error) {
	target, err := c.Tool.Target(input, c.Scope)
	if err != nil {
		return edn.Nil(), err
	}
	body, err := c.body(input)
	if err != nil {
		return edn.Nil(), err
	}
	timeout := c.Scope.Timeout.Duration(effects.DefaultHTTPTimeout)
	if v := input.Key("timeout-ms"); !v.IsNil() {
		n, ok := v.AsInt()
		if !ok || n < 1 || time.Duration(n) > timeout/time.Millisecond {
			return edn.Nil(), effects.InvalidInput("timeout/range", c.Tool,
				"expected 1..%d in :timeout-ms, found %.80s",
				timeout.Milliseconds(), v)
		}
		timeout = time.Duration(n) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.follow(ctx, target, input, body)
}

// follow makes the request and follows its redirects.
func (c *Client) follow(
	ctx context.Context, target effects.Target, input edn.Value, body *string,
) (edn.Value, *contract.Error) {
	first, most := originOf(target), c.Scope.Redirects.Or(effects.DefaultHTTPRedirects)
	var way []edn.Value
	for {
		header, err := c.header(input, target.Host, originOf(target) == first)
		if err != nil {
			return edn.Nil(), err
		}
		response, err := c.once(ctx, target, header, body)
		if err != nil {
			return edn.Nil(), err
		}
		where := response.Header.Get("Location")
		if !redirected(response.StatusCode) || where == "" || most == 0 {
			return c.answer(ctx, target, response, way)
		}
		_ = response.Body.Close()
		if int64(len(way)) == most {
			return edn.Nil(), c.stray("the server answered with more than %d redirects", most)
		}
		next, err := c.redirect(target, response.StatusCode, where)
		if err != nil {
			return edn.Nil(), err
		}
		if next.Method != target.Method {
			body = nil
		}
		way = append(way, edn.Text(shown(next.URL)))
		target = next
	}
}

// origin is the receiver of credentials: another port may be another program,
// and another scheme may be readable by others.
type origin struct {
	scheme, host string
	port         int
}

func originOf(t effects.Target) origin {
	return origin{strings.ToLower(t.URL.Scheme), t.Host, t.Port}
}

func redirected(status int) bool {
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308
}

// redirect checks the target of a redirect.
func (c *Client) redirect(from effects.Target, status int, where string) (effects.Target, *contract.Error) {
	u, err := url.Parse(where)
	if err != nil {
		return effects.Target{}, c.stray("the server redirects to an invalid URL")
	}
	u = from.URL.ResolveReference(u)
	if from.URL.Scheme == "https" && !strings.EqualFold(u.Scheme, "https") {
		return effects.Target{}, c.stray("the server redirects from https to the scheme %q", u.Scheme)
	}
	method := from.Method
	if status == 303 && method != "HEAD" || (status == 301 || status == 302) && method == "POST" {
		method = "GET"
	}
	target, refused := c.Tool.TargetURL(method, u, c.Scope)
	if refused == nil {
		return target, nil
	}
	e := c.stray("the server redirects: %s", strings.TrimPrefix(refused.Message, ":"+c.Tool.ID+": "))
	if because, ok := refused.Details.Key("reason").AsKeyword(); ok {
		e = e.WithDetail("because", edn.K(because))
	}
	return target, e
}

func (c *Client) stray(format string, args ...any) *contract.Error {
	return c.unsure(effects.Denied("redirect-not-allowed", c.Tool, format, args...))
}

// unsure adds to an error that the receiver may have acted.
func (c *Client) unsure(e *contract.Error) *contract.Error {
	if c.sent.Load() {
		return e.WithDetail("effect/state", edn.K("unknown"))
	}
	return e
}

// once makes one request of a redirect chain.
func (c *Client) once(
	ctx context.Context, target effects.Target, header http.Header, body *string,
) (*http.Response, *contract.Error) {
	u := *target.URL
	u.Fragment = ""
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(*body)
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { c.sent.Store(true) },
		WroteHeaders:     func() { c.sent.Store(true) },
	})
	request, err := http.NewRequestWithContext(traced, target.Method, u.String(), reader)
	if err != nil {
		return nil, effects.InvalidInput("url/invalid", c.Tool, "the method or the URL of the request is not valid")
	}
	request.Header = header
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots, ServerName: target.Host},
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, target) },
	}
	response, err := transport.RoundTrip(request)
	if err == nil {
		return response, nil
	}
	var refused *contract.Error
	if errors.As(err, &refused) {
		return nil, c.unsure(refused)
	}
	return nil, c.failed(ctx, target, err)
}

// dial resolves the host, checks every address against the scope, and connects to the first one
// that accepts.
func (c *Client) dial(ctx context.Context, target effects.Target) (net.Conn, error) {
	addresses, err := c.resolve(ctx, target.Host)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if !effects.AddressAllowed(a, c.Scope) {
			return nil, effects.Denied("address-not-allowed", c.Tool, "the host %q has the address %s, which is not allowed",
				target.Host, a)
		}
	}
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	err = &net.DNSError{Err: "no address", Name: target.Host}
	for _, a := range addresses {
		var conn net.Conn
		if conn, err = dial(ctx, "tcp", netip.AddrPortFrom(a.Unmap(), uint16(target.Port)).String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if c.Resolve != nil {
		return c.Resolve(ctx, host)
	}
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", host)
}

// failed returns the error of a request without an answer. It uses only the kind of err, because
// the text may hold the URL.
func (c *Client) failed(ctx context.Context, target effects.Target, err error) *contract.Error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return c.unsure(contract.Errorf("timeout/hard", ":%s: %s did not answer in time", c.Tool.ID, target.Host).
			WithHint("allow more time with :timeout-ms, or with timeout of the scope in ferment.hcl"))
	}
	what := "the connection failed"
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &cert):
		what = "its certificate is not trusted"
	case errors.As(err, &dns):
		what = "the name cannot be resolved to an address"
	case errors.As(err, &op) && op.Op == "dial":
		what = "no connection: " + op.Err.Error()
	}
	return c.unsure(contract.Errorf("effects/runtime-failed", ":%s: connect to %s port %d: %s", c.Tool.ID, target.Host,
		target.Port, what).WithHint("check the host, the port and the network of this machine"))
}
