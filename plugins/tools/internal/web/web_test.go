package web

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// world is a small internet: names, their addresses, and one server behind all.
type world struct {
	server *httptest.Server
	names  map[string][]string
	mu     sync.Mutex
	asked  map[string]int
	dialed []string
	seen   []*http.Request
}

func newWorld(t *testing.T, handler http.HandlerFunc) *world {
	w := &world{names: map[string][]string{"api.test": {"93.184.216.34"}, "other.test": {"93.184.216.35"}}, asked: map[string]int{}}
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Clone(context.Background()))
		w.mu.Unlock()
		handler(rw, r)
	}))
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) client(scope effects.Scope) *Client {
	tool, _ := effects.ToolNamed("net/http-request")
	roots := x509.NewCertPool()
	roots.AddCert(w.server.Certificate())
	return &Client{Tool: tool, Scope: &scope, Roots: roots, Key: "b3:key",
		Secrets: map[string]Secret{"github": {Value: "canary-value", Hosts: []string{"api.test"}, Header: "Authorization"}},
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			list := w.names[host]
			if len(list) == 0 {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			w.asked[host]++
			return []netip.Addr{netip.MustParseAddr(list[min(w.asked[host], len(list))-1])}, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, address)
			w.mu.Unlock()
			return (&net.Dialer{}).DialContext(ctx, network, w.server.Listener.Addr().String())
		}}
}

func scope(t *testing.T, more string) effects.Scope {
	s, problems := effects.ParseScope("net/http", edn.MustRead(`{:enabled true :hosts ["example.com" "*.example.com"] :schemes ["https" "http"] :ports [443 80] :methods ["GET" "HEAD" "POST"] :redirects 3 :timeout-ms 5000 :max-bytes 100 `+more+`}`))
	require.Empty(t, problems)
	return s
}

func reasonOf(err *contract.Error) string {
	if err == nil {
		return ""
	}
	reason, _ := err.Details.Key("reason").AsKeyword()
	if because, ok := err.Details.Key("because").AsKeyword(); ok {
		reason += " " + because
	}
	if reason == "" {
		return err.Type
	}
	return reason
}

// The certificate of httptest is for example.com, so all requests go there.
func TestAnswer(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Test", "yes")
		_, _ = rw.Write([]byte(r.Method + " " + r.URL.RequestURI()))
	})
	w.names["example.com"] = []string{"93.184.216.34"}
	out, err := w.client(scope(t, `:idempotency-header "Idempotency-Key"`)).Do(t.Context(), edn.MustRead(`{:url "https://example.com/a?b=c#d" :headers {"x-own" "v" "authorization" "Basic x"}}`))
	require.Nil(t, err)
	assert.Equal(t, `"GET /a?b=c"`, out.Key("body").String())
	assert.Equal(t, `"GET" "https://example.com/a?b=c#d" 200`, out.Key("method").String()+" "+out.Key("url").String()+" "+out.Key("status").String(), "FX-010")
	assert.Contains(t, out.Key("headers").String(), `"x-test" "yes"`)
	assert.Equal(t, []string{"93.184.216.34:443"}, w.dialed, "the address that was judged is the one that is dialled")
	assert.Equal(t, "b3:key", w.seen[0].Header.Get("Idempotency-Key"))
}

// Each row is one refusal with its reason.
func TestHostileRequests(t *testing.T) {
	for name, row := range map[string]struct {
		names    map[string][]string
		handler  http.HandlerFunc
		input    string
		want     string
		requests int
	}{
		"loopback":                    {names: map[string][]string{"example.com": {"127.0.0.1"}}, input: `{:url "https://example.com/"}`, want: "address-not-allowed"},
		"metadata":                    {names: map[string][]string{"example.com": {"169.254.169.254"}}, input: `{:url "https://example.com/"}`, want: "address-not-allowed"},
		"mapped":                      {names: map[string][]string{"example.com": {"::ffff:10.0.0.1"}}, input: `{:url "https://example.com/"}`, want: "address-not-allowed"},
		"6to4":                        {names: map[string][]string{"example.com": {"2002:7f00:1::1"}}, input: `{:url "https://example.com/"}`, want: "address-not-allowed"},
		"no such name":                {input: `{:url "https://a.example.com/"}`, want: "effects/runtime-failed"},
		"header line break":           {input: `{:url "https://example.com/" :headers {"a" "b\r\nc: d"}}`, want: "header/invalid"},
		"header of its own":           {input: `{:url "https://example.com/" :headers {"Host" "evil"}}`, want: "header/invalid"},
		"unknown secret":              {input: `{:url "https://example.com/" :headers {"authorization" #ferment/secret :none}}`, want: "secret/unknown"},
		"secret elsewhere":            {input: `{:url "https://example.com/" :headers {"authorization" #ferment/secret :github}}`, want: "secret-not-allowed"},
		"secret in a header":          {input: `{:url "https://example.com/" :headers {"x-debug" #ferment/secret :github}}`, want: "secret-not-allowed"},
		"redirect to metadata":        {handler: redirect("https://169.254.169.254/latest/"), input: `{:url "https://example.com/"}`, want: "redirect-not-allowed host-not-allowed", requests: 1},
		"redirect to a name of it":    {names: map[string][]string{"b.example.com": {"169.254.169.254"}}, handler: redirect("https://b.example.com/"), input: `{:url "https://example.com/"}`, want: "address-not-allowed", requests: 1},
		"downgrade":                   {handler: redirect("http://example.com/"), input: `{:url "https://example.com/"}`, want: "redirect-not-allowed", requests: 1},
		"redirect to a port":          {handler: redirect("https://example.com:22/"), input: `{:url "https://example.com/"}`, want: "redirect-not-allowed port-not-allowed", requests: 1},
		"redirect to a file":          {handler: redirect("file:///etc/passwd"), input: `{:url "https://example.com/"}`, want: "redirect-not-allowed", requests: 1},
		"redirect for ever":           {handler: redirect("/again"), input: `{:url "https://example.com/"}`, want: "redirect-not-allowed", requests: 4},
		"rebinding between redirects": {names: map[string][]string{"example.com": {"93.184.216.34", "127.0.0.1"}}, handler: redirect("/again"), input: `{:url "https://example.com/"}`, want: "address-not-allowed", requests: 1},
		"name of the certificate":     {names: map[string][]string{"a.b.example.com": {"93.184.216.34"}}, input: `{:url "https://a.b.example.com/"}`, want: "effects/runtime-failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if row.handler == nil {
				row.handler = func(http.ResponseWriter, *http.Request) {}
			}
			w := newWorld(t, row.handler)
			w.names["example.com"] = []string{"93.184.216.34"}
			for n, a := range row.names {
				w.names[n] = a
			}
			_, err := w.client(scope(t, "")).Do(t.Context(), edn.MustRead(row.input))
			assert.Equal(t, row.want, reasonOf(err), "%v", err)
			assert.Len(t, w.seen, row.requests)
			for _, d := range w.dialed {
				assert.True(t, strings.HasPrefix(d, "93.184."), "dialled %s", d)
			}
			if err != nil {
				assert.NotContains(t, err.Value().String(), "canary-value")
				assert.LessOrEqual(t, strings.Count(err.Message, ":net/http-request: "), 1, "%s", err.Message)
				state, _ := err.Details.Key("effect/state").AsKeyword()
				assert.Equal(t, row.requests > 0, state == "unknown", "what was sent may have been done")
			}
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", to)
		rw.WriteHeader(http.StatusFound)
	}
}

// Credentials are dropped when the host changes; a long body is cut and marked;
// a redirected POST becomes a GET.
func TestRedirectAcrossHosts(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			redirect("https://www.example.com/there")(rw, r)
			return
		}
		_, _ = rw.Write([]byte(strings.Repeat("ż", 60)))
	})
	w.names["example.com"], w.names["www.example.com"] = []string{"93.184.216.34"}, []string{"93.184.216.35"}
	c := w.client(scope(t, ""))
	c.Secrets["github"] = Secret{Value: "canary-value", Hosts: []string{"example.com"}}
	out, err := c.Do(t.Context(), edn.MustRead(`{:url "https://example.com/" :method "POST" :body "data" :headers {"authorization" ["Bearer " #ferment/secret :github] "x-token" #ferment/secret "github" "cookie" "a=b" "x-plain" "p"}}`))
	require.Nil(t, err)
	assert.Equal(t, "true", out.Key("truncated?").String())
	text, _ := out.Key("body").AsString()
	assert.Equal(t, strings.Repeat("ż", 50), text)
	require.Len(t, w.seen, 2)
	assert.Equal(t, "Bearer canary-value", w.seen[0].Header.Get("Authorization"))
	assert.Equal(t, "POST", w.seen[0].Method)
	there := w.seen[1]
	assert.Equal(t, "GET", there.Method)
	assert.Equal(t, "p", there.Header.Get("X-Plain"))
	for _, name := range []string{"Authorization", "Cookie", "X-Token"} {
		assert.Empty(t, there.Header.Get(name), name)
	}
	assert.NotContains(t, out.String(), "canary-value")
}

// FX-011: another port of the same host is another program, and http is not
// https: no credential is sent along, whatever its header is called.
func TestRedirectToAnotherOrigin(t *testing.T) {
	for name, row := range map[string]struct{ from, to string }{
		"port":    {"https://example.com/", "https://example.com:8443/there"},
		"upgrade": {"http://example.com/", "https://example.com/there"},
		"host":    {"https://example.com/", "https://www.example.com/there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					redirect(row.to)(rw, r)
				}
			})
			plain := httptest.NewServer(w.server.Config.Handler)
			t.Cleanup(plain.Close)
			w.names["example.com"], w.names["www.example.com"] = []string{"93.184.216.34"}, []string{"93.184.216.35"}
			s, problems := effects.ParseScope("net/http", edn.MustRead(`{:enabled true :hosts ["example.com" "*.example.com"] :schemes ["https" "http"] :ports [443 80 8443] :methods ["GET"] :redirects 3}`))
			require.Empty(t, problems)
			c := w.client(s)
			c.Secrets["github"] = Secret{Value: "canary-value", Hosts: []string{"example.com"}}
			secure := c.Dial
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasSuffix(address, ":80") {
					return (&net.Dialer{}).DialContext(ctx, network, plain.Listener.Addr().String())
				}
				return secure(ctx, network, address)
			}
			_, err := c.Do(t.Context(), edn.MustRead(`{:url "`+row.from+`" :headers {"authorization" #ferment/secret :github "cookie" "a=b" "x-api-key" "canary-1" "private-token" "canary-2" "x-plain" "p"}}`))
			require.Nil(t, err)
			require.Len(t, w.seen, 2)
			assert.Equal(t, "canary-1", w.seen[0].Header.Get("X-Api-Key"))
			for header, values := range w.seen[1].Header {
				assert.NotContains(t, strings.Join(values, " "), "canary", header)
			}
			assert.Empty(t, w.seen[1].Header.Get("Cookie"))
			assert.Equal(t, "p", w.seen[1].Header.Get("X-Plain"))
		})
	}
}

// FX-011: a secret that the server repeats does not reach the answer, which is
// recorded.
func TestRepeatedSecret(t *testing.T) {
	const value = `canary "v" & more`
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Authorization")
		rw.Header().Set("X-Echo", sent)
		_ = json.NewEncoder(rw).Encode(map[string]string{"authorization": sent})
		_, _ = rw.Write([]byte(sent + "\n" + url.QueryEscape(sent)))
	})
	w.names["example.com"] = []string{"93.184.216.34"}
	s := scope(t, "")
	s.MaxBytes = effects.Bound{N: 10_000, Set: true}
	c := w.client(s)
	c.Secrets["github"] = Secret{Value: value, Hosts: []string{"example.com"}}
	out, err := c.Do(t.Context(), edn.MustRead(`{:url "https://example.com/" :headers {"authorization" #ferment/secret :github}}`))
	require.Nil(t, err)
	assert.Equal(t, value, w.seen[0].Header.Get("Authorization"))
	assert.NotContains(t, out.String(), "canary")
	body, _ := out.Key("body").AsString()
	assert.Equal(t, 3, strings.Count(body, "[secret github]"), body)
	assert.Contains(t, out.Key("headers").String(), `"x-echo" "[secret github]"`)
}

func TestShownHasNoQuery(t *testing.T) {
	u, err := url.Parse("https://example.com:8443/a/b?token=canary#x")
	require.NoError(t, err)
	assert.Equal(t, "https://example.com:8443/a/b", shown(u))
}
