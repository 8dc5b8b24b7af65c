package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Client calls one daemon. It is safe for concurrent use.
type Client struct {
	http  http.Client
	base  string // URL without a slash at its end
	token string // empty: no credentials

	// admin holds the token of the daemon process and replaces token. It is nil unless the client
	// calls an admin socket, whose path is socket.
	admin  *adminToken
	socket string
}

// Media types and headers of the interface.
const (
	typeJSON = "application/json"
	typeEDN  = "application/edn"
	typeSSE  = "text/event-stream"

	runHeader      = "Ferment-Run-Id"
	announceHeader = "Ferment-Announce" // with the value run: the id of the run comes before its response
	dirHeader      = "Ferment-Dir"
)

// maxAnswer limits the size of a response in bytes.
const maxAnswer = 64 << 20

// ErrNoDaemon is returned by [Dial] if no daemon listens on the socket.
var ErrNoDaemon = errors.New("no daemon listens on the socket")

// Option changes a client.
type Option func(*Client)

// WithToken sends the token of a user with each request.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithTransport sends requests through t, for example a transport that trusts
// the certificate authority of the daemon.
func WithTransport(t http.RoundTripper) Option { return func(c *Client) { c.http.Transport = t } }

// New returns a client of the daemon at a URL, such as http://127.0.0.1:7180. It does not
// connect. The error is invalid-request for an invalid URL and for a token that no header
// can have, such as one with a line feed at its end, and http/insecure-listener if
// a token would be sent unencrypted to another machine. Redirects are not followed, so
// that the token reaches only this daemon.
func New(server string, options ...Option) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		if err == nil {
			server = u.Redacted()
		}
		return nil, contract.Errorf("invalid-request", "connect to %q: expected a URL such as http://127.0.0.1:7180", server).
			WithHint("give scheme, host and port, without a user, query or fragment")
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/")}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, option := range options {
		option(c)
	}
	if !inHeader(c.token) {
		return nil, unsendable("the token")
	}
	if u.Scheme == "http" && c.token != "" && !loopback(u.Hostname()) {
		return nil, contract.Errorf("http/insecure-listener", "http to %s would send the token unencrypted", u.Host).
			WithHint("use https, as the daemon does for other machines")
	}
	return c, nil
}

// inHeader reports whether a header can have the value: it has no line end and no other
// control character.
func inHeader(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func unsendable(what string) error {
	return contract.Errorf("invalid-request", "%s has a line end or another control character, which a header cannot have", what).
		WithHint("remove it, for example with strings.TrimSpace from the text of a file")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Dial connects to the daemon of an admin socket; tokenFile holds the token of the daemon
// process. The error is ErrNoDaemon if no daemon listens; any other error states why the
// daemon cannot be used. The client survives a restart of the daemon at the same socket:
// it reads the new token from tokenFile.
func Dial(ctx context.Context, socket, tokenFile string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EINVAL),
		errors.Is(err, syscall.ENOTDIR):
		return nil, ErrNoDaemon
	case errors.Is(err, fs.ErrPermission):
		return nil, contract.Errorf("auth/forbidden", "connect to the daemon: no permission to use the socket %s",
			socket).
			WithHint("use --local, or run as the user of the daemon")
	case err != nil:
		return nil, fmt.Errorf("connect to the daemon: %w", err)
	}
	_ = conn.Close()
	admin := &adminToken{file: tokenFile}
	if _, err := admin.read(); err != nil {
		return nil, err
	}
	c, err := New("http://localhost", WithTransport(&http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
	}))
	if err != nil {
		return nil, err
	}
	c.admin, c.socket = admin, socket
	return c, nil
}

// request is one request.
type request struct {
	method, path string // path with the query
	body         []byte // nil: none
	sent         string // media type of the body; empty: EDN
	accept       string // empty: EDN
	header       http.Header
}

// open sends a request and returns the response with an unread body. If an admin socket
// rejects the token, because the daemon was restarted, open sends the request once more
// with the new token: the first one was not executed.
func (c *Client) open(ctx context.Context, q request) (*http.Response, error) {
	if c.admin == nil {
		return c.openWith(ctx, q, c.token)
	}
	token := c.admin.current()
	resp, err := c.openWith(ctx, q, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	renewed, err := c.admin.read()
	if err != nil || renewed == token {
		return resp, nil // the refusal says what is wrong
	}
	_ = resp.Body.Close()
	return c.openWith(ctx, q, renewed)
}

// openWith is open with a token, without a second attempt.
func (c *Client) openWith(ctx context.Context, q request, token string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		if !inHeader(strings.Join(values, "")) {
			return nil, unsendable("the value of " + name)
		}
		r.Header[name] = values
	}
	if !inHeader(token) {
		return nil, unsendable("the token")
	}
	r.Header.Set("Accept", typeEDN)
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if q.body != nil {
		r.Header.Set("Content-Type", typeEDN)
		if q.sent != "" {
			r.Header.Set("Content-Type", q.sent)
		}
	}
	resp, err := c.http.Do(r)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	if c.socket != "" && errors.As(err, &op) && op.Op == "dial" {
		return nil, contract.Errorf("runtime/not-ready", "reach the daemon at the socket %s: %w", c.socket, op.Err).
			WithHint("check whether the daemon runs; \"ferment serve\" starts it")
	}
	hint := ""
	switch {
	case errors.As(err, &certificate):
		hint = "check the URL; for a private authority set SSL_CERT_FILE to a file with its certificate"
	case errors.As(err, &op) && op.Op == "dial":
		hint = "check the URL, and whether the daemon runs"
	default:
		return nil, broken("the daemon sent no response")
	}
	return nil, contract.Errorf("runtime/not-ready", "reach the daemon at %s: %w", c.base, errors.Unwrap(err)).WithHint(hint)
}

// readAll reads the body of a response.
func readAll(ctx context.Context, resp *http.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, broken("the response of the daemon is incomplete")
	case len(text) > maxAnswer:
		return nil, contract.Errorf("http/too-large", "the response of the daemon is longer than %d bytes", maxAnswer).
			WithHint("ask for less, such as with a lower limit")
	}
	return text, nil
}

// read reads a response as one value and closes it.
func read(ctx context.Context, resp *http.Response) (edn.Value, error) {
	defer func() { _ = resp.Body.Close() }()
	text, err := readAll(ctx, resp)
	if err != nil {
		return edn.Nil(), err
	}
	if resp.StatusCode == http.StatusNoContent {
		return edn.Nil(), nil
	}
	reader := edn.Read
	switch resp.Header.Get("Content-Type") {
	case typeEDN:
	case typeJSON: // a connection that was turned away before its request was read
		reader = edn.ReadJSON
	default:
		return edn.Nil(), foreign(resp)
	}
	v, err := reader(text, edn.WithLimits(edn.Stored))
	if err != nil {
		return edn.Nil(), foreign(resp)
	}
	return v, nil
}

// foreign is the error for a server that is not a daemon.
func foreign(resp *http.Response) error {
	return contract.Errorf("runtime/protocol", "%s answers, but not as a daemon of this version: %s with content type %.60q",
		resp.Request.URL.Host, resp.Status, resp.Header.Get("Content-Type")).
		WithHint("check the URL; if a daemon is there, compare \"ferment version\" of both")
}

// send sends a request whose response is one value.
func (c *Client) send(ctx context.Context, q request) (edn.Value, *http.Response, error) {
	resp, err := c.open(ctx, q)
	if err != nil {
		return edn.Nil(), nil, err
	}
	v, err := read(ctx, resp)
	return v, resp, err
}

// ask is send, and returns the error of a response that has one.
func (c *Client) ask(ctx context.Context, q request) (edn.Value, error) {
	v, resp, err := c.send(ctx, q)
	if err != nil {
		return edn.Nil(), err
	}
	return v, refusal(v, resp)
}

// get is ask for a GET request with query parameters in pairs, of which empty ones are
// left out.
func (c *Client) get(ctx context.Context, path string, query ...string) (edn.Value, error) {
	return c.ask(ctx, request{method: http.MethodGet, path: path + encode(query...)})
}

// post is ask for a POST request without a body.
func (c *Client) post(ctx context.Context, path string, query ...string) (edn.Value, error) {
	return c.ask(ctx, request{method: http.MethodPost, path: path + encode(query...)})
}

// encode returns a query, with its question mark.
func encode(pairs ...string) string {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// refusal returns the error of a response, nil if there is none.
func refusal(v edn.Value, resp *http.Response) error {
	if resp.StatusCode < 300 {
		return nil
	}
	if e := v.Key("error"); e.IsMap() {
		return contract.ErrorFromValue(e, contract.SourceHost)
	}
	return foreign(resp)
}

// broken is the error for a connection that ended before the response did. It leaves out
// the error of the HTTP client, which names its own internals.
func broken(what string) *contract.Error {
	return contract.Errorf("runtime/not-ready", "%s: the connection ended too early", what).
		WithHint("\"ferment status\" shows whether the daemon still runs; its log has the reason")
}
