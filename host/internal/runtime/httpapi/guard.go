package httpapi

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
)

// defaultLimits hold until the configuration is there.
var defaultLimits = config.HTTPLimits{
	ActBody: 4 << 20, AdminBody: 64 << 10, Headers: 32 << 10,
	HeaderRead: 5 * time.Second, BodyRead: 30 * time.Second, Idle: 120 * time.Second, Write: 30 * time.Second, StreamWrite: 10 * time.Second,
	Connections: 1024, PerAddress: 64, PrincipalSubscribers: 128,
}

// checkHeaders holds the headers to their limit. The server itself refuses
// only what is several times as large, without a typed answer.
func (x *exchange) checkHeaders() *contract.Error {
	size := len(x.r.Method) + len(x.r.RequestURI) + len(x.r.Host) + 16
	for name, values := range x.r.Header {
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	if limit := x.settings.Limits.Headers; size > limit {
		return contract.Errorf("http/headers-too-large", "the headers have %d bytes, the limit is %d", size, limit)
	}
	return nil
}

// checkHost refuses names that are not the daemon's: a page that rebinds its
// own name to a loopback address comes with that name (AUTH-032).
func (x *exchange) checkHost() *contract.Error {
	host := x.r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if loopbackName(host) || slices.Contains(x.via.hosts, host) {
		return nil
	}
	for _, allowed := range x.settings.AllowedHosts {
		if strings.TrimSuffix(strings.ToLower(allowed), ".") == host {
			return nil
		}
	}
	if host == "" {
		return contract.Errorf("http/misdirected", "the request names no host").WithHint("send a Host header with the address of the daemon")
	}
	return contract.Errorf("http/misdirected", "this daemon does not answer to the host name %.80q", host).WithHint("name it in http.allowed_hosts")
}

func loopbackName(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkOrigin refuses unsafe requests of pages of other origins. There is no
// list of exceptions.
func (x *exchange) checkOrigin() *contract.Error {
	if err := x.api.origins.Check(x.r); err != nil {
		return contract.Errorf("http/cross-origin", "a page of another origin may not call the daemon")
	}
	return nil
}

// checkPhase lets only early routes through while the daemon comes up. One
// that goes down answers all but acts.
func (x *exchange) checkPhase() *contract.Error {
	if !x.route.early && x.api.backend.Phase() == "starting" {
		return contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	return nil
}

// admit says who calls, and whether he calls too often.
func (x *exchange) admit() *contract.Error { return x.checkRate(x.identify()) }

// identify says who calls (AUTH-030, AUTH-031).
func (x *exchange) identify() *contract.Error {
	if x.route.Operation == OpOpen {
		return nil
	}
	shown := x.r.Header.Values("Authorization")
	if len(shown) > 1 {
		return contract.Errorf("auth/ambiguous", "the request has %d Authorization headers", len(shown))
	}
	if x.via.admin {
		return x.identifyOperator(shown)
	}
	switch {
	case len(shown) > 0:
		return contract.Errorf("auth/unauthorized", "this listener knows no identities, so it cannot check the one that the request shows").
			WithHint("send no Authorization header, or use the admin socket")
	case x.route.Operation == OpAdmin:
		return contract.Errorf("auth/not-configured", "there are no users who may administer over this listener").WithHint("use the admin socket, as the command line does")
	case !x.settings.Anonymous:
		return contract.Errorf("auth/not-configured", "this profile lets nobody act without an identity, and there are no identities").
			WithHint("use the admin socket, as the command line does, or a profile for development")
	}
	x.who = Principal{Name: anonymous, Type: anonymous}
	return nil
}

// identifyOperator wants both the user of the daemon, as the kernel says it,
// and the token of this start: a plugin has that user too, but cannot read the
// file.
func (x *exchange) identifyOperator(shown []string) *contract.Error {
	uid, known := peerOf(x.r.Context())
	if !known || uid != ownUID() && uid != 0 {
		return contract.Errorf("auth/forbidden", "the admin socket is for the user of the daemon and for root")
	}
	token, ok := "", false
	if len(shown) == 1 {
		var scheme string
		scheme, token, ok = strings.Cut(shown[0], " ")
		ok = ok && strings.EqualFold(scheme, "Bearer")
	}
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(x.via.token)) != 1 {
		return contract.Errorf("auth/unauthorized", "the admin socket wants the token of this start of the daemon").
			WithHint("send the content of run/admin.token in the data directory as \"Authorization: Bearer\"")
	}
	x.who = Principal{Name: fmt.Sprintf("uid/%d", uid), Type: "local", Admin: true}
	return nil
}

// readBody reads the body within its size and time.
func (x *exchange) readBody() *contract.Error {
	if x.route.Body == nil {
		return nil
	}
	limit := int64(x.route.Body.limit(x.settings))
	if x.r.ContentLength > limit {
		x.skip(limit)
		return tooLarge(limit)
	}
	if x.r.ContentLength != 0 || x.r.Header.Get("Content-Type") != "" {
		var err *contract.Error
		if x.sent, err = contentType(x.r.Header, x.route.Body.Types); err != nil {
			return err
		}
	}
	control := http.NewResponseController(x.w)
	if wait := x.settings.Limits.BodyRead; wait > 0 {
		_ = control.SetReadDeadline(time.Now().Add(wait))
		// Without this the server would take the deadline for the end of the
		// caller while the run goes on.
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	body, rerr := io.ReadAll(io.LimitReader(x.r.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		x.skip(limit)
		return tooLarge(limit)
	case rerr != nil:
		x.w.Header().Set("Connection", "close") // what is left of the body is nobody's
		return x.brokenBody(rerr, len(body))
	case !utf8.Valid(body):
		return contract.Errorf("http/bad-encoding", "the body is no UTF-8: byte %d cannot be read", invalidByte(body)).WithHint("send UTF-8")
	}
	x.body, x.taken = body, true
	return nil
}

// brokenBody says why a body could not be read beyond its first bytes.
func (x *exchange) brokenBody(err error, got int) *contract.Error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return contract.Errorf("http/bad-encoding", "the body did not come within %s: %d bytes of it did", x.settings.Limits.BodyRead, got).
			WithHint("send it faster; the limit is http.limits.body_read")
	case x.r.ContentLength > 0:
		return contract.Errorf("http/bad-encoding", "the body ends after %d bytes, and Content-Length says %d", got, x.r.ContentLength).
			WithHint("send as many bytes as Content-Length says")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return contract.Errorf("http/bad-encoding", "the body breaks off after %d bytes, before its last chunk", got).WithHint("end it with a chunk of length 0")
	}
	return contract.Errorf("http/bad-encoding", "the chunks of the body are malformed after %d bytes: %s", got, strings.TrimPrefix(err.Error(), "http: ")).
		WithHint("each chunk is its length in hexadecimal digits, a line end, its bytes, a line end")
}

// invalidByte is the position, from 0, of the first byte that is no UTF-8.
func invalidByte(text []byte) int {
	at := 0
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			break
		}
		text, at = text[n:], at+n
	}
	return at
}

// hurry bounds the wait for a body that was not read. The server reads it, up
// to a limit of its own, before it sends the answer, so that the connection can
// be used again; a caller that promises a body and sends none would get no
// answer and keep the connection for ever.
func (x *exchange) hurry() {
	if x.taken || x.r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.skipTime()))
}

// skipTime is how long what nobody wants is read; a caller is not waited for
// longer than for a body.
func (x *exchange) skipTime() time.Duration {
	if wait := x.settings.Limits.BodyRead; wait > 0 {
		return min(wait, skipLimit)
	}
	return skipLimit
}

// skip reads on for a while into nothing. Many callers do not look for an
// answer before they have sent all, and would only see their connection reset.
func (x *exchange) skip(limit int64) {
	if x.r.ContentLength > 2*limit || x.r.Header.Get("Expect") != "" {
		return // it is too much, or they do look
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.skipTime()))
	_, _ = io.CopyN(io.Discard, x.r.Body, 2*limit)
}

// skipLimit bounds the time for what nobody wants.
const skipLimit = 2 * time.Second

func tooLarge(limit int64) *contract.Error {
	return contract.Errorf("http/too-large", "the body is longer than %d bytes", limit)
}
