package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// edition is one program with one configuration, and its processes. A plugin
// has one current edition; others may be starting or stopping beside it.
type edition struct {
	unit   *unit
	number int
	orders int   // number of operator orders when the edition was created
	cause  Cause // reason for the creation

	rules atomic.Pointer[Settings]
	// described is the first description of the program; every later process of
	// the edition must return the same.
	described atomic.Pointer[Described]

	// Guarded by unit.mu: all instances, the services that accept calls, the service of each pinned
	// session, whether the first processes were started, and whether the edition is being stopped.
	instances []*instance
	ready     []*service
	pins      map[string]*service
	begun     bool
	leaving   bool
	over      chan struct{} // closed when the edition is leaving and has no process
}

// settings returns the current settings.
func (e *edition) settings() Settings { return *e.rules.Load() }

// statAll returns the file info of each path, nil for a file that cannot be
// read.
func statAll(paths []string) []os.FileInfo {
	out := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil {
			out[i] = info
		}
	}
	return out
}

// sameFiles reports whether no file was written or replaced between two results of statAll.
func sameFiles(before, after []os.FileInfo) bool {
	return slices.EqualFunc(before, after, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return unchanged(a, b)
	})
}

// start starts, describes and configures a process; it is not yet ready.
// started is called when the process is described. On failure no process is
// left.
func (e *edition) start(ctx context.Context, i *instance, incarnation int, started func()) (*service, *failure) {
	settings := e.settings()
	name := settings.Name
	files := statAll(settings.ConfigFiles)
	fail := func(err error, rep launch.Report) (*service, *failure) {
		f := startFailure(name, incarnation, err, rep)
		f.err = e.unit.log.cleanError(f.err)
		if f.cause == CauseConfig && !sameFiles(files, statAll(settings.ConfigFiles)) {
			f.cause, f.permanent = CauseStartFailed, false // a file was replaced while it was read
		}
		return nil, f
	}
	exe, binary, err := e.unit.host.describer.approve(settings)
	if err != nil {
		return fail(err, launch.Report{})
	}
	defer exe.close()
	cfg, err := e.unit.host.describer.configKey(settings, settings.Config, settings.ConfigFiles)
	if err != nil {
		return fail(err, launch.Report{})
	}
	root, err := e.freshRoot(i.index)
	if err != nil {
		return fail(err, launch.Report{})
	}
	l := launching{
		settings:      settings,
		exe:           exe.file,
		incarnation:   incarnation,
		runtime:       e.unit.host.runtime,
		reaper:        e.unit.host.reaper,
		workdir:       settings.Workdir,
		redact:        e.unit.log.redactHead,
		redactAnswers: e.unit.log.answerRedactor,
		output:        e.unit.output(i, incarnation),
	}
	if l.workdir == "" {
		l.workdir = root
	}
	l.temp = root

	starting, cancel := context.WithTimeout(ctx, settings.StartTimeout)
	defer cancel()
	d, known := e.expected(binary, cfg)
	if err := l.confine(d, root); err != nil {
		return fail(err, launch.Report{})
	}
	p, rep, err := spawn(starting, l)
	if err != nil {
		return fail(err, rep)
	}
	side := &hostSide{
		plugin: name,
		named:  settings.Names,
		depth:  func() int { return e.settings().CallDepth },
		host:   e.unit.host,
		store:  e.unit.store,
		log:    e.unit.log,
	}
	told := func(p *process) (Described, error) {
		// Compare the running program before anything that the process answers
		// is trusted.
		if err := e.unit.host.describer.same(settings, exe, p.pid()); err != nil {
			return Described{}, err
		}
		return e.describe(starting, p, binary, cfg)
	}
	said, err := told(p)
	if err == nil && !known && settings.needsMore(said.Description) {
		// Its needs were unknown before it was described, so the running
		// process is confined without them.
		p.discard(errNeedsMore)
		if err := l.confine(said.Description, root); err != nil {
			return fail(err, launch.Report{})
		}
		if p, rep, err = spawn(starting, l); err != nil {
			return fail(err, rep)
		}
		said, err = told(p)
	}
	if err == nil {
		started()
		err = e.configure(ctx, p, i, said, root, side)
	}
	if err != nil {
		// The exit report explains more than the connection error that it
		// caused.
		exited := waitFor(p.done(), exitWait(err))
		p.discard(err)
		if rep := p.runner.Report(); exited && wire.Transport(err) {
			return fail(errEnded(err, rep), rep)
		}
		return fail(err, p.runner.Report())
	}
	s := newService(p, i, binary, func() {
		select {
		case i.events <- evProbe{}:
		default: // the queue is full; the next probe is scheduled anyway
		}
	})
	side.self.Store(s)
	return s, nil
}

// exitWait returns how long to wait for a process exit that may explain a start error.
func exitWait(err error) time.Duration {
	if wire.Transport(err) {
		return lostWait
	}
	return 0
}

// errEnded returns the error for a process that ended during its start.
func errEnded(err error, rep launch.Report) error {
	e := contract.AsError(err)
	return contract.Errorf("runtime/start-failed", "the process ended during its start: %s (%s)", rep, e.Message)
}

// describe returns the description of the running program, from the cache if
// possible, and compares it with the earlier description of the plugin.
func (e *edition) describe(ctx context.Context, p *process, binary, cfg string) (Described, error) {
	settings := e.settings()
	d, ok := e.unit.host.describer.recall(binary, cfg)
	if !ok {
		var err error
		if d, err = e.unit.host.describer.ask(ctx, p, settings, binary, cfg, settings.Config); err != nil {
			return d, explainTimeout(ctx, err, "describe itself", settings.StartTimeout)
		}
	}
	if len(d.Findings) > 0 {
		return d, findingsError(d.Findings)
	}
	before := settings.Described
	if first := e.described.Load(); before.IsNil() && first != nil {
		before = first.Value
	}
	if !before.IsNil() && !agree(before, d.Value) {
		return d, contract.Errorf("runtime/integrity",
			"the program has another description than the configured one").WithHint(approveHint(e.unit.name)).
			WithDetail("is", edn.Text(binary))
	}
	e.described.Store(&d)
	enc := d.Encoding
	if settings.Encoding != "" {
		enc = wire.Encoding(settings.Encoding)
	}
	if enc != "" {
		p.wire.UseEncoding(enc)
	}
	return d, nil
}

// approveHint is the hint for a program whose description has changed.
func approveHint(plugin string) string {
	return "`ferment plugin approve " + plugin + "` accepts the description and reloads the configuration"
}

// expected returns the description of the program if it is known before the program runs.
func (e *edition) expected(binary, cfg string) (contract.Description, bool) {
	if d, ok := e.unit.host.describer.recall(binary, cfg); ok {
		return d.Description, true
	}
	if v := e.settings().Described; !v.IsNil() {
		if d, err := contract.ParseDescription(v); err == nil {
			return d, true
		}
	}
	return contract.Description{}, false
}

// configure sends the configuration. The description in the answer must be the
// one that the process gave before.
func (e *edition) configure(ctx context.Context, p *process, i *instance, d Described, root string,
	side *hostSide,
) error {
	settings := e.settings()
	ctx, cancel := context.WithTimeout(ctx, settings.ConfigureTimeout)
	defer cancel()
	info := e.unit.host.info
	if settings.NoMux {
		info.Features = slices.DeleteFunc(slices.Clone(info.Features), func(f string) bool { return f == wire.FeatureMux })
	}
	if n := settings.MaxMessage; n > 0 {
		p.wire.LimitMessages(n)
	}
	answer, err := p.wire.Configure(ctx, wire.Setup{
		Config: settings.Config, Secrets: settings.Secrets, Root: root, Host: info,
		Plugin: settings.Name, Instance: strconv.Itoa(i.index), Generation: uint64(p.incarnation),
		LogLevel: settings.LogLevel, MaxInFlight: e.capacity(0),
	}, side)
	if err != nil {
		return explainTimeout(ctx, err, "accept its configuration", settings.ConfigureTimeout)
	}
	if len(answer.Findings) > 0 {
		return findingsError(answer.Findings)
	}
	if !answer.Value.IsNil() && !agree(d.Value, answer.Value) {
		return contract.Errorf("runtime/protocol", "Configure returned another description than Describe")
	}
	return nil
}

// explainTimeout replaces err if a step of the start ran out of time. The
// plugin knows the deadline too and may end the call a moment before ctx does.
func explainTimeout(ctx context.Context, err error, what string, limit time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) ||
		wire.Transport(err) && errors.Is(err, contract.OfType("timeout/hard")) {
		return contract.Errorf("runtime/start-failed", "it did not %s within %s", what, limit)
	}
	return err
}

// agree reports whether two descriptions have the same meaning. Unknown fields,
// and defaults that are written or omitted, make no difference.
func agree(a, b edn.Value) bool {
	if edn.Equal(a, b) {
		return true
	}
	x, err1 := contract.ParseDescription(a)
	y, err2 := contract.ParseDescription(b)
	return err1 == nil && err2 == nil && edn.Equal(x.Value(), y.Value())
}

// capacity returns the maximum number of concurrent calls of one process; 0: unlimited. reported is
// the limit in the last health report of the plugin, 0 if there is none.
func (e *edition) capacity(reported int) int {
	limits := []int{e.settings().MaxInFlight, reported}
	if d := e.described.Load(); d != nil {
		if n, ok := d.Limits.Key("max-in-flight").AsInt(); ok {
			limits = append(limits, int(n))
		}
	}
	lowest := 0
	for _, n := range limits {
		if n > 0 && (lowest == 0 || n < lowest) {
			lowest = n
		}
	}
	return lowest
}

// freshRoot creates an empty scratch directory for an instance.
func (e *edition) freshRoot(index int) (string, error) {
	root := filepath.Join(e.unit.host.work, e.unit.name, strconv.Itoa(index))
	if err := os.RemoveAll(root); err != nil {
		return "", contract.Errorf("runtime/start-failed", "clear %s: %v", root, err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", contract.Errorf("runtime/start-failed", "make %s: %v", root, err)
	}
	return root, nil
}
