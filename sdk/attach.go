package sdk

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/fermenthq/ferment/sdk/wire"
)

// attached is a plugin started by hand, usually under a debugger, that waits
// for hosts. Each connection to its socket gets a new Service.
type attached struct {
	plugin  Plugin
	file    string
	console io.Writer // the terminal of the developer

	starting sync.Mutex // go-plugin reads the environment when it starts to serve
	sessions sync.WaitGroup
}

// greeting is the first message of a host: its certificate, and the directory
// for the socket of the plugin.
type greeting struct {
	Cert string `json:"cert"`
	Dir  string `json:"dir"`
}

// greetingWait is the longest wait for the greeting.
const greetingWait = 10 * time.Second

// run serves until ctx ends and returns the exit code.
func (a *attached) run(ctx context.Context) int {
	dir, err := os.MkdirTemp("", "ferment-attach-") // mode 0700
	if err != nil {
		return a.broken(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "s")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return a.broken(err)
	}
	record := wire.AttachRecord{
		Plugin:  a.plugin.Name,
		Version: a.plugin.Version,
		PID:     os.Getpid(),
		Socket:  socket,
		Nonce:   rand.Text(),
	}
	if err := record.Write(a.file); err != nil {
		_ = listener.Close()
		return a.broken(err)
	}
	defer func() { _ = os.Remove(a.file) }()
	_, _ = fmt.Fprintf(a.console, "%s %s (process %d) waits for a host: ferment dev attach NAME %s\n",
		a.plugin.Name, a.plugin.Version, os.Getpid(), a.file)
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		a.sessions.Go(func() { a.serveConn(ctx, conn) })
	}
	a.sessions.Wait()
	return exitOK
}

func (a *attached) broken(err error) int {
	_, _ = fmt.Fprintf(a.console, "%s %s cannot wait for a host: %v\n", a.plugin.Name, a.plugin.Version, err)
	return exitBroken
}

// serveConn serves one connection until it is closed.
func (a *attached) serveConn(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var hello greeting
	_ = conn.SetReadDeadline(time.Now().Add(greetingWait))
	in := bufio.NewReader(io.LimitReader(conn, 64<<10))
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &hello)
	}
	if err != nil {
		_, _ = fmt.Fprintf(a.console, "connection rejected: expected the greeting of a host, a line of JSON: %v\n", err)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	level := new(slog.LevelVar)
	service, err := NewService(a.plugin, newLogger(a.console, level), level)
	if err != nil {
		_, _ = fmt.Fprintf(conn, "error: %v\n", err)
		return
	}
	defer func() {
		closing, done := context.WithTimeout(context.Background(), closeGrace)
		defer done()
		_ = service.Close(closing)
	}()
	handshake, over, err := a.serve(ctx, service, hello)
	if err != nil {
		_, _ = fmt.Fprintf(conn, "error: %v\n", err)
		return
	}
	_, _ = fmt.Fprintf(a.console, "host connected\n")
	if _, err := fmt.Fprintln(conn, handshake); err == nil {
		gone := make(chan struct{})
		go func() { defer close(gone); _, _ = io.Copy(io.Discard, in) }()
		select {
		case <-gone: // the host has closed its end
		case <-over: // the host has shut the plugin down
		}
		_ = conn.Close()
		<-gone
	}
	end()
	<-over
	_, _ = fmt.Fprintf(a.console, "host disconnected\n")
}

// serve starts the gRPC server and returns the handshake line. over is closed
// when the server has ended.
func (a *attached) serve(
	ctx context.Context, service *Service, hello greeting,
) (handshake string, over <-chan struct{}, err error) {
	a.starting.Lock()
	defer a.starting.Unlock()
	tls, raw, err := wire.PluginTLS([]byte(hello.Cert))
	if err != nil {
		return "", nil, err
	}
	if err := os.Setenv(plugin.EnvUnixSocketDir, hello.Dir); err != nil {
		return "", nil, err
	}
	defer func() { _ = os.Unsetenv(plugin.EnvUnixSocketDir) }()
	where, closed := make(chan *plugin.ReattachConfig, 1), make(chan struct{})
	cfg := wire.ServeConfig(service)
	cfg.TLSProvider = tls
	cfg.Logger = hclog.NewNullLogger()
	cfg.Test = &plugin.ServeTestConfig{Context: ctx, ReattachConfigCh: where, CloseCh: closed}
	go plugin.Serve(cfg)
	select {
	case at := <-where:
		return fmt.Sprintf("%d|%d|%s|%s|%s|%s", plugin.CoreProtocolVersion, wire.Protocol,
			at.Addr.Network(), at.Addr.String(), plugin.ProtocolGRPC, base64.RawStdEncoding.EncodeToString(raw)), closed, nil
	case <-closed:
		return "", nil, errors.New("serve the plugin: the gRPC server ended before it listened")
	}
}

// serveAttached serves p to the hosts that connect, until SIGINT or SIGTERM.
func serveAttached(p Plugin, file string) int {
	path, err := filepath.Abs(file)
	if err != nil {
		path = file
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.validate(); err != nil {
		fmt.Fprintf(os.Stderr, "%s %s cannot be served:\n%v\n", p.Name, p.Version, err)
		return exitBroken
	}
	return (&attached{plugin: p, file: path, console: os.Stderr}).run(ctx)
}
