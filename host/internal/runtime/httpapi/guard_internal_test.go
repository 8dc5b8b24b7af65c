package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
)

// AUTH-033: the limits before a configuration is loaded are the defaults. They
// have no rates: a host without a configuration serves no acts.
func TestLimitsBeforeConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ferment.hcl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c, ds := config.Load(t.Context(), file, config.Options{Env: func(string) (string, bool) { return "", false }})
	require.Empty(t, ds)
	want := c.HTTP.Limits
	want.ActRate, want.ActBurst, want.AnonymousRate = config.Rate{}, 0, config.Rate{}
	want.LoginRate = config.Rate{}
	assert.Equal(t, want, defaultLimits)
}

// AUTH-030, FX-012: the admin socket requires the user of the daemon, or root, the
// token, and a process outside of plugins. TestPeerOfAnotherUser and TestPeerOfAPlugin
// show the same with processes where the tests may start them.
func TestIdentifyOperator(t *testing.T) {
	const token, stranger = "the token", 1 << 30
	for _, row := range []struct {
		name  string
		peer  any // nil: the kernel reported none
		shown string
		typ   string // of the error; empty: admitted
	}{
		{"user of the daemon", peer{uid: ownUID()}, "Bearer " + token, ""},
		{"root", peer{}, "Bearer " + token, ""},
		{"user of the daemon, no token", peer{uid: ownUID()}, "", "auth/unauthorized"},
		{"root, wrong token", peer{}, "Bearer another", "auth/unauthorized"},
		{"another user", peer{uid: stranger}, "Bearer " + token, "auth/forbidden"},
		{"another user, no token", peer{uid: stranger}, "", "auth/forbidden"},
		{"plugin of the daemon", peer{uid: ownUID(), contained: true}, "Bearer " + token, "auth/forbidden"},
		{"plugin as root", peer{contained: true}, "Bearer " + token, "auth/forbidden"},
		{"unknown user", nil, "Bearer " + token, "auth/forbidden"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := t.Context()
			if row.peer != nil {
				ctx = context.WithValue(ctx, peerKey{}, row.peer)
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/admin", nil)
			if row.shown != "" {
				r.Header.Set("Authorization", row.shown)
			}
			x := &exchange{via: &listener{admin: true, token: token}, r: r, route: &Route{Operation: OpAdmin}}
			err := x.identify()
			if row.typ == "" {
				require.Nil(t, err)
				assert.Equal(t, []string{policy.RoleAdmin}, x.who.Roles)
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, row.typ, err.Type)
			assert.Equal(t, identity.Principal{}, x.who)
		})
	}
}

// AUTH-030: a connection that is not a unix socket has no peer user.
func TestPeerUnknown(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	_, known := peerOf(withPeer(t.Context(), a))
	assert.False(t, known)
}

// AUTH-030: one address of a name that other machines can reach is enough to
// reject the listener.
func TestInsecureNames(t *testing.T) {
	for _, row := range []struct {
		name     string
		ips      []string
		insecure bool
	}{
		{"IPv4 loopback", []string{"127.0.0.1"}, false},
		{"all loopback", []string{"::1", "127.8.9.10", "::ffff:127.0.0.1"}, false},
		{"last one open", []string{"127.0.0.1", "::1", "192.0.2.1"}, true},
		{"first one open", []string{"2001:db8::1", "127.0.0.1"}, true},
		{"mapped", []string{"::ffff:192.0.2.1"}, true},
		{"wildcard", []string{"0.0.0.0"}, true},
		{"no address", nil, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var ips []netip.Addr
			for _, ip := range row.ips {
				ips = append(ips, netip.MustParseAddr(ip))
			}
			err := onlyLoopback("some.name:7180", ips)
			if row.insecure {
				require.ErrorIs(t, err, contract.OfType("http/insecure-listener"))
				return
			}
			require.NoError(t, err)
		})
	}
}

// AUTH-030: a wildcard address opens its own family only: the firewall of the operator is for
// what the configuration says. Without an address it is both.
func TestWildcardsAreOfTheirFamily(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("needs IPv6")
	} else {
		require.NoError(t, l.Close())
	}
	for _, row := range []struct {
		address    string
		ipv4, ipv6 bool
	}{
		{"0.0.0.0:0", true, false},
		{"[::]:0", false, true},
		{":0", true, true},
	} {
		t.Run(row.address, func(t *testing.T) {
			for range 100 { // another process may use the port in the other family: then another port
				l, open, err := listenTCP(t.Context(), row.address, true)
				require.NoError(t, err)
				assert.True(t, open)
				port := l.Addr().(*net.TCPAddr).Port
				only := (row.ipv4 || isFree("tcp4", port)) && (row.ipv6 || isFree("tcp6", port))
				if row.ipv4 {
					assertServes(t, "127.0.0.1", port)
				}
				if row.ipv6 {
					assertServes(t, "::1", port)
				}
				require.NoError(t, l.Close())
				if only {
					return
				}
			}
			t.Fatal("the listener has the port in the other family as well")
		})
	}
}

// isFree reports whether no socket has a port of a family.
func isFree(family string, port int) bool {
	l, err := net.ListenTCP(family, &net.TCPAddr{Port: port})
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

func assertServes(t *testing.T, host string, port int) {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if assert.NoError(t, err) {
		_ = conn.Close()
	}
}
