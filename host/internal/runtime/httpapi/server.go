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

// serverHeaders is how large headers may be before the server itself refuses
// them, without a typed answer.
const serverHeaders = 256 << 10

// Binding says where a Server listens.
type Binding struct {
	// Listen are loopback addresses, as host:port.
	Listen []string
	// AdminSocket is the path of the socket of operators; empty for none. Its
	// directory has to be private. A socket that lies there already is removed
	// unless somebody listens on it.
	AdminSocket string
	// Token is what callers of the socket have to show.
	Token string
	// Descriptors is how many files this process may have open; 0 for no limit.
	// Callers of the listeners get half of them.
	Descriptors int
}

// Server holds the listeners of a daemon.
type Server struct {
	log     hclog.Logger
	serving []*serving
	wait    sync.WaitGroup
	count   *connections

	tending sync.Mutex
	admin   *serving // of the socket of operators, nil if there is none
	socket  *socket  // tending guards it
	closed  bool     // as well
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

// Bind opens the listeners; requests wait in them until Serve. The error is a
// *contract.Error of type http/insecure-listener, or one of the system.
func (a *API) Bind(ctx context.Context, b Binding, settings *Settings) (*Server, error) {
	s := &Server{log: a.log}
	count := &connections{api: a, byAddress: map[netip.Addr]int{}, descriptors: b.Descriptors}
	for _, address := range b.Listen {
		l, err := listenLoopback(ctx, address)
		if err != nil {
			s.Close()
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		via := &listener{hosts: []string{strings.ToLower(strings.Trim(host, "[]"))}}
		s.add(a, &counted{Listener: l, headerRead: settings.Limits.HeaderRead, count: count}, via, settings)
	}
	if b.AdminSocket != "" {
		l, err := listenUnix(ctx, b.AdminSocket)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.count = count
		s.admin = s.add(a, &counted{Listener: l, count: count, plain: true}, &listener{admin: true, token: b.Token}, settings)
		s.socket = l
	}
	return s, nil
}

func (s *Server) add(a *API, l net.Listener, via *listener, settings *Settings) *serving {
	x := &serving{listener: l, http: &http.Server{
		Handler:           a.handler(via),
		ReadHeaderTimeout: settings.Limits.HeaderRead,
		// HTTP/2 has no bound for heads. A caller in the middle of one cannot answer
		// a ping, and every other caller does.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: settings.Limits.HeaderRead / 2,
			PingTimeout:     settings.Limits.HeaderRead,
		},
		IdleTimeout:    settings.Limits.Idle,
		MaxHeaderBytes: serverHeaders,
		ConnContext:    withPeer,
		ConnState:      follow,
		// What is asked of no path has a typed answer like everything else.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(a.log.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}}
	s.serving = append(s.serving, x)
	return x
}

// listenLoopback binds an address of this machine that no other can reach. All
// addresses of a name have to be such.
func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := onlyLoopback(address, ips); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ips[0].Unmap().String(), port))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, cause(err))
	}
	return l, nil
}

// onlyLoopback reports an address to listen on that other machines could reach:
// a name needs at least one address, and all of them have to be loopback ones.
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

// cause drops what the message says already.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addresses are where the server listens, with the ports that it got.
func (s *Server) Addresses() []string {
	out := make([]string, len(s.serving))
	for i, x := range s.serving {
		out[i] = x.now().Addr().String()
	}
	return out
}

// Serve begins to answer.
func (s *Server) Serve() {
	for _, x := range s.serving {
		s.serve(x, x.now())
	}
}

func (s *Server) serve(x *serving, l net.Listener) {
	s.wait.Go(func() {
		err := x.http.Serve(l)
		if !errors.Is(err, http.ErrServerClosed) && x.now() == l { // else another took its place
			s.log.Error("a listener ended", "address", l.Addr().String(), "error", err)
		}
	})
}

// RestoreSocket binds the socket of operators anew if its file is gone: who has no file
// has no way to the daemon, however well it listens. Connections that are open
// stay. It tells whether it had to; the error says why it could not. It is for
// a server that serves.
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

// Shutdown takes no more connections and waits for the answers under way, at
// most until ctx ends; then it cuts them.
func (s *Server) Shutdown(ctx context.Context) {
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
	s.wait.Wait()
}

// Close ends a server that does not serve yet.
func (s *Server) Close() {
	for _, x := range s.serving {
		_ = x.now().Close()
	}
}
