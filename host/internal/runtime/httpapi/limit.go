package httpapi

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// connections counts the open connections of all listeners (AUTH-033).
type connections struct {
	api         *API
	descriptors int // limit of open files; 0: unlimited

	mu        sync.Mutex
	total     int
	leaving   int // rejected connections that are still being read
	byAddress map[netip.Addr]int
	byProcess map[int]int // connections of the admin socket by process id
}

// enter reserves a place for a connection; leave releases it. Connections of the admin socket do
// not count as listener connections, so that operators can connect when the listeners are full.
// They are limited per process, because a plugin may reach that socket. The connections of a trusted
// proxy are those of many callers, so they are only limited in total. The error is
// runtime/overloaded and names the limit.
func (c *connections) enter(conn net.Conn) (leave func(), refused *contract.Error) {
	limits := defaultLimits
	s := c.api.backend.Settings()
	if s != nil {
		limits = s.Limits
	}
	tcp, isTCP := conn.RemoteAddr().(*net.TCPAddr)
	if !isTCP {
		return c.enterLocal(peerPID(conn), limits.PerAddress)
	}
	ip := tcp.AddrPort().Addr().Unmap()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.total >= limits.Connections:
		return nil, noPlace("the listeners have", "http.limits.connections", limits.Connections)
	case c.descriptors > 0 && c.total >= c.descriptors/2:
		return nil, contract.Errorf("runtime/overloaded",
			"the listeners have %d open connections, half of the %d files that the process may open",
			c.total, c.descriptors).
			WithDetail("setting", edn.Text("LimitNOFILE")).WithDetail("limit", edn.Int(int64(c.descriptors))).
			WithHint("try again when a connection has ended, or raise the limit of open files (LimitNOFILE, ulimit -n)")
	case c.byAddress[ip] >= limits.PerAddress && (s == nil || !s.trusts(ip)):
		return nil, noPlace("this address has", "http.limits.per_address", limits.PerAddress)
	}
	c.total++
	c.byAddress[ip]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.total--
		if c.byAddress[ip]--; c.byAddress[ip] == 0 {
			delete(c.byAddress, ip)
		}
	}, nil
}

// noPlace returns the error for a connection beyond a configured limit.
func noPlace(holder, setting string, limit int) *contract.Error {
	return contract.Errorf("runtime/overloaded", "%s %d open connections, which is the limit", holder, limit).
		WithDetail("setting", edn.Text(setting)).WithDetail("limit", edn.Int(int64(limit))).
		WithHint("try again when a connection has ended, send several requests over one, or raise " + setting)
}

// enterLocal reserves a place for a connection of the admin socket.
func (c *connections) enterLocal(pid, most int) (leave func(), refused *contract.Error) {
	if pid <= 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byProcess[pid] >= most {
		return nil, noPlace("this process has", "http.limits.per_address", most)
	}
	if c.byProcess == nil {
		c.byProcess = map[int]int{}
	}
	c.byProcess[pid]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byProcess[pid]--; c.byProcess[pid] == 0 {
			delete(c.byProcess, pid)
		}
	}, nil
}

// counted is a listener that rejects connections beyond the limits, and adds TLS to others if the
// current configuration requires it.
type counted struct {
	net.Listener
	count *connections
	plain bool // never uses TLS
	// headerRead is half of the time limit from a TLS connection to its first
	// byte of HTTP.
	headerRead time.Duration
}

// Accept returns the next connection within the limits. It does not wait for the TLS handshake,
// whose time the server limits.
func (l *counted) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		secure := l.tls()
		leave, refused := l.count.enter(conn)
		switch {
		case refused == nil && secure != nil:
			c := &countedConn{Conn: conn, leave: leave}
			c.hello = time.AfterFunc(2*l.headerRead, func() { _ = c.Close() })
			return tls.Server(c, secure), nil
		case refused == nil:
			return &countedConn{Conn: conn, leave: leave, plain: true}, nil
		case secure != nil:
			_ = conn.Close() // a response would need a TLS handshake
		default:
			l.count.turnAway(conn, refused)
		}
	}
}

func (l *counted) tls() *tls.Config {
	if s := l.count.api.backend.Settings(); s != nil && !l.plain {
		return s.TLS
	}
	return nil
}

// Limits for reading from rejected connections before they are closed: connections, time and bytes.
const (
	farewells   = 32
	farewell    = 250 * time.Millisecond
	lastRequest = 64 << 10
)

// turnAway sends the error without reading the request. Closing a connection with unread data
// resets it, which may discard the response; so a limited part of the request is read and dropped,
// for a limited number of connections at a time.
func (c *connections) turnAway(conn net.Conn, refused *contract.Error) {
	_ = conn.SetDeadline(time.Now().Add(farewell))
	_, _ = conn.Write(lastAnswer(refused))
	c.mu.Lock()
	full := c.leaving >= c.farewells()
	if !full {
		c.leaving++
	}
	c.mu.Unlock()
	if half, ok := conn.(interface{ CloseWrite() error }); full || !ok || half.CloseWrite() != nil {
		c.left(conn, full)
		return
	}
	go func() {
		_, _ = io.CopyN(io.Discard, conn, lastRequest)
		c.left(conn, false)
	}()
}

// farewells returns the maximum number of rejected connections that are read at a time, because
// each of them still has a descriptor.
func (c *connections) farewells() int {
	if c.descriptors > 0 {
		return max(1, min(farewells, c.descriptors/8))
	}
	return farewells
}

// left closes a rejected connection.
func (c *connections) left(conn net.Conn, uncounted bool) {
	_ = conn.Close()
	if uncounted {
		return
	}
	c.mu.Lock()
	c.leaving--
	c.mu.Unlock()
}

// countedConn releases its place when it is closed.
type countedConn struct {
	net.Conn
	once  sync.Once
	leave func()
	// plain is true without TLS: written bytes reach the caller unchanged.
	plain bool
	// hello closes a TLS connection that does not reach HTTP in time: the
	// server limits the handshake and the head of a request, but not the
	// HTTP/2 preface between them.
	hello *time.Timer
	// awaiting is true while the server reads the head of a request; begun is
	// set once part of that head has arrived.
	awaiting, begun atomic.Bool
}

// follow tracks the state that the server assigns to a connection. New and
// idle connections wait for the head of a request.
func follow(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok && state != http.StateNew {
		if c, ok := secure.NetConn().(*countedConn); ok {
			c.hello.Stop()
		}
	}
	if c, ok := conn.(*countedConn); ok {
		c.begun.Store(false)
		c.awaiting.Store(state == http.StateNew || state == http.StateIdle)
	}
}

// lateHead is the error for a request whose head did not arrive in time.
func lateHead() *contract.Error {
	return contract.Errorf("http/request-timeout", "the head of the request did not arrive within http.limits.header_read").
		WithDetail("setting", edn.Text("http.limits.header_read"))
}

// Read implements net.Conn. When the head of a request times out, net/http
// closes the connection without a response; Read sends one first.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.begun.Store(true)
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if late && c.plain && c.begun.Load() && c.awaiting.CompareAndSwap(true, false) {
		e := lateHead()
		_ = c.SetWriteDeadline(time.Now().Add(farewell))
		_, _ = c.Conn.Write(lastAnswer(e))
	}
	return n, err
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		if c.hello != nil {
			c.hello.Stop()
		}
		c.leave()
	})
	return c.Conn.Close()
}

// Write implements net.Conn. It replaces plain-text errors of net/http with typed errors.
func (c *countedConn) Write(b []byte) (int, error) {
	text := typed(b)
	if text == nil {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite closes the write side only, so that the caller can read the last
// response before the connection is closed.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the underlying connection.
func (c *countedConn) NetConn() net.Conn { return c.Conn }
