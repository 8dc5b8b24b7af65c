package sdktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Host answers the requests of a plugin under test: see conformance.Host.
type Host = conformance.Host

// limit is the timeout of every helper, so that a plugin that hangs fails its
// test and not the test run.
const limit = 30 * time.Second

// Plugin is a running plugin under test.
type Plugin struct {
	t           testing.TB
	instance    conformance.Instance
	host        *Host
	description contract.Description
	root        string
}

type settings struct {
	config, secrets edn.Value
	host            *Host
	bare            bool
	generation      uint64
	env             []string
	leaks           bool
}

// Option configures Serve and Start.
type Option func(*settings)

// WithConfig sets the configuration: a map, or any value for sdk.Encode.
func WithConfig(config any) Option {
	return func(s *settings) { s.config = encode(config) }
}

// WithSecrets sets secrets by the name of their setting.
func WithSecrets(secrets map[string]string) Option {
	return func(s *settings) {
		var m edn.MapBuilder
		for name, text := range secrets {
			m.Set(edn.Vector(edn.K(name)), edn.Text(text))
		}
		s.secrets = m.Map()
	}
}

// WithHost sets the host of the plugin. Two plugins with the same host share
// its state, like two starts of one plugin.
func WithHost(h *Host) Option { return func(s *settings) { s.host = h } }

// WithGeneration sets the number of starts of the plugin, 1 by default.
func WithGeneration(n uint64) Option { return func(s *settings) { s.generation = n } }

// WithEnv adds NAME=value to the environment of a process; Serve ignores it.
func WithEnv(pairs ...string) Option { return func(s *settings) { s.env = append(s.env, pairs...) } }

// Unconfigured starts the plugin without calling Configure.
func Unconfigured() Option { return func(s *settings) { s.bare = true } }

// WithoutLeakCheck disables the check for remaining goroutines. Parallel tests
// need it, because the check sees the goroutines of all of them.
func WithoutLeakCheck() Option { return func(s *settings) { s.leaks = true } }

// Serve runs p in this process until the end of the test, configured and ready.
// It fails the test if p is invalid or rejects its configuration.
func Serve(t testing.TB, p sdk.Plugin, opts ...Option) *Plugin {
	t.Helper()
	s := collect(opts)
	if !s.leaks {
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() {
			if err := goleak.Find(before); err != nil {
				t.Errorf("the plugin left goroutines behind: %v", err)
			}
		})
	}
	return run(t, conformance.InProcess(p), s)
}

// Start runs the test binary again as a plugin process until the end of the
// test. TestMain must call Main.
func Start(t testing.TB, opts ...Option) *Plugin {
	t.Helper()
	s := collect(opts)
	return run(t, conformance.Process([]string{self(t)}, s.env), s)
}

// Main is for TestMain: it serves p if a host or a test started this process as
// a plugin, and runs the tests otherwise. It does not return.
func Main(m *testing.M, p sdk.Plugin) {
	if wire.StartedByHost() || os.Getenv(roleEnv) == rolePlugin {
		sdk.Serve(p)
	}
	// Conform checks this variable to find out whether this binary is a plugin.
	if err := os.Setenv(roleEnv, roleTests); err != nil {
		fmt.Fprintf(os.Stderr, "sdktest: %v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// roleEnv is set in test binaries whose TestMain calls Main. Without it, a test
// binary that a check starts without the cookie would run the tests.
const (
	roleEnv    = "FERMENT_SDKTEST"
	rolePlugin = "plugin"
	roleTests  = "tests"
)

// isPlugin reports whether this binary becomes a plugin when it is started as
// one.
func isPlugin() bool { return os.Getenv(roleEnv) == roleTests }

// quickExit disables the wait of one second at the end of a process that was
// built with the race detector.
const quickExit = "GORACE=atexit_sleep_ms=0"

// Self returns the target that Start uses, for conformance.Run.
func Self(t testing.TB, env ...string) conformance.Target {
	t.Helper()
	return conformance.Process([]string{self(t)}, append([]string{quickExit, roleEnv + "=" + rolePlugin}, env...))
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	return path
}

func collect(opts []Option) *settings {
	s := &settings{generation: 1}
	for _, option := range opts {
		option(s)
	}
	if s.host == nil {
		s.host = &Host{}
	}
	return s
}

func run(t testing.TB, target conformance.Target, s *settings) *Plugin {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	instance, err := target.Start(ctx)
	if err != nil {
		t.Fatalf("start the plugin: %v", err)
	}
	p := &Plugin{t: t, instance: instance, host: s.host, root: t.TempDir()}
	t.Cleanup(func() {
		instance.Stop()
		if t.Failed() {
			for _, line := range instance.Log() {
				t.Logf("plugin: %s", line)
			}
		}
	})
	if !s.bare {
		p.configure(ctx, s)
	}
	return p
}

func (p *Plugin) configure(ctx context.Context, s *settings) {
	p.t.Helper()
	config := s.config
	if config.IsNil() {
		config = edn.MustMap()
	}
	said, err := p.instance.Client().Describe(ctx, config, wire.HostInfo{})
	if err == nil && len(said.Findings) == 0 {
		p.description, err = said.Parse()
	}
	if err != nil || len(said.Findings) > 0 {
		p.t.Fatalf("describe the plugin: %v, findings %v", err, said.Findings)
	}
	set, err := p.instance.Client().Configure(ctx, wire.Setup{
		Config: config, Secrets: s.secrets, Root: p.root, Plugin: p.description.Name,
		Instance: "0", Generation: s.generation, LogLevel: "trace",
	}, s.host)
	if err != nil || len(set.Findings) > 0 {
		p.t.Fatalf("configure the plugin: %v, findings %v", err, set.Findings)
	}
	p.awaitReady(ctx)
}

func (p *Plugin) awaitReady(ctx context.Context) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := false
	err := p.instance.Client().Watch(ctx, func(h wire.Health) error {
		if ready = h.State.Callable(); ready {
			cancel()
		}
		return nil
	})
	if !ready {
		p.t.Fatalf("the plugin did not become ready: %v", err)
	}
}

// Client returns the host's client of the plugin.
func (p *Plugin) Client() *wire.Client { return p.instance.Client() }

// Instance returns the running plugin as conformance checks use it.
func (p *Plugin) Instance() conformance.Instance { return p.instance }

// Host returns the host of the plugin.
func (p *Plugin) Host() *Host { return p.host }

// Description returns the description of the plugin; empty if Unconfigured.
func (p *Plugin) Description() contract.Description { return p.description }

// Root returns the plugin's private directory.
func (p *Plugin) Root() string { return filepath.Clean(p.root) }

// Log returns the lines that the plugin has logged so far.
func (p *Plugin) Log() []string { return p.instance.Log() }

// Call is one call of a test.
type Call struct {
	// Capability is the id; Intent defaults to its first intent.
	Capability, Intent string
	// Input is a map, or any value for sdk.Encode.
	Input any
	// Fields are further keys of the request envelope.
	Fields edn.Value
	// Context accompanies the request; the deadline defaults to 30 s.
	Context wire.CallContext
	// OnEvent, if set, receives deltas and progress.
	OnEvent func(wire.Event)
}

// Do makes a call and returns the response envelope.
func (p *Plugin) Do(ctx context.Context, c Call) (edn.Value, error) {
	if c.Context.Deadline.IsZero() {
		c.Context.Deadline = time.Now().Add(limit)
	}
	if c.Context.CallID == "" {
		c.Context.CallID = "test"
	}
	return p.instance.Client().Invoke(ctx, c.Context, p.request(c), c.OnEvent)
}

// Invoke calls a capability and returns the output of its answer.
func (p *Plugin) Invoke(capability string, input any) (edn.Value, error) {
	response, err := p.Do(p.t.Context(), Call{Capability: capability, Input: input})
	if err != nil {
		return edn.Nil(), err
	}
	checked, refused := contract.CheckResponse(response, contract.ResultRules{})
	if refused != nil {
		return edn.Nil(), refused
	}
	return checked.Key("result").Key("out"), nil
}

// MustInvoke is Invoke for calls that must succeed.
func (p *Plugin) MustInvoke(capability string, input any) edn.Value {
	p.t.Helper()
	out, err := p.Invoke(capability, input)
	if err != nil {
		p.t.Fatalf("invoke %s: %v", capability, err)
	}
	return out
}

func (p *Plugin) request(c Call) edn.Value {
	if c.Intent == "" {
		c.Intent = p.intent(c.Capability)
	}
	input := encode(c.Input)
	if input.IsNil() {
		input = edn.MustMap()
	}
	task := edn.MustMap(edn.K("intent"), edn.K(c.Intent), edn.K("cap/id"), edn.K(c.Capability))
	own := edn.MustMap(edn.K("proto"), edn.Int(1), edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("test")),
		edn.K("task"), task, edn.K("input"), input)
	return edn.MustMap().Merge(c.Fields).Merge(own)
}

func (p *Plugin) intent(capability string) string {
	for _, c := range p.description.Capabilities {
		if c.ID == capability && len(c.Intents) > 0 {
			return c.Intents[0]
		}
	}
	return "text/respond"
}

func encode(v any) edn.Value {
	out, err := sdk.Encode(v)
	if err != nil {
		panic(err)
	}
	return out
}
