package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// bench is the environment of a check: it starts instances and stops them when
// the check is over.
type bench struct {
	target  Target
	opts    Options
	started []Instance
	roots   []string // directories of instances
	random  *rand.Rand
	limit   time.Duration // of the whole check
	patience

	described string    // description of the first instance of the session
	obstacle  *obstacle // stage that the plugin is known to fail at
	hanging   hanging
	note      string   // see [Result.Note]
	check     string   // id of the check; empty for an instance that several checks call
	output    *output  // what the instances of the session printed
	said      []string // output of instances that did not start

	loan     *loan // shared instance of the session; nil outside of one
	borrowed Instance
	used     bool // earlier checks called borrowed
}

func newBench(target Target, opts Options) *bench {
	factor := opts.Patience
	if factor <= 0 {
		factor = 1
	}
	return &bench{
		target:   target,
		opts:     opts,
		patience: defaultPatience().times(factor),
		random:   rand.New(rand.NewPCG(opts.Seed, 0)),
		output:   &output{},
	}
}

// logTailLines is the number of log lines that a failure shows.
const (
	logTailLines = 20
	logTailWidth = 500
)

// patience are the time limits for a plugin. They leave room for a busy
// machine.
type patience struct {
	begin time.Duration // for the handshake of a process
	soon  time.Duration // for operations that should be immediate
	call  time.Duration // for a call of arbitrary duration
	exit  time.Duration // for the exit after the host is gone
}

func defaultPatience() patience {
	return patience{begin: 10 * time.Second, soon: 5 * time.Second, call: 10 * time.Second, exit: 5 * time.Second}
}

func (p patience) times(factor float64) patience {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return patience{begin: scale(p.begin), soon: scale(p.soon), call: scale(p.call), exit: scale(p.exit)}
}

func (b *bench) start(ctx context.Context) (Instance, error) {
	if err := b.blocked(starting); err != nil {
		return nil, err
	}
	in, err := within(ctx, b.begin, b.target.Start)
	if errors.As(err, new(*fault)) {
		return nil, err
	}
	if err != nil {
		if failure := new(startFailure); errors.As(err, &failure) {
			b.said = append(b.said, failure.log...)
		}
		return nil, want("the plugin starts and completes the handshake", "%v", err)
	}
	b.started = append(b.started, in)
	return in, nil
}

func (b *bench) cleanUp() {
	for _, in := range b.started {
		in.Stop()
		b.output.add(in, b.check)
	}
	for _, root := range b.roots {
		_ = os.RemoveAll(root)
	}
}

// root creates a directory for an instance.
func (b *bench) root() (string, error) {
	dir, err := os.MkdirTemp("", "ferment-root-")
	if err != nil {
		return "", &fault{fmt.Errorf("make a directory for the plugin: %w", err)}
	}
	b.roots = append(b.roots, dir)
	return dir, nil
}

func (b *bench) logTail() []string {
	all := slices.Clone(b.said)
	started := b.started
	if b.borrowed != nil {
		started = append(slices.Clone(started), b.borrowed)
	}
	for _, in := range started {
		all = append(all, in.Log()...)
	}
	all = all[max(0, len(all)-logTailLines):]
	for i, line := range all {
		if len(line) > logTailWidth {
			all[i] = launch.Clip(line, logTailWidth) + "..."
		}
	}
	return all
}

func (b *bench) config() edn.Value {
	if b.opts.Config.IsNil() {
		return edn.MustMap()
	}
	return b.opts.Config
}

func (b *bench) hostInfo() wire.HostInfo {
	return wire.HostInfo{Version: "conformance " + SuiteVersion}
}

// describe returns the description for the configuration of the run.
func (b *bench) describe(ctx context.Context, in Instance, config edn.Value) (wire.Description, contract.Description, error) {
	if err := b.blocked(describing); err != nil && !config.IsNil() {
		return wire.Description{}, contract.Description{}, err
	}
	raw, err := in.Client().Describe(ctx, config, b.hostInfo())
	if err != nil {
		return raw, contract.Description{}, want("Describe answers", "%v", err)
	}
	if len(raw.Findings) > 0 {
		return raw, contract.Description{}, want("Describe accepts the configuration", "%s", findings(raw))
	}
	d, err := raw.Parse()
	if err == nil {
		return raw, d, nil
	}
	if d, ok := readable(raw.Value); ok {
		return raw, d, nil // core/describe/metadata reports the others
	}
	return raw, d, want("a description that can be read", "%v", err)
}

// startDescribed starts an instance and describes it with the configuration.
func (b *bench) startDescribed(ctx context.Context) (Instance, wire.Description, contract.Description, error) {
	in, err := b.start(ctx)
	if err != nil {
		return nil, wire.Description{}, contract.Description{}, err
	}
	raw, d, err := b.describe(ctx, in, b.config())
	return in, raw, d, err
}

// readable returns a description without the capabilities that cannot be
// parsed.
func readable(v edn.Value) (contract.Description, bool) {
	var good []edn.Value
	for c := range v.Key("capabilities").Elems() {
		if _, err := contract.ParseCapability(c); err == nil {
			good = append(good, c)
		}
	}
	if !v.IsMap() {
		return contract.Description{}, false
	}
	d, err := contract.ParseDescription(v.AssocKey("capabilities", edn.Vector(good...)))
	return d, err == nil
}

func (b *bench) setup(root string) wire.Setup {
	return wire.Setup{
		Config:     b.config(),
		Secrets:    b.opts.Secrets,
		Root:       root,
		Host:       b.hostInfo(),
		Plugin:     "under-test",
		Instance:   "0",
		Generation: 1,
		LogLevel:   "debug",
	}
}

// drain drains in and fails if that takes longer than limit plus a margin.
func (b *bench) drain(ctx context.Context, in Instance, limit time.Duration) (unfinished int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit+b.soon)
	defer cancel()
	unfinished, err = in.Client().Drain(ctx, time.Now().Add(limit), "conformance")
	if err != nil {
		return 0, want(fmt.Sprintf("Drain succeeds within %s", limit), "%v", err)
	}
	return unfinished, nil
}

// host returns the host side of an instance.
func (b *bench) host() wire.Host {
	if b.opts.Host != nil {
		return b.opts.Host
	}
	h := &Host{}
	for intent, out := range b.opts.Answers {
		h.AnswerValue(intent, out)
	}
	return h
}

// configure configures in with a directory of its own.
func (b *bench) configure(ctx context.Context, in Instance) (wire.Description, error) {
	root, err := b.root()
	if err != nil {
		return wire.Description{}, err
	}
	return b.configureWith(ctx, in, b.setup(root), b.host())
}

func (b *bench) configureWith(ctx context.Context, in Instance, setup wire.Setup, host wire.Host) (wire.Description, error) {
	if err := b.blocked(configuring); err != nil {
		return wire.Description{}, err
	}
	d, err := in.Client().Configure(ctx, setup, host)
	if err != nil {
		return d, want("Configure succeeds", "%v", err)
	}
	if len(d.Findings) > 0 {
		return d, want("Configure accepts the configuration", "%s", findings(d))
	}
	return d, nil
}

// ready starts and configures an instance, and waits until it may be called.
func (b *bench) ready(ctx context.Context) (Instance, contract.Description, error) {
	root, err := b.root()
	if err != nil {
		return nil, contract.Description{}, err
	}
	return b.readyWith(ctx, b.setup(root), b.host())
}

func (b *bench) readyWith(ctx context.Context, setup wire.Setup, host wire.Host) (Instance, contract.Description, error) {
	in, _, d, err := b.startDescribed(ctx)
	if err != nil {
		return nil, d, err
	}
	if len(d.Capabilities) == 0 {
		if err := b.blocked(offering); err != nil {
			return nil, d, err
		}
		return nil, d, want("at least one capability", "none")
	}
	if _, err := b.configureWith(ctx, in, setup, host); err != nil {
		return nil, d, err
	}
	return in, d, b.awaitReady(ctx, in)
}

// reasonable fails if the plugin reports that it is not ready without a reason.
func reasonable(h wire.Health) error {
	if h.State != wire.HealthReady && h.State != wire.HealthUnknown && h.Reason == "" {
		return want("a reason beside the state "+h.State.String(), "none")
	}
	return nil
}

func (b *bench) awaitReady(ctx context.Context, in Instance) error {
	if err := b.blocked(readying); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.begin)
	defer cancel()
	var last wire.Health
	isReady := errors.New("ready")
	err := in.Client().Watch(ctx, func(h wire.Health) error {
		last = h
		if h.State.Callable() {
			return isReady
		}
		return nil
	})
	if errors.Is(err, isReady) {
		return nil
	}
	return want("the plugin becomes ready after Configure", "state %s, reason %q, then: %v", last.State, last.Reason, err)
}

// probe returns the state of the plugin, within b.soon.
func (b *bench) probe(ctx context.Context, in Instance) (wire.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, b.soon)
	defer cancel()
	return in.Client().Probe(ctx)
}

// alive fails if the plugin no longer answers.
func (b *bench) alive(ctx context.Context, in Instance, after string) error {
	if _, err := b.probe(ctx, in); err != nil {
		return want("the plugin lives on after "+after, "%v", err)
	}
	return nil
}

// idle waits until the plugin reports no call in flight.
func (b *bench) idle(ctx context.Context, in Instance, after string) error {
	ctx, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	limit := time.NewTimer(b.soon)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		h, err := b.probe(ctx, in)
		if err != nil {
			return want("the plugin lives on after "+after, "%v", err)
		}
		if h.InFlight == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return want(fmt.Sprintf("the plugin stops working within %s after %s", b.soon, after),
				"%d calls are still in flight", h.InFlight)
		}
	}
}

func findings(d wire.Description) string {
	text := ""
	for _, f := range d.Findings {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%s %s", edn.Vector(f.Path...), f.Message)
	}
	return text
}
