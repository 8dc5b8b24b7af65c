package conformance

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound is a plugin that keeps the contract. Its call takes as long as
// somebody waits for it, so that every check can cut it.
func sound() sdk.Plugin {
	type settings struct {
		Word string `edn:"word,omitempty"`
	}
	type question struct {
		Wait bool `edn:"wait,omitempty"`
	}
	return sdk.Plugin{
		Name: "sound", Version: "1.0.0", Config: sdk.Config[settings]{},
		Capabilities: []sdk.Capability{
			sdk.Func("t/answer", sdk.Intents("t/answer"), func(ctx context.Context, q question) (string, error) {
				if q.Wait {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "an answer", nil
			}),
		},
	}
}

// quick is the patience of these tests, whose plugins are at once or never.
func quick() Options {
	return Options{
		Seed: 1, patience: &patience{soon: time.Second, call: 3 * time.Second, exit: 500 * time.Millisecond},
		Slow: &Sample{Capability: "t/answer", Input: edn.MustRead(`{:wait true}`)},
	}
}

// CONF-003: a plugin that keeps the contract passes every check, and the
// report says who it was.
func TestSoundPluginPasses(t *testing.T) {
	var seen []string
	opts := quick()
	opts.patience = nil
	opts.OnResult = func(r Result) { seen = append(seen, r.Check.ID) }
	report := Run(t.Context(), InProcess(sound()), opts)
	for _, r := range report.Results {
		assert.Equal(t, Pass, r.Status, "%s: expected %s, observed %s", r.Check.ID, r.Expected, r.Observed)
	}
	assert.Zero(t, report.Failed())
	assert.Equal(t, "sound", report.Plugin)
	assert.Equal(t, "1.0.0", report.Version)
	assert.Equal(t, SuiteVersion, report.Suite)
	assert.Equal(t, uint64(1), report.Seed)
	assert.Len(t, seen, len(ChecksOf(ProfilesOf(contract.Description{})...)))
}

// CONF-002: each check has an id of its own, a profile, a sentence, and the
// requirements that it tests.
func TestChecksAreNamed(t *testing.T) {
	id := regexp.MustCompile(`^core/[a-z]+/[a-z-]+$`)
	requirement := regexp.MustCompile(`^[A-Z]+-\d{3}$`)
	var seen []string
	for _, c := range Checks() {
		assert.Regexp(t, id, c.ID)
		assert.NotContains(t, seen, c.ID)
		seen = append(seen, c.ID)
		assert.Equal(t, "core", c.Profile())
		assert.NotEmpty(t, c.Text)
		assert.NotEmpty(t, c.Requirements, c.ID)
		for _, r := range c.Requirements {
			assert.Regexp(t, requirement, r)
		}
	}
}

// broken is the sound plugin with one method replaced.
type broken struct {
	*sdk.Service
	describe  func(s *sdk.Service, ctx context.Context, config edn.Value) (wire.Description, error)
	configure func(s *sdk.Service, ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error)
	health    func(s *sdk.Service, ctx context.Context, send func(wire.Health) error) error
	endRun    func(run string) error
	drain     func(s *sdk.Service, ctx context.Context, deadline time.Time) (int, error)
	invoke    func(s *sdk.Service, ctx context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error)
	close     func(s *sdk.Service, ctx context.Context) error
}

func (b *broken) Describe(ctx context.Context, config edn.Value, host wire.HostInfo) (wire.Description, error) {
	if b.describe != nil {
		return b.describe(b.Service, ctx, config)
	}
	return b.Service.Describe(ctx, config, host)
}

func (b *broken) Configure(ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
	if b.configure != nil {
		return b.configure(b.Service, ctx, given, host)
	}
	return b.Service.Configure(ctx, given, host)
}

func (b *broken) Health(ctx context.Context, send func(wire.Health) error) error {
	if b.health != nil {
		return b.health(b.Service, ctx, send)
	}
	return b.Service.Health(ctx, send)
}

func (b *broken) EndRun(ctx context.Context, run string) error {
	if b.endRun != nil {
		return b.endRun(run)
	}
	return b.Service.EndRun(ctx, run)
}

func (b *broken) Drain(ctx context.Context, deadline time.Time, reason string) (int, error) {
	if b.drain != nil {
		return b.drain(b.Service, ctx, deadline)
	}
	return b.Service.Drain(ctx, deadline, reason)
}

func (b *broken) Invoke(ctx context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
	if b.invoke != nil {
		return b.invoke(b.Service, ctx, c, out)
	}
	return b.Service.Invoke(ctx, c, out)
}

func (b *broken) Close(ctx context.Context) error {
	if b.close != nil {
		return b.close(b.Service, ctx)
	}
	return b.Service.Close(ctx)
}

// breaking is the target of a broken plugin.
func breaking(change func(*broken)) Target {
	return inProcess{make: func(log *slog.Logger, level *slog.LevelVar) (service, error) {
		s, err := sdk.NewService(sound(), log, level)
		if err != nil {
			return nil, err
		}
		b := &broken{Service: s}
		change(b)
		return b, nil
	}}
}

// lost is how a plugin ends a stream that does not know what to say.
var lost = status.Error(codes.Unknown, "no answer")

// rawServer answers calls without package wire, as another language might.
type rawServer struct {
	pluginv1.UnimplementedCapabilityServer
	lifecycle
	answer func(*pluginv1.InvokeRequest) (*pluginv1.InvokeEvent, error)
}

type lifecycle = pluginv1.UnimplementedLifecycleServer

func (r *rawServer) Invoke(req *pluginv1.InvokeRequest, stream grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
	event, err := r.answer(req)
	if err != nil {
		return err
	}
	return stream.Send(event)
}

// CONF-005: for every check there is a plugin that fails it, and with it no
// check but those that the same fault must touch.
func TestBrokenPlugins(t *testing.T) {
	var proven sync.Map // ids of the checks that were seen failing
	t.Run("well-formed", func(t *testing.T) { testBroken(t, &proven) })
	t.Run("malformed", func(t *testing.T) { testMalformed(t, &proven) })
	for _, c := range Checks() {
		_, ok := proven.Load(c.ID)
		assert.True(t, ok, "no plugin shows that %s can fail", c.ID)
	}
}

func testBroken(t *testing.T, proven *sync.Map) {
	var versions atomic.Int64
	needReady := idsExcept(`^core/(describe|configure/(bad-config|agrees|before-invoke)|health/at-once)`)
	for _, tt := range []struct {
		name   string
		target Target
		fails  []string
		only   string // where the fault makes every check slow; "" for all
	}{
		{"describe without a name", breaking(func(b *broken) {
			b.describe = func(s *sdk.Service, ctx context.Context, config edn.Value) (wire.Description, error) {
				d, err := s.Describe(ctx, config, wire.HostInfo{})
				if config.IsNil() {
					d.Value = d.Value.AssocKey("plugin/name", edn.Int(7)).AssocKey("name", edn.Int(7))
				}
				return d, err
			}
		}), []string{"core/describe/bare", "core/describe/bad-config", "core/configure/bad-config"}, ""},
		{"describe differs", breaking(func(b *broken) {
			b.describe = func(s *sdk.Service, ctx context.Context, config edn.Value) (wire.Description, error) {
				d, err := s.Describe(ctx, config, wire.HostInfo{})
				for i := range []int{0} {
					c, _ := d.Value.Key("capabilities").Nth(i)
					c = c.AssocKey("cap/version", edn.Text("1."+edn.Int(versions.Add(1)).String()))
					d.Value = d.Value.AssocKey("capabilities", edn.Vector(c))
				}
				return d, err
			}
		}), []string{"core/describe/pure", "core/configure/agrees"}, ""},
		{"no capability", breaking(func(b *broken) {
			none := func(d wire.Description, err error) (wire.Description, error) {
				d.Value = d.Value.AssocKey("capabilities", edn.Vector())
				return d, err
			}
			b.describe = func(s *sdk.Service, ctx context.Context, config edn.Value) (wire.Description, error) {
				return none(s.Describe(ctx, config, wire.HostInfo{}))
			}
			b.configure = func(s *sdk.Service, ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
				return none(s.Configure(ctx, given, host))
			}
		}), append(slices.Clone(needReady), "core/describe/metadata", "core/configure/before-invoke"), ""},
		{"describe takes any configuration", breaking(func(b *broken) {
			b.describe = func(s *sdk.Service, ctx context.Context, config edn.Value) (wire.Description, error) {
				d, err := s.Describe(ctx, config, wire.HostInfo{})
				d.Findings = nil
				return d, err
			}
		}), []string{"core/describe/bad-config"}, ""},
		{"describe dies of a bad configuration", breaking(func(b *broken) {
			b.describe = func(s *sdk.Service, ctx context.Context, config edn.Value) (wire.Description, error) {
				if config.HasKey(unknownKey) {
					return wire.Description{}, errors.New("boom")
				}
				return s.Describe(ctx, config, wire.HostInfo{})
			}
		}), []string{"core/describe/bad-config"}, ""},
		{"configure disagrees", breaking(func(b *broken) {
			b.configure = func(s *sdk.Service, ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
				d, err := s.Configure(ctx, given, host)
				d.Value = d.Value.AssocKey("plugin/version", edn.Text("2")).AssocKey("version", edn.Text("2"))
				return d, err
			}
		}), []string{"core/configure/agrees"}, ""},
		{"configure takes any configuration", breaking(func(b *broken) {
			b.configure = func(s *sdk.Service, ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
				d, err := s.Configure(ctx, given, host)
				d.Findings = nil
				return d, err
			}
		}), []string{"core/configure/bad-config"}, ""},
		{"configure refuses everything", breaking(func(b *broken) {
			b.configure = func(*sdk.Service, context.Context, wire.Setup, *wire.Caller) (wire.Description, error) {
				return wire.Description{Findings: []schema.Finding{{Message: "no"}}}, nil
			}
		}), append(slices.Clone(needReady), "core/configure/agrees"), ""},
		{"configure twice", breaking(func(b *broken) {
			b.configure = func(s *sdk.Service, ctx context.Context, given wire.Setup, host *wire.Caller) (wire.Description, error) {
				d, err := s.Configure(ctx, given, host)
				if contract.AsError(err) != nil {
					err = nil
				}
				return d, err
			}
		}), []string{"core/configure/once"}, ""},
		{"ready before it is configured", breaking(func(b *broken) {
			b.health = func(s *sdk.Service, ctx context.Context, send func(wire.Health) error) error {
				return s.Health(ctx, func(h wire.Health) error {
					if h.State == wire.HealthStarting {
						h.State = wire.HealthReady
					}
					return send(h)
				})
			}
		}), []string{"core/configure/before-invoke"}, ""},
		{"no health", breaking(func(b *broken) {
			b.health = func(_ *sdk.Service, ctx context.Context, _ func(wire.Health) error) error {
				<-ctx.Done()
				return nil
			}
		}), []string{"core/health/at-once", "core/health/ready", "core/configure/before-invoke"}, `^core/(health|configure/(before|agrees)|describe/bare)`},
		{"never ready", breaking(func(b *broken) {
			b.health = func(_ *sdk.Service, _ context.Context, send func(wire.Health) error) error {
				return send(wire.Health{State: wire.HealthNotReady})
			}
		}), needReady, ""},
		{"answers without an output", breaking(func(b *broken) {
			b.invoke = func(s *sdk.Service, ctx context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
				v, err := s.Invoke(ctx, c, out)
				if err == nil {
					v = edn.MustRead(`{:result {:type :value}}`)
				}
				return v, err
			}
		}), []string{"core/invoke/answer", "core/invoke/unexpected-input", "core/invoke/large", "core/invoke/parallel"}, ""},
		{"answers for every capability", breaking(func(b *broken) {
			b.invoke = func(s *sdk.Service, ctx context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
				v, err := s.Invoke(ctx, c, out)
				if errors.Is(err, contract.OfType("cap/not-found")) {
					return contract.ValueResult(edn.MustMap()), nil
				}
				return v, err
			}
		}), []string{"core/invoke/unknown-capability"}, ""},
		{"one call at a time, the others lost", breaking(func(b *broken) {
			var busy sync.Mutex
			b.invoke = func(s *sdk.Service, ctx context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
				if !busy.TryLock() {
					return edn.Nil(), contract.Errorf("runtime/protocol", "busy")
				}
				defer busy.Unlock()
				time.Sleep(time.Millisecond)
				return s.Invoke(ctx, c, out)
			}
		}), []string{"core/invoke/parallel"}, ""},
		{"does not listen to its context", breaking(func(b *broken) {
			end := make(chan struct{})
			b.invoke = func(s *sdk.Service, _ context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					select {
					case <-end:
						cancel()
					case <-ctx.Done():
					}
				}()
				return s.Invoke(ctx, c, out)
			}
			b.drain = func(s *sdk.Service, ctx context.Context, deadline time.Time) (int, error) {
				<-ctx.Done() // nothing ends
				return 0, ctx.Err()
			}
			b.close = func(s *sdk.Service, ctx context.Context) error {
				close(end)
				return s.Close(ctx)
			}
		}), []string{"core/cancel/stops", "core/deadline/stops", "core/drain/deadline", "core/drain/refuses"}, ""},
		{"end of a run fails", breaking(func(b *broken) {
			b.endRun = func(run string) error { return errors.New("unknown run " + run) }
		}), []string{"core/run/end"}, ""},
		{"drain does nothing", breaking(func(b *broken) {
			b.drain = func(*sdk.Service, context.Context, time.Time) (int, error) { return 0, nil }
		}), []string{"core/drain/refuses", "core/drain/deadline"}, ""},
		{"drain leaves calls running", breaking(func(b *broken) {
			b.drain = func(_ *sdk.Service, ctx context.Context, deadline time.Time) (int, error) {
				ctx, cancel := context.WithDeadline(ctx, deadline)
				defer cancel()
				<-ctx.Done()
				return 1, nil
			}
		}), []string{"core/drain/deadline", "core/drain/refuses"}, ""},
		{"does not end", breaking(func(b *broken) {
			b.close = func(s *sdk.Service, ctx context.Context) error {
				time.Sleep(2 * quick().patience.exit)
				return s.Close(ctx)
			}
		}), []string{"core/shutdown/host-gone", "core/shutdown/busy"}, `^core/(shutdown|health)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := quick()
			opts.Only = regexp.MustCompile(tt.only)
			report := Run(t.Context(), tt.target, opts)
			var failed []string
			for _, r := range report.Results {
				assert.NotEqual(t, Fault, r.Status, "%s: %s", r.Check.ID, r.Observed)
				if r.Status == Fail {
					failed = append(failed, r.Check.ID)
					assert.NotEmpty(t, r.Expected)
					assert.NotEmpty(t, r.Observed)
				}
			}
			slices.Sort(failed)
			want := slices.Clone(tt.fails)
			slices.Sort(want)
			assert.Equal(t, want, slices.Compact(failed))
			for _, id := range tt.fails {
				proven.Store(id, true)
			}
		})
	}
}

// testMalformed shows a plugin that answers whatever it is asked, and one that
// says nothing at all.
func testMalformed(t *testing.T, proven *sync.Map) {
	value := &pluginv1.InvokeEvent{Seq: 1, Event: &pluginv1.InvokeEvent_Result{Result: &pluginv1.Payload{Encoding: "edn", Body: []byte(`{:result {:type :value :out {}}}`)}}}
	for name, answer := range map[string]func(*pluginv1.InvokeRequest) (*pluginv1.InvokeEvent, error){
		"answers": func(*pluginv1.InvokeRequest) (*pluginv1.InvokeEvent, error) { return value, nil },
		"silent":  func(*pluginv1.InvokeRequest) (*pluginv1.InvokeEvent, error) { return nil, lost },
	} {
		t.Run(name, func(t *testing.T) {
			target := inProcess{
				make: func(log *slog.Logger, level *slog.LevelVar) (service, error) {
					return sdk.NewService(sound(), log, level)
				},
				serve: func(s *grpc.Server, svc service, broker wire.Broker) {
					wire.Register(splitter{s}, svc, broker)
					pluginv1.RegisterCapabilityServer(s, &rawServer{answer: answer})
				},
				opts: []grpc.ServerOption{grpc.MaxRecvMsgSize(4 * wire.MaxMessage)},
			}
			opts := quick()
			opts.Only = regexp.MustCompile(`^core/malformed`)
			report := Run(t.Context(), target, opts)
			for _, r := range report.Results {
				if name == "silent" && r.Check.ID == "core/malformed/too-large" {
					continue // a lost call is one way of refusing it
				}
				assert.Equal(t, Fail, r.Status, r.Check.ID)
				proven.Store(r.Check.ID, true)
			}
			assert.NotEmpty(t, report.Results)
		})
	}
}

// splitter registers everything but the capability service.
type splitter struct{ *grpc.Server }

func (s splitter) RegisterService(d *grpc.ServiceDesc, impl any) {
	if !strings.HasSuffix(d.ServiceName, ".Capability") {
		s.Server.RegisterService(d, impl)
	}
}

// idsExcept are the ids of all checks that do not match.
func idsExcept(pattern string) []string {
	except := regexp.MustCompile(pattern)
	var ids []string
	for _, c := range Checks() {
		if !except.MatchString(c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// A plugin that does not start fails every check; a check that panics is a
// fault of the harness; a cancelled run is not a verdict about the plugin.
func TestRunOutcomes(t *testing.T) {
	report := Run(t.Context(), Process([]string{"/nonexistent"}, nil), Options{})
	assert.Len(t, report.Results, len(ChecksOf(Core)))
	assert.Equal(t, len(ChecksOf(Core)), report.Failed())
	assert.Empty(t, report.Plugin)
	assert.Contains(t, report.Results[0].Observed, "/nonexistent")

	r := RunCheck(t.Context(), InProcess(sound()), Check{ID: "x", run: func(context.Context, *bench) error { panic("oops") }}, Options{})
	assert.Equal(t, Fault, r.Status)
	assert.Contains(t, r.Observed, "oops")

	report = Run(t.Context(), InProcess(sdk.Plugin{}), Options{Only: regexp.MustCompile("bare")})
	require.Len(t, report.Results, 1)
	assert.Contains(t, report.Results[0].Observed, "no version")
}

// What is made up for a schema fits it, as far as it promises.
func TestSamplesFitTheirSchemas(t *testing.T) {
	registry, err := schema.NewRegistry(schema.Builtin())
	require.NoError(t, err)
	for name, form := range schema.Builtin() {
		if !strings.HasPrefix(name, "req/") {
			continue
		}
		s, ok := registry.Lookup(name)
		require.True(t, ok)
		v := made(schema.Builtin(), form, sampleDepth)
		assert.Empty(t, s.Validate(v), "%s: %s", name, v)
	}
	for _, form := range []string{
		`[:map [:a :int] [:b {:optional true} :int] [:c [:vector {:min 2} :keyword]] [:d [:tuple :boolean :nil]] [:e [:enum 7 8]] [:f [:maybe :double]] [:g :decimal] [:h [:int {:min 5}]] [:i [:set :int]] [:j [:map-of :string :int]]]`,
		`:any`, `[:and [:map [:x :string]] :map]`,
	} {
		s, err := schema.Compile(edn.MustRead(form))
		require.NoError(t, err)
		v := made(nil, edn.MustRead(form), sampleDepth)
		assert.Empty(t, s.Validate(v), "%s: %s", form, v)
	}
	assert.True(t, made(map[string]edn.Value{"a/b": edn.MustRead(`[:map [:x [:ref :a/b]]]`)}, edn.MustRead(`[:ref :a/b]`), sampleDepth).IsMap(), "recursion ends")
}
