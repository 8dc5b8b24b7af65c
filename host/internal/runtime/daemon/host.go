package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/host/internal/adapters/issuer"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// closeLimit is the time limit of Close; plugin processes that are left then are killed.
const closeLimit = 15 * time.Second

// Host is a running host. Its methods are safe for concurrent use.
type Host struct {
	boot       string
	id         string // id in a shared database; empty: no other host uses it
	env        *setup.Environment
	supervisor *plugin.Supervisor
	journal    act.Journal
	keys       act.Keys
	full       func() bool // reports whether there is too little space for new acts; nil: never
	runs       *runs
	queue      *queue.Queue

	closing sync.Once
	// secretKey is the key of the hashes of secrets; nil if runs are kept in memory.
	secretKey []byte
	// stats is shared by all generations, so a reload keeps the statistics.
	stats stats.Table
	// learned is shared by all generations. With a journal on disk it is stored in the database.
	learned *learned.Book
	// grades is shared by all generations, because equal text has the same grade.
	grades *dispatch.Grades
	// answers is shared by all generations, because the key of an answer covers everything that it
	// depends on.
	answers *cache.Store
	// events is the stream of host records. With a journal on disk it is in the database.
	events journal.HostStream
	// ledger is shared by all generations. With a journal on disk it is stored in the database.
	ledger budget.Ledger
	// sessions is shared by all generations. With a journal on disk they are in the database.
	sessions *session.Service
	// identity is the service of users and tokens; nil if no daemon serves.
	identity *identity.Service
	// issuers caches the keys of the servers that issue tokens.
	issuers *issuer.Verifier
	// conversations is shared by all generations. With a journal on disk they are in the database.
	conversations *conversation.Service
	// rescorer measures the judges again while a daemon serves.
	rescorer *rescore.Rescorer
	// runEnded and panicked are RunEnded and Panicked of the Options; each may be nil.
	runEnded func(*act.Run)
	panicked func(run, where string, value any, stack []byte)
}

// Options selects what to load and start.
type Options struct {
	setup.Options
	// Levels are the log levels of a daemon; nil: they cannot be changed.
	Levels *telemetry.Levels
	// Admit, if set, checks the configuration before any plugin is started;
	// its error fails the start.
	Admit func(*setup.Loaded) error
	// Reach, if set, returns the names of the plugins to start, nil for all.
	// The first call to another plugin starts it.
	Reach func(*setup.Loaded) map[string]bool
	// Transitions, if set, is called with each change of a plugin's state. It
	// is called concurrently and must not block.
	Transitions func(Transition)
	// Sampled reports whether the spans of a run with a :trace are exported; nil: never.
	Sampled func(run string, trace edn.Value) bool
	// Notices, if set, is called with each change of a candidate. It is called concurrently and
	// must not block.
	Notices func(stats.Notice)
	// RunEnded, if set, is called after the end of each run. Panicked, if set, is called with the
	// panic value and stack of a defect that ended a run.
	RunEnded func(*act.Run)
	Panicked func(run, where string, value any, stack []byte)
}

// Start loads the configuration and starts its plugins. It returns when every
// plugin is ready or has failed to start; a required plugin that does not
// start is an error.
func Start(ctx context.Context, o Options) (*Host, error) {
	h, loaded, err := read(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := h.run(ctx, loaded, o); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// read creates a host with its configuration, but does not start plugins.
func read(ctx context.Context, o Options) (*Host, *setup.Loaded, error) {
	env, err := setup.Prepare(o.Options)
	if err != nil {
		return nil, nil, err
	}
	h := &Host{boot: ulid.Make().String(), env: env, journal: journal.NewMemory(), runs: newRuns(), ledger: budget.NewMemory(nil), grades: dispatch.NewGrades(dispatch.MaxGrades), events: &journal.Host{}, runEnded: o.RunEnded, panicked: o.Panicked}
	h.stats.Notice = func(n stats.Notice) { h.notice(n, o.Notices) }
	h.learned = learned.NewBook(nil, h.stats.Notice)
	loaded, err := setup.LoadIn(ctx, o.Options, h.env)
	if err == nil && loaded.Generation == nil {
		err = &setup.InvalidConfigError{Config: loaded.Config}
	}
	if err == nil && o.Admit != nil {
		err = o.Admit(loaded)
	}
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	TuneCollector(loaded.Host.GOGC, loaded.Host.MemoryLimit)
	talk := new(conversation.Memory)
	h.keepTalk(talk.Sessions(), talk, loaded)
	h.queue = queue.New(queueOf(loaded.Config), time.Now)
	h.answers = cache.New(loaded.Cache.Settings, time.Now)
	h.rescorer = h.newRescorer(loaded, o)
	return h, loaded, nil
}

// run starts the plugins of the configuration and waits for them.
func (h *Host) run(ctx context.Context, loaded *setup.Loaded, o Options) (err error) {
	if dir := loaded.Host.DataDir; dir != "" {
		err = makeDataDir(dir)
	}
	if err != nil {
		return &setup.EnvironmentError{Op: "supervise plugins", Err: err}
	}
	h.supervisor, err = plugin.New(plugin.Options{
		DataDir: loaded.Host.DataDir, Runtime: h.env.Runtime, Reaper: h.env.Reaper, Host: h.env.Host,
		Describer: h.env.Describer, Sink: sink{o.Transitions, h.recordHealth}, Sampled: o.Sampled,
	})
	if err != nil {
		return &setup.EnvironmentError{Op: "supervise plugins", Err: err}
	}
	started, wanted, err := loaded.Startable()
	if err != nil {
		return err
	}
	if o.Reach != nil {
		reached := o.Reach(loaded)
		started = slices.DeleteFunc(started, func(p plugins.Plugin) bool { return !reached[p.Name] })
		for i := range wanted {
			if !reached[wanted[i].Name] {
				wanted[i].Instances.Min, wanted[i].Instances.Standby = 0, 0
			}
		}
	}
	if err := h.supervisor.Start(wanted...); err != nil {
		return &setup.EnvironmentError{Op: "start plugins", Err: err}
	}
	g, err := h.newGeneration(loaded)
	if err != nil {
		return err
	}
	h.runs.install(g)
	h.configureRescorer(loaded)
	h.supervisor.AnswerCalls(hostCalls{h})
	return h.awaitAll(ctx, started)
}

// awaitAll waits for all plugins concurrently. It is not an error if a running plugin reports that
// it is not ready, because dispatch handles that, or if an optional plugin does not start.
func (h *Host) awaitAll(ctx context.Context, plugins []plugins.Plugin) error {
	errs := make([]error, len(plugins))
	var wait sync.WaitGroup
	for i, p := range plugins {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, p.StartTimeout+p.ConfigureTimeout+p.Health.ReadyTimeout)
			defer cancel()
			errs[i] = h.awaitOne(ctx, p)
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

func (h *Host) awaitOne(ctx context.Context, p plugins.Plugin) error {
	err := h.supervisor.Await(ctx, p.Name)
	if err == nil || p.Optional {
		return nil
	}
	for _, s := range h.supervisor.Status() {
		if s.Plugin == p.Name && (s.Cause == plugin.CauseIsolation || s.State == plugin.Degraded ||
			s.State == plugin.Ready || s.State == plugin.Configuring) {
			return nil // it runs; each attempt checks whether it is callable
		}
	}
	return &UnavailableError{&setup.EnvironmentError{Op: fmt.Sprintf("start the required plugin %s", p.Name), Err: err}}
}

// Loaded returns the configuration in force, which new acts use.
func (h *Host) Loaded() *setup.Loaded { return h.runs.now().loaded }

// Plugins returns a snapshot of the status of every plugin process.
func (h *Host) Plugins() []plugin.Status { return h.supervisor.Status() }

// Service returns the act service of the current configuration. Its runs are canceled when the host
// is closed.
func (h *Host) Service() *act.Service { return h.runs.now().service }

// notice records a change of a candidate in the stream of host records and passes it to each, if
// not nil.
func (h *Host) notice(n stats.Notice, each func(stats.Notice)) {
	details := n.Details
	if n.Plugin != "" {
		details = details.AssocKey("plugin", edn.Text(n.Plugin))
	}
	// The record is always valid; an error must not fail the call.
	_, _ = h.events.Record(context.Background(), n.At, &journal.HostEvent{Event: n.Event, CapID: n.CapID, Intent: n.Intent, Details: details})
	if each != nil {
		each(n)
	}
}

// Standings returns the statistics of the capabilities of the current configuration, one entry per
// capability and intent that it was called for.
func (h *Host) Standings() []stats.Standing {
	reg := h.Loaded().Generation.Registry
	return slices.DeleteFunc(h.stats.Standings(time.Now()), func(s stats.Standing) bool {
		c, there := reg.Capability(s.CapID)
		_, asked := reg.Intent(s.Intent)
		return !there || !asked || c.Plugin != s.Plugin || !c.Serves(s.Intent)
	})
}

// recordHealth records the health report of a process: a crashed backend counts as a failure of
// each capability that depends on it.
func (h *Host) recordHealth(s plugin.Statement) {
	g := h.runs.now()
	if g == nil {
		return // before the start; the process repeats its report
	}
	reg := g.loaded.Generation.Registry
	for _, id := range reg.Capabilities() {
		c, ok := reg.Capability(id)
		if !ok || c.Plugin != s.Plugin {
			continue
		}
		for _, told := range s.Capabilities {
			if told.ID == c.Advertised && told.Deaths > 0 {
				h.stats.RecordBackendCrashes(s.At, stats.BackendCrashes{CapID: id, Plugin: s.Plugin, Generation: s.Generation, Count: told.Deaths})
			}
		}
	}
}

// Ended notifies the plugins that a run has ended, so that they can release its state.
func (h *Host) Ended(ctx context.Context, run string) { h.supervisor.EndRun(ctx, run) }

// Close stops the plugins and waits until everything that the host started has ended. Further calls
// do nothing.
func (h *Host) Close() { h.close(context.Background()) }

// close is Close with a context: when ctx ends, the remaining plugins are killed.
func (h *Host) close(ctx context.Context) {
	h.closing.Do(func() {
		h.runs.mu.Lock()
		h.runs.closed = true
		h.runs.mu.Unlock()
		h.runs.awaitAfter(ctx)
		if h.supervisor != nil {
			ctx, cancel := context.WithTimeout(ctx, closeLimit)
			defer cancel()
			_ = h.supervisor.Close(ctx) // only errors of closing log files
		}
		h.env.Close()
	})
}
