package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// unit is one plugin of the configuration: what its processes share and what
// outlives them.
type unit struct {
	host     *shared
	settings Settings
	log      *pluginLog
	store    *stateStore

	// described is what the program said that it is; the registry was made of
	// it, so a later process must say the same.
	described atomic.Pointer[Described]

	instances []*instance
	quit      chan struct{}
}

// start brings a process to the point where it only has to say that it is
// ready. started is called when it is described. On a failure no process is
// left.
func (u *unit) start(ctx context.Context, i *instance, gen int, started func()) (*service, *failure) {
	name := u.settings.Name
	fail := func(err error, rep launch.Report) (*service, *failure) {
		return nil, startFailure(name, gen, err, rep)
	}
	binary, cfg, err := u.host.describer.key(u.settings, u.settings.Config, u.settings.ConfigFiles)
	if err != nil {
		return fail(err, launch.Report{})
	}
	root, err := u.freshRoot(i.index)
	if err != nil {
		return fail(err, launch.Report{})
	}
	l := launching{
		settings: u.settings, gen: gen, runtime: u.host.runtime, reaper: u.host.reaper,
		workdir: u.settings.Workdir, redact: u.log.redact, output: u.output(i, gen),
	}
	if l.workdir == "" {
		l.workdir = root
	}

	starting, cancel := context.WithTimeout(ctx, u.settings.StartTimeout)
	defer cancel()
	p, rep, err := spawn(starting, l)
	if err != nil {
		return fail(err, rep)
	}
	d, err := u.describe(starting, p, binary, cfg)
	if err == nil {
		started()
		err = u.configure(ctx, p, i, d, root)
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
	s := newService(p, binary, newLimiter(u.capacity(0), u.settings.Queue), func() {
		select {
		case i.events <- evProbe{}:
		default: // the owner has enough to do; the next probe comes anyway
		}
	})
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
	return contract.Errorf("runtime/start-failed", "it ended while the host waited for it (%s): %s", e.Message, rep)
}

// describe gets the description of the running program, from the cache if it
// is known, and holds it to what the plugin said before.
func (u *unit) describe(ctx context.Context, p *process, binary, cfg string) (Described, error) {
	d, ok := u.host.describer.recall(binary, cfg)
	if !ok {
		var err error
		if d, err = u.host.describer.ask(ctx, p, binary, cfg, u.settings.Config); err != nil {
			return d, inTime(ctx, err, "describe itself", u.settings.StartTimeout)
		}
	}
	if len(d.Findings) > 0 {
		return d, findingsError(d.Findings)
	}
	if before := u.described.Load(); before != nil && !agree(before.Value, d.Value) {
		return d, contract.Errorf("runtime/integrity", "the program describes itself otherwise than the one that the host was configured with: reload the configuration").
			WithDetail("was", edn.Text(before.Binary)).WithDetail("is", edn.Text(binary))
	}
	u.described.Store(&d)
	enc := d.Encoding
	if u.settings.Encoding != "" {
		enc = wire.Encoding(u.settings.Encoding)
	}
	if enc != "" {
		p.wire.UseEncoding(enc)
	}
	return d, nil
}

// configure makes the process ready to be called; what it then says that it
// serves must be what it described.
func (u *unit) configure(ctx context.Context, p *process, i *instance, d Described, root string) error {
	ctx, cancel := context.WithTimeout(ctx, u.settings.ConfigureTimeout)
	defer cancel()
	side := &hostSide{plugin: u.settings.Name, depth: u.settings.CallDepth, host: u.host, store: u.store, serving: i.serving.Load}
	answer, err := p.wire.Configure(ctx, wire.Setup{
		Config: u.settings.Config, Secrets: u.settings.Secrets, Root: root, Host: u.host.info,
		Plugin: u.settings.Name, Instance: strconv.Itoa(i.index), Generation: uint64(p.gen),
		LogLevel: u.settings.LogLevel, MaxInFlight: u.capacity(0),
	}, side)
	if err != nil {
		return inTime(ctx, err, "accept its configuration", u.settings.ConfigureTimeout)
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
func (u *unit) capacity(reported int) int {
	limits := []int{u.settings.MaxInFlight, reported}
	if d := u.described.Load(); d != nil {
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
func (u *unit) freshRoot(index int) (string, error) {
	root := filepath.Join(u.host.work, u.settings.Name, strconv.Itoa(index))
	if err := os.RemoveAll(root); err != nil {
		return "", contract.Errorf("runtime/start-failed", "clear %s: %v", root, err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", contract.Errorf("runtime/start-failed", "make %s: %v", root, err)
	}
	return root, nil
}

// output takes the lines of one process.
func (u *unit) output(i *instance, gen int) func(launch.Line, int) {
	return func(l launch.Line, pid int) {
		now := u.host.clock.Now()
		line := parseLine(l, now)
		line.Plugin, line.Instance, line.Generation, line.PID = u.settings.Name, i.index, gen, pid
		if line.Run == "" {
			if s := i.serving.Load(); s != nil && s.gen == gen {
				line.Run = s.onlyRun()
			}
		}
		u.log.take(line, now)
	}
}

// explain writes into the log of the plugin what the supervisor knows and the
// plugin could not say.
func (u *unit) explain(t *Transition) {
	level := "warn"
	if t.Report != nil || t.To == Quarantined {
		level = "error"
	}
	u.log.write(Line{
		Plugin: u.settings.Name, Instance: t.Instance, Generation: t.Generation, PID: t.PID, At: t.At, Level: level, Message: t.Err.Error(),
		Fields: map[string]any{"@module": "supervisor", "from": t.From, "to": t.To, "cause": t.Cause},
	})
}

// note writes a line of the host's own into the log of the plugin.
func (u *unit) note(p *process, level, message string) {
	u.log.write(Line{
		Plugin: u.settings.Name, Generation: p.gen, PID: p.pid(), At: u.host.clock.Now(), Level: level, Message: message,
		Fields: map[string]any{"@module": "supervisor"},
	})
}

// instance gives the one that takes calls now, else the one that is nearest to
// it.
func (u *unit) instance() *instance {
	best := u.instances[0]
	for _, i := range u.instances[1:] {
		if i.serving.Load() != nil && best.serving.Load() == nil {
			best = i
		}
	}
	return best
}
