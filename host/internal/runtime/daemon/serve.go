package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The phases of a daemon, as /ready reports them.
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseDraining = "draining"
)

// beatEvery is the interval in which the main loop records a beat; after
// beatLimit without one /health reports failure.
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
	// unfinished are the runs that earlier daemons have left open.
	unfinished []store.Unfinished
	server     *httpapi.Server
	beat       atomic.Int64 // nanoseconds from begun to the last round of the main loop
	drains     chan struct{}
	drained    sync.Once
	reloads    reloads
	lostDir    atomic.Pointer[lostDir] // nil while the data directory is intact
	space      atomic.Pointer[space]   // nil before the first measurement
	// free returns the free bytes below a directory.
	free func(dir string) (uint64, error)
	// life is canceled when the daemon begins to close its parts; work tracks
	// the goroutines that run until then.
	life context.Context
	die  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	phase string
	since time.Time // of the phase
	early *Loaded   // the configuration during the start
}

var _ httpapi.Backend = (*Daemon)(nil)

// Signals returns a channel of the signals that a daemon handles. It must be
// called before anything else.
func Signals() chan os.Signal {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// A daemon must survive the reader of its log: a failed write only loses
	// that line. SIGPIPE is caught rather than ignored, because plugins would
	// inherit an ignored one.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c
}

// errStopped is the cause of a start that a signal canceled.
var errStopped = errors.New("stopped by a signal")

// Serve runs a daemon until a signal or an operator stops it. Nil is a clean
// stop; ExitCode maps an error to its exit code.
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
	d.options.Transitions, d.options.Notices = d.transition, d.notice
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
		d.resumeRuns(d.life) // first, so that they keep their place before new acts
	}
	d.setPhase(phaseReady)
	d.announce()
	d.spawn(func() { d.watch(d.life) })
	d.spawn(func() { d.maintain(d.life) })
	d.spawn(func() { d.keepSessions(d.life) })
	if d.store != nil {
		d.spawn(func() { d.retain(d.life) })
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

// announce reports to the service manager and in the log that the daemon
// serves, and whether it is ready: an optional plugin or a directory may be
// missing.
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

// awaitStart waits for the start, or for a signal that cancels it. It reports
// whether a reload was requested meanwhile.
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

// start takes the steps of OPS-001 and logs the time of each.
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
	// From here on the shutdown of the daemon closes the host.
	d.host.Store(h)
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
func (d *Daemon) warn(loaded *Loaded) {
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

// descriptors returns the limit on open files of this process, 0 if there is
// none. It logs a limit that leaves callers fewer connections than configured.
func (d *Daemon) descriptors(loaded *Loaded) int {
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

// loop is the main loop. It blocks only in its select. The error is that of a
// journal that cannot record any more.
func (d *Daemon) loop(signals <-chan os.Signal) error {
	tick := time.NewTicker(d.notify.interval())
	defer tick.Stop()
	var failed <-chan struct{}
	if d.store != nil {
		failed = d.store.Failed()
	}
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGHUP {
				d.hangup()
				continue
			}
			d.log.Info("signal", "signal", s.String())
			d.stop(signals)
			return nil
		case <-d.drains:
			d.log.Info("drain", "by", "an operator")
			d.stop(signals)
			return nil
		case <-failed:
			return d.giveUp()
		case <-tick.C:
			d.recordBeat()
			d.notify.ping()
		}
	}
}

// hangup requests a reload and does not wait for it.
func (d *Daemon) hangup() {
	d.spawn(func() { _, _ = d.Reload(d.life, "SIGHUP") }) // the log has the outcome
}

// Drain starts the shutdown and returns at once.
func (d *Daemon) Drain() { d.drained.Do(func() { close(d.drains) }) }

// stop drains and closes the daemon. A further signal skips the waiting.
func (d *Daemon) stop(signals <-chan os.Signal) {
	d.setPhase(phaseDraining)
	d.notify.tell("STOPPING=1", "STATUS=draining")
	d.notify.ping()               // the ticker of this loop starts anew
	d.host.Load().rescorer.Stop() // no caller waits for its measurements
	ctx, hurry := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.host.Load().drain(ctx, d.host.Load().Loaded().Host.DrainTimeout)
		d.takeDown(ctx)
	}()
	tick := time.NewTicker(d.notify.interval())
	defer tick.Stop()
	for {
		select {
		case <-done:
			hurry()
			d.log.Info("stopped", "uptime", time.Since(d.begun).Round(time.Second).String())
			return
		case s := <-signals:
			if s != syscall.SIGHUP {
				d.log.Warn("signal during shutdown: not waiting any more", "signal", s.String())
				hurry()
			}
		case <-tick.C:
			d.recordBeat()
			d.notify.ping()
		}
	}
}

// lastAnswers is the time in which callers may read answers that are ready.
const lastAnswers = 2 * time.Second

// takeDown closes what was started, in reverse order. The end of ctx kills
// processes that are left.
func (d *Daemon) takeDown(ctx context.Context) {
	d.die()
	d.work.Wait()
	if d.server != nil {
		answers, cancel := context.WithTimeout(ctx, lastAnswers)
		d.server.Shutdown(answers)
		cancel()
	}
	if h := d.host.Load(); h != nil {
		h.close(ctx)
	}
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			d.log.Error("the journal was not closed", "error", err)
		}
	}
	if d.dir != nil {
		d.dir.close()
	}
}

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

// loaded returns the configuration in force, nil before there is one.
func (d *Daemon) loaded() *Loaded {
	if h := d.host.Load(); h != nil {
		if g := h.runs.now(); g != nil {
			return g.loaded
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.early
}

// transition logs a change of a plugin's state.
func (d *Daemon) transition(t Transition) {
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

// notice logs a change of a candidate: quality problems and opened breakers as
// warnings, the rest as information.
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

// recordBeat records a round of the main loop.
func (d *Daemon) recordBeat() { d.beat.Store(int64(time.Since(d.begun))) }

// sinceBeat returns the time since the last round of the main loop. It uses the
// monotonic clock.
func (d *Daemon) sinceBeat(now time.Time) time.Duration {
	return now.Sub(d.begun) - time.Duration(d.beat.Load())
}

// Health implements httpapi.Backend.
func (d *Daemon) Health() httpapi.Health {
	return httpapi.Health{
		OK:        d.sinceBeat(time.Now()) < beatLimit,
		Version:   d.options.Version,
		Isolation: d.isolation(),
		Quality:   d.quality(),
		Judges:    d.doubtfulJudges(),
	}
}

// doubtfulJudges lists the judges in use whose weight is reduced (JDG-011);
// nil during the start.
func (d *Daemon) doubtfulJudges() edn.Value {
	if d.Phase() == phaseStarting {
		return edn.Nil()
	}
	var out []edn.Value
	for _, s := range d.host.Load().rescorer.Known() {
		if s.Doubtful() {
			out = append(out, edn.MustMap(edn.K("judge"), edn.Text(s.Judge.Name), edn.K("state"), edn.K(string(s.Standing))))
		}
	}
	return edn.Vector(out...)
}

// quality lists the capabilities with degraded quality or an open breaker; nil
// during the start.
func (d *Daemon) quality() edn.Value {
	if d.Phase() == phaseStarting {
		return edn.Nil()
	}
	var out []edn.Value
	for _, s := range d.host.Load().Standings() {
		if s.State() != "ok" {
			v := s.Value()
			out = append(out, edn.MustMap(
				edn.K("cap/id"), v.Key("cap/id"),
				edn.K("intent"), v.Key("intent"),
				edn.K("state"), v.Key("state"),
			))
		}
	}
	return edn.Vector(out...)
}

// isolation returns the confinement of the plugin processes (FX-005): the
// level of this machine, the number of processes per enforcement, the number
// that accept less than configured, and whether any may send datagrams. It is
// nil during the start. It contains no names, because every caller of a
// listener may read it.
func (d *Daemon) isolation() edn.Value {
	if d.Phase() == phaseStarting {
		return edn.Nil()
	}
	counts := map[string]int64{}
	less, udp := int64(0), "held"
	for _, s := range d.host.Load().Plugins() {
		c := s.Confinement
		if c == nil {
			continue
		}
		counts[c.Enforcement]++
		if c.BestEffort {
			less++
		}
		if c.UDPOpen() {
			udp = "open"
		}
	}
	var enforcement edn.MapBuilder
	for word, n := range counts {
		enforcement.Key(word, edn.Int(n))
	}
	return edn.MustMap(
		edn.K("level"), edn.K(string(confine.Probe().Best())), edn.K("enforcement"), enforcement.Map(),
		edn.K("best-effort"), edn.Int(less), edn.K("udp"), edn.K(udp),
	)
}

// Phase implements httpapi.Backend.
func (d *Daemon) Phase() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase
}

// Ready implements httpapi.Backend.
func (d *Daemon) Ready() httpapi.Ready {
	d.mu.Lock()
	phase, since := d.phase, d.since
	d.mu.Unlock()
	r := httpapi.Ready{Phase: phase, Boot: d.boot, Profile: d.profile()}
	if l := d.loaded(); l != nil {
		r.Weaker = weaker(l)
		if phase != phaseStarting {
			r.Conditions = d.pluginConditions(l)
		}
	}
	r.Conditions = append([]httpapi.Condition{
		{Name: "started", OK: phase != phaseStarting, Since: since, Why: "the daemon is coming up"},
		d.directory(),
		d.spaceCondition(),
		d.journalCondition(),
		{Name: "not-draining", OK: phase != phaseDraining, Since: since, Why: "the daemon is going down"},
	}, r.Conditions...)
	return r
}

// weaker lists the settings weaker than in profile prod (OPS-009); it is not
// nil.
func weaker(l *Loaded) []edn.Value {
	out := []edn.Value{}
	for _, w := range view.Weaker(l.Config) {
		path := make([]edn.Value, len(w.Path))
		for i, part := range w.Path {
			path[i] = edn.Text(part)
		}
		out = append(out, edn.MustMap(edn.K("path"), edn.Vector(path...), edn.K("value"), w.Value,
			edn.K("prod"), w.Prod,
			edn.K("written"), edn.Text(w.Written), edn.K("prod-written"), edn.Text(w.ProdWritten)))
	}
	return out
}

// servesAny reports whether one of the reported capabilities takes calls, or
// none is reported.
func servesAny(all []wire.CapabilityHealth) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(c wire.CapabilityHealth) bool {
		return c.State == wire.HealthUnknown || c.State.Callable()
	})
}

// pluginConditions returns one condition per required plugin: one of its
// processes takes calls.
func (d *Daemon) pluginConditions(l *Loaded) []httpapi.Condition {
	byName := map[string]httpapi.Condition{}
	for _, s := range d.host.Load().Plugins() {
		c := httpapi.Condition{
			Name:  "required-plugin",
			OK:    s.Callable,
			Since: s.Since,
			Why:   fmt.Sprintf("%s is %s", s.Plugin, s.State),
		}
		if s.Err != nil {
			c.Why += ": " + s.Err.FullMessage()
		}
		if c.OK {
			c.OK = servesAny(s.Health.Capabilities)
		}
		if before, ok := byName[s.Plugin]; !ok || !before.OK && c.OK {
			byName[s.Plugin] = c
		}
	}
	var out []httpapi.Condition
	for _, p := range l.Plugins {
		if !p.Enabled || p.Optional {
			continue
		}
		c, ok := byName[p.Name]
		if !ok {
			c = httpapi.Condition{Name: "required-plugin", Since: d.begun, Why: p.Name + " has no process"}
		}
		out = append(out, c)
	}
	return out
}

// Settings implements httpapi.Backend.
func (d *Daemon) Settings() *httpapi.Settings {
	l := d.loaded()
	if l == nil {
		return nil
	}
	s := &httpapi.Settings{
		AllowedHosts: l.HTTP.AllowedHosts, Limits: l.HTTP.Limits, Heartbeat: l.HTTP.Heartbeat,
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
