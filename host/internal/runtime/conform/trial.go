package conform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/conformance/fixture"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Time limits of a trial. Most of them only stop a plugin that hangs, and are long enough for a
// busy machine. The short ones are used for a fixture whose fault is to hang.
const (
	longStart  = time.Minute      // for a plugin to become ready
	shortStart = 5 * time.Second  // for a plugin that never becomes ready
	longCall   = time.Minute      // deadline of a call
	shortCall  = 2 * time.Second  // deadline of a call that may hang
	trialLimit = 10 * time.Minute // of a whole trial
	trialStop  = time.Minute      // for the supervisor to stop both plugins
)

// start returns the time limit for the broken plugin to become ready or fail.
func (t *trial) start() time.Duration {
	if t.fixture.Error == "runtime/not-ready" {
		return shortStart
	}
	return longStart
}

// hangs reports whether the fault is a call that does not end.
func (t *trial) hangs() bool { return t.fixture.Error == "timeout/hard" }

// ID returns the id of the check with a fixture.
func ID(f fixture.Fixture) string {
	subject := "broken"
	if f.Error != "" {
		subject = "hostile"
	}
	return "host/" + subject + "/" + f.Name
}

// trial runs one plugin with a fault and a sound one under a supervisor of
// their own.
type trial struct {
	fixture fixture.Fixture
	program string

	mu      sync.Mutex
	faults  []string // errors of the broken plugin, in order
	strange []string // errors of the sound plugin
	logged  []string
}

var _ plugin.Sink = (*trial)(nil)

// Transition implements plugin.Sink.
func (t *trial) Transition(tr plugin.Transition) {
	if tr.Err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprintf("%s>%s: %s", tr.From, tr.To, tr.Err)
	if tr.Plugin == fixture.SoundName {
		t.strange = append(t.strange, text)
		return
	}
	t.faults = append(t.faults, text)
}

// Health implements plugin.Sink.
func (t *trial) Health(plugin.Statement) {}

// Log implements plugin.Sink.
func (t *trial) Log(l plugin.Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.logged) < 20 {
		t.logged = append(t.logged, fmt.Sprintf("%s: %.200s", l.Plugin, l.Message))
	}
}

// unhealthy is the error of a failed trial.
type unhealthy struct{ expected, observed string }

func (u *unhealthy) Error() string { return u.observed }

// Host checks that the host survives the fault of a fixture, which program serves, and returns the
// result. It takes at most 11 minutes; without a plugin that hangs it takes seconds.
func Host(ctx context.Context, program string, f fixture.Fixture) conformance.Result {
	t := &trial{fixture: f, program: program}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	began := time.Now()
	err := t.live(ctx)
	r := conformance.Result{
		Check: conformance.Check{ID: ID(t.fixture), Text: "the host survives a plugin with this fault: " +
			t.fixture.Text},
		Status: conformance.Pass, Took: time.Since(began),
	}
	if err == nil {
		return r
	}
	r.Status, r.Observed = conformance.Fault, err.Error()
	var u *unhealthy
	if errors.As(err, &u) {
		r.Status, r.Expected = conformance.Fail, u.expected
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Evidence = slices.Concat(t.faults, t.strange, t.logged)
	return r
}

// live runs the two plugins. It sends every question to the broken one, and calls the sound one
// after each of them.
func (t *trial) live(ctx context.Context) (err error) {
	base, err := os.MkdirTemp("", "fer-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(base) }()
	dir, err := rundir.Open(filepath.Join(base, "r"))
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = dir.Close() }()
	s, err := plugin.New(plugin.Options{Runtime: dir, Host: wire.HostInfo{Version: "conformance"}, Sink: t})
	if err != nil {
		return fmt.Errorf("make a supervisor: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialStop)
		defer cancel()
		if closed := s.Close(stop); closed != nil && err == nil {
			err = &unhealthy{"the supervisor stops both plugins", closed.Error()}
		}
	}()
	broken := t.settings(t.fixture.Name)
	if err := s.Start(broken, t.settings(fixture.SoundName)); err != nil {
		return fmt.Errorf("start the plugins: %w", err)
	}
	client, err := s.Client(t.routes())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := t.answers(ctx, client); err != nil {
		return err
	}
	if err := t.calls(ctx, client); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.strange) > 0:
		return &unhealthy{"no diagnostic about the sound plugin", t.strange[0]}
	case len(t.faults) > 1:
		return &unhealthy{"one diagnostic at most", fmt.Sprintf("%d: %s", len(t.faults), strings.Join(t.faults, "; "))}
	}
	return nil
}

// settings returns the settings of a plugin that is not restarted, because a trial observes one
// fault.
func (t *trial) settings(name string) plugin.Settings {
	s := plugin.DefaultSettings(name, t.program, fixture.Command, name)
	s.StartTimeout, s.ConfigureTimeout = longStart, longStart
	if name != fixture.SoundName && t.start() < longStart {
		s.StartTimeout, s.ConfigureTimeout = t.start()-time.Second, t.start()-time.Second
	}
	if name == fixture.SoundName || !t.hangs() { // for a call that hangs, the probe is part of the test
		s.Health.Timeout = longStart
	}
	s.StopGrace, s.DrainTimeout = time.Second, time.Second
	s.Restart.Policy = plugin.Never
	// Both plugins have the same program, so they need different configurations to have different
	// descriptions.
	s.Config = edn.MustMap(edn.K("word"), edn.Text(name))
	return s
}

// routes returns the routes to both plugins, with distinct capability ids.
func (t *trial) routes() map[string]plugin.Route {
	routes := map[string]plugin.Route{}
	for _, q := range fixture.Questions() {
		routes[brokenID(q)] = plugin.Route{Plugin: t.fixture.Name}
		routes[soundID(q)] = plugin.Route{Plugin: fixture.SoundName}
	}
	return routes
}

func brokenID(q fixture.Question) string { return "broken/" + strings.TrimPrefix(q.Capability, "t/") }
func soundID(q fixture.Question) string  { return "sound/" + strings.TrimPrefix(q.Capability, "t/") }

// answers checks that the sound plugin answers.
func (t *trial) answers(ctx context.Context, client *plugin.Client) error {
	q := fixture.Questions()[0]
	ready, cancel := context.WithTimeout(ctx, longStart)
	defer cancel()
	if err := client.Await(ready, soundID(q)); err != nil {
		return &unhealthy{"a sound plugin beside it that is ready", err.Error()}
	}
	if err := t.ask(ctx, client, soundID(q), q, longCall); err != nil {
		return &unhealthy{"an answer of the sound plugin beside it", err.Error()}
	}
	return nil
}

// calls sends every question to the broken plugin; the first one triggers the fault.
func (t *trial) calls(ctx context.Context, client *plugin.Client) error {
	for i, q := range fixture.Questions() {
		err := t.askBroken(ctx, client, q)
		e := contract.AsError(err)
		switch {
		case e != nil && e.Type == "runtime/internal":
			return &unhealthy{"an answer or a typed error", err.Error()}
		case i == 0 && t.fixture.Error != "" && (e == nil || e.Type != t.fixture.Error):
			return &unhealthy{"the error :" + t.fixture.Error, fmt.Sprintf("%v", err)}
		}
		if err := t.answers(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// askBroken waits for the plugin if it may become ready, then calls it.
func (t *trial) askBroken(ctx context.Context, client *plugin.Client, q fixture.Question) error {
	ready, cancel := context.WithTimeout(ctx, t.start())
	defer cancel()
	if err := client.Await(ready, brokenID(q)); err != nil {
		return err
	}
	limit := longCall
	if t.hangs() {
		limit = shortCall
	}
	return t.ask(ctx, client, brokenID(q), q, limit)
}

// ask makes a call with a deadline after limit.
func (t *trial) ask(
	ctx context.Context, client *plugin.Client, route string, q fixture.Question, limit time.Duration,
) error {
	a, err := client.Invoke(ctx, dispatch.Call{
		CapID:     route,
		Run:       "conformance",
		Node:      "n",
		Attempt:   1,
		Deadline:  time.Now().Add(limit),
		EffectKey: "conformance-0",
		Request: edn.MustMap(
			edn.K("proto"), edn.Int(contract.Proto), edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("conformance")),
			edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(q.Intent), edn.K("cap/id"), edn.K(q.Capability)),
			edn.K("input"), q.Input,
		),
	})
	if err != nil {
		return err
	}
	if _, refused := contract.CheckResponse(a.Response, contract.ResultRules{}); refused != nil {
		return refused
	}
	return nil
}
