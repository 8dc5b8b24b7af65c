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
// has one that takes calls; another may be on its way in beside it, and others
// on their way out.
type edition struct {
	unit   *unit
	number int
	orders int   // of operators before it was begun
	cause  Cause // for which it was made

	rules atomic.Pointer[Settings]
	// described is what the program said that it is; a later process of the
	// edition must say the same.
	described atomic.Pointer[Described]

	// With the lock of the unit: the processes it has, those that calls may go
	// to, which of those each session goes to, and whether it is to end.
	instances []*instance
	ready     []*service
	pins      map[string]*service
	begun     bool
	leaving   bool
	over      chan struct{} // closed when it is to end and no process is left
}

// settings are those that hold now.
func (e *edition) settings() Settings { return *e.rules.Load() }

// statesOf looks at files; one that is not there is nil.
func statesOf(paths []string) []os.FileInfo {
	out := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil {
			out[i] = info
		}
	}
	return out
}

// untouched tells whether files were neither written nor replaced.
func untouched(before, after []os.FileInfo) bool {
	return slices.EqualFunc(before, after, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return unchanged(a, b)
	})
}

// start brings a process to the point where it only has to say that it is
// ready. started is called when it is described. On a failure no process is
// left.
func (e *edition) start(ctx context.Context, i *instance, gen int, started func()) (*service, *failure) {
	settings := e.settings()
	name := settings.Name
	files := statesOf(settings.ConfigFiles)
	fail := func(err error, rep launch.Report) (*service, *failure) {
		f := startFailure(name, gen, err, rep)
		f.err = e.unit.log.cleanError(f.err)
		if f.cause == CauseConfig && !untouched(files, statesOf(settings.ConfigFiles)) {
			f.cause, f.permanent = CauseStartFailed, false // it read what was being replaced
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
		settings: settings, exe: exe.file, gen: gen, runtime: e.unit.host.runtime, reaper: e.unit.host.reaper,
		workdir: settings.Workdir, redact: e.unit.log.redactHead, redactAnswer: e.unit.log.redactAnswer, output: e.unit.output(i, gen),
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
	side := &hostSide{plugin: name, depth: func() int { return e.settings().CallDepth }, host: e.unit.host, store: e.unit.store}
	told := func(p *process) (Described, error) {
		// Before anything is believed that the process says.
		if err := e.unit.host.describer.same(settings, exe, p.pid()); err != nil {
			return Described{}, err
		}
		return e.describe(starting, p, binary, cfg)
	}
	said, err := told(p)
	if err == nil && !known && settings.more(said.Description) {
		// Only now it is known what it needs, and it runs without that.
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
		// An exit explains more than the connection that broke with it.
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
		default: // the owner has enough to do; the next probe comes anyway
		}
	})
	side.self.Store(s)
	return s, nil
}

// exitWait is how long an error of a start may turn out to be an exit.
func exitWait(err error) time.Duration {
	if wire.Transport(err) {
		return lostWait
	}
	return 0
}

// errEnded is the error of a process that ended while it was asked something.
func errEnded(err error, rep launch.Report) error {
	e := contract.AsError(err)
	return contract.Errorf("runtime/start-failed", "it ended while the host waited for it: %s (%s)", rep, e.Message)
}

// describe gets the description of the running program, from the cache if it
// is known, and holds it to what the plugin said before.
func (e *edition) describe(ctx context.Context, p *process, binary, cfg string) (Described, error) {
	settings := e.settings()
	d, ok := e.unit.host.describer.recall(binary, cfg)
	if !ok {
		var err error
		if d, err = e.unit.host.describer.ask(ctx, p, settings, binary, cfg, settings.Config); err != nil {
			return d, inTime(ctx, err, "describe itself", settings.StartTimeout)
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
		return d, contract.Errorf("runtime/integrity", "the program describes itself otherwise than the one that the host was configured with: reload the configuration").
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

// expected is what the program will say that it is, as far as that is known
// before it runs.
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

// configure makes the process ready to be called; what it then says that it
// serves must be what it described.
func (e *edition) configure(ctx context.Context, p *process, i *instance, d Described, root string, side *hostSide) error {
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
		Plugin: settings.Name, Instance: strconv.Itoa(i.index), Generation: uint64(p.gen),
		LogLevel: settings.LogLevel, MaxInFlight: e.capacity(0),
	}, side)
	if err != nil {
		return inTime(ctx, err, "accept its configuration", settings.ConfigureTimeout)
	}
	if len(answer.Findings) > 0 {
		return findingsError(answer.Findings)
	}
	if !answer.Value.IsNil() && !agree(d.Value, answer.Value) {
		return contract.Errorf("runtime/protocol", "Configure says otherwise than Describe what the plugin serves")
	}
	return nil
}

// inTime says plainly that a step of the start took too long. The plugin knows
// the deadline too and may end the call a moment before the context does.
func inTime(ctx context.Context, err error, what string, limit time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || wire.Transport(err) && errors.Is(err, contract.OfType("timeout/hard")) {
		return contract.Errorf("runtime/start-failed", "it did not %s within %s", what, limit)
	}
	return err
}

// agree compares what two descriptions mean: fields that this version does not
// know, and defaults that are written or left out, make no difference.
func agree(a, b edn.Value) bool {
	if edn.Equal(a, b) {
		return true
	}
	x, err1 := contract.ParseDescription(a)
	y, err2 := contract.ParseDescription(b)
	return err1 == nil && err2 == nil && edn.Equal(x.Value(), y.Value())
}

// capacity is how many calls a process takes at once; 0: no limit. reported is
// what the plugin said last in its health.
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

// freshRoot makes the directory of an instance anew: what an earlier process
// of this host left there is nobody's any more.
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
