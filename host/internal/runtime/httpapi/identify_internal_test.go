package httpapi

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

// AUTH-030: a listener that other machines can reach serves over TLS, or trusted
// proxies and this machine without it; and nothing while the configuration does not
// allow it.
func TestOpenListeners(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	for name, row := range map[string]struct {
		via     listener
		may     bool // the configuration allows open listeners
		tls     bool
		peer    string
		refused bool
	}{
		"loopback listener":       {listener{}, false, false, "127.0.0.1:5", false},
		"over TLS":                {listener{open: true}, true, true, "192.0.2.1:5", false},
		"proxy":                   {listener{open: true}, true, false, "10.1.2.3:5", false},
		"mapped proxy":            {listener{open: true}, true, false, "[::ffff:10.1.2.3]:5", false},
		"this machine":            {listener{open: true}, true, false, "127.0.0.1:5", false},
		"beside the proxy":        {listener{open: true}, true, false, "192.0.2.1:5", true},
		"not allowed any more":    {listener{open: true}, false, true, "10.1.2.3:5", true},
		"this machine, no longer": {listener{open: true}, false, false, "127.0.0.1:5", true},
		"an address that is none": {listener{open: true}, true, false, "@", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health", nil)
		r.RemoteAddr = row.peer
		if row.tls {
			r.TLS = &tls.ConnectionState{}
		}
		x := &exchange{via: &row.via, r: r, settings: &Settings{Open: row.may, Proxies: proxies}}
		err := x.checkOpen()
		assert.Equal(t, row.refused, err != nil, name)
		if err != nil {
			assert.Equal(t, "http/misdirected", err.Type, name)
		}
	}
}

// AUTH-021: the address of a caller behind proxies is the last one of X-Forwarded-For
// that no proxy has; what precedes it, and what another caller sends, counts for nothing.
func TestForwardedFor(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, row := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"192.0.2.1:5", nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"203.0.113.9"}, "192.0.2.1"},
		{"10.0.0.1:5", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:5", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:5", []string{"198.51.100.1", "203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"10.0.0.1:5", []string{"198.51.100.1:80, 203.0.113.9:4711"}, "203.0.113.9"},
		{"10.0.0.1:5", []string{"[2001:db8::7]:443, 10.0.0.2:80"}, "2001:db8::7"},
		{"10.0.0.1:5", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"10.0.0.1:5", nil, "10.0.0.1"},
		{"10.0.0.1:5", []string{""}, "10.0.0.1"},
		{"10.0.0.1:5", []string{"203.0.113.9, nonsense"}, "10.0.0.1"},
		{"10.0.0.1:5", []string{"203.0.113.9, nonsense, 10.0.0.2"}, "10.0.0.2"},
		{"[fd00::1]:5", []string{"2001:db8::7"}, "2001:db8::7"},
		{"[::ffff:10.0.0.1]:5", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"@", []string{"203.0.113.9"}, "@"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health", nil)
		r.RemoteAddr = row.peer
		for _, line := range row.lines {
			r.Header.Add("X-Forwarded-For", line)
		}
		x := &exchange{via: &listener{}, r: r, settings: &Settings{Proxies: proxies}}
		assert.Equal(t, row.want, x.client(), "%v", row)
	}
}
