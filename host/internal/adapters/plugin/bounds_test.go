//go:build linux

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

// greedy is a plugin that exceeds bounds: in each call the one named by :take
// of the input, and from the start the one named by its argument.
type greedy struct {
	*fake
	take   string
	conn   *grpc.ClientConn // to the host
	silent chan struct{}    // closed when the next answer of Health is too large
	once   sync.Once
}

func serveGreedy(args []string) {
	g := &greedy{fake: newFake(), silent: make(chan struct{})}
	if len(args) > 0 {
		g.take = args[0]
	}
	go func() {
		awaitHost()
		os.Exit(0)
	}()
	cfg := wire.ServeConfig(g, grpc.StreamInterceptor(g.stream), grpc.UnaryInterceptor(g.unary))
	cfg.Plugins = goplugin.PluginSet{wire.PluginKey: dialing{g: g}}
	goplugin.Serve(cfg)
}

// dialing registers a plugin that keeps its connection to the host.
type dialing struct {
	goplugin.NetRPCUnsupportedPlugin
	wire.Broker
	g *greedy
}

// GRPCServer implements plugin.GRPCPlugin.
func (d dialing) GRPCServer(broker *goplugin.GRPCBroker, s *grpc.Server) error {
	d.Broker = broker
	wire.Register(s, d.g, d)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (d dialing) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is a plugin")
}

// DialWithOptions implements wire.Broker.
func (d dialing) DialWithOptions(id uint32, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := d.Broker.DialWithOptions(id, opts...)
	d.g.conn = conn
	return conn, err
}

// Describe implements wire.Service.
func (g *greedy) Describe(ctx context.Context, config edn.Value, host wire.HostInfo) (wire.Description, error) {
	d, err := g.fake.Describe(ctx, config, host)
	switch g.take {
	case "description":
		d.Value = d.Value.AssocKey("more", edn.Text(strings.Repeat("d", wire.MaxDescription)))
	case "mux":
		d.Value = d.Value.AssocKey("features", edn.Vector(edn.Text(wire.FeatureMux)))
	}
	return d, err
}

// litter leaves files beside its sockets.
func (g *greedy) litter() error {
	n, size := 0, 0
	switch g.take {
	case "socket-files":
		n = wire.MaxSocketFiles
	case "socket-bytes":
		n, size = 2, wire.MaxSocketBytes/2+1
	}
	for i := range n {
		path := filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), fmt.Sprint("litter", i))
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Configure implements wire.Service.
func (g *greedy) Configure(ctx context.Context, setup wire.Setup, host *wire.Caller) (wire.Description, error) {
	if err := g.litter(); err != nil {
		return wire.Description{}, err
	}
	d, err := g.fake.Configure(ctx, setup, host)
	if g.take == "mux" {
		d.Value = d.Value.AssocKey("features", edn.Vector(edn.Text(wire.FeatureMux)))
	}
	return d, err
}

func (g *greedy) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if strings.HasSuffix(info.FullMethod, "/EndRun") {
		return &pluginv1.Payload{Body: make([]byte, wire.MaxNotice)}, nil
	}
	return next(ctx, req)
}

func (g *greedy) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	switch {
	case info.FullMethod == "/plugin.GRPCBroker/StartStream" && g.take == "broker":
		for n := uint32(2); s.SendMsg(&pluginv1.DrainResponse{Unfinished: n}) == nil; n++ {
			// Field 1 is the id of a service without a waiter.
		}
	case info.FullMethod == "/plugin.GRPCStdio/StreamStdio" && g.take == "printed":
		return s.SendMsg(&pluginv1.Payload{Body: make([]byte, wire.MaxPrinted)})
	case info.FullMethod == pluginv1.Capability_Invoke_FullMethodName:
		req := &pluginv1.InvokeRequest{}
		if err := s.RecvMsg(req); err != nil {
			return err
		}
		v, err := wire.DecodePayload(req.GetRequest(), nil)
		if name, ok := v.Key("input").Key("take").AsString(); err == nil && ok {
			return g.grab(name, s, req, next)
		}
		return next(srv, replay{s, req})
	case info.FullMethod == pluginv1.Capability_Calls_FullMethodName:
		return grabFrames(s)
	case info.FullMethod == pluginv1.Lifecycle_Health_FullMethodName:
		select {
		case <-g.silent:
			return s.SendMsg(&pluginv1.HealthEvent{State: pluginv1.HealthState_HEALTH_STATE_READY, Reason: strings.Repeat("h", wire.MaxHealth)})
		default:
		}
	}
	return next(srv, s)
}

// replay returns a request that was already read.
type replay struct {
	grpc.ServerStream
	req *pluginv1.InvokeRequest
}

func (r replay) RecvMsg(m any) error { goproto.Merge(m.(goproto.Message), r.req); return nil }

// events sends the events before an answer.
type events struct {
	s   grpc.ServerStream
	seq uint64
}

func (e *events) send(m *pluginv1.InvokeEvent) error {
	e.seq++
	m.Seq = e.seq
	return e.s.SendMsg(m)
}

func (e *events) blob(name string, body []byte) error {
	return e.send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Blob{Blob: &pluginv1.Blob{Hash: name, Body: body}}})
}

func (e *events) answer(text string) error {
	p := &pluginv1.Payload{Encoding: "edn", Body: []byte(text)}
	return e.send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: p}})
}

// grab takes one resource until the host ends the stream.
func (g *greedy) grab(name string, s grpc.ServerStream, req *pluginv1.InvokeRequest, next grpc.StreamHandler) error {
	e := &events{s: s}
	nothing := &pluginv1.Payload{Encoding: "edn", Body: []byte("{}")}
	progress := &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Progress{Progress: nothing}}
	fresh := func(n int) string { return fmt.Sprintf("b3:%064x", n) }
	var err error
	switch name {
	case "headers":
		s.SetTrailer(metadata.Pairs("more", strings.Repeat("h", wire.MaxHeaders)))
		return nil
	case "message":
		return e.answer(`"` + strings.Repeat("m", wire.MaxMessage) + `"`)
	case "events":
		for err == nil {
			err = e.send(progress)
		}
	case "blob-name":
		err = e.blob(strings.Repeat("n", 1<<20), nil)
	case "blobs":
		for n := 0; err == nil; n++ {
			err = e.blob(fresh(n), nil)
		}
	case "blob-bytes":
		for n := 0; err == nil; n++ {
			err = e.blob(fresh(n), make([]byte, 1<<20))
		}
	case "restored":
		text := edn.Text(strings.Repeat("r", 1<<20))
		body, _ := text.AsString()
		if err = e.blob(edn.Hash(text), []byte(body)); err == nil {
			err = e.answer("[" + strings.Repeat(`#ferment/value "`+edn.Hash(text)+`"`, wire.MaxRestored>>20+1) + "]")
		}
	case "error-details":
		p := &pluginv1.Payload{Encoding: "edn", Body: []byte(`{:type :input/invalid :details {:d "` + strings.Repeat("d", wire.MaxErrorDetails) + `"}}`)}
		return e.send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Error{Error: p}})
	case "printed":
		return e.answer(`{:result {:type :value :out {}}}`)
	case "health":
		g.once.Do(func() { close(g.silent) })
		return e.answer(`{:result {:type :value :out {}}}`)
	case "line", "log":
		n := 0
		if name == "log" {
			n = 2 * wire.MaxLogBurst / (wire.MaxLine / 2)
		}
		for range n {
			_, _ = realStderr.WriteString(`{"@level":"info","@message":"m","more":"` + strings.Repeat("l", wire.MaxLine/2) + "\"}\n")
		}
		_, _ = realStderr.WriteString(strings.Repeat("l", 2*wire.MaxLine) + "\nthe end\n")
		return e.answer(`{:result {:type :value :out {}}}`)
	case "unread": // calls its host and does not read the answer
		asking, err := g.conn.NewStream(s.Context(), &grpc.StreamDesc{ServerStreams: true}, pluginv1.Host_Invoke_FullMethodName)
		if err == nil {
			err = asking.SendMsg(&pluginv1.InvokeRequest{Context: req.GetContext(), Request: req.GetRequest()})
		}
		if err != nil {
			return err
		}
		<-s.Context().Done()
		select {} // and continues when it is cancelled
	default:
		return g.grabHost(name, e, req)
	}
	// The host has ended the stream; the test checks the time.
	if err == nil {
		<-s.Context().Done()
	}
	return nil
}

// grabHost takes a resource of the host service.
func (g *greedy) grabHost(name string, e *events, req *pluginv1.InvokeRequest) error {
	ctx := e.s.Context()
	call, err := wire.CallContextFrom(req.GetContext(), wire.EDN)
	if err != nil {
		return err
	}
	request := edn.MustRead(`{:task {:intent :t/other}}`)
	counts := func(refused, done int) error {
		return e.answer(fmt.Sprintf(`{:result {:type :value :out {:refused %d :done %d}}}`, refused, done))
	}
	put := func(key string, size int) error {
		_, err := g.host.State(ctx, wire.StateChange{Op: wire.StatePut, Key: key, Value: edn.Text(strings.Repeat("v", size))})
		return err
	}
	var keys []string
	full := func() error { // puts keys until the host rejects one
		for {
			key := fmt.Sprint(name, len(keys))
			size := 1
			if name == "state-bytes" {
				size = wire.MaxStateValue / 2
			}
			if err := put(key, size); err != nil {
				return err
			}
			keys = append(keys, key)
		}
	}
	switch name {
	case "connections":
		// A rejected connection ends at once, an accepted one stays open.
		path := filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), "..", "host")
		var refused, open atomic.Int64
		var all sync.WaitGroup
		for range 4 * wire.MaxHostConnections {
			c, err := net.Dial("unix", path)
			if err != nil {
				return counts(0, -1)
			}
			defer func() { _ = c.Close() }()
			all.Go(func() {
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
					open.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		return counts(int(refused.Load()), int(open.Load()))
	case "streams":
		// The library waits for a place where another client would be rejected.
		open := 0
		for range wire.MaxHostStreams + 8 {
			opening, cancel := context.WithCancel(ctx)
			defer cancel()
			late := time.AfterFunc(time.Second, cancel)
			_, err := g.conn.NewStream(opening, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, pluginv1.Host_Invoke_FullMethodName)
			if late.Stop(); err != nil {
				break
			}
			open++
		}
		return counts(0, open)
	case "host-calls", "host-calls-of-call":
		n := wire.MaxHostCallsPerCall
		if name == "host-calls-of-call" {
			n++
		}
		var refused, done atomic.Int64
		var typed sync.Map
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				_, err := g.host.Invoke(ctx, call, request, nil)
				if err != nil {
					refused.Add(1)
					typed.Store(contract.AsError(err).Type, true)
					return
				}
				done.Add(1)
			})
		}
		all.Wait()
		var kinds []string
		typed.Range(func(k, _ any) bool { kinds = append(kinds, k.(string)); return true })
		return e.answer(fmt.Sprintf(`{:result {:type :value :out {:refused %d :done %d :types %q}}}`, refused.Load(), done.Load(), strings.Join(kinds, " ")))
	case "state-key":
		err = put(strings.Repeat("k", wire.MaxStateKey+1), 1)
	case "state-value":
		err = put("v", wire.MaxStateValue)
	case "state-bytes", "state-keys":
		err = full()
		for _, key := range keys { // the answer comes last: nothing may follow it
			_, _ = g.host.State(ctx, wire.StateChange{Op: wire.StateDelete, Key: key})
		}
	}
	kind := "none"
	if err != nil {
		kind = contract.AsError(err).Type
	}
	return e.answer(fmt.Sprintf(`{:result {:type :value :out {:types %q}}}`, kind))
}

// grabFrames answers calls on a stream of calls as they request. "opened" is
// answered at once, "arrived" when the stream has owedCalls unanswered calls.
func grabFrames(s grpc.ServerStream) error {
	owed, asked, opened := 0, uint64(0), false
	for {
		in := &pluginv1.CallFrames{}
		if err := s.RecvMsg(in); err != nil {
			return nil
		}
		for _, f := range in.GetFrames() {
			body := f.GetInvoke().GetRequest().GetBody()
			out := &pluginv1.EventFrames{}
			progress := func(n uint64, size int) *pluginv1.EventFrame {
				p := &pluginv1.Payload{Encoding: "edn", Body: bytes.Repeat([]byte{' '}, size)}
				return &pluginv1.EventFrame{Call: f.GetCall(), Event: &pluginv1.InvokeEvent{Seq: n, Event: &pluginv1.InvokeEvent_Progress{Progress: p}}}
			}
			switch {
			case bytes.Contains(body, []byte(`"frames"`)):
				for range wire.MaxFrames + 1 {
					out.Frames = append(out.Frames, &pluginv1.EventFrame{Call: f.GetCall()})
				}
			case bytes.Contains(body, []byte(`"credit"`)):
				for n := range uint64(3) {
					out.Frames = append(out.Frames, progress(n+1, 1<<20))
				}
			case bytes.Contains(body, []byte(`"owed"`)):
				owed++
			case bytes.Contains(body, []byte(`"opened"`)), bytes.Contains(body, []byte(`"arrived"`)):
				asked, opened = f.GetCall(), bytes.Contains(body, []byte(`"opened"`))
			}
			if asked != 0 && (opened || owed == owedCalls) {
				p := &pluginv1.Payload{Encoding: "edn", Body: []byte(`{:result {:type :value :out {:done 1}}}`)}
				out.Frames = append(out.Frames, &pluginv1.EventFrame{Call: asked, Event: &pluginv1.InvokeEvent{Seq: 1, Event: &pluginv1.InvokeEvent_Result{Result: p}}})
				asked = 0
			}
			if len(out.Frames) > 0 && s.SendMsg(out) != nil {
				return nil
			}
		}
	}
}

// owedCalls exceeds what a plugin may owe, plus one call with a waiting caller.
const owedCalls = wire.MaxOwed + 2

// takeLimit bounds an attack on a busy machine.
const takeLimit = 2 * time.Minute

// take makes the plugin take a resource, within takeLimit.
func (b *bench) take(t *testing.T, plugin, name string) (edn.Value, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), takeLimit)
	defer cancel()
	a, err := b.client.Invoke(ctx, call(plugin+"/echo", fmt.Sprintf("{:take %q}", name)))
	assert.NoError(t, ctx.Err(), "the host ends the attack, not the deadline")
	return out(a), err
}

// ATT-003, SUP-004: a call whose plugin does everything that it may, and reads
// nothing, ends at its deadline, and the host stops such a plugin in time.
func TestDeadlineUnderAttack(t *testing.T) {
	s := as("greedy")
	b := run(t, s).ready()
	talking := make(chan struct{}, 1)
	b.AnswerCalls(talker(func(c HostCall) error {
		select {
		case talking <- struct{}{}:
		default:
		}
		for {
			if err := c.Emit(edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("t", 60<<10)))); err != nil {
				return err
			}
		}
	}))
	for _, name := range []string{"events", "unread"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := b.client.Invoke(ctx, request(fmt.Sprintf("{:take %q}", name)))
			assert.Contains(t, []string{"timeout/hard", "runtime/protocol"}, typed(t, err).Type)
			assert.Less(t, time.Since(began), 5*time.Second)
		})
	}
	select {
	case <-talking:
	default:
		assert.Fail(t, "the host answered nothing")
	}
	for range 3 { // and with such calls in flight
		go func() { _, _ = b.ask(context.Background(), `{:take "unread"}`) }()
	}
	b.inFlight(3)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, b.Supervisor.Close(ctx))
}

// talker answers calls of plugins with pieces until they are no longer
// accepted.
type talker func(HostCall) error

func (f talker) HostInvoke(_ context.Context, c HostCall) (edn.Value, error) { return edn.Nil(), f(c) }

// many answers calls of plugins, at once or when it is released.
type many struct {
	mu   sync.Mutex
	gate chan struct{}
	n    int
}

func (m *many) HostInvoke(ctx context.Context, _ HostCall) (edn.Value, error) {
	m.mu.Lock()
	gate := m.gate
	m.n++
	m.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return edn.Nil(), ctx.Err()
		}
	}
	return edn.MustRead(`{:result {:type :value :out {}}}`), nil
}

func (m *many) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gate, m.n = make(chan struct{}), 0
}

func (m *many) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

func (m *many) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate != nil {
		close(m.gate)
		m.gate = nil
	}
}

// process returns the configured process of a plugin.
func (b *bench) process(t *testing.T, name string) *process {
	t.Helper()
	u, err := b.Supervisor.unit(name)
	require.NoError(t, err)
	require.NotNil(t, u.all()[0].living.Load())
	return u.all()[0].living.Load().process
}
