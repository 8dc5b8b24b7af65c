package httpapi_test

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// header sends a request with a header as its bytes are; ok is false if no response can
// be expected, because the text would be more than one header.
func (w *world) header(t *testing.T, path, name, value string) (a answer, ok bool) {
	t.Helper()
	if strings.ContainsAny(value, "\r\n") {
		return answer{}, false
	}
	host := "Host: localhost\r\n"
	if name == "Host" {
		host = ""
	}
	a, err := w.raw("GET " + path + " HTTP/1.1\r\n" + host + name + ": " + value + "\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	if a.status >= 400 && a.failure(t) == "" {
		t.Fatalf("%d without a type: %s", a.status, a.body)
	}
	if a.status >= 500 && a.status != 503 {
		t.Fatalf("a defect: %s", a.body)
	}
	return a, true
}

// AUTH-001: no text of a credential but the true one identifies a caller, and none is a
// defect.
func FuzzCredentials(f *testing.F) {
	w := newWorld(f, strict, browsers, sessionTokens(policy.Act))
	w.user("ann")
	token, _ := w.token("ann", policy.Narrowing{})
	headers := []string{"Authorization", "X-Session-Token", "Cookie"}
	for i, text := range []string{
		token, basic("ann", password), "Bearer", "Bearer ", "bearer  x", "Basic ", "Basic Og==", "Basic " + strings.Repeat("A", 4096), "Digest a=b",
		"fms_" + strings.TrimPrefix(token, "Bearer fmt_"), "__Host-ferment=x", "__Host-ferment=\"" + token + "\"", "Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.", "\x00", "\xff\xfe", ",", token + ", " + token,
	} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		w.t = t
		a, ok := w.header(t, "/v1/whoami", headers[int(which)%len(headers)], text)
		if !ok || a.status != http.StatusOK {
			return
		}
		scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		if rest = strings.TrimSpace(rest); !(strings.EqualFold(scheme, "Bearer") && "Bearer "+rest == token) &&
			!(strings.EqualFold(scheme, "Basic") && "Basic "+rest == basic("ann", password)) {
			t.Fatalf("%q identifies %s", text, a.body)
		}
	})
}

// AUTH-032: a request is served under names of this daemon only.
func FuzzHost(f *testing.F) {
	w := newWorld(f)
	for _, text := range []string{
		"localhost", "LOCALHOST.", "localhost:80", "[::1]:80", "127.1.2.3", "ferment.example", "Ferment.Example.:443", "evil.example", "localhost.evil.example",
		"localhost@evil.example", "127.0.0.1.nip.io", "0", "0x7f.1", "[::ffff:127.0.0.1]", "[::1%25lo]", "", " ", "localhost, evil.example", "a:b:c", "\x00", "\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w.t = t
		a, ok := w.header(t, "/health", "Host", text)
		if !ok || a.status != http.StatusOK {
			return
		}
		name := strings.TrimSpace(text)
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
		ip, err := netip.ParseAddr(name)
		if name != "localhost" && name != "ferment.example" && (err != nil || !ip.Unmap().IsLoopback()) {
			t.Fatalf("%q is served", text)
		}
	})
}

// AUTH-021: whatever a caller and its proxies write into X-Forwarded-For, the address
// that counts is an address: that of the connection, unless it is one of a proxy.
func FuzzForwardedFor(f *testing.F) {
	w := newWorld(f, strict)
	for _, text := range []string{"", "192.0.2.1", "192.0.2.1, 127.0.0.1", "::1, 2001:db8::1%eth0", "[2001:db8::1]:7", "unknown", "1.2.3.4,,", ",", "127.0.0.1, x", "::ffff:192.0.2.1", "\x00", strings.Repeat("1.1.1.1,", 500)} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, trusted bool) {
		w.t = t
		w.tune(func(s *httpapi.Settings) {
			s.Proxies = nil
			if trusted {
				s.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		w.denied()
		if strings.ContainsAny(text, "\r\n") {
			return
		}
		a, err := w.raw("GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nX-Forwarded-For: " + text + "\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		for _, d := range w.denied() {
			ip, err := netip.ParseAddr(d.Address)
			if err != nil || !trusted && d.Address != "127.0.0.1" {
				t.Fatalf("%q makes the address %q: %d", text, d.Address, a.status)
			}
			if last := text[strings.LastIndexByte(text, ',')+1:]; trusted && ip.IsLoopback() {
				if parsed, err := netip.ParseAddr(strings.TrimSpace(last)); err == nil && !parsed.Unmap().IsLoopback() {
					t.Fatalf("the last address of %q does not count", text)
				}
			}
		}
	})
}
