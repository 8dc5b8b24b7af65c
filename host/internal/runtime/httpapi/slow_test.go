package httpapi_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi/httpapitest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// AUTH-033: slow or incomplete headers and bodies do not hold a connection
// forever.
func TestSlowClients(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) {
		s.Limits.HeaderRead, s.Limits.BodyRead = time.Second, 400*time.Millisecond
	})
	begun := time.Now()
	// Headers without end, on a new connection and after an answered request.
	a, err := w.raw("POST /v1/act HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n")
	require.NoError(t, err)
	assert.Equal(t, 408, a.status)
	assert.Equal(t, "http/request-timeout", a.failure(t))
	assert.Equal(t, 408, w.second("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n").status)
	for _, part := range []string{"GET", "GET /health HTT", "GET /health HTTP/1.1\r\nHo"} {
		a, err = w.raw(part)
		require.NoError(t, err)
		assert.Equal(t, 408, a.status, part)
		assert.Equal(t, "http/request-timeout", a.failure(t), part)
	}
	// A caller that sends nothing gets no response.
	_, err = w.raw("")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	// A body without end.
	a, err = w.raw("POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"proto\":1")
	require.NoError(t, err)
	assert.Equal(t, 408, a.status)
	assert.Equal(t, "http/request-timeout", a.failure(t))
	assert.Contains(t, string(a.body), "10 bytes did")
	w.tune(func(s *httpapi.Settings) { s.Limits.BodyRead = 20 * time.Second }) // the others are wrong, not slow
	// A chunk with a malformed length.
	a, err = w.raw("POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"pro\r\nzz\r\n")
	require.NoError(t, err)
	assert.Equal(t, 400, a.status)
	// Endless chunks, beyond the limit.
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
	require.NoError(t, err)
	go func() {
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
		for range 64 {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return
			}
		}
	}()
	a, err = read(conn)
	require.NoError(t, err)
	assert.Equal(t, 413, a.status)
	assert.Less(t, time.Since(begun), time.Minute)
}

// second sends text after an answered request on the same connection.
func (w *world) second(text string) answer {
	conn, err := net.Dial("tcp", w.address)
	require.NoError(w.t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(w.t, err)
	first, err := read(conn)
	require.NoError(w.t, err)
	require.Equal(w.t, 200, first.status)
	// The server must be done with the first request.
	time.Sleep(50 * time.Millisecond)
	_, err = io.WriteString(conn, text)
	require.NoError(w.t, err)
	a, err := read(conn)
	require.NoError(w.t, err)
	return a
}

// lateBody returns the response to a request whose body does not arrive in time, over the admin
// socket with the token.
func (w *world) lateBody(what string) answer {
	w.t.Helper()
	w.tune(func(s *httpapi.Settings) { s.Limits.BodyRead = 100 * time.Millisecond })
	conn, err := net.Dial("unix", w.socket)
	require.NoError(w.t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{", what, token)
	require.NoError(w.t, err)
	a, err := read(conn)
	require.NoError(w.t, err)
	method, path, _ := strings.Cut(what, " ")
	a.exchange = httpapitest.Exchange{Method: method, Target: path, Status: a.status, Header: a.header, Body: a.body}
	return a
}

// The body deadline applies neither to a slow response nor to a pause between
// two requests of a connection.
func TestBodyDeadlineIsForTheBody(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.BodyRead = time.Second })
	w.exec.On("t/any", dispatchtest.Step{Delay: 1500 * time.Millisecond, Value: edn.MustRead(`{:n 1}`)})
	a := w.call("POST /v1/act", jsonAct("t/any", "{}"))
	assert.Equal(t, 200, a.status, "%s", a.body)
}

// AUTH-033: a client that does not read is disconnected, and its turn is
// released.
func TestStalledReader(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.Write = 300 * time.Millisecond })
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("x", 7<<20)))})
	// The buffer must be small before the connection is made.
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	conn, err := small.Dial("tcp", w.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	body := jsonAct("t/any", "{}")
	_, err = fmt.Fprintf(conn, "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(w.exec.Calls()) == 1 && w.turns.Load() == 0 }, 20*time.Second, 5*time.Millisecond)
	_ = conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	_, err = io.ReadFull(conn, make([]byte, 1)) // the answer has begun
	require.NoError(t, err)
	time.Sleep(3 * w.Settings().Limits.Write) // not reading is what is tested
	n, err := io.Copy(io.Discard, conn)
	assert.Less(t, n, int64(7<<20), "the answer was cut off: %v", err)
	var timeout net.Error
	assert.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the connection is still there")
}

// RUN-007: a caller that closes its connection cancels its act.
func TestCallerGone(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Hang: true})
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	body := jsonAct("t/any", "{}")
	_, err = fmt.Fprintf(conn, "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.turns.Load() == 1 && len(w.exec.Calls()) == 1 }, 20*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return w.turns.Load() == 0 }, 20*time.Second, time.Millisecond)
}

// AUTH-033: connections beyond the limits get a response and are closed; the
// admin socket still works.
func TestConnectionLimits(t *testing.T) {
	for setting, limit := range map[string]func(*httpapi.Settings){
		"http.limits.per_address": func(s *httpapi.Settings) { s.Limits.PerAddress = 2 },
		"http.limits.connections": func(s *httpapi.Settings) { s.Limits.Connections = 2 },
	} {
		t.Run(setting, func(t *testing.T) { connectionLimit(t, setting, limit) })
	}
}

func connectionLimit(t *testing.T, setting string, limit func(*httpapi.Settings)) {
	w := newWorld(t, limit)
	var open []net.Conn
	for range 2 {
		conn, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		open = append(open, conn)
		_, err = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		a, err := read(conn)
		require.NoError(t, err)
		require.Equal(t, 200, a.status)
	}
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	a, err := read(conn)
	require.NoError(t, err)
	_ = conn.Close()
	assert.Equal(t, 503, a.status)
	assert.Equal(t, "runtime/overloaded", a.failure(t))
	assert.Equal(t, "1", a.header.Get("Retry-After"))
	assert.Equal(t, edn.Text(setting).String(), a.value(t).Key("error").Key("details").Key("setting").String())
	assert.Equal(t, 200, w.operator("GET /health", "").status)
	// A caller that already sent a request gets the response and no reset,
	// also with a body.
	for range 20 {
		a, err := w.raw("POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("x", 20000))
		require.NoError(t, err)
		require.Equal(t, 503, a.status)
	}
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { // a connection that is rejected meanwhile may be reset
		a, err := w.raw("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		return err == nil && a.status == 200
	}, 20*time.Second, 5*time.Millisecond)
}

// AUTH-021, AUTH-033: the connections of a trusted proxy are limited in total only, since they are
// those of many callers.
func TestConnectionsOfAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *httpapi.Settings) {
		s.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		s.Limits.Connections, s.Limits.PerAddress = 4, 2
	})
	var statuses []int
	for range 5 {
		conn, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") // the last one may be reset
		a, err := read(conn)
		require.NoError(t, err)
		statuses = append(statuses, a.status)
	}
	assert.Equal(t, []int{200, 200, 200, 200, 503}, statuses)
}

// AUTH-033: connections leave half of the descriptors to the daemon.
func TestConnectionsLeaveFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := w.api.Bind(t.Context(), httpapi.Binding{Listen: []string{"127.0.0.1:0"}, Descriptors: 4}, w.Settings())
	require.NoError(t, err)
	s.Serve()
	defer s.Shutdown(t.Context())
	w.address = s.Addresses()[0]
	for range 2 {
		conn, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		a, err := read(conn)
		require.NoError(t, err)
		require.Equal(t, 200, a.status)
	}
	a, err := w.raw("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	assert.Equal(t, 503, a.status)
	assert.Equal(t, "runtime/overloaded", a.failure(t))
	assert.Equal(t, `"LimitNOFILE"`, a.value(t).Key("error").Key("details").Key("setting").String())
}

// AUTH-033: the connections of one process to the admin socket are limited,
// because a plugin may be such a process; closed connections free their
// places.
func TestConnectionsOfAProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.PerAddress = 3 })
	var open []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("unix", w.socket)
		require.NoError(t, err)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		return conn
	}
	for range 3 {
		conn := dial()
		_, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		a, err := read(conn)
		require.NoError(t, err)
		require.Equal(t, 200, a.status)
		open = append(open, conn)
	}
	conn := dial()
	a, err := read(conn)
	require.NoError(t, err)
	_ = conn.Close()
	assert.Equal(t, 503, a.status)
	assert.Equal(t, "runtime/overloaded", a.failure(t))
	assert.Equal(t, 200, w.call("GET /health", "").status, "others have places of their own")
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		conn := dial()
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return false
		}
		a, err := read(conn)
		return err == nil && a.status == 200
	}, 20*time.Second, 5*time.Millisecond)
}

// AUTH-033: headers beyond the limit get a typed error; much larger ones are
// rejected by net/http.
func TestHeaderLimit(t *testing.T) {
	w := newWorld(t)
	a := w.call("GET /health", "", "X-Long", strings.Repeat("x", 100<<10))
	assert.Equal(t, 431, a.status)
	assert.Equal(t, "http/headers-too-large", a.failure(t))
	b, err := w.raw("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 1<<20) + "\r\n\r\n")
	if err == nil { // the response may be lost because of unread data
		assert.Equal(t, 431, b.status)
	}
}

// AUTH-033: a connection that stays idle between two requests is closed.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.Idle = 200 * time.Millisecond })
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	a, err := read(conn)
	require.NoError(t, err)
	require.Equal(t, 200, a.status)
	require.NotEqual(t, "close", a.header.Get("Connection"))
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

// AUTH-033: an admin action has a body limit of its own, below that of an act.
func TestAdminBodyLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	long := strings.Repeat(" ", w.Settings().Limits.AdminBody)
	a := w.operator("POST /v1/admin", `{"action":"plugin-list"}`+long)
	assert.Equal(t, 413, a.status)
	assert.Equal(t, "http/too-large", a.failure(t))
	assert.Equal(t, 200, w.operator("POST /v1/act", jsonAct("t/any", "{}")+long).status)
}
