package httpapi

import (
	"bytes"
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

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// defaultLimits apply until the configuration is loaded.
var defaultLimits = config.HTTPLimits{
	ActBody:              4 << 20,
	SessionBody:          1 << 20,
	AdminBody:            64 << 10,
	Headers:              32 << 10,
	HeaderRead:           5 * time.Second,
	BodyRead:             30 * time.Second,
	Idle:                 120 * time.Second,
	Write:                30 * time.Second,
	StreamWrite:          10 * time.Second,
	Connections:          1024,
	PerAddress:           64,
	RunSubscribers:       64,
	PrincipalSubscribers: 128,
}

// checkHeaders enforces the limit on headers. net/http itself rejects only
// much larger ones, without a typed error.
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

// checkHost rejects unknown host names, because DNS rebinding reaches a loopback address under a
// name of the attacker (AUTH-032).
func (x *exchange) checkHost() *contract.Error {
	host := x.r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if loopbackName(host) || slices.Contains(x.via.hosts, host) || x.ownAddress(host) {
		return nil
	}
	for _, allowed := range x.settings.AllowedHosts {
		if strings.TrimSuffix(strings.ToLower(allowed), ".") == host {
			return nil
		}
	}
	if host == "" {
		return contract.Errorf("http/misdirected", "the request names no host").
			WithHint("send a Host header with the address of the daemon")
	}
	return contract.Errorf("http/misdirected", "the host name %.80q is not a name of this daemon", host).
		WithHint("add it to http.allowed_hosts")
}

// ownAddress reports whether host is the IP address that the caller is connected to. Unlike a name,
// an address cannot be redirected.
func (x *exchange) ownAddress(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil || !x.via.open {
		return false
	}
	local, ok := x.r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip.Unmap()
}

func loopbackName(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkOrigin rejects unsafe cross-origin requests, except those of http.cors_origins.
func (x *exchange) checkOrigin() *contract.Error {
	if x.guest() {
		return nil
	}
	if err := x.api.origins.Check(x.r); err != nil {
		return contract.Errorf("http/cross-origin", "a page of another origin may not call the daemon").
			WithHint("call it from a program, or list the origin in http.cors_origins")
	}
	return nil
}

// checkPhase allows only early routes during the start. During a drain all
// routes are served; Take rejects acts.
func (x *exchange) checkPhase() *contract.Error {
	if !x.route.early && x.api.backend.Phase() == "starting" {
		return contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	return nil
}

// admit identifies the caller, applies the rate limit and decides about the operation of the route.
func (x *exchange) admit() *contract.Error {
	failed := x.identify()
	if err := x.checkRate(failed); err != nil {
		if err == failed {
			x.auditFailure(err)
		}
		return err
	}
	if op := x.route.Operation; op != OpOpen && op != OpAny && op != OpAdmin { // admin actions are decided one by one
		return x.permit(string(op))
	}
	return nil
}

// identifyOperator accepts a caller of the admin socket if the kernel reports the user id of the
// daemon or root, no plugin started the process, and it sends the token of this daemon process. The
// user id is not enough, because plugins have the same one; and a plugin may be allowed to read the
// token file (FX-012).
func (x *exchange) identifyOperator(shown []string) *contract.Error {
	peer, known := peerOf(x.r.Context())
	x.shown, x.claimed = "the token of the admin socket", fmt.Sprintf("uid/%d", peer.uid) // set without a token too
	if !known {
		x.claimed = "" // the kernel did not report the user
	}
	switch {
	case !known:
		return contract.Errorf("auth/forbidden", "admin socket: the kernel did not report the user of the caller").
			WithHint("run the command on the machine of the daemon, outside of other containers")
	case peer.uid != ownUID() && peer.uid != 0:
		return contract.Errorf("auth/forbidden",
			"admin socket: the caller has uid %d, expected the uid of the daemon (%d) or root", peer.uid, ownUID()).
			WithHint("run the command as the user of the daemon")
	case peer.contained:
		return contract.Errorf("auth/forbidden", "the admin socket does not accept requests of plugins and of programs that they start").
			WithHint("a plugin makes requests of its own as host calls within a call")
	}
	token, ok := "", false
	if len(shown) == 1 {
		var scheme string
		scheme, token, ok = strings.Cut(shown[0], " ")
		ok = ok && strings.EqualFold(scheme, "Bearer")
	}
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(x.via.token)) != 1 {
		return contract.Errorf("auth/unauthorized", "the admin socket requires the token of this daemon process").
			WithHint("send the content of run/admin.token in the data directory as \"Authorization: Bearer\"")
	}
	x.who = identity.Principal{Name: fmt.Sprintf("uid/%d", peer.uid), Type: "local", Roles: []string{policy.RoleAdmin}}
	return nil
}

// readBody reads the body within its size and time limits.
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
		// Without this, net/http treats the expired deadline as a closed connection while the run
		// continues.
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	body, rerr := readAll(io.LimitReader(x.r.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		x.skip(limit)
		return tooLarge(limit)
	case rerr != nil:
		x.w.Header().Set("Connection", "close") // the rest of the body must not be read as a request
		return x.brokenBody(rerr, len(body))
	case !utf8.Valid(body):
		return contract.Errorf("http/bad-encoding", "the body is not UTF-8: byte %d is invalid", invalidByte(body)).
			WithHint("send UTF-8")
	}
	x.body, x.taken = body, true
	return nil
}

// Sizes of the parts in which a body is read.
const (
	firstPart   = 4 << 10
	largestPart = 256 << 10
)

// readAll works like io.ReadAll, but needs at most twice the memory of the text, and reserves no
// memory for bytes that have not arrived.
func readAll(r io.Reader) ([]byte, error) {
	var parts [][]byte
	for size := firstPart; ; size = min(2*size, largestPart) {
		part := make([]byte, size)
		n, err := io.ReadFull(r, part)
		switch parts = append(parts, part[:n]); {
		case err == nil:
			continue
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			err = nil
		}
		if len(parts) == 1 {
			return parts[0], err
		}
		return bytes.Join(parts, nil), err
	}
}

// brokenBody returns the error for a body that could not be read completely.
func (x *exchange) brokenBody(err error, got int) *contract.Error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return contract.Errorf("http/request-timeout", "the body did not arrive within %s; %d bytes did",
			x.settings.Limits.BodyRead, got).
			WithHint("send it faster, or raise http.limits.body_read").
			WithDetail("setting", edn.Text("http.limits.body_read"))
	case x.r.ContentLength > 0:
		return contract.Errorf("http/bad-encoding", "the body ends after %d bytes, and Content-Length says %d", got,
			x.r.ContentLength).
			WithHint("send as many bytes as Content-Length says")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return contract.Errorf("http/bad-encoding", "the body ends after %d bytes, before its last chunk", got).
			WithHint("end it with a chunk of length 0")
	}
	return contract.Errorf("http/bad-encoding", "the chunks of the body are malformed after %d bytes: %s", got,
		strings.TrimPrefix(err.Error(), "http: ")).
		WithHint("each chunk is its length in hexadecimal digits, a line end, its bytes, a line end")
}

// invalidByte returns the offset of the first byte that is not UTF-8.
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

// hurry limits the wait for an unread body. To keep the connection usable, net/http reads it up to
// a limit before it sends the response; a caller that announces a body and sends none would block
// the connection forever.
func (x *exchange) hurry() {
	if x.taken || x.r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.skipTime()))
}

// skipTime returns the time limit for discarding a body; at most the limit for
// reading one.
func (x *exchange) skipTime() time.Duration {
	if wait := x.settings.Limits.BodyRead; wait > 0 {
		return min(wait, skipLimit)
	}
	return skipLimit
}

// skip discards a limited part of the body. Many callers read the response only after they have
// sent everything, and would otherwise get a connection reset.
func (x *exchange) skip(limit int64) {
	if x.r.ContentLength > 2*limit || x.r.Header.Get("Expect") != "" {
		return // too large, or the caller waits for 100-continue
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.skipTime()))
	_, _ = io.CopyN(io.Discard, x.r.Body, 2*limit)
}

// skipLimit limits the time for discarding a body.
const skipLimit = 2 * time.Second

func tooLarge(limit int64) *contract.Error {
	return contract.Errorf("http/too-large", "the body is longer than %d bytes", limit)
}
