package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/schema"
)

var minimal = edn.MustRead(`
{:plugin/name "p" :plugin/version "1"
 :capabilities [{:cap/id :a/b :cap/kind :tool :cap/intents #{:a/do} :io/in-schema :req/any :io/out-schema {:a/do :res/any}
                 :cap/cost {:usd 0.5M} :cap/tags #{:x}}]
 :schemas {:req/a.do [:map [:n {:optional true} [:enum :one "two"]]]}
 :config {:config/v 1 :config/schema [:map {:closed true} [:depth {:default 3} :int]]}}`)

// WIRE-002: Describe and Configure transmit their arguments and answers in both
// encodings.
func TestDescribeAndConfigure(t *testing.T) {
	findings := []schema.Finding{{Path: []edn.Value{edn.K("depth")}, Expected: edn.K("int"), Got: edn.Text("x"), Message: "should be a number"}, {Message: "and so on"}}
	config := edn.MustRead(`{:depth "x" :key nil}`)
	for _, enc := range []Encoding{EDN, JSON} {
		t.Run(string(enc), func(t *testing.T) {
			c := client(t, &fake{
				describe: func(_ context.Context, got edn.Value, host HostInfo) (Description, error) {
					assert.Equal(t, HostInfo{Version: "v1", Features: []string{"f"}}, host)
					if got.IsNil() {
						return Description{Value: minimal}, nil
					}
					assert.True(t, edn.Equal(config, got))
					return Description{Value: minimal, Findings: findings}, nil
				},
				configure: func(_ context.Context, s Setup, host *Caller) (Description, error) {
					assert.Nil(t, host)
					assert.True(t, edn.Equal(config, s.Config))
					assert.Equal(t, "sk", str(firstEntry(s.Secrets).Val))
					assert.Equal(t, []any{"/root", "name", "i0", uint64(3), "debug", 7}, []any{s.Root, s.Plugin, s.Instance, s.Generation, s.LogLevel, s.MaxInFlight})
					return Description{Value: minimal}, nil
				},
			})
			c.UseEncoding(enc)
			bare, err := c.Describe(t.Context(), edn.Nil(), HostInfo{Version: "v1", Features: []string{"f"}})
			require.NoError(t, err)
			assert.Equal(t, EDN, bare.Encoding, "a plugin that is asked nothing answers as it likes")
			assert.Equal(t, EDN, c.Encoding())
			c.UseEncoding(enc)
			d, err := c.Describe(t.Context(), config, HostInfo{Version: "v1", Features: []string{"f"}})
			require.NoError(t, err)
			assert.Equal(t, enc, d.Encoding)
			assert.True(t, edn.Equal(minimal, d.Value), "%s", d.Value)
			require.Len(t, d.Findings, 2)
			assert.Equal(t, "should be a number", d.Findings[0].Message)
			assert.Equal(t, "[:depth]", edn.Vector(d.Findings[0].Path...).String())
			assert.Empty(t, d.Findings[1].Path)
			parsed, err := d.Parse()
			require.NoError(t, err)
			assert.Equal(t, "p", parsed.Name)
			assert.Equal(t, "a/b", parsed.Capabilities[0].ID)

			set, err := c.Configure(t.Context(), Setup{
				Config: config, Secrets: edn.MustMap(edn.Vector(edn.K("key")), edn.Text("sk")), Root: "/root",
				Plugin: "name", Instance: "i0", Generation: 3, LogLevel: "debug", MaxInFlight: 7,
			}, nil)
			require.NoError(t, err)
			assert.True(t, edn.Equal(minimal, set.Value))
		})
	}
}

func firstEntry(m edn.Value) edn.Entry {
	for k, v := range m.Entries() {
		return edn.Entry{Key: k, Val: v}
	}
	return edn.Entry{}
}

// A plugin that answers Describe in JSON is called in JSON afterwards.
func TestDescribeChoosesTheEncoding(t *testing.T) {
	conn := serve(t, func(s *grpc.Server) {
		pluginv1.RegisterLifecycleServer(s, &rawLifecycle{describe: &pluginv1.DescribeResponse{Description: &pluginv1.Payload{
			Encoding: "json", Body: []byte(`{"plugin/name": "p", "plugin/version": "1", "plugin/needs": ["fs/read"], "capabilities": [
				{"cap/id": "a/b", "cap/kind": "tool", "cap/intents": ["a/do"], "io/in-schema": "req/any", "io/out-schema": {"a/do": "res/any"},
				 "cap/cost": {"usd": "0.5"}, "cap/tags": ["x"]}]}`),
		}}})
	})
	c := NewClient(conn, nil)
	d, err := c.Describe(t.Context(), edn.Nil(), HostInfo{})
	require.NoError(t, err)
	assert.Equal(t, JSON, c.Encoding())
	parsed, err := d.Parse()
	require.NoError(t, err)
	assert.Equal(t, []string{"fs/read"}, parsed.Needs)
	assert.Equal(t, "res/any", parsed.Capabilities[0].OutSchema.For("a/do"))
	assert.Equal(t, "0.5M", parsed.Capabilities[0].Cost.USD.String())
}

// WIRE-003: before the encoding of a plugin is known, Describe first calls it
// without a configuration. Schemas in JSON are strings of EDN or views of their
// forms, and paths of findings refer to the configuration.
func TestDescribeInJSON(t *testing.T) {
	said := &pluginv1.DescribeResponse{
		Description: &pluginv1.Payload{Encoding: "json", Body: []byte(`{"plugin/name": "p", "plugin/version": "1", "capabilities": [],
			"schemas": {"req/x": "[:map [:kind [:enum :a :b]]]", "req/y": ["map", {"closed": true}, ["path", "string"]], "req/z": "keyword"}, "config": {"config/v": 1, "config/schema": "[:map {:closed true} [:on :boolean]]"}}`)},
		Findings: &pluginv1.Payload{Encoding: "json", Body: []byte(`[{"path": ["server", "odd name", 1, "port"], "message": "m"}, {"path": [":missing"], "message": "m"}]`)},
	}
	raw := &rawLifecycle{describe: &pluginv1.DescribeResponse{Description: said.Description}, then: said}
	c := NewClient(serve(t, func(s *grpc.Server) { pluginv1.RegisterLifecycleServer(s, raw) }), nil)
	d, err := c.Describe(t.Context(), edn.MustRead(`{:server {"odd name" [nil {:port 1}]}}`), HostInfo{})
	require.NoError(t, err)
	require.Len(t, raw.asked, 2)
	assert.Nil(t, raw.asked[0].GetConfig())
	assert.Equal(t, `{"server":{"odd name":[null,{"port":1}]}}`, string(raw.asked[1].GetConfig().GetBody()))
	assert.Equal(t, `{:req/x [:map [:kind [:enum :a :b]]] :req/y [:map {:closed true} [:path :string]] :req/z :keyword}`,
		d.Value.Key("schemas").String())
	assert.Equal(t, `[:map {:closed true} [:on :boolean]]`, d.Value.Key("config").Key("config/schema").String())
	require.Len(t, d.Findings, 2)
	assert.Equal(t, `[:server "odd name" 1 :port]`, edn.Vector(d.Findings[0].Path...).String())
	assert.Equal(t, `[:missing]`, edn.Vector(d.Findings[1].Path...).String())

	for body, says := range map[string]string{
		`{"schemas": {"req/x": {"type": "object"}}}`:             "schema :req/x: in JSON a schema is a string of EDN",
		`{"schemas": {"req/x": "[:map"}}`:                        "schema :req/x: ",
		`{"config": {"config/v": 1, "config/schema": {"a": 1}}}`: "schema of the configuration: in JSON",
	} {
		raw.then = &pluginv1.DescribeResponse{Description: &pluginv1.Payload{Encoding: "json", Body: []byte(body)}}
		_, err := c.Describe(t.Context(), edn.Nil(), HostInfo{})
		require.ErrorIs(t, err, contract.OfType("capability/invalid-metadata"), body)
		assert.ErrorContains(t, err, says)
	}
}

type rawLifecycle struct {
	pluginv1.UnimplementedLifecycleServer
	asked     []*pluginv1.DescribeRequest
	describe  *pluginv1.DescribeResponse
	then      *pluginv1.DescribeResponse // answers after the first
	configure *pluginv1.ConfigureResponse
	health    []*pluginv1.HealthEvent
}

func (r *rawLifecycle) Describe(_ context.Context, req *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	r.asked = append(r.asked, req)
	if len(r.asked) > 1 && r.then != nil {
		return r.then, nil
	}
	return r.describe, nil
}

func (r *rawLifecycle) Configure(context.Context, *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	return r.configure, nil
}

func (r *rawLifecycle) Health(_ *pluginv1.HealthRequest, s grpc.ServerStreamingServer[pluginv1.HealthEvent]) error {
	for _, e := range r.health {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

// WIRE-002: malformed answers return :runtime/protocol.
func TestLifecycleHostileAnswers(t *testing.T) {
	for name, resp := range map[string]*pluginv1.DescribeResponse{
		"nothing":               {},
		"malformed description": {Description: edntext("{")},
		"malformed findings":    {Findings: edntext("{")},
		"findings of no kind":   {Findings: edntext("7")},
		"findings of numbers":   {Findings: edntext("[7]")},
		"malformed error":       {Error: edntext("")},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewClient(serve(t, func(s *grpc.Server) { pluginv1.RegisterLifecycleServer(s, &rawLifecycle{describe: resp}) }), nil)
			_, err := c.Describe(t.Context(), edn.Nil(), HostInfo{})
			require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
		})
	}
	t.Run("not implemented", func(t *testing.T) {
		c := NewClient(serve(t, func(*grpc.Server) {}), nil)
		_, err := c.Describe(t.Context(), edn.Nil(), HostInfo{})
		require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
		require.ErrorIs(t, c.EndRun(t.Context(), "r"), contract.OfType("runtime/protocol"))
		_, err = c.Drain(t.Context(), time.Now(), "")
		require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
		_, err = c.Probe(t.Context())
		require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	})
	t.Run("configure", func(t *testing.T) {
		raw := &rawLifecycle{configure: &pluginv1.ConfigureResponse{}}
		c := NewClient(serve(t, func(s *grpc.Server) { pluginv1.RegisterLifecycleServer(s, raw) }), nil)
		d, err := c.Configure(t.Context(), Setup{}, nil)
		require.NoError(t, err, "a plugin need not repeat its description")
		assert.True(t, d.Value.IsNil())
		raw.configure = &pluginv1.ConfigureResponse{Error: edntext(`{:type :model/start-failed :message "no"}`)}
		_, err = c.Configure(t.Context(), Setup{}, nil)
		require.ErrorIs(t, err, contract.OfType("model/start-failed"))
	})
}

// SUP-003: Health transmits every state; a state of a newer plugin is unknown,
// not an error.
func TestHealthStates(t *testing.T) {
	raw := &rawLifecycle{}
	c := NewClient(serve(t, func(s *grpc.Server) { pluginv1.RegisterLifecycleServer(s, raw) }), nil)
	_, err := c.Probe(t.Context())
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"), "no state at all")

	raw.health = []*pluginv1.HealthEvent{
		{State: 1}, {State: 2}, {State: 3, Reason: "slow", Source: "downstream", Attributes: edntext("{:a 1}")}, {State: 4, Source: "martians"}, {State: 5}, {State: 99},
	}
	var seen []string
	require.NoError(t, c.Watch(t.Context(), func(h Health) error {
		seen = append(seen, h.State.String()+" "+h.Reason+" "+h.Source.String()+" "+h.Attributes.String())
		return nil
	}))
	assert.Equal(t, []string{
		"starting  unknown nil", "ready  unknown nil", "degraded slow downstream {:a 1}", "not-ready  unknown nil", "draining  unknown nil", "unknown  unknown nil",
	}, seen)
	stop := errors.New("enough")
	require.ErrorIs(t, c.Watch(t.Context(), func(Health) error { return stop }), stop)
	raw.health = []*pluginv1.HealthEvent{{State: 2, Attributes: edntext("{")}}
	_, err = c.Probe(t.Context())
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
}

// MLX-009, SUP-003: the health of single capabilities is transmitted; values of
// a newer plugin and entries without a name are ignored.
func TestHealthOfCapabilities(t *testing.T) {
	said := []CapabilityHealth{
		{ID: "a/warm", State: HealthReady, Warmth: Warm, InFlight: 4, Queued: 3, Places: 4, Deaths: 1 << 40, RecentDeaths: 2},
		{ID: "a/cold", Warmth: Cold},
		{ID: "a/frozen", State: HealthNotReady, Reason: ":model/frozen: by hand", Source: contract.SourceRequest},
	}
	c := client(t, &fake{health: func(_ context.Context, send func(Health) error) error {
		return send(Health{State: HealthReady, Capabilities: said})
	}})
	h, err := c.Probe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, said, h.Capabilities)

	raw := &rawLifecycle{health: []*pluginv1.HealthEvent{{State: 258, Capabilities: []*pluginv1.CapabilityHealth{
		{CapId: "a/new", State: 99, Warmth: 99, Source: "martians"}, {Warmth: pluginv1.Warmth_WARMTH_COLD}, {CapId: "a/odd", State: -1, Warmth: -1, Queued: 1 << 31},
	}}}}
	h, err = NewClient(serve(t, func(s *grpc.Server) { pluginv1.RegisterLifecycleServer(s, raw) }), nil).Probe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, HealthUnknown, h.State)
	assert.Equal(t, []CapabilityHealth{{ID: "a/new"}, {ID: "a/odd", Queued: 1 << 31}}, h.Capabilities)
	assert.Equal(t, "unknown warm starting cold", fmt.Sprint(WarmthUnknown, " ", Warm, " ", Warming, " ", Cold))
}

// SUP-003: a probe without an answer ends with its context.
func TestProbeOfAStalledPlugin(t *testing.T) {
	c := client(t, &fake{health: func(ctx context.Context, _ func(Health) error) error {
		<-ctx.Done()
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Probe(ctx)
	require.ErrorIs(t, err, contract.OfType("timeout/hard"))
	assert.True(t, Transport(err))
}

// WIRE-002: EndRun and Drain.
func TestEndRunAndDrain(t *testing.T) {
	at := time.Now().Add(time.Minute).Round(0)
	c := client(t, &fake{
		endRun: func(_ context.Context, run string) error {
			if run != "r-1" {
				return errors.New("unknown run")
			}
			return nil
		},
		drain: func(_ context.Context, deadline time.Time, reason string) (int, error) {
			assert.True(t, at.Equal(deadline))
			if reason == "fail" {
				return 0, errors.New("cannot")
			}
			return 3, nil
		},
	})
	require.NoError(t, c.EndRun(t.Context(), "r-1"))
	require.ErrorContains(t, c.EndRun(t.Context(), "r-2"), "unknown run")
	n, err := c.Drain(t.Context(), at, "swap")
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	_, err = c.Drain(t.Context(), at, "fail")
	require.ErrorContains(t, err, "cannot")
}

// hostOf is a Host made of two functions.
type hostOf struct {
	invoke Answerer
	state  func(context.Context, StateChange) (Stored, error)
}

func (h hostOf) Invoke(ctx context.Context, call Call, out *Emitter) (edn.Value, error) {
	return h.invoke(ctx, call, out)
}

func (h hostOf) State(ctx context.Context, c StateChange) (Stored, error) { return h.state(ctx, c) }

// WIRE-002: the host service uses one connection from Configure to Close.
func TestHostService(t *testing.T) {
	var caller *Caller
	c := client(t, &fake{configure: func(_ context.Context, _ Setup, host *Caller) (Description, error) {
		caller = host
		return Description{}, nil
	}})
	block := make(chan struct{})
	host := hostOf{
		invoke: func(ctx context.Context, call Call, out *Emitter) (edn.Value, error) {
			if call.Context.CallID == "hang" {
				close(block)
				<-ctx.Done()
				return edn.Nil(), ctx.Err()
			}
			return call.Request, out.Delta(edn.Int(1))
		},
		state: func(_ context.Context, ch StateChange) (Stored, error) {
			switch {
			case ch.Key == "fail":
				return Stored{}, contract.Errorf("journal/unavailable", "disk is gone")
			case ch.Op == StatePut && ch.IfVersion != nil:
				return Stored{Value: edn.K("other"), Version: *ch.IfVersion + 5, Conflict: true}, nil
			case ch.Op == StatePut:
				return Stored{Value: ch.Value, Version: 1}, nil
			}
			return Stored{}, nil
		},
	}
	_, err := c.Configure(t.Context(), Setup{}, host)
	require.NoError(t, err)
	require.NotNil(t, caller)
	defer func() { require.NoError(t, caller.Close()) }()

	n := 0
	v, err := caller.Invoke(t.Context(), CallContext{CallID: "c"}, edn.Text(large("h")), func(Event) { n++ })
	require.NoError(t, err)
	assert.True(t, edn.Equal(v, edn.Text(large("h"))))
	assert.Equal(t, 1, n)

	two := uint64(2)
	for _, tt := range []struct {
		change StateChange
		want   Stored
		err    string
	}{
		{StateChange{Op: StatePut, Key: "k", Value: edn.Int(1)}, Stored{Value: edn.Int(1), Version: 1}, ""},
		{StateChange{Op: StatePut, Key: "k", Value: edn.Int(1), IfVersion: &two}, Stored{Value: edn.K("other"), Version: 7, Conflict: true}, ""},
		{StateChange{Op: StateGet, Key: "k"}, Stored{}, ""},
		{StateChange{Op: StateDelete, Key: "k"}, Stored{}, ""},
		{StateChange{Op: StateGet, Key: "fail"}, Stored{}, "journal/unavailable"},
		{StateChange{Op: StateGet, Key: string(make([]byte, MaxStateKey+1))}, Stored{}, "input/invalid"},
		{StateChange{Op: 9, Key: "k"}, Stored{}, "runtime/protocol"},
		{StateChange{Op: StatePut, Key: "k", Value: edn.Text(large("v"))}, Stored{}, "input/invalid"},
	} {
		got, err := caller.State(t.Context(), tt.change)
		if tt.err != "" {
			require.ErrorIs(t, err, contract.OfType(tt.err))
			continue
		}
		require.NoError(t, err)
		assert.True(t, edn.Equal(tt.want.Value, got.Value))
		assert.Equal(t, tt.want.Version, got.Version)
		assert.Equal(t, tt.want.Conflict, got.Conflict)
	}

	// One host service per process: a second Configure does not open another.
	_, err = c.Configure(t.Context(), Setup{}, host)
	require.ErrorIs(t, err, contract.OfType("runtime/internal"))

	over := make(chan error)
	go func() {
		_, err := caller.Invoke(t.Context(), CallContext{CallID: "hang"}, edn.Nil(), nil)
		over <- err
	}()
	<-block
	c.Close()
	require.ErrorIs(t, <-over, contract.OfType("runtime/crashed"))
	_, err = c.Configure(t.Context(), Setup{}, host)
	require.ErrorIs(t, err, contract.OfType("runtime/internal"), "closed")
}
