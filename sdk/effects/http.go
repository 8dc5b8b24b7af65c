package effects

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Defaults of HTTP requests.
const (
	DefaultHTTPTimeout   = 10 * time.Second
	DefaultHTTPBytes     = 4 << 20
	DefaultHTTPRedirects = 5
)

// Target is the destination of an HTTP request.
type Target struct {
	Method string
	URL    *url.URL
	Host   string // lower case, without brackets and trailing dot
	Port   int    // the effective port
}

// Target returns the method and destination of a net/http-request call, or the
// error if the input is invalid or the scope does not permit them.
func (t Tool) Target(input edn.Value, s *Scope) (Target, *contract.Error) {
	method := "GET"
	if v := input.Key("method"); !v.IsNil() {
		method = strings.ToUpper(scopeWord(v))
	}
	if !slices.Contains(s.Methods.V, method) {
		return Target{}, Denied("method-not-allowed", t, "the method %q is not one of the allowed methods: %s", method,
			listed(s.Methods.V))
	}
	text, ok := input.Key("url").AsString()
	if !ok {
		return Target{}, InvalidInput("schema", t, "expected a text in :url, found a value of kind %s",
			input.Key("url").Kind())
	}
	u, err := url.Parse(text)
	if err != nil { // its text may have parts of a password
		return Target{}, InvalidInput("url/invalid", t, "the :url cannot be parsed, expected the form https://host/path")
	}
	return t.TargetURL(method, u, s)
}

// TargetURL is Target for a URL that is already parsed: that of the call or of
// a redirect.
func (t Tool) TargetURL(method string, u *url.URL, s *Scope) (Target, *contract.Error) {
	invalid := func(why string) (Target, *contract.Error) {
		return Target{}, InvalidInput("url/invalid", t, "the :url %s", why)
	}
	switch {
	case u.Scheme == "" || u.Opaque != "":
		return invalid("is not absolute, expected the form https://host/path")
	case u.User != nil:
		return invalid("contains a user name, expected credentials in a header with a secret")
	case u.Hostname() == "":
		return invalid("has no host, expected the form https://host/path")
	}
	scheme := strings.ToLower(u.Scheme)
	if !slices.Contains(s.Schemes.V, scheme) || scheme != "https" && scheme != "http" {
		return Target{}, Denied("scheme-not-allowed", t, "the scheme %q is not one of the allowed schemes: %s", scheme,
			listed(s.Schemes.V))
	}
	if strings.Contains(u.Host, "%") {
		return invalid("has an address with a zone, expected one without %")
	}
	host, problem := cleanHost(u.Hostname())
	if problem != "" || strings.HasPrefix(host, "*") {
		return invalid(fmt.Sprintf("has the host %q, expected a name in ASCII or an address", u.Hostname()))
	}
	out := Target{Method: method, URL: u, Host: host, Port: 443}
	if scheme == "http" {
		out.Port = 80
	}
	if p := u.Port(); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return invalid(fmt.Sprintf("has the port %q, expected 1 to 65535", p))
		}
		out.Port = n
	}
	if !slices.ContainsFunc(s.Hosts.V, func(h string) bool { return Covers(KindHosts, h, host) }) {
		return Target{}, Denied("host-not-allowed", t, "the host %q is not one of the allowed hosts: %s", host,
			listed(s.Hosts.V))
	}
	if !slices.Contains(s.Ports.V, out.Port) {
		return Target{}, Denied("port-not-allowed", t, "the port %d is not one of the allowed ports: %v", out.Port, s.Ports.V)
	}
	if a, err := netip.ParseAddr(host); err == nil && !AddressAllowed(a, s) {
		return Target{}, Denied("address-not-allowed", t, "the address %s is not public, and the scope does not allow it", a)
	}
	return out, nil
}

// AddressAllowed reports whether a resolved address may be dialled: any public
// address, and with allow-private also private and loopback addresses.
// Link-local addresses (cloud metadata services), multicast and unspecified
// addresses are always rejected.
func AddressAllowed(a netip.Addr, s *Scope) bool {
	a = plainAddress(a)
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast():
		return false
	case slices.ContainsFunc(neverRouted, func(p netip.Prefix) bool { return p.Contains(a) }):
		return false
	case a.IsLoopback(), a.IsPrivate(),
		slices.ContainsFunc(privateNets, func(p netip.Prefix) bool { return p.Contains(a) }):
		return s.AllowPrivate.V
	}
	return true
}

// plainAddress extracts the IPv4 address from the IPv6 forms that embed one, so
// that the embedded address is checked.
func plainAddress(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case translated.Contains(a), compatible.Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16]))
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return a
}

var (
	sixToFour  = netip.MustParsePrefix("2002::/16")
	translated = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	teredo     = netip.MustParsePrefix("2001::/32")

	privateNets = []netip.Prefix{
		netip.MustParsePrefix("100.64.0.0/10"), // shared by carriers
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
		netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("fec0::/10"), // deprecated site-local
	}
	neverRouted = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("240.0.0.0/4"), // includes broadcast
		netip.MustParsePrefix("100::/64"),
		netip.MustParsePrefix("fd00:ec2::/32"), // metadata service of a cloud
		netip.MustParsePrefix("100.100.100.200/32"),
		netip.MustParsePrefix("192.0.0.192/32"),
		netip.MustParsePrefix("168.63.129.16/32"), // metadata service of a cloud, at a public address
	}
)

// Idempotent reports whether a repeated request has its effect only once: the
// scope names an idempotency header.
func (s *Scope) Idempotent() bool { return s.IdempotencyHeader.V != "" }
