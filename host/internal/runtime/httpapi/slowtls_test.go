package httpapi_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// AUTH-033: a request head that arrives byte by byte does not hold a TLS
// connection, in HTTP/1.1 and HTTP/2, also after an answered request. An idle
// caller keeps its connection.
func TestSlowHeadsOverTLS(t *testing.T) {
	t.Parallel()
	const bound = 2 * time.Second // covers the handshake, also of a busy machine
	config, pool := certified(t, 1)
	w := newWorld(t, func(s *httpapi.Settings) { s.TLS = config; s.Limits.HeaderRead = bound })
	// An HTTP/2 preface, empty settings, and a header block of 64 bytes that
	// continues in another frame.
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	block := "\x00\x00\x40\x01\x00\x00\x00\x00\x01"
	request := "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, row := range []struct{ name, version, first, slow string }{
		{"HTTP/1.1", "http/1.1", "", "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: "},
		{"HTTP/1.1, second request", "http/1.1", request, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: "},
		{"HTTP/2, preface", "h2", "", preface},
		{"HTTP/2, frame", "h2", preface, block},
		{"HTTP/1.1, handshake only", "http/1.1", "", ""},
		{"HTTP/2, whole frame of an open block", "h2", preface + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", w.address, &tls.Config{RootCAs: pool, NextProtos: []string{row.version}})
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = io.WriteString(conn, row.first)
			require.NoError(t, err)
			closed := make(chan error, 1)
			begun := time.Now()
			go func() {
				_, err := io.Copy(io.Discard, conn)
				closed <- err
			}()
			tick := time.NewTicker(bound / 4)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case err := <-closed:
					assert.NotErrorIs(t, err, net.ErrClosed, "the server ended it")
					assert.Less(t, time.Since(begun), 20*bound)
					return
				case <-tick.C:
					if i < len(row.slow) {
						_, _ = io.WriteString(conn, row.slow[i:i+1])
					}
				}
				if time.Since(begun) > 20*bound {
					require.Fail(t, "the connection is still open")
				}
			}
		})
	}
}

// AUTH-033: a caller that answers pings keeps its HTTP/2 connection while it
// is idle, and while its response takes longer than the head limit.
func TestIdleOverTLS(t *testing.T) {
	t.Parallel()
	const bound = time.Second // the handshake and the answer to a ping must be quicker, also on a busy machine
	config, pool := certified(t, 1)
	w := newWorld(t, func(s *httpapi.Settings) { s.TLS = config; s.Limits.HeaderRead = bound })
	w.exec.On("t/any", dispatchtest.Step{Delay: 2 * bound, Value: edn.MustRead(`{:n 1}`)})
	var dialed atomic.Int32
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 2 {
		resp, err := client.Post("https://"+w.address+"/v1/act", "application/json", strings.NewReader(jsonAct("t/any", "{}")))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "200 HTTP/2.0", fmt.Sprint(resp.StatusCode, " ", resp.Proto))
		time.Sleep(2 * bound) // real: the pings of the server are
	}
	assert.EqualValues(t, 1, dialed.Load())
}
