package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Anonymous is the name and the type of callers without credentials.
const Anonymous = "anonymous"

// identify sets the principal of the request (AUTH-001, AUTH-030, AUTH-031).
func (x *exchange) identify() *contract.Error {
	if x.route.Operation == OpOpen {
		return nil
	}
	if x.via.admin {
		return x.identifyOperator(x.r.Header.Values("Authorization"))
	}
	service := x.api.backend.Identity()
	if service == nil {
		return contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	switch all := x.credentials(); len(all) {
	case 0:
		return x.identifyNameless(service)
	case 1:
		x.shown = all[0].name
		err := all[0].check(service)
		if err != nil { // what was claimed is for the audit trail alone
			x.claimed, x.ticket = cmp.Or(x.claimed, x.who.Name), cmp.Or(x.ticket, x.who.Token)
			x.who = identity.Principal{}
		}
		return err
	default:
		return contract.Errorf("auth/ambiguous", "the request has %d credentials, among them %s and %s", len(all), all[0].name, all[1].name)
	}
}

// auditFailure records credentials that were rejected. Requests beyond the rate limit are not
// recorded, because a flood of them would fill the log.
func (x *exchange) auditFailure(err *contract.Error) {
	refused := err.HTTPStatus() == http.StatusUnauthorized || err.Type == "auth/locked" ||
		x.via.admin && err.Type == "auth/forbidden"
	if x.shown == "" || !refused {
		return
	}
	message := err.Message
	if x.ticket != "" {
		message += " (" + x.ticket + ")"
	}
	if x.via.admin {
		rate := x.settings.Limits.AnonymousRate // the admin socket has no rate limit
		if _, ok := x.api.buckets.take("refused "+x.claimed, time.Now(), rate, 2*rate.Events); !ok {
			return
		}
		if peer, _ := peerOf(x.r.Context()); peer.pid > 0 {
			message += fmt.Sprintf(" (process id %d)", peer.pid)
		}
	}
	x.api.backend.Denied(Denial{
		Event:     "auth/failed",
		Principal: x.claimed,
		Address:   x.client(),
		Operation: x.operation(),
		Message:   message,
		Reason:    err.Type,
	})
}

// identifyNameless admits a caller without credentials if the listener and route do not require
// any.
func (x *exchange) identifyNameless(service *identity.Service) *contract.Error {
	set := x.settings.Identity
	if !set.Required && !x.via.open && !x.route.admin() {
		x.who = set.Nameless(Anonymous)
		return nil
	}
	if service.Empty() {
		return contract.Errorf("auth/not-configured", "this listener requires credentials, and the host has no users yet").
			WithHint("use the admin socket, as the command line does, or create the first user there: ferment user add NAME --role admin")
	}
	if name := x.unmapped(); name != "" {
		return contract.Errorf("auth/unauthorized", "no user is mapped to the client certificate %.200s", name).
			WithHint("map it in auth { client_cert { subjects = { ... } } }, or send other credentials")
	}
	return contract.Errorf("auth/unauthorized", "the request has no credentials").
		WithHint("send \"Authorization: Bearer\" with a token, which \"ferment token create\" makes")
}

// identifyCaller checks the credentials of an Authorization header.
func (x *exchange) identifyCaller(service *identity.Service, header string) (err *contract.Error) {
	set, ctx := x.settings.Identity, x.r.Context()
	scheme, credentials, _ := strings.Cut(header, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		x.who, err = service.Bearer(ctx, set, strings.TrimSpace(credentials))
		return err
	case !strings.EqualFold(scheme, "Basic"):
		// The scheme is not quoted: a client that leaves it out sends its credential there.
		return contract.Errorf("auth/unauthorized", "the scheme of the Authorization header is not supported").
			WithHint("send \"Bearer\", one space and a token")
	case !set.Basic.Enabled:
		return contract.Errorf("auth/unauthorized", "this host does not accept the scheme Basic: auth.basic.enabled is false").
			WithHint("send Bearer with a token")
	}
	name, password, ok := x.r.BasicAuth()
	if !ok {
		return contract.Errorf("auth/unauthorized", "the credentials of scheme Basic are malformed: expected base64 of login:password")
	}
	x.claimed = service.Named(name)
	login := identity.Login{Name: name, Password: password, Network: network(x.client())}
	if x.who, ok = service.Recall(ctx, set, login); ok {
		return nil
	}
	return x.identifyLogin(service, login)
}

// identifyLogin checks a login with a password, within the rate limits of its address and of the
// pair of address and account.
func (x *exchange) identifyLogin(service *identity.Service, login identity.Login) (err *contract.Error) {
	if err := x.checkUnverified(); err != nil {
		return err
	}
	rate := x.settings.Limits.LoginRate
	if err := x.take("login "+login.Name+" "+login.Network, rate, rate.Events); err != nil {
		return err
	}
	if x.who, err = service.Password(x.r.Context(), x.settings.Identity, login); err == nil {
		x.identified("auth/login", "a login with a password")
	}
	return err
}

// identified records a login or logout.
func (x *exchange) identified(event, message string) {
	x.api.backend.Identified(Identified{
		Event:     event,
		Principal: x.who.Name,
		Address:   x.client(),
		Operation: x.operation(),
		Message:   message,
	})
}

// operation returns the name of the requested operation for the audit trail.
func (x *exchange) operation() string {
	if x.route.Operation == OpOpen {
		return "auth/login" // the only open route with credentials
	}
	return string(x.route.Operation)
}

// permit decides whether the principal may execute an operation, and adds the decision to
// x.decisions (AUTH-010, AUTH-013). The operator on the admin socket may execute all.
func (x *exchange) permit(operation string) *contract.Error {
	d := x.decide(operation)
	x.decisions = append(x.decisions, d.Value())
	err := d.Refusal("auth/forbidden", "operation", x.who.Caller())
	if err != nil {
		x.deny(operation, err, d.Value())
	}
	return err
}

// decide returns the decision about an operation without recording it.
func (x *exchange) decide(operation string) policy.Decision {
	if x.via.admin {
		return policy.Decision{What: operation, OK: true, Reason: "admin-socket"}
	}
	return x.settings.Access.Operation(operation, x.who.Caller())
}

// deny records that a rule denied the request (AUTH-013).
func (x *exchange) deny(operation string, err *contract.Error, decision edn.Value) {
	x.denied = true
	x.api.backend.Denied(Denial{
		Event:     "auth/denied",
		Principal: x.who.Name,
		Address:   x.client(),
		Operation: operation,
		Decision:  decision,
		Message:   err.Message,
		Reason:    err.Type,
	})
}

// may reports whether the principal may execute another operation than that of the route.
func (x *exchange) may(operation string) bool {
	return x.decide(operation).OK
}

// holds reports whether the credential of the principal is still valid.
func (x *exchange) holds(ctx context.Context) bool {
	if x.via.admin {
		return true
	}
	service := x.api.backend.Identity()
	return service != nil && service.Holds(ctx, &x.who)
}

// Identified describes a login or a logout for the audit trail.
type Identified struct {
	Event                         string
	Principal, Address, Operation string
	Message                       string
}

// Denial describes a denied request for the audit trail. Decision is nil if no rule was applied.
// For rejected credentials, Principal is the caller in them, empty if unknown.
type Denial struct {
	Event                         string
	Principal, Address, Operation string
	Decision                      edn.Value
	Message                       string
	Reason                        string // error type of the answer
}

// Permission describes a request that reached objects of other callers, for the audit trail.
type Permission struct {
	Principal, Address string
	Decision           policy.Decision // about the permitting operation, such as runs/any
	Request            string          // method and path
	Run, Session       string          // id of the run or session; both empty: all
}

// client returns the address of the caller. Behind trusted proxies it is the last address in
// X-Forwarded-For that is not one of them (AUTH-021).
func (x *exchange) client() string {
	host, _, err := net.SplitHostPort(x.r.RemoteAddr)
	if err != nil {
		return x.r.RemoteAddr
	}
	peer, err := netip.ParseAddr(host)
	if err != nil || !x.settings.trusts(peer) {
		return host
	}
	forwarded := strings.Split(strings.Join(x.r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(forwarded) {
		ip, ok := forwardedFor(strings.TrimSpace(text))
		if !ok {
			break // earlier entries are set by the caller
		}
		if peer = ip; !x.settings.trusts(ip) {
			break
		}
	}
	return peer.Unmap().WithZone("").String()
}

// forwardedFor parses an entry of X-Forwarded-For. Some proxies write the port too.
func forwardedFor(text string) (netip.Addr, bool) {
	if of, err := netip.ParseAddrPort(text); err == nil {
		return of.Addr(), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	ip, err := netip.ParseAddr(text)
	return ip, err == nil
}

// trusts reports whether an address is that of a trusted proxy.
func (s *Settings) trusts(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(s.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// checkOpen rejects requests over a listener that other machines can reach, if the current
// configuration does not permit that, for example because a name has got another address. Without
// TLS only trusted proxies and this machine may use it (AUTH-030).
func (x *exchange) checkOpen() *contract.Error {
	if !x.via.open || x.settings.Open && x.r.TLS != nil {
		return nil
	}
	if x.settings.Open {
		peer, err := netip.ParseAddrPort(x.r.RemoteAddr)
		if err == nil && (peer.Addr().Unmap().IsLoopback() || x.settings.trusts(peer.Addr())) {
			return nil
		}
		return contract.Errorf("http/misdirected", "this listener has no TLS and is for trusted proxies only").
			WithHint("use the address of the proxy")
	}
	return contract.Errorf("http/misdirected", "this listener is open to other machines, which the configuration does not allow").
		WithHint("set auth.required and http.tls, and restart the daemon")
}
