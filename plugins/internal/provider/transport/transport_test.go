package transport_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, base string, clock transport.Clock) *transport.Client {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	timeouts := transport.Timeouts{
		Connect: 5 * time.Second,
		First:   120 * time.Second,
		Silence: 30 * time.Second,
		Stall:   30 * time.Second,
		Total:   300 * time.Second,
	}
	c := transport.NewClient(transport.Settings{Base: u, Header: http.Header{}, Timeouts: timeouts, Conns: 2, Clock: clock})
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// LLM-008: no request is repeated and no redirect is followed; a connection is
// reused after an answer that was read to its end.
func TestOneRequest(t *testing.T) {
	var asked atomic.Int64
	var mu sync.Mutex
	from := map[string]bool{}
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	c := client(t, base+"/", transport.System())
	for range 3 {
		x := c.Post("/chat", []byte(`{}`))
		head, fault := x.Head(t.Context())
		require.Nil(t, fault)
		assert.Equal(t, http.StatusTemporaryRedirect, head.Status)
		_, fault, err := x.Next(t.Context())
		require.Nil(t, fault)
		assert.Equal(t, io.EOF, err)
		assert.True(t, x.Sent())
		x.Close()
	}
	assert.EqualValues(t, 3, asked.Load())
	assert.Len(t, from, 1, "one connection")
}

// LLM-016: connecting has its own timer.
func TestConnectTimer(t *testing.T) {
	// A listener that never accepts, and a TLS client that waits for its hello.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	clock := wiretest.NewClock()
	c := client(t, "https://"+listener.Addr().String(), clock)
	x := c.Post("/chat", []byte(`{}`))
	defer x.Close()
	go clock.Fire(t, 5*time.Second)
	_, fault := x.Head(t.Context())
	require.NotNil(t, fault)
	assert.Equal(t, transport.NoConnection, fault.Kind)
	assert.False(t, x.Sent())
}

// LLM-016: no answer takes longer than the total, however active it is.
func TestTotalTimer(t *testing.T) {
	more := make(chan struct{})
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	})
	clock := wiretest.NewClock()
	x := client(t, base, clock).Post("/chat", nil)
	defer x.Close()
	_, fault := x.Head(t.Context())
	require.Nil(t, fault)
	for passed := time.Duration(0); ; passed += 20 * time.Second {
		_, fault, _ = x.Next(t.Context())
		if fault != nil {
			assert.Equal(t, transport.TooLong, fault.Kind)
			assert.Equal(t, 300*time.Second, passed)
			return
		}
		x.Payload()
		if passed == 280*time.Second { // 20 s of the total are left; the stall timer would be 30
			go clock.Fire(t, 20*time.Second)
			continue
		}
		clock.Advance(20 * time.Second)
		more <- struct{}{}
	}
}

// LLM-016, LLM-017: while the caller is blocked no timer runs, and the server
// is blocked too: at most 64 pieces wait.
func TestBackpressure(t *testing.T) {
	var written atomic.Int64
	full := make(chan struct{}, 1)
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		piece := strings.Repeat("x", 64<<10)
		for range 7 << 20 / len(piece) {
			done := make(chan struct{})
			go func() {
				select {
				case <-done:
				case <-time.After(200 * time.Millisecond): // the write waits for the reader
					select {
					case full <- struct{}{}:
					default:
					}
				}
			}()
			n, err := io.WriteString(w, piece)
			close(done)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	clock := wiretest.NewClock()
	x := client(t, base, clock).Post("/chat", nil)
	defer x.Close()
	_, fault := x.Head(t.Context())
	require.Nil(t, fault)
	_, fault, _ = x.Next(t.Context())
	require.Nil(t, fault)
	x.Payload()
	err := x.Blocked(func() error {
		select {
		case <-full:
		case <-time.After(5 * time.Second): // the socket buffers of this machine hold all of it
		}
		clock.Advance(time.Hour)
		return nil
	})
	require.NoError(t, err)
	for n := 0; ; n++ {
		_, fault, err := x.Next(t.Context())
		require.Nil(t, fault, "no timer ran while the caller was held back")
		if err == io.EOF {
			break
		}
	}
	assert.EqualValues(t, 7<<20, written.Load())
}

// LLM-017: cancelling closes the connection at once.
func TestCancel(t *testing.T) {
	gone := make(chan struct{})
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	x := client(t, base, transport.System()).Post("/chat", nil)
	_, fault := x.Head(ctx)
	require.Nil(t, fault)
	cancel()
	_, fault, _ = x.Next(ctx)
	require.NotNil(t, fault)
	assert.Equal(t, transport.Canceled, fault.Kind)
	x.Close()
	<-gone
}

// LLM-050: a body over 8 MiB ends the exchange.
func TestResponseLimit(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, transport.MaxResponse+1))
	})
	x := client(t, base, transport.System()).Post("/chat", nil)
	defer x.Close()
	_, fault := x.Head(t.Context())
	require.Nil(t, fault)
	for fault == nil {
		var b []byte
		var err error
		b, fault, err = x.Next(t.Context())
		require.NoError(t, err)
		x.Recycle(b)
	}
	assert.Equal(t, transport.TooLarge, fault.Kind)
}

// Row 2: the error of a failed connection holds no address.
func TestUntrusted(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	defer s.Close()
	x := client(t, s.URL, transport.System()).Post("/chat", nil)
	defer x.Close()
	_, fault := x.Head(t.Context())
	require.NotNil(t, fault)
	assert.Equal(t, transport.NoConnection, fault.Kind)
	assert.Equal(t, "its certificate is not trusted", fault.Text)
}

// Row 2: the error says what kind of server answered instead of a model server.
// Its message holds neither the server's text nor an address.
func TestNoServerOfModels(t *testing.T) {
	speaks := func(t *testing.T, answer string) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		return listener.Addr().String()
	}
	for name, row := range map[string]struct{ url, want string }{
		"plain HTTP behind https": {"https://" + strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://"), "it answers without TLS: base_url may have to begin with http://"},
		"TLS behind http":         {"http://" + speaks(t, "\x15\x03\x01\x00\x02\x02\x46"), "it wants TLS: base_url may have to begin with https://"},
		"another protocol":        {"http://" + speaks(t, "SSH-2.0-secret\r\n\r\n"), "its answer is not HTTP"},
		"other headers":           {"http://" + speaks(t, "HTTP/1.1 200 OK\r\nsecret\r\n\r\n"), "its answer is not HTTP"},
		"long headers":            {"http://" + speaks(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("y", 2<<20)+"\r\n\r\n"), "the headers of its answer are too long"},
	} {
		t.Run(name, func(t *testing.T) {
			x := client(t, row.url, transport.System()).Post("/chat", nil)
			defer x.Close()
			_, fault := x.Head(t.Context())
			require.NotNil(t, fault)
			assert.Equal(t, transport.NoConnection, fault.Kind)
			assert.Equal(t, row.want, fault.Text)
		})
	}
}

// LLM-016: after a whole answer, Next waits for trailing data only until the
// formal end or the grace period.
func TestGrace(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	clock := wiretest.NewClock()
	x := client(t, base, clock).Post("/chat", nil)
	defer x.Close()
	_, fault := x.Head(t.Context())
	require.Nil(t, fault)
	x.Grace(2 * time.Second)
	x.Grace(100 * time.Millisecond)
	x.Grace(time.Second)
	go clock.Fire(t, 100*time.Millisecond)
	_, fault, err := x.Next(t.Context())
	require.NoError(t, err)
	require.NotNil(t, fault)
	assert.Equal(t, transport.Lingered, fault.Kind)
}

// Row 22: places are assigned in order, and returned when a call stops waiting.
func TestGate(t *testing.T) {
	g := transport.NewGate(1, 1)
	require.NoError(t, g.Enter(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		err := g.Enter(ctx)
		for err == transport.ErrFull { // the call below holds the place for a moment
			err = g.Enter(ctx)
		}
		waits <- err
	}()
	require.Eventually(t, func() bool {
		short, end := context.WithTimeout(t.Context(), time.Millisecond)
		defer end()
		return g.Enter(short) == transport.ErrFull
	}, 20*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
	g.Leave()
	require.NoError(t, g.Enter(t.Context()), "the place came back")
	g.Leave()
}
