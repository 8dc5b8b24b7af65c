package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// wireRow is the bytes on a connection and the expected response.
type wireRow struct {
	name, sent string
	status     int
	typ, say   string
}

const (
	toAct  = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	toLook = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
)

// Section 7, bad input; HTTP-003, HTTP-004: malformed bytes on a connection
// get one typed response with the headers of every response, in time.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	good := jsonAct("t/any", "{}")
	withBody := func(head string) string {
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(good), good)
	}
	const bad, media = "http/bad-encoding", "http/unsupported-media-type"
	for _, row := range []wireRow{
		// Rejected by net/http itself.
		{"no HTTP at all", "\x16\x03\x01\x02\x00\r\n\r\n", 400, bad, "request line"},
		{"a version that is none", "GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 400, bad, "HTTP/1.1"},
		{"no host", "GET /health HTTP/1.1\r\n\r\n", 400, bad, "missing required Host header"},
		{"two hosts", toLook + "Host: localhost\r\n\r\n", 400, bad, "malformed"},
		{"header without a colon", toLook + "nonsense\r\n\r\n", 400, bad, "malformed"},
		{"blank before a colon", toLook + "A : b\r\n\r\n", 400, bad, "invalid header name"},
		{"NUL in a header", toLook + "A: \x00\r\n\r\n", 400, bad, "malformed"},
		{"NUL in the path", "GET /hea\x00lth HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, bad, "malformed"},
		{"percent and no digits", "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, bad, "malformed"},
		{"a method that is no word", "G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, bad, "malformed"},
		{"two lengths", toAct + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, bad, "malformed"},
		{"a negative length", toAct + "Content-Length: -2\r\n\r\n{}", 400, bad, "malformed"},
		{"a length beyond 64 bits", toAct + "Content-Length: 99999999999999999999\r\n\r\n{}", 400, bad, "malformed"},
		{"an unknown transfer encoding", toAct + "Transfer-Encoding: gzip\r\n\r\nx", 400, bad, "chunked"},
		{"an unknown expectation", toAct + "Expect: 200-maybe\r\nContent-Length: 2\r\n\r\n{}", 400, bad, "100-continue"},
		{"300 KiB of headers", toLook + "A: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", 431, "http/headers-too-large", "262144"},
		// Rejected by this package.
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421, "http/misdirected", ""},
		{"NUL as an escape in the path", "GET /health%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "not-found", ""},
		{"all of the server", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "not-found", ""},
		{"an empty first part", withBody("POST //v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"), 404, "not-found", ""},
		{"a slash at the end", withBody("POST /v1/act/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"), 404, "not-found", ""},
		{"an escaped letter", withBody("POST /v1/%61ct HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"), 404, "not-found", ""},
		{"another host in the line", withBody("POST http://evil/v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"), 421, "http/misdirected", "evil"},
		{"a method in small letters", withBody("post /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"), 405, "method-not-allowed", ""},
		{"a page of another origin", withBody(toAct + "Origin: http://localhost:1\r\n"), 403, "http/cross-origin", "from a program"},
		{"events in no form", withBody(strings.Replace(toAct, "/act ", "/act?format=xml ", 1) + "Accept: text/event-stream\r\n"), 400, "invalid-request", "format=edn"},
		{"two types", withBody(toAct + "Content-Type: text/plain\r\n"), 415, media, "2 Content-Type headers"},
		{"two encodings", withBody(toAct + "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"), 415, media, "gzip"},
		{"a chunk without a length", toAct + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, bad, "malformed after 0 bytes"},
		{"a chunk that is longer than said", toAct + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n", 400, bad, "malformed"},
		{"a trailer that is none", toAct + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nnonsense\r\n\r\n", 400, bad, "malformed"},
		{"bytes that are no UTF-8", toAct + "Content-Length: 3\r\n\r\n{\"\xff", 400, bad, "byte 2"},
		{"a byte behind the end", toAct + "Content-Length: 3\r\n\r\n{}x", 400, "invalid-request", "the end of the text"},
		{"deep nesting", toAct + "Content-Length: 1000\r\n\r\n" + strings.Repeat("[", 1000), 400, "invalid-request", "128"},
		{"a number beyond all", toAct + "Content-Length: 13\r\n\r\n{\"a\":1e99999}", 400, "invalid-request", "64 bits"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, err := w.raw(row.sent)
			require.NoError(t, err)
			assert.Equal(t, row.status, a.status, "%s", a.body)
			assert.Equal(t, row.typ, a.failure(t), "%s", a.body)
			assert.Contains(t, string(a.body), row.say)
			assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), "HTTP-010")
			assert.Equal(t, "default-src 'none'", a.header.Get("Content-Security-Policy"), "HTTP-010")
		})
	}
	// The server still works.
	assert.Equal(t, 200, w.call("POST /v1/act", good).status)
}

// AUTH-033: an announced body that never arrives holds neither the response
// nor the connection, whether the route reads it or not.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	const promise = "Content-Length: 100\r\n\r\n"
	for name, row := range map[string]struct {
		sent   string
		status int
		admin  bool
	}{
		"unknown path":      {sent: strings.Replace(toAct, "/v1/act", "/nope", 1), status: 404},
		"foreign host":      {sent: strings.Replace(toAct, "localhost", "evil", 1), status: 421},
		"foreign type":      {sent: strings.Replace(toAct, "application/json", "image/png", 1), status: 415},
		"no body is wanted": {sent: toLook, status: 200},
		"no token":          {sent: strings.Replace(toAct, "/v1/act", "/v1/admin", 1), status: 401, admin: true},
		"wanted":            {sent: toAct, status: 408},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(s *httpapi.Settings) { s.Limits.BodyRead = 400 * time.Millisecond })
			network, address := "tcp", w.address
			if row.admin {
				network, address = "unix", w.socket
			}
			conn, err := net.Dial(network, address)
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, err = io.WriteString(conn, row.sent+promise)
			require.NoError(t, err)
			a, err := read(conn)
			require.NoError(t, err)
			assert.Equal(t, row.status, a.status, "%s", a.body)
			_, err = conn.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF, "what is left of the body is nobody's")
		})
	}
}

// After a rejected body that was sent completely, the connection is usable.
func TestRefusedBodyIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.BodyRead = time.Second })
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = io.WriteString(conn, strings.Replace(toAct, "application/json", "image/png", 1)+"Content-Length: 5\r\n\r\nhello"+toLook+"\r\n")
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	for _, status := range []int{415, 200} { // the second was sent before the first was answered
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		assert.Equal(t, status, resp.StatusCode)
	}
	// The deadline for discarding the body no longer applies.
	time.Sleep(w.Settings().Limits.BodyRead + 100*time.Millisecond) // an idle connection is what is tested
	_, err = io.WriteString(conn, toLook+"\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
}

// HTTP-003, HTTP-008: the authentication scheme is case-insensitive, a 401
// names the scheme, and errors name the action.
func TestOperatorRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.through(w.admin, "localhost", "POST /v1/admin", `{"action":"plugin-list"}`, "Authorization", "bearer "+token)
	assert.Equal(t, 200, a.status, "%s", a.body)
	a = w.through(w.admin, "localhost", "POST /v1/admin", `{"action":"plugin-list"}`, "Authorization", token)
	assert.Equal(t, 401, a.status)
	assert.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
	for body, say := range map[string]string{
		`{"action":1}`:    ":action: expected the name of an action, got int",
		`{"action":null}`: ":action: expected the name of an action, got nil",
		`{}`:              "lacks :action",
		`{"action":"judge-calibrate","judge":"j","deadline-ms":9223372036854775807}`: "at most 86400000",
	} {
		a = w.operator("POST /v1/admin", body)
		assert.Equal(t, 400, a.status, body)
		assert.Contains(t, string(a.body), say)
	}
}

// HTTP-008: the hint of an error about the name of an action is whole: it has all names, or says
// where they are.
func TestHintOfAnUnknownAction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, route := range []string{"POST /v1/admin", "POST /v1/session"} {
		for _, body := range []string{`{"action":"zzzzzzzzzzzz"}`, `{"action":1}`, `{}`} {
			a := w.operator(route, body)
			require.Equal(t, "invalid-request", a.failure(t), body)
			hint, _ := a.value(t).Key("error").Key("hint").AsString()
			assert.NotEmpty(t, hint, "%s %s", route, body)
			assert.NotContains(t, hint, "…", "%s %s", route, body)
		}
	}
}

// A request with both Content-Length and Transfer-Encoding is the last one of
// its connection: what follows it is not read as a request. So is every request
// of HTTP/1.0, which does not have a Transfer-Encoding.
func TestTwoLengthsEndTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const kept = "Connection: keep-alive\r\n"
	old := func(head string) string { return strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + kept }
	for _, first := range []string{
		old(toAct) + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
		old(toAct) + "Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n",
		old(toLook) + "Transfer-Encoding: chunked\r\n\r\n",
		old(toLook) + "\r\n",
		toAct + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		toLook + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = io.WriteString(conn, first+toLook+"\r\n")
		require.NoError(t, err)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		assert.True(t, resp.Close)
		_, err = http.ReadResponse(in, nil)
		assert.Error(t, err, "there is no second answer")
		_ = conn.Close()
	}
}

// FuzzConnection: any bytes on a connection get typed responses, and none is a
// defect.
func FuzzConnection(f *testing.F) {
	for _, sent := range []string{toLook + "\r\n", toAct + "Content-Length: 2\r\n\r\n{}", "\x00", "GET", toAct + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n"} {
		f.Add(sent)
	}
	w := newWorld(f, func(s *httpapi.Settings) {
		s.Limits.HeaderRead, s.Limits.BodyRead = 20*time.Millisecond, 20*time.Millisecond
	})
	f.Fuzz(func(t *testing.T, sent string) {
		w.t = t
		a, err := w.raw(sent)
		if err != nil {
			return // bytes that end before they are a request get no response
		}
		switch {
		case a.status == 500:
			t.Fatalf("a defect: %s", a.body)
		case a.status >= 400 && len(a.body) > 0 && a.failure(t) == "":
			t.Fatalf("%d without a type: %s", a.status, a.body)
		}
	})
}
