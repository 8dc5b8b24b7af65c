package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// streamWorld returns a world whose capability streams text.
func streamWorld(t testing.TB, change ...func(*httpapi.Settings)) *world {
	w := newWorld(t, change...)
	from := policy.Origin{Source: policy.SourceIntent}
	w.exec.Policies.Intents = map[string]policy.Layer{"t/any": {Stream: policy.Of(policy.Provisional, from), FallbackMax: policy.Of(1, from), SameCapMax: policy.Of(1, from)}}
	return w
}

// sse is one event as a client reads it.
type sse struct {
	id, name, retry string
	data            edn.Value
}

// follow sends an act and returns a reader of its events.
func (w *world) follow(ctx context.Context, body, path string) (*http.Response, func() (sse, error)) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	return w.events(w.client, r)
}

// events sends a request and returns a reader of the events of the response.
func (w *world) events(c *http.Client, r *http.Request) (*http.Response, func() (sse, error)) {
	w.t.Helper()
	resp, err := c.Do(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return resp, func() (e sse, err error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return e, err
			}
			line = strings.TrimSuffix(line, "\n")
			key, value, _ := strings.Cut(line, ": ")
			switch key {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "retry":
				e.retry = value
			case "data":
				if strings.HasSuffix(r.URL.RawQuery, "edn") {
					e.data, err = edn.Read([]byte(value))
				} else {
					e.data, err = edn.ReadJSON([]byte(value))
				}
				require.NoError(w.t, err, "%s", value)
			case "":
				if line == "" && e.name != "" {
					return e, nil
				}
				if line != "" {
					return sse{name: strings.TrimPrefix(line, ": ")}, nil // a comment
				}
				e = sse{}
			}
		}
	}
}

func all(t testing.TB, next func() (sse, error)) (events []sse) {
	t.Helper()
	for {
		e, err := next()
		if err == io.EOF {
			return events
		}
		require.NoError(t, err)
		events = append(events, e)
	}
}

// RUN-040 to RUN-044: the events of an act, in order, with ids, and the whole
// response in the last; text of a failed attempt is retracted.
func TestStream(t *testing.T) {
	for _, path := range []string{"/v1/act", "/v1/act?format=edn"} {
		t.Run(path, func(t *testing.T) {
			w := streamWorld(t)
			w.exec.On("t/any",
				dispatchtest.Step{Pieces: []string{"bad"}, Err: contract.Errorf("provider/empty", "nothing")},
				dispatchtest.Step{Pieces: []string{"fine \n", "so far"}, Value: edn.MustRead(`{:text "fine \nso far"}`)})
			resp, next := w.follow(t.Context(), jsonAct("t/any", "{}"), path)
			require.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
			assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			assert.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
			run := resp.Header.Get("Ferment-Run-Id")
			var names []string
			text, seq := "", 0
			var attempts []string // the events of each attempt
			events := all(t, next)
			for _, e := range events {
				names = append(names, e.name)
				switch e.name {
				case "chunk", "provisional":
					s, _ := e.data.Key("text").AsString()
					text += s
				case "retract":
					assert.Equal(t, "bad", text)
					text = ""
				}
				switch e.name {
				case "accepted", "started", "finished":
					assert.True(t, e.data.Key("path").IsNil(), "%s is of the run", e.name)
				case "resolved":
					assert.False(t, e.data.Key("path").IsNil(), "RUN-042: %s", e.name)
				default:
					assert.Equal(t, `[0]`, e.data.Key("path").String(), "RUN-042: %s", e.name)
					assert.Equal(t, "t/any", strings.Trim(e.data.Key("cap/id").String(), `":`), "RUN-042: %s", e.name)
					n, _ := e.data.Key("attempt").AsInt()
					attempts = append(attempts, fmt.Sprintf("%d %s", n, e.name))
				}
				n := 0
				_, err := fmt.Sscanf(e.id, run+".%d", &n)
				require.NoError(t, err, e.id)
				assert.Greater(t, n, seq)
				seq = n
			}
			assert.Equal(t, "fine \nso far", text)
			assert.Equal(t, []string{
				"1 attempt", "1 provisional", "1 attempt", "1 retract",
				"2 attempt", "2 provisional", "2 attempt", "2 gate", "2 commit",
			}, attempts, "RUN-042")
			assert.Equal(t, "accepted", names[0])
			assert.Equal(t, "finished", names[len(names)-1])
			response := events[len(events)-1].data.Key("response")
			assert.Equal(t, edn.Text("fine \nso far").String(), response.Key("result").Key("out").Key("text").String())
			got, _ := response.Key("run/id").AsString()
			assert.Equal(t, run, got)
			assert.Zero(t, w.turns.Load())
		})
	}
}

// An error after acceptance is in the last event, one before it is an ordinary
// response; a client that also accepts JSON gets JSON only with a higher
// weight.
func TestStreamRefused(t *testing.T) {
	w := streamWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Err: errorOf("input/invalid")})
	_, next := w.follow(t.Context(), jsonAct("t/any", "{}"), "/v1/act")
	events := all(t, next)
	assert.Equal(t, `"input/invalid"`, events[len(events)-1].data.Key("response").Key("error").Key("type").String())

	resp, _ := w.follow(t.Context(), jsonAct("t/none", "{}"), "/v1/act")
	assert.Equal(t, 400, resp.StatusCode)
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	resp, _ = w.follow(t.Context(), `{"proto":1,"trace":{"id":"t"},"task":{"intent":"t/any"},"input":{},"response/type":"accepted"}`, "/v1/act")
	assert.Equal(t, 503, resp.StatusCode)

	a := w.call("POST /v1/act", `{"proto":1,"trace":{"id":"t"},"task":{"intent":"t/any"},"input":{},"response/type":"stream"}`)
	assert.Equal(t, 400, a.status)
	assert.Contains(t, string(a.body), "text/event-stream")
	for accept, want := range map[string]string{
		"text/event-stream, application/json":           "text/event-stream",
		"text/event-stream;q=0.5, application/json":     "application/json",
		"text/event-stream;q=0.5, application/json;q=0": "text/event-stream",
		"*/*":    "application/json",
		"text/*": "",
	} {
		a := w.call("POST /v1/act", jsonAct("t/any", "{}"), "Accept", accept)
		if want == "" {
			assert.Equal(t, 406, a.status, accept)
			continue
		}
		assert.Equal(t, want, a.header.Get("Content-Type"), accept)
	}
	assert.Equal(t, 406, w.call("GET /health", "", "Accept", "text/event-stream").status)
}

// RUN-044: an idle stream has heartbeats.
func TestStreamHeartbeat(t *testing.T) {
	w := streamWorld(t, func(s *httpapi.Settings) { s.Heartbeat = 20 * time.Millisecond })
	release := make(chan struct{})
	w.exec.Func("t/any", func(context.Context, dispatch.Call) dispatchtest.Step { <-release; return dispatchtest.Step{} })
	_, next := w.follow(t.Context(), jsonAct("t/any", "{}"), "/v1/act")
	alive := 0
	for alive < 3 {
		e, err := next()
		require.NoError(t, err)
		if e.name == "alive" {
			alive++
		}
	}
	close(release)
	events := all(t, next)
	assert.Equal(t, "finished", events[len(events)-1].name)
}

// RUN-007: a client that closes its connection cancels its run.
func TestStreamGone(t *testing.T) {
	w := streamWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Pieces: []string{"a"}, Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	_, next := w.follow(ctx, jsonAct("t/any", "{}"), "/v1/act")
	for {
		e, err := next()
		require.NoError(t, err)
		if e.name == "provisional" {
			break
		}
	}
	cancel()
	require.Eventually(t, func() bool { return w.turns.Load() == 0 && w.exec.Live() == 0 }, 20*time.Second, time.Millisecond)
}

// A client that does not read exerts back pressure on the plugin, and is
// disconnected at the limit (AUTH-033).
func TestStreamStalledReader(t *testing.T) {
	w := streamWorld(t, func(s *httpapi.Settings) { s.Limits.StreamWrite = 400 * time.Millisecond })
	sent := atomic.Int64{}
	w.exec.Func("t/any", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		piece := edn.MustMap(edn.K("kind"), edn.K("text"), edn.K("text"), edn.Text(strings.Repeat("x", 64<<10)))
		for range 127 {
			c.OnDelta(piece)
			if ctx.Err() != nil {
				return dispatchtest.Step{Hang: true}
			}
			sent.Add(64 << 10)
		}
		return dispatchtest.Step{Hang: true}
	})
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	conn, err := small.Dial("tcp", w.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	body := jsonAct("t/any", "{}")
	_, err = fmt.Fprintf(conn, "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(w.exec.Calls()) > 0 && w.turns.Load() == 0 && w.exec.Live() == 0 }, 20*time.Second, 5*time.Millisecond)
	assert.Less(t, sent.Load(), int64(7<<20), "the plugin was held back")
}

// AUTH-033: the number of streams per caller is limited.
func TestTooManyStreams(t *testing.T) {
	w := streamWorld(t, func(s *httpapi.Settings) { s.Limits.PrincipalSubscribers = 1 })
	w.exec.On("t/any", dispatchtest.Step{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, next := w.follow(ctx, jsonAct("t/any", "{}"), "/v1/act")
	require.Equal(t, 200, resp.StatusCode)
	_, err := next()
	require.NoError(t, err)
	resp, _ = w.follow(t.Context(), jsonAct("t/any", "{}"), "/v1/act")
	assert.Equal(t, 429, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "stream/too-many-subscribers")
	assert.Contains(t, string(text), "http.limits.principal_subscribers = 1")
	assert.NotEmpty(t, resp.Header.Get("Retry-After"), "one of them ends")
	cancel()
	require.Eventually(t, func() bool { return w.turns.Load() == 0 }, 20*time.Second, time.Millisecond)
}
