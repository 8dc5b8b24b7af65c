package wire

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a gRPC server on a unix socket until the end of the test.
func serve(t testing.TB, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer(ServerOptions()...)
	register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	conn := dial(t, path)
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return conn
}

func dial(t testing.TB, path string) *grpc.ClientConn {
	t.Helper()
	opts := append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("unix:"+path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// pipeBroker connects the two ends inside one process.
type pipeBroker struct {
	t    testing.TB
	dir  string
	mu   sync.Mutex
	next uint32
	up   map[uint32]chan struct{}
}

func newPipeBroker(t testing.TB) *pipeBroker {
	return &pipeBroker{t: t, dir: t.TempDir(), up: map[uint32]chan struct{}{}}
}

func (b *pipeBroker) ready(id uint32) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.up[id] == nil {
		b.up[id] = make(chan struct{})
	}
	return b.up[id]
}

func (b *pipeBroker) Listen(context.Context) (Listening, error) {
	b.mu.Lock()
	b.next++
	id := b.next
	b.mu.Unlock()
	listener, err := net.Listen("unix", filepath.Join(b.dir, string(rune('a'+id))))
	if err != nil {
		return Listening{}, err
	}
	close(b.ready(id))
	return Listening{Listener: listener, ID: id, Credentials: insecure.NewCredentials()}, nil
}

func (b *pipeBroker) Broken() context.Context { return context.Background() }

func (b *pipeBroker) DialWithOptions(id uint32, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	<-b.ready(id)
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return grpc.NewClient("unix:"+filepath.Join(b.dir, string(rune('a'+id))), opts...)
}

// fake is a Service made of functions; a nil function does nothing.
type fake struct {
	describe  func(ctx context.Context, config edn.Value, host HostInfo) (Description, error)
	configure func(ctx context.Context, s Setup, host *Caller) (Description, error)
	health    func(ctx context.Context, send func(Health) error) error
	endRun    func(ctx context.Context, run string) error
	drain     func(ctx context.Context, deadline time.Time, reason string) (int, error)
	invoke    Answerer
}

func (f *fake) Describe(ctx context.Context, config edn.Value, host HostInfo) (Description, error) {
	if f.describe == nil {
		return Description{Value: edn.MustMap()}, nil
	}
	return f.describe(ctx, config, host)
}

func (f *fake) Configure(ctx context.Context, s Setup, host *Caller) (Description, error) {
	if f.configure == nil {
		return Description{}, nil
	}
	return f.configure(ctx, s, host)
}

func (f *fake) Health(ctx context.Context, send func(Health) error) error {
	if f.health == nil {
		return send(Health{State: HealthReady})
	}
	return f.health(ctx, send)
}

func (f *fake) EndRun(ctx context.Context, run string) error {
	if f.endRun == nil {
		return nil
	}
	return f.endRun(ctx, run)
}

func (f *fake) Drain(ctx context.Context, deadline time.Time, reason string) (int, error) {
	if f.drain == nil {
		return 0, nil
	}
	return f.drain(ctx, deadline, reason)
}

func (f *fake) Invoke(ctx context.Context, call Call, out *Emitter) (edn.Value, error) {
	if f.invoke == nil {
		return call.Request, nil
	}
	return f.invoke(ctx, call, out)
}

// client serves f and returns its client.
func client(t testing.TB, f *fake) *Client {
	t.Helper()
	broker := newPipeBroker(t)
	conn := serve(t, func(s *grpc.Server) { Register(s, f, broker) })
	c := NewClient(conn, broker)
	t.Cleanup(c.Close)
	return c
}

// clientOf returns a client of a service.
type clientOf func(testing.TB, *fake) *Client

// sharing is client with calls on a shared stream.
func sharing(t testing.TB, f *fake) *Client {
	t.Helper()
	c := client(t, f)
	c.shared.allow()
	return c
}

// bothWays runs a test with calls on separate streams and on one shared stream
// (WIRE-007).
func bothWays(t *testing.T, test func(*testing.T, clientOf)) {
	t.Run("alone", func(t *testing.T) { test(t, client) })
	t.Run("mux", func(t *testing.T) { test(t, sharing) })
}

// hostile serves an Invoke that sends arbitrary events.
func hostile(t testing.TB, invoke func(*pluginv1.InvokeRequest, grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error) *Client {
	t.Helper()
	conn := serve(t, func(s *grpc.Server) { pluginv1.RegisterCapabilityServer(s, &rawCapability{do: invoke}) })
	return NewClient(conn, nil)
}

type rawCapability struct {
	pluginv1.UnimplementedCapabilityServer
	do func(*pluginv1.InvokeRequest, grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error
}

func (r *rawCapability) Invoke(req *pluginv1.InvokeRequest, stream grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
	return r.do(req, stream)
}
