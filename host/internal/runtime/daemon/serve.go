package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Phases of a daemon, as /ready reports them.
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseDraining = "draining"
)

// beatEvery is the interval of the beats of the main loop. If there is no beat for beatLimit, or a
// check of the queue and the journal takes longer, /health reports failure.
const (
	beatEvery = time.Second
	beatLimit = 10 * time.Second
)

// Daemon is a host as a long-lived process: it locks a data directory,
// listens, reloads and shuts down.
type Daemon struct {
	options Options
	log     hclog.Logger
	notify  notifier
	begun   time.Time
	boot    string

	host  atomic.Pointer[Host] // set before its plugins are started
	dir   *dataDir
	store *store.Store // nil: runs are kept in memory
	// unfinished are the runs that an earlier daemon left open.
	unfinished []store.Unfinished
	server     *httpapi.Server
	beat       atomic.Int64 // nanoseconds from begun to the last beat of the main loop
	probe      probe
	drains     chan struct{}
	drained    sync.Once
	reloads    reloads
	figures    figures
	answers    httpapi.MemoryAnswers   // used without a store
	lostDir    atomic.Pointer[lostDir] // nil while the data directory is intact
	auditWait  auditWait
	space      atomic.Pointer[space] // nil before the first measurement
	// free returns the free bytes below a directory.
	free func(dir string) (uint64, error)
	// life is canceled when the daemon begins to close its parts; work counts the goroutines that
	// end then.
	life context.Context
	die  context.CancelFunc
	work sync.WaitGroup

	writing sync.Mutex // held while a backup is written

	mu    sync.Mutex
	phase string
	since time.Time     // of the phase
	early *setup.Loaded // the configuration during the start
}

var _ httpapi.Backend = (*Daemon)(nil)

// Signals returns a channel with the signals that a daemon handles. A program must call it before
// it does anything else.
func Signals() chan os.Signal {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// A daemon must continue when the reader of its log is gone: then a write fails, and that line
	// is lost. SIGPIPE is caught rather than ignored, because plugins would inherit an ignored
	// signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c
}

// errStopped is the cancellation cause of a start that a signal stopped.
var errStopped = errors.New("stopped by a signal")

// Serve runs a daemon until a signal or an operator stops it. It returns nil after a clean stop;
// ExitCode maps other errors to exit codes.
func Serve(o Options, log hclog.Logger, signals <-chan os.Signal) (err error) {
	d := &Daemon{
		options: o,
		log:     log,
		notify:  newNotifier(o.Env),
		begun:   time.Now(),
		phase:   phaseStarting,
		since:   time.Now(),
		drains:  make(chan struct{}),
		free:    FreeSpace,
	}
	d.count()
	d.options.RunEnded, d.options.Panicked = d.runEnded, d.panicked
	d.options.Transitions, d.options.Notices, d.options.Sampled = d.transition, d.notice, d.figures.export.Samples
	d.options.Key = make([]byte, 32)
	_, _ = rand.Read(d.options.Key) // never fails
	d.life, d.die = context.WithCancel(context.Background())
	defer d.die()
	d.recordBeat()
	starting, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	up := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				up <- fmt.Errorf("the start panicked: %v", p)
			}
		}()
		up <- d.start(starting)
	}()
	hangups, err := d.awaitStart(up, signals, cancel)
	if err != nil {
		d.takeDown(context.Background())
		if errors.Is(err, errStopped) {
			log.Info("stopped while starting")
			return nil
		}
		return err
	}
	if d.store != nil {
		d.resumeRuns(d.life) // before new acts, so that the runs keep their place
	}
	d.dir.crashed = false
	d.setPhase(phaseReady)
	d.announce()
	go d.probe.run(d.life, d.begun, d.check) // not in work, because a stuck probe must not block the shutdown
	d.spawn(func() { d.watch(d.life) })
	d.spawn(func() { d.maintain(d.life) })
	d.spawn(func() { d.keepSessions(d.life) })
	if d.store != nil {
		d.spawn(func() { d.retain(d.life) })
		d.spawn(func() { d.verifyJournal(d.life) })
		if lease, shared := d.store.Shared(); shared {
			d.spawn(func() { d.takeOver(d.life, lease) })
		}
	}
	d.spawn(func() { d.host.Load().rescorer.Run(d.life) })
	if hangups {
		d.hangup()
	}
	return d.loop(signals)
}

// announce reports to the service manager and in the log that the daemon serves, and whether it is
// ready. It may not be ready because of an optional plugin or a directory.
func (d *Daemon) announce() {
	about := []any{
		"took", time.Since(d.begun).Round(time.Millisecond).String(),
		"listen", d.server.Addresses(),
		"profile", d.profile(),
		"boot", d.boot,
		"pid", os.Getpid(),
	}
	failed := d.Ready().Failed()
	if len(failed) == 0 {
		d.notify.tell("READY=1", "STATUS=serving")
		d.log.Info("ready", about...)
		return
	}
	d.notify.tell("READY=1", "STATUS=serving, not ready")
	why := make([]string, len(failed))
	for i, c := range failed {
		why[i] = c.Why
	}
	d.log.Warn("serving, not ready", append(about, "because", why)...)
}

// awaitStart waits for the end of the start, or for a signal that cancels it. hangup reports
// whether a reload was requested in the meantime.
func (d *Daemon) awaitStart(
	up <-chan error, signals <-chan os.Signal, cancel context.CancelCauseFunc,
) (hangup bool, err error) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-up:
			return hangup, err
		case s := <-signals:
			if s == syscall.SIGHUP {
				hangup = true
				continue
			}
			d.log.Info("signal while starting", "signal", s.String())
			d.notify.tell("STOPPING=1")
			cancel(errStopped)
			if err := <-up; err == nil || errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
				return hangup, errStopped
			} else {
				return hangup, err
			}
		case <-tick.C:
			d.recordBeat()
			d.notify.tell("EXTEND_TIMEOUT_USEC=30000000")
		}
	}
}

// start executes the steps of OPS-001 and logs the time of each.
func (d *Daemon) start(ctx context.Context) error {
	step := d.stepper()
	h, loaded, err := read(ctx, d.options)
	if err != nil {
		return err
	}
	d.boot = h.boot
	d.mu.Lock()
	d.early = loaded
	d.mu.Unlock()
	// From here on, takeDown closes the host.
	d.host.Store(h)
	d.configureTelemetry(loaded.Telemetry)
	if err := d.configureExport(loaded.Config); err != nil {
		return err
	}
	step("configuration", "files", len(loaded.Files), "hash", loaded.Hash, "profile", loaded.Profile)
	d.warn(loaded)
	for _, w := range view.Weaker(loaded.Config) {
		d.log.Warn("weaker than profile prod", "setting", strings.Join(w.Path, "."), "value", w.Written,
			"prod", w.ProdWritten)
	}
	if d.dir, err = openDataDir(loaded.Host.DataDir, h.boot); err != nil {
		return err
	}
	step("data directory", "path", d.dir.path)
	d.measureSpace()
	if err := d.openStore(ctx, h, loaded); err != nil {
		return err
	}
	if err := d.dir.prepareRun(); err != nil {
		return err
	}
	if d.store != nil {
		step("journal", "database", d.store.Name(), "unfinished", len(d.unfinished))
	}
	api := httpapi.New(d, d.log.Named("http"))
	d.server, err = api.Bind(ctx, httpapi.Binding{
		Listen:      loaded.HTTP.Listen,
		AdminSocket: loaded.HTTP.AdminSocket,
		Token:       d.dir.token,
		Descriptors: d.descriptors(loaded),
	}, d.Settings())
	if typed := (*contract.Error)(nil); err != nil && !errors.As(err, &typed) {
		err = &UnavailableError{err}
	}
	if err != nil {
		return err
	}
	d.server.Serve()
	step("listeners", "addresses", d.server.Addresses(), "tls", loaded.HTTP.TLS != nil)
	if err := h.run(ctx, loaded, d.options); err != nil {
		return err
	}
	step("plugins", "processes", len(h.Plugins()))
	return nil
}

// warn logs the warnings of the configuration, such as an optional plugin
// without a program.
func (d *Daemon) warn(loaded *setup.Loaded) {
	for _, x := range loaded.Diagnostics {
		if x.Severity != diag.SeverityWarning {
			continue
		}
		args := []any{"type", x.Type, "message", x.Message}
		if x.Range != nil {
			args = append(args, "where", x.Range.String())
		}
		if x.Hint != "" {
			args = append(args, "next", x.Hint)
		}
		d.log.Warn("configuration", args...)
	}
}

// descriptors returns the limit on open files of this process, 0 if there is none. It logs a
// warning if the limit permits fewer connections than configured.
func (d *Daemon) descriptors(loaded *setup.Loaded) int {
	n := openFiles()
	if n > 0 && n/2 < loaded.HTTP.Limits.Connections {
		d.log.Warn("the limit of open files leaves fewer connections than http.limits.connections",
			"limit", n, "connections", n/2, "next", "raise LimitNOFILE or ulimit -n")
	}
	return n
}

func (d *Daemon) stepper() func(what string, args ...any) {
	last := d.begun
	return func(what string, args ...any) {
		now := time.Now()
		d.log.Info("started: "+what, append([]any{"took", now.Sub(last).Round(time.Millisecond).String()}, args...)...)
		last = now
	}
}

// lastAnswers is the time limit for delivering answers that are ready at the shutdown.
const lastAnswers = 2 * time.Second

func (d *Daemon) setPhase(phase string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.since = phase, time.Now()
}

func (d *Daemon) profile() string {
	if l := d.loaded(); l != nil {
		return l.Profile
	}
	return ""
}

// loaded returns the configuration in force, or during the start the loaded one; nil before it is
// loaded.
func (d *Daemon) loaded() *setup.Loaded {
	if h := d.host.Load(); h != nil {
		if g := h.runs.now(); g != nil {
			return g.loaded
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.early
}

// transition logs, counts and records a change of a plugin's state.
func (d *Daemon) transition(t Transition) {
	d.figures.transition(t)
	d.record(&journal.PluginTransition{
		Plugin:     t.Plugin,
		Generation: t.Generation,
		Instance:   t.Instance,
		From:       t.From,
		To:         t.To,
		Cause:      t.Cause,
		PID:        t.PID,
		Calls:      t.Calls,
		Err:        shortened(t.Fault, ""),
	}, false)
	args := []any{"plugin", t.Plugin, "generation", t.Generation, "from", t.From, "to", t.To, "cause", t.Cause}
	if t.PID != 0 {
		args = append(args, "pid", t.PID)
	}
	if t.Calls > 0 {
		args = append(args, "calls", t.Calls)
	}
	log := d.log.Named("plugin")
	if t.Fault != nil {
		log.Warn("plugin", append(args, "error", t.Fault.Error())...)
		return
	}
	log.Info("plugin", args...)
}

// notice logs a change of a candidate: quality problems and opened breakers as warnings, other
// changes as information.
func (d *Daemon) notice(n stats.Notice) {
	args := []any{"event", n.Event, "capability", n.CapID, "intent", n.Intent, "plugin", n.Plugin,
		"details", n.Details.String()}
	log := d.log.Named("candidates")
	switch {
	case n.IsQuality(), n.Event == stats.EventDrift, n.Event == stats.EventOutcomesDrift, n.Event == stats.EventRescoreFailed:
		log.Warn(n.Sentence(), args...)
	case n.Event == stats.EventOpened:
		log.Warn(n.Sentence(), args...)
	default:
		log.Info(n.Sentence(), args...)
	}
}

// Settings implements httpapi.Backend.
func (d *Daemon) Settings() *httpapi.Settings {
	l := d.loaded()
	if l == nil {
		return nil
	}
	s := &httpapi.Settings{
		AllowedHosts: l.HTTP.AllowedHosts, Limits: l.HTTP.Limits, Heartbeat: l.HTTP.Heartbeat,
		Origins:  l.HTTP.Origins,
		Identity: l.Generation.Identity,
		Access:   l.Generation.Access,
		Open:     l.HTTP.Open,
		Proxies:  l.HTTP.Proxies,
		Keys:     l.Store.Lasts(),
	}
	if t := l.HTTP.TLS; t != nil {
		s.TLS = t.Config
	}
	return s
}

// Take implements httpapi.Backend.
func (d *Daemon) Take() (httpapi.Turn, *contract.Error) {
	switch d.Phase() {
	case phaseStarting:
		return nil, contract.Errorf("runtime/starting", "the daemon is coming up")
	case phaseDraining:
		return nil, contract.Errorf("runtime/draining", "the daemon is going down")
	}
	if d.profile() == language.ProfileAdmin {
		return nil, contract.Errorf("policy/blocked", "profile admin takes no acts")
	}
	return d.host.Load().Take()
}
