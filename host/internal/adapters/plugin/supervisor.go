package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/logfile"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// endRunWait is the time limit for notifying plugins of the end of a run.
const endRunWait = 2 * time.Second

// Options configures a Supervisor.
type Options struct {
	// DataDir is the data directory, which several hosts may share. It has the logs of the plugins
	// in plugins/<name> and the scratch directories of this host in work/<host>. Empty: no logs are
	// written, and the scratch directories are in the runtime directory.
	DataDir string
	// Runtime is the private directory for sockets; required.
	Runtime *rundir.Dir
	// Reaper kills the plugin processes when this process dies; nil: they are not killed.
	Reaper *launch.Reaper
	// Describer caches descriptions; nil: a describer without a file cache.
	Describer *Describer
	// Host is the information about this program that plugins receive.
	Host wire.HostInfo
	// Sink receives the events of plugins; nil: they are discarded.
	Sink Sink
	// Clock and Random (in [0, 1)) are used for restarts and probes; nil: those of the system.
	Clock  Clock
	Random func() float64
	// Sampled reports whether the spans of a run with a :trace are exported; nil: never.
	Sampled func(run string, trace edn.Value) bool
}

// shared is common to all plugins of a supervisor.
type shared struct {
	runtime   *rundir.Dir
	reaper    *launch.Reaper
	describer *Describer
	info      wire.HostInfo
	sink      Sink
	clock     Clock
	random    func() float64
	sampled   func(run string, trace edn.Value) bool
	calls     atomic.Pointer[HostCalls]
	work      string // directory of the scratch directories
}

// Supervisor starts, watches and stops the processes of plugins. Create it with New. Its methods
// are safe for concurrent use.
type Supervisor struct {
	shared  *shared
	dataDir string
	scratch *rundir.Dir // nil without DataDir

	changing chan struct{} // holds a token while a change is being prepared

	mu      sync.Mutex
	units   map[string]*unit
	leaving map[string]*unit // units removed from the configuration, until they have ended
	closed  bool
	later   sync.WaitGroup // background work after a change
	life    context.Context
	end     context.CancelFunc
}

// New returns a supervisor without plugins. It creates the scratch directory of this host. The
// caller must close the supervisor.
func New(o Options) (*Supervisor, error) {
	if o.Runtime == nil {
		return nil, errors.New("supervise plugins: no runtime directory")
	}
	h := &shared{
		runtime:   o.Runtime,
		reaper:    o.Reaper,
		describer: o.Describer,
		info:      o.Host,
		sink:      o.Sink,
		clock:     o.Clock,
		random:    o.Random,
		sampled:   o.Sampled,
	}
	if h.describer == nil {
		h.describer = NewDescriber("", o.Runtime, o.Reaper, o.Host)
	}
	if h.sink == nil {
		h.sink = discardSink{}
	}
	if h.clock == nil {
		h.clock = SystemClock{}
	}
	if h.random == nil {
		h.random = rand.Float64
	}
	if h.sampled == nil {
		h.sampled = func(string, edn.Value) bool { return false }
	}
	s := &Supervisor{
		shared:   h,
		dataDir:  o.DataDir,
		changing: make(chan struct{}, 1),
		units:    map[string]*unit{},
		leaving:  map[string]*unit{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	h.work = filepath.Join(o.Runtime.Path(), "work")
	if o.DataDir != "" {
		var err error
		if s.scratch, err = rundir.OpenScratch(filepath.Join(o.DataDir, "work")); err != nil {
			return nil, err
		}
		h.work = s.scratch.Path()
	}
	return s, nil
}

type discardSink struct{}

func (discardSink) Transition(Transition) {}
func (discardSink) Health(Statement)      {}
func (discardSink) Log(Line)              {}

// AnswerCalls sets the handler of the requests that plugins send to the host. Before, such requests
// fail with runtime/not-ready.
func (s *Supervisor) AnswerCalls(calls HostCalls) { s.shared.calls.Store(&calls) }

// Start adds plugins and starts them in parallel. It does not wait for them; [Supervisor.Await]
// does. If any settings are invalid, a name exists already or the supervisor is closed, it starts
// none. If the log of a plugin cannot be opened, the plugins before it stay started.
func (s *Supervisor) Start(plugins ...Settings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("start plugins: the supervisor is closed")
	}
	seen := map[string]bool{}
	for _, p := range plugins {
		if err := p.Validate(); err != nil {
			return err
		}
		if s.units[p.Name] != nil || seen[p.Name] {
			return fmt.Errorf("start plugins: two plugins have the name %q", p.Name)
		}
		seen[p.Name] = true
	}
	for _, p := range plugins {
		u, err := s.newUnit(p.Name)
		if err != nil {
			return err
		}
		s.units[p.Name] = u
		e := u.edition(p, CauseStart)
		u.log.setLevel(p.LogLevel)
		u.mu.Lock()
		u.current = e
		u.mu.Unlock()
		e.populate(0)
	}
	return nil
}

// newUnit creates a plugin without editions.
func (s *Supervisor) newUnit(name string) (*unit, error) {
	u := newUnit(s.shared, name)
	if s.dataDir != "" {
		var err error
		if u.log.file, err = logfile.Open(LogPath(s.dataDir, name), logfile.Size,
			logfile.Count); err != nil {
			return nil, fmt.Errorf("start plugin %s: %w", name, err)
		}
	}
	return u, nil
}

// LogPath returns the path of the newest log file of a plugin. Older files have the suffixes ".1"
// and higher.
func LogPath(dataDir, plugin string) string {
	return filepath.Join(dataDir, "plugins", plugin, "log", "plugin.log")
}

// unit returns the plugin with a name. The error suggests a similar name.
func (s *Supervisor) unit(name string) (*unit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.units[name]; u != nil {
		return u, nil
	}
	e := fmt.Errorf("no plugin %q", name)
	if near := contract.Nearest(name, slices.Sorted(maps.Keys(s.units))); near != "" {
		e = fmt.Errorf("no plugin %q; did you mean %q?", name, near)
	}
	return nil, e
}

// all returns the plugins, including those that are being removed.
func (s *Supervisor) all() []*unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(slices.Collect(maps.Values(s.units)), slices.Collect(maps.Values(s.leaving))...)
}

// Await waits until the plugin accepts calls. The error is that of an unknown plugin or of ctx. It
// returns at once with an error if the plugin will not accept calls without an operator, or its
// next start is after the deadline of ctx.
func (s *Supervisor) Await(ctx context.Context, plugin string) error {
	u, err := s.unit(plugin)
	if err != nil {
		return err
	}
	return u.await(ctx)
}

// Status returns a snapshot of every process slot, ordered by plugin, edition
// and instance.
func (s *Supervisor) Status() []Status {
	var all []Status
	for _, u := range s.all() {
		u.mu.Lock()
		for _, e := range u.editions {
			for _, i := range e.instances {
				all = append(all, i.snapshot())
			}
		}
		u.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Edition, b.Edition),
			cmp.Compare(a.Instance, b.Instance))
	})
	return all
}

// Restart stops the processes of a plugin gracefully and starts new ones; it also ends a
// quarantine. Like Drain, Release and Quarantine it returns when that has begun, and must not be
// called from a Sink. The error is that of an unknown plugin.
func (s *Supervisor) Restart(plugin string) error { return s.deliver(plugin, evRestart{}, false) }

// Drain stops the processes of a plugin gracefully and does not start new ones until Release or
// Restart.
func (s *Supervisor) Drain(plugin string) error { return s.deliver(plugin, evStop{}, true) }

// Release starts a plugin that is quarantined or was stopped.
func (s *Supervisor) Release(plugin string) error { return s.deliver(plugin, evRelease{}, false) }

// Quarantine stops a plugin and does not start it until an operator releases it. reason becomes the
// message of its error.
func (s *Supervisor) Quarantine(plugin, reason string) error {
	return s.deliver(plugin, evQuarantine{err: contract.Errorf("runtime/quarantined", "%s", reason)}, true)
}

// deliver sends an event to all processes of a plugin. If held is set, the plugin does not start
// processes by itself from now on.
func (s *Supervisor) deliver(plugin string, event any, held bool) error {
	u, err := s.unit(plugin)
	if err != nil {
		return err
	}
	u.order(event, held)
	return nil
}

// EndRun notifies the plugins that served a run of its end, in parallel. It returns after
// endRunWait at the latest; failures are logged.
func (s *Supervisor) EndRun(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(ctx, endRunWait)
	defer cancel()
	var told sync.WaitGroup
	for _, u := range s.all() {
		for _, i := range u.all() {
			if p := i.living.Load(); p != nil && p.forgetRun(run) {
				told.Go(func() {
					if err := p.wire.EndRun(ctx, run); err != nil && p.life.Err() == nil {
						u.note(p.process, "warn", "end of run "+run+": "+err.Error())
					}
				})
			}
		}
	}
	told.Wait()
}

// Close stops all plugins in parallel, each by its stop steps, and returns when no process is left.
// When ctx ends, the remaining processes are killed. The error is that of closing logs and scratch
// directories.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.end()
	var errs []error
	units := s.all()
	for _, u := range units {
		u.close(CauseStop)
	}
	hurry := context.AfterFunc(ctx, func() {
		for _, u := range units {
			for _, i := range u.all() {
				i.cancel()
			}
		}
	})
	defer hurry()
	for _, u := range units {
		<-u.over
		errs = append(errs, u.log.close())
	}
	s.later.Wait()
	if first && s.scratch != nil {
		errs = append(errs, s.scratch.Close())
	}
	return errors.Join(errs...)
}
