package sdk

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Exit codes of a plugin process.
const (
	exitOK     = 0
	exitBroken = 1 // the declaration is invalid
	exitByHand = 2 // started without a host
	exitTerm   = 128 + int(syscall.SIGTERM)
)

// closeGrace bounds the shutdown: remaining calls, the Close hook and the
// hooks' goroutines.
const closeGrace = time.Second

// Serve runs p as a plugin process and never returns. Call it from main and do
// nothing after it. If the program was started by hand, Serve prints one
// sentence and exits with 2. If p is invalid, it prints every problem and exits
// with 1.
//
// With FERMENT_ATTACH=FILE in the environment, a program started by hand, for
// example under a debugger, writes the address of its socket to FILE and serves
// the hosts that connect ("ferment dev attach NAME FILE").
func Serve(p Plugin) {
	if file := os.Getenv(wire.AttachEnv); file != "" && !wire.StartedByHost() {
		os.Exit(serveAttached(p, file))
	}
	if !wire.StartedByHost() {
		fmt.Fprintf(os.Stderr, "%s %s is a Ferment plugin: "+
			"name it in the command of a plugin block in ferment.hcl, a ferment host starts it.\n", p.Name, p.Version)
		os.Exit(exitByHand)
	}
	if err := wire.CheckHost(); err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", p.Name, p.Version, err)
		os.Exit(exitByHand)
	}
	tuneCollector()
	level := new(slog.LevelVar)
	log := newLogger(os.Stderr, level)
	service, err := NewService(p, log, level)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s cannot be served:\n%v\n", p.Name, p.Version, err)
		os.Exit(exitBroken)
	}
	slog.SetDefault(log)
	end := &ending{service: service}
	go end.whenStdinCloses(os.Stdin)
	go end.onSignal()
	cfg := wire.ServeConfig(&firstCall{Service: service, first: clearHandshakeEnv})
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "go-plugin", Level: hclog.Warn, Output: os.Stderr, JSONFormat: true})
	plugin.Serve(cfg)
	end.exit(exitOK)
}

// ending ends the process exactly once.
type ending struct {
	service *Service
	once    sync.Once
}

// exit closes the service and ends the process. It does not return.
func (e *ending) exit(code int) {
	e.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if err := e.service.Close(ctx); err != nil {
			e.service.log.Error("close", "error", err)
		}
		os.Exit(code)
	})
	select {} // another goroutine is ending the process
}

// whenStdinCloses ends the process when the host has closed standard input. It
// watches only pipes and sockets; a terminal, a file or the null device is
// ignored.
func (e *ending) whenStdinCloses(stdin *os.File) {
	info, err := stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	if _, err := io.Copy(io.Discard, stdin); err == nil {
		e.exit(exitOK)
	}
}

// onSignal ends the process on SIGTERM. SIGINT is ignored: the terminal sends
// it to the whole process group, and the host decides.
func (e *ending) onSignal() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	<-asked
	e.exit(exitTerm)
}

// firstCall runs first once, before Describe or Configure runs code of the
// author.
type firstCall struct {
	*Service
	once  sync.Once
	first func()
}

// Describe implements wire.Service.
func (f *firstCall) Describe(ctx context.Context, config edn.Value, host wire.HostInfo) (wire.Description, error) {
	f.once.Do(f.first)
	return f.Service.Describe(ctx, config, host)
}

// Configure implements wire.Service.
func (f *firstCall) Configure(ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
	f.once.Do(f.first)
	return f.Service.Configure(ctx, given, host)
}

// clearHandshakeEnv removes the handshake variables from the environment, so that
// programs which the plugin starts do not take themselves for plugins of the
// host.
func clearHandshakeEnv() {
	for _, name := range []string{
		wire.CookieKey, "PLUGIN_CLIENT_CERT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
		"PLUGIN_MULTIPLEX_GRPC", plugin.EnvUnixSocketDir, plugin.EnvUnixSocketGroup,
	} {
		_ = os.Unsetenv(name)
	}
}
