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

// connections counts what is open on all listeners (AUTH-033).
type connections struct {
	api         *API
	descriptors int // that this process may have open; 0 for no limit

	mu        sync.Mutex
	total     int
	leaving   int // connections that were turned away and are still read from
	byAddress map[netip.Addr]int
	byProcess map[int]int // on the admin socket
}

// enter takes a place for a connection. Callers of the admin socket have no
// address, and are counted for nobody but themselves: an operator has to get
// through when the places of others are taken. One process has as many there as
// one address: a plugin may reach that socket, and has no business on it.
//
// The error names the limit that leaves no place.
func (c *connections) enter(conn net.Conn) (leave func(), refused *contract.Error) {
	limits := defaultLimits
	if s := c.api.backend.Settings(); s != nil {
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
		return nil, contract.Errorf("runtime/overloaded", "the listeners have %d open connections, half of the %d files that the process may open",
			c.total, c.descriptors).
			WithDetail("setting", edn.Text("LimitNOFILE")).WithDetail("limit", edn.Int(int64(c.descriptors))).
			WithHint("try again when a connection has ended, or raise the limit of open files (LimitNOFILE, ulimit -n)")
	case c.byAddress[ip] >= limits.PerAddress:
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

// noPlace refuses a connection beyond a limit of the configuration.
func noPlace(holder, setting string, limit int) *contract.Error {
	return contract.Errorf("runtime/overloaded", "%s %d open connections, which is the limit", holder, limit).
		WithDetail("setting", edn.Text(setting)).WithDetail("limit", edn.Int(int64(limit))).
		WithHint("try again when a connection has ended, send several requests over one, or raise " + setting)
}

// enterLocal takes one of the places that a process has.
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

// counted is a listener that turns connections away beyond the limits, and has
// the others speak TLS if the configuration of this moment wants it.
type counted struct {
	net.Listener
	count *connections
	plain bool // whatever the configuration says
	// headerRead is half of the time from a connection with TLS to its first byte of HTTP.
	headerRead time.Duration
}

// Accept gives the next connection that has a place. It does not wait for a
// handshake: the server bounds that like the headers.
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
			_ = conn.Close() // a handshake is what there is no room for
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

// What a caller that is turned away may still say before the connection goes.
const (
	farewells   = 32
	farewell    = 250 * time.Millisecond
	lastRequest = 64 << 10
)

// turnAway answers without looking at what was asked. A connection that is
// closed before its request was read is reset, and with it the answer may be
// lost; so the request is read and forgotten, by few at a time, little of it
// and not for long.
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

// farewells is how many connections that were turned away are read from at once:
// each of them still holds a file.
func (c *connections) farewells() int {
	if c.descriptors > 0 {
		return max(1, min(farewells, c.descriptors/8))
	}
	return farewells
}

// left closes a connection that was turned away.
func (c *connections) left(conn net.Conn, uncounted bool) {
	_ = conn.Close()
	if uncounted {
		return
	}
	c.mu.Lock()
	c.leaving--
	c.mu.Unlock()
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	once  sync.Once
	leave func()
	// plain is true without TLS, when what is written is what the caller reads.
	plain bool
	// hello closes a connection with TLS that does not get as far as HTTP in time:
	// the server bounds the handshake and the head of a request, not what HTTP/2
	// has between them.
	hello *time.Timer
	// awaiting is true while the server reads the head of a request, and begun
	// once some of that head arrived.
	awaiting, begun atomic.Bool
}

// follow notes the state that the server gives a connection. New and idle
// connections wait for the head of a request.
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

// Read implements net.Conn. The server closes a connection without an answer
// when the head of a request takes too long; here it gets one.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.begun.Store(true)
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if late && c.plain && c.begun.Load() && c.awaiting.CompareAndSwap(true, false) {
		e := contract.Errorf("http/request-timeout", "the head of the request did not arrive in time").
			WithDetail("setting", edn.Text("http.limits.header_read"))
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

// Write implements net.Conn. What the server says in its own words gets a type.
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

// CloseWrite ends what is said here while the other end may still speak: the
// server lets a caller read a last answer that way before the connection goes.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection itself.
func (c *countedConn) NetConn() net.Conn { return c.Conn }
