package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxSocketPath is what every system has room for in the address of a socket.
const maxSocketPath = 103

// serverHeaders is how large headers may be before the server itself refuses
// them, without a typed answer.
const serverHeaders = 256 << 10

// Binding says where a Server listens.
type Binding struct {
	// Listen are loopback addresses, as host:port.
	Listen []string
	// AdminSocket is the path of the socket of operators; empty for none. Its
	// directory has to be private, and whoever binds has to hold the lock of the
	// data directory: a socket that lies there already is removed.
	AdminSocket string
	// Token is what callers of the socket have to show.
	Token string
}

// Server holds the listeners of a daemon.
type Server struct {
	log     hclog.Logger
	serving []*serving
	wait    sync.WaitGroup
}

type serving struct {
	http     *http.Server
	listener net.Listener
}

// Bind opens the listeners; requests wait in them until Serve. The error is a
// *contract.Error of type http/insecure-listener, or one of the system.
func (a *API) Bind(ctx context.Context, b Binding, settings *Settings) (*Server, error) {
	s := &Server{log: a.log}
	count := &connections{api: a, byAddress: map[netip.Addr]int{}}
	for _, address := range b.Listen {
		l, err := listenLoopback(ctx, address)
		if err != nil {
			s.Close()
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		s.add(a, &counted{Listener: l, count: count}, &listener{hosts: []string{strings.ToLower(strings.Trim(host, "[]"))}}, settings)
	}
	if b.AdminSocket != "" {
		l, err := listenUnix(ctx, b.AdminSocket)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.add(a, &counted{Listener: l, count: count, plain: true}, &listener{admin: true, token: b.Token}, settings)
	}
	return s, nil
}

func (s *Server) add(a *API, l net.Listener, via *listener, settings *Settings) {
	s.serving = append(s.serving, &serving{listener: l, http: &http.Server{
		Handler:           a.handler(via),
		ReadHeaderTimeout: settings.Limits.HeaderRead,
		IdleTimeout:       settings.Limits.Idle,
		MaxHeaderBytes:    serverHeaders,
		ConnContext:       withPeer,
		// What is asked of no path has a typed answer like everything else.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(a.log.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}})
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
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return nil, contract.Errorf("http/insecure-listener", "the listener %s would be open to other machines: %s is no loopback address", address, ip.Unmap()).
				WithDetail("listen", edn.Text(address))
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ips[0].Unmap().String(), port))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, cause(err))
	}
	return l, nil
}

// listenUnix binds the socket of operators.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, contract.Errorf("config/range", "the path of the admin socket has %d bytes, the limit is %d: %s", len(path), maxSocketPath, path).
			WithHint("name a shorter one in http.admin_socket")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("admin socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, contract.Errorf("config/range", "there is something at the path of the admin socket that is no socket: %s", path).
			WithHint("remove it, or name another path in http.admin_socket")
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("admin socket: %w", err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, cause(err))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return l, nil
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
		out[i] = x.listener.Addr().String()
	}
	return out
}

// Serve begins to answer.
func (s *Server) Serve() {
	for _, x := range s.serving {
		s.wait.Go(func() {
			if err := x.http.Serve(x.listener); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("a listener ended", "address", x.listener.Addr().String(), "error", err)
			}
		})
	}
}

// Shutdown takes no more connections and waits for the answers under way, at
// most until ctx ends; then it cuts them.
func (s *Server) Shutdown(ctx context.Context) {
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
		_ = x.listener.Close()
	}
}
