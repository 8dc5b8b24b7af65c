package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/answer"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/pool"
	"github.com/fermenthq/ferment/plugins/mlx/internal/server"
	"github.com/fermenthq/ferment/plugins/mlx/internal/settings"
	"github.com/fermenthq/ferment/plugins/mlx/internal/worker"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// adapter is the plugin: unconfigured at first, then a pool of servers of one
// model.
type adapter struct {
	clock   transport.Clock
	rungs   server.Rungs
	service atomic.Pointer[service]
}

// service is a configured plugin.
type service struct {
	set     settings.Settings
	pool    *pool.Pool[*talker]
	reaper  *launch.Reaper // kills the servers if this process dies first
	changed signal
	log     journal
	// cold describes the models while no server runs.
	cold talker
}

// talker is a server with the client that calls it.
type talker struct {
	*server.Server
	provider *answer.Provider
	models   map[string]*answer.Model
}

// Gone implements pool.Server and closes the connections to the server.
func (t *talker) Gone() {
	t.Server.Gone()
	t.provider.Client.Close()
}

// newPlugin returns the plugin; its timers use the clock, and rungs are the
// limits of the steps that stop a server.
func newPlugin(clock transport.Clock, rungs server.Rungs) sdk.Plugin {
	a := &adapter{clock: clock, rungs: rungs}
	return sdk.Plugin{
		Name: settings.Name, Version: version, Features: []string{sdk.FeatureHotSwap},
		Needs:  []string{"net/loopback", "process/run", "process/self", "fs/read", "fs/write"},
		Config: sdk.Config[settings.Settings]{Default: settings.Defaults(), Offer: a.offer, Start: a.start},
		Health: a.health,
		Close:  a.close,
	}
}

// offer returns one capability per serve block, and that of the operators. It
// accesses no file, process or network.
func (a *adapter) offer(_ context.Context, s settings.Settings) (sdk.Offer, error) {
	if err := s.Check(); err != nil {
		return sdk.Offer{}, err
	}
	o := sdk.Offer{Ports: s.Ports()}
	models := s.Models()
	for _, label := range slices.Sorted(maps.Keys(models)) {
		o.Capabilities = append(o.Capabilities, models[label].Capability(settings.Name+"/"+label, s.Command[0],
			func(ctx context.Context, request edn.Value, out *sdk.Stream) (edn.Value, error) {
				return a.service.Load().answer(ctx, label, request, out)
			}))
	}
	o.Capabilities = append(o.Capabilities, a.control())
	return o, nil
}

func (a *adapter) start(ctx context.Context, s settings.Settings) error {
	h := &service{set: s, reaper: launch.NewReaper("")}
	var err error
	if h.cold.provider, h.cold.models, err = s.Build(1, a.clock); err != nil {
		return err
	}
	h.log.start(sdk.Logger(sdk.Lifetime(ctx)))
	plan := h.plan(a.clock, a.rungs)
	h.pool = pool.New(pool.Settings[*talker]{
		PerSession: s.PerSession(), Most: s.Most(), InFlight: s.MaxInFlight, Queue: s.Queue, Waits: s.Waits(),
		IdleTTL: settings.Duration(s.IdleTTL), Recheck: settings.Duration(s.Recheck), Clock: a.clock,
		Start: func(ctx context.Context, taken func(uint16) bool, spawned func(int, uint16)) (*talker, *contract.Error) {
			return h.spawn(ctx, plan, a.clock, taken, spawned)
		},
		Check: func() *contract.Error {
			_, err := plan.Locate()
			return err
		},
		Event: h.log.event, Changed: h.changed.fire,
	})
	a.service.Store(h)
	if s.Eager() {
		h.pool.Warm("", "eager")
	}
	return nil
}

// plan returns the server to start for these settings.
func (h *service) plan(clock transport.Clock, rungs server.Rungs) *server.Plan {
	s := h.set
	var names []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	question := fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"temperature":0}`,
		quoted(s.Wire("")))
	ports := s.Ports()
	if s.Port == 0 { // plugins with the same command do not all start with the same port
		first := os.Getpid() % len(ports)
		ports = append(ports[first:], ports[:first]...)
	}
	return &server.Plan{
		Command: s.Fill, Env: launch.Environment(s.Environment(), names, os.LookupEnv, nil), Dir: s.Workdir,
		Ports: ports, Fixed: s.Port > 0, ReadyPath: s.ReadyPath, Path: "/v1/chat/completions", Question: []byte(question),
		Startup: settings.Duration(s.Startup), Drain: settings.Duration(s.Drain), QuitPath: s.Quit.Path, QuitLine: s.Quit.Stdin,
		Rungs: rungs, Clock: clock, Log: h.log.line, Hint: hint(s),
	}
}

// hint returns the hint for a missing server program.
func hint(s settings.Settings) string {
	if s.Command[0] == settings.Defaults().Command[0] {
		return "install mlx-lm, or set command"
	}
	return fmt.Sprintf("install %s, or set command", s.Command[0])
}

func (h *service) spawn(
	ctx context.Context, plan *server.Plan, clock transport.Clock, taken func(uint16) bool, spawned func(int, uint16),
) (*talker, *contract.Error) {
	guarded := *plan
	guarded.Reaper = h.reaper
	s, failed := guarded.Start(ctx, taken, spawned)
	if failed != nil {
		return nil, failed
	}
	t := &talker{Server: s}
	var err error
	if t.provider, t.models, err = h.set.Build(s.Port(), clock); err != nil {
		s.Kill()
		s.Gone()
		return nil, contract.Errorf("model/start-failed", "configure the client of the model server: %w", err).
			WithHint("correct the settings of the plugin")
	}
	return t, nil
}

// farewell is the time limit for stopping all servers when the plugin ends; a host gives the plugin
// about a second.
const farewell = 500 * time.Millisecond

func (a *adapter) close(ctx context.Context) error {
	h := a.service.Load()
	if h == nil {
		return nil
	}
	ctx, cancel := transport.Within(ctx, a.clock, farewell)
	defer cancel()
	h.pool.Close(ctx)
	err := h.reaper.Close()
	h.log.stop()
	return err
}

// signal wakes goroutines that wait for a change.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}

// next returns a channel that is closed at the next change.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

// journal writes to the log of the plugin in a goroutine, so that callers never block.
type journal struct {
	log   *slog.Logger
	lines chan func(*slog.Logger)
	quit  chan struct{}
	done  chan struct{}
	lost  atomic.Int64
}

func (j *journal) start(log *slog.Logger) {
	j.log, j.lines, j.quit, j.done = log, make(chan func(*slog.Logger), 256), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(j.done)
		for {
			select {
			case write := <-j.lines:
				j.write(write)
			case <-j.quit:
				for len(j.lines) > 0 {
					j.write(<-j.lines)
				}
				return
			}
		}
	}()
}

func (j *journal) write(write func(*slog.Logger)) {
	write(j.log)
	if n := j.lost.Swap(0); n > 0 {
		j.log.Warn("lines about the model server were left out", "lines", n)
	}
}

// stop writes the remaining entries and ends the journal.
func (j *journal) stop() {
	close(j.quit)
	<-j.done
}

func (j *journal) put(write func(*slog.Logger)) {
	select {
	case j.lines <- write:
	default:
		j.lost.Add(1)
	}
}

// event logs a transition.
func (j *journal) event(session string, t worker.Transition) {
	level := slog.LevelInfo
	switch {
	case t.To == worker.Busy || t.From == worker.Busy && t.To == worker.Ready:
		return // calls are logged separately
	case strings.HasPrefix(t.Cause, "model/"):
		level = slog.LevelWarn
	}
	j.put(func(log *slog.Logger) {
		log.Log(context.Background(), level, "model server", "from", string(t.From), "to", string(t.To), "cause", t.Cause,
			"took_ms", t.Took.Milliseconds(), "server_pid", t.PID, "start", t.Run, "session", session)
	})
}

// line logs a line of server output at debug level.
func (j *journal) line(l launch.Line) {
	if !j.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	j.put(func(log *slog.Logger) { log.Debug(launch.Clip(l.Text, 2048), "stream", string(l.Stream)) })
}
