package client_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CLI-002: when a daemon dies before its response is complete, the client
// reports that the daemon is gone, without the text of the HTTP client.
func TestClientOfADaemonThatEnds(t *testing.T) {
	for name, said := range map[string]string{
		"nothing":         "",
		"half a header":   "HTTP/1.1 200 OK\r\nContent-Ty",
		"half a value":    "HTTP/1.1 200 OK\r\nContent-Type: application/edn\r\nContent-Length: 90\r\n\r\n{:proto",
		"half a stream":   "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:",
		"between events":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
		"half an attempt": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {:event :attempt}\n\ndata: {:e",
	} {
		t.Run(name, func(t *testing.T) {
			there := dying(t, said)
			_, err := there.Stream(t.Context(), edn.MustRead("{}"), client.Call{}, func(client.Event) error { return nil })
			assertGone(t, err)
			if !strings.Contains(said, "event-stream") {
				_, err = there.Act(t.Context(), edn.MustRead("{}"), client.Call{})
				assertGone(t, err)
			}
		})
	}
}

// HTTP-001: a response that is too long is an error, not a shorter response.
func TestClientOfATooLongResponse(t *testing.T) {
	row := "ferment_acts_total 1\n"
	there := dying(t, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"+strings.Repeat(row, 1+(64<<20)/len(row)))
	_, err := there.Metrics(t.Context())
	require.ErrorIs(t, err, contract.OfType("http/too-large"))
}

func assertGone(t *testing.T, err error) {
	t.Helper()
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "runtime/not-ready", e.Type)
	assert.Equal(t, http.StatusServiceUnavailable, e.HTTPStatus())
	for _, internal := range []string{"net/http", "http://", "EOF", "transport"} {
		assert.NotContains(t, e.Message, internal)
	}
	assert.NotEmpty(t, e.Hint)
}

// dying returns a client of a daemon that reads a request, writes said and
// closes the connection.
func dying(t *testing.T, said string) *client.Client {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
	socket := filepath.Join(dir, "admin.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, said)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	there, err := client.Dial(t.Context(), socket, token)
	require.NoError(t, err)
	return there
}

func readRequest(conn net.Conn) error {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// RUN-044: a stream that ends with the event suspended is not broken: Watch does not ask
// again. The stream of an act has the response in it.
func TestClientOfASuspendedRun(t *testing.T) {
	const header = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	none := func(client.Event) error { return nil }
	there := dying(t, header+"id: run_1.3\nevent: suspended\ndata: {:event :suspended}\n\n")
	_, err := there.Watch(t.Context(), "run_1", none)
	require.ErrorIs(t, err, contract.OfType("run/suspended"))
	_, err = there.Stream(t.Context(), edn.MustRead("{}"), client.Call{}, none)
	require.ErrorIs(t, err, contract.OfType("run/suspended"))

	there = dying(t, header+"id: run_1.3\nevent: suspended\ndata: {:event :suspended :response {:proto 1}}\n\n")
	got, err := there.Stream(t.Context(), edn.MustRead("{}"), client.Call{}, none)
	require.NoError(t, err)
	assert.Equal(t, "{:proto 1}", got.Body.String())
}

// A client of an admin socket outlives the daemon: the next one has a token of its own, and
// gets what the earlier one would have got. A refusal of the token in the file is returned.
func TestClientOfARestartedDaemon(t *testing.T) {
	dir := t.TempDir()
	token, socket := filepath.Join(dir, "token"), filepath.Join(dir, "admin.sock")
	var bodies []string
	serve := func(accepted string) *http.Server {
		require.NoError(t, os.RemoveAll(socket))
		listener, err := net.Listen("unix", socket)
		require.NoError(t, err)
		daemon := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			bodies = append(bodies, string(body))
			w.Header().Set("Content-Type", "application/edn")
			if r.Header.Get("Authorization") != "Bearer "+accepted {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{:error {:type :auth/unauthorized :message "another token"}}`)
				return
			}
			_, _ = io.WriteString(w, `{:result "`+accepted+`"}`)
		})}
		go func() { _ = daemon.Serve(listener) }()
		t.Cleanup(func() { _ = daemon.Close() })
		return daemon
	}
	write := func(s string) { require.NoError(t, os.WriteFile(token, []byte(s+"\n"), 0o600)) }

	write("one")
	first := serve("one")
	there, err := client.Dial(t.Context(), socket, token)
	require.NoError(t, err)
	action := edn.MustRead(`{:action :status}`)
	got, err := there.Admin(t.Context(), action)
	require.NoError(t, err)
	assert.Equal(t, `"one"`, got.String())

	require.NoError(t, first.Close())
	_, err = there.Admin(t.Context(), action)
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"), "no daemon")
	assert.NotContains(t, err.Error(), "localhost", "the caller gave a socket, not a URL")
	assert.NotContains(t, contract.AsError(err).Hint, "URL")

	write("two")
	second := serve("two")
	bodies = nil
	got, err = there.Admin(t.Context(), action)
	require.NoError(t, err)
	assert.Equal(t, `"two"`, got.String())
	assert.Equal(t, []string{action.String(), action.String()}, bodies, "sent as it was")
	_, err = there.Admin(t.Context(), action)
	require.NoError(t, err)
	assert.Len(t, bodies, 3, "the new token is kept")

	require.NoError(t, second.Close())
	serve("three") // and the file still has the token before
	bodies = nil
	_, err = there.Admin(t.Context(), action)
	require.ErrorIs(t, err, contract.OfType("auth/unauthorized"))
	assert.Len(t, bodies, 1)
}
