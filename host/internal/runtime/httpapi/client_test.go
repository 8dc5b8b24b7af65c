package httpapi_test

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

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
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
			client := dying(t, said)
			_, err := client.Stream(t.Context(), edn.MustRead("{}"), "", func(edn.Value) error { return nil })
			assertGone(t, err)
			if !strings.Contains(said, "event-stream") {
				_, err = client.Act(t.Context(), edn.MustRead("{}"), "", func(string) {})
				assertGone(t, err)
			}
		})
	}
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
func dying(t *testing.T, said string) *httpapi.Client {
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
	client, err := httpapi.Dial(t.Context(), socket, token)
	require.NoError(t, err)
	return client
}

func readRequest(conn net.Conn) error {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}
