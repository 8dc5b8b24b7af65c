package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// serverHeaders is the size of headers in bytes above which net/http rejects them without a typed
// error.
const serverHeaders = 256 << 10

// Binding configures the listeners of a Server.
type Binding struct {
	// Listen has addresses in the form host:port. Only loopback addresses are permitted, unless the
	// settings permit open listeners.
	Listen []string
	// AdminSocket is the path of the admin socket; empty: none. Its directory must be private. An
	// existing socket file is removed unless a process listens on it.
	AdminSocket string
	// Token authenticates callers of the admin socket.
	Token string
	// Descriptors is the limit of open files of this process; 0: unlimited. Callers of the
	// listeners may use half of it.
	Descriptors int
}

// Server holds the listeners of a daemon.
type Server struct {
	api     *API
	log     hclog.Logger
	serving []*serving
	wait    sync.WaitGroup
	count   *connections

	tending sync.Mutex
	admin   *serving // the admin socket, nil if there is none
	socket  *socket  // guarded by tending
	closed  bool     // guarded by tending
}

type serving struct {
	http *http.Server

	mu       sync.Mutex
	listener net.Listener
}

func (x *serving) now() net.Listener {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.listener
}

// Bind opens the listeners; connections wait in them until Serve. The error is
// http/insecure-listener, config/range for the path of the admin socket, or one of the system. The
// caller must call Serve and Shutdown, or Close.
func (a *API) Bind(ctx context.Context, b Binding, settings *Settings) (*Server, error) {
	s := &Server{api: a, log: a.log}
	count := &connections{api: a, byAddress: map[netip.Addr]int{}, descriptors: b.Descriptors}
	for _, address := range b.Listen {
		l, open, err := listenTCP(ctx, address, settings.Open)
		if err != nil {
			s.Close()
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		via := &listener{open: open, hosts: []string{strings.ToLower(strings.Trim(host, "[]"))}}
		s.add(a, &counted{Listener: l, headerRead: settings.Limits.HeaderRead, count: count}, via, settings)
	}
	if b.AdminSocket != "" {
		l, err := listenUnix(ctx, b.AdminSocket)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.count = count
		s.admin = s.add(a, &counted{Listener: l, count: count, plain: true}, &listener{admin: true, token: b.Token},
			settings)
		s.socket = l
	}
	return s, nil
}

func (s *Server) add(a *API, l net.Listener, via *listener, settings *Settings) *serving {
	x := &serving{listener: l, http: &http.Server{
		Handler:           a.handler(via),
		ReadHeaderTimeout: settings.Limits.HeaderRead,
		// HTTP/2 has no time limit for headers. A caller that has sent only a part of them cannot
		// answer a ping; all others can.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: settings.Limits.HeaderRead / 2,
			PingTimeout:     settings.Limits.HeaderRead,
		},
		IdleTimeout:    settings.Limits.Idle,
		MaxHeaderBytes: serverHeaders,
		ConnContext:    withPeer,
		ConnState:      follow,
		// OPTIONS * gets a typed error like any other request.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(a.log.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}}
	s.serving = append(s.serving, x)
	return x
}

// listenTCP binds an address, and reports whether other machines can reach it. Unless mayOpen is
// set, all addresses of a name must be loopback addresses.
func listenTCP(ctx context.Context, address string, mayOpen bool) (_ net.Listener, open bool, _ error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, false, fmt.Errorf("listen on %s: %w", address, err)
	}
	ips, family := []netip.Addr{netip.IPv6Unspecified()}, "tcp" // an empty host means all addresses
	if host != "" {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, false, fmt.Errorf("listen on %s: %w", address, err)
		}
		host = ""
		if len(ips) > 0 {
			host, family = ips[0].Unmap().String(), familyOf(ips[0])
		}
	}
	insecure := onlyLoopback(address, ips)
	if insecure != nil && (!mayOpen || len(ips) == 0) {
		return nil, false, insecure
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, family, net.JoinHostPort(host, port))
	if err != nil {
		return nil, false, fmt.Errorf("listen on %s: %w", address, cause(err))
	}
	return l, insecure != nil, nil
}

// familyOf returns the network for an address. With "tcp", net would bind both wildcard addresses
// although one was written, and the other one may have no firewall.
func familyOf(ip netip.Addr) string {
	if ip.Unmap().Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// onlyLoopback returns an error unless a name has addresses and all of them
// are loopback addresses.
func onlyLoopback(address string, ips []netip.Addr) error {
	if len(ips) == 0 {
		return contract.Errorf("http/insecure-listener",
			"listen on %s: the name has no address, expected a loopback address", address).
			WithDetail("listen", edn.Text(address))
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return contract.Errorf("http/insecure-listener",
				"the listener %s would be open to other machines: %s is not a loopback address", address, ip.Unmap()).
				WithDetail("listen", edn.Text(address))
		}
	}
	return nil
}

// cause removes the operation and address from an error, because the message already has them.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addresses returns the addresses of the listeners, with the actual ports.
func (s *Server) Addresses() []string {
	out := make([]string, len(s.serving))
	for i, x := range s.serving {
		out[i] = x.now().Addr().String()
	}
	return out
}

// Streams returns the number of open streams of events.
func (s *Server) Streams() int { return s.api.streams.open() }

// Serve starts to accept connections and returns at once.
func (s *Server) Serve() {
	for _, x := range s.serving {
		s.serve(x, x.now())
	}
}

func (s *Server) serve(x *serving, l net.Listener) {
	s.wait.Go(func() {
		err := x.http.Serve(l)
		if !errors.Is(err, http.ErrServerClosed) && x.now() == l { // else the listener was replaced
			s.log.Error("a listener ended", "address", l.Addr().String(), "error", err)
		}
	})
}

// RestoreSocket binds the admin socket again if its file was deleted, and reports whether it did.
// Open connections are kept. It must be called after Serve.
func (s *Server) RestoreSocket(ctx context.Context) (bound bool, err error) {
	s.tending.Lock()
	defer s.tending.Unlock()
	if s.admin == nil || s.closed || s.socket.there() {
		return false, nil
	}
	fresh, err := listenUnix(ctx, s.socket.path)
	if err != nil {
		return false, err
	}
	l := &counted{Listener: fresh, count: s.count, plain: true}
	s.admin.mu.Lock()
	was := s.admin.listener
	s.admin.listener, s.socket = l, fresh
	s.admin.mu.Unlock()
	s.serve(s.admin, l)
	_ = was.Close()
	return true, nil
}

// Shutdown stops accepting connections, ends the streams of runs that continue, and waits for
// responses in progress until ctx ends; then it closes their connections and cancels their actions.
func (s *Server) Shutdown(ctx context.Context) {
	s.api.end()
	s.tending.Lock()
	s.closed = true
	s.tending.Unlock()
	var wait sync.WaitGroup
	for _, x := range s.serving {
		wait.Go(func() {
			if x.http.Shutdown(ctx) != nil {
				_ = x.http.Close()
			}
		})
	}
	wait.Wait()
	s.api.stop()
	s.wait.Wait()
}

// Close closes the listeners of a server on which Serve was not called. Use Shutdown after Serve.
func (s *Server) Close() {
	for _, x := range s.serving {
		_ = x.now().Close()
	}
}
