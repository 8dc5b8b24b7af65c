package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/wire"
)

// stopGrace is the time limit for closing an instance.
const stopGrace = 2 * time.Second

// InProcess returns a target that runs p in this process, behind a real gRPC
// connection over a unix socket.
func InProcess(p sdk.Plugin) Target {
	return InProcessService(Serving{Make: func(log *slog.Logger, level *slog.LevelVar) (Service, error) {
		return sdk.NewService(p, log, level)
	}})
}

// Service is a plugin that can be closed.
type Service interface {
	wire.Service
	// Close ends the calls in flight and releases the resources of the plugin.
	Close(ctx context.Context) error
}

// Serving is a plugin below package sdk: a service, and the layers between it
// and the connection. It is for plugins that break the contract on purpose.
type Serving struct {
	// Make returns the service of one instance.
	Make func(*slog.Logger, *slog.LevelVar) (Service, error)
	// Wrap wraps the registrar; nil: no wrapper.
	Wrap func(grpc.ServiceRegistrar) grpc.ServiceRegistrar
	// Options are applied after those of package wire.
	Options []grpc.ServerOption
}

// Register registers a service on a server as configured.
func (s Serving) Register(server grpc.ServiceRegistrar, service Service, broker wire.Broker) {
	if s.Wrap != nil {
		server = s.Wrap(server)
	}
	wire.Register(server, service, broker)
}

// InProcessService is InProcess for a service.
func InProcessService(s Serving) Target { return inProcess{s} }

type inProcess struct{ Serving }

// Start implements Target.
func (t inProcess) Start(context.Context) (Instance, error) {
	in := &local{done: make(chan struct{})}
	level := new(slog.LevelVar)
	log := slog.New(slog.NewJSONHandler(&in.log, &slog.HandlerOptions{Level: level}))
	service, err := t.Make(log, level)
	if err != nil {
		return nil, err
	}
	in.service = service
	if in.dir, err = os.MkdirTemp("", "ferment-"); err != nil {
		return nil, fmt.Errorf("start plugin in process: %w", err)
	}
	in.broker = &socketBroker{dir: in.dir}
	if err := in.listen(t); err != nil {
		in.Stop()
		return nil, err
	}
	in.client = wire.NewClient(in.conn, in.broker)
	return in, nil
}

// local is an instance in this process.
type local struct {
	service Service
	dir     string
	broker  *socketBroker
	server  *grpc.Server
	serving sync.WaitGroup
	conn    *grpc.ClientConn
	client  *wire.Client
	log     lineBuffer
	once    sync.Once
	done    chan struct{}
}

func (in *local) listen(t inProcess) error {
	path := filepath.Join(in.dir, "plugin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("start plugin in process: %w", err)
	}
	in.server = grpc.NewServer(append(wire.ServerOptions(), t.Options...)...)
	t.Register(in.server, in.service, in.broker)
	in.serving.Go(func() { _ = in.server.Serve(listener) })
	if in.conn, err = dialSocket(path); err != nil {
		return err
	}
	return settle(in.conn)
}

func dialSocket(path string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	opts = append(append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials())), opts...)
	conn, err := grpc.NewClient("unix:"+path, opts...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", path, err)
	}
	return conn, nil
}

// Client implements Instance.
func (in *local) Client() *wire.Client { return in.client }

// Conn implements Instance.
func (in *local) Conn() grpc.ClientConnInterface { return in.conn }

// PID implements Instance.
func (in *local) PID() int { return 0 }

// Done implements Instance.
func (in *local) Done() <-chan struct{} { return in.done }

// Log implements Instance.
func (in *local) Log() []string { return in.log.Lines() }

// Release implements Instance: the service closes as at the end of standard
// input.
func (in *local) Release() { in.serving.Go(in.end) }

// Stop implements Instance.
func (in *local) Stop() {
	in.end()
	in.serving.Wait()
}

func (in *local) end() {
	in.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		_ = in.service.Close(ctx)
		if in.server != nil {
			in.server.Stop()
		}
		if in.client != nil {
			in.client.Close()
		}
		if in.conn != nil {
			_ = in.conn.Close()
		}
		_ = os.RemoveAll(in.dir)
		close(in.done)
	})
}

// socketBroker replaces the broker of go-plugin for an instance in this
// process: both ends share it.
type socketBroker struct {
	dir    string
	nextID atomic.Uint32

	mu      sync.Mutex
	waiting map[uint32]chan struct{}
}

var (
	_ wire.Line   = (*socketBroker)(nil)
	_ wire.Broker = (*socketBroker)(nil)
)

// Listen implements wire.Line.
func (b *socketBroker) Listen(ctx context.Context) (wire.Listening, error) {
	id := b.nextID.Add(1)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", b.path(id))
	if err != nil {
		return wire.Listening{}, fmt.Errorf("serve the plugin: %w", err)
	}
	close(b.ready(id))
	return wire.Listening{Listener: listener, ID: id, Credentials: insecure.NewCredentials()}, nil
}

// Broken implements wire.Line.
func (b *socketBroker) Broken() context.Context { return context.Background() }

// DialWithOptions implements wire.Broker.
func (b *socketBroker) DialWithOptions(id uint32, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	select {
	case <-b.ready(id):
		conn, err := dialSocket(b.path(id), opts...)
		if err != nil {
			return nil, err
		}
		return conn, settle(conn)
	case <-time.After(5 * time.Second):
		return nil, fmt.Errorf("dial broker id %d: no listener", id)
	}
}

// settle makes one round trip, so that the goroutines of both ends are running:
// a later check for leaked goroutines does not count them.
func settle(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := conn.Invoke(ctx, "/settle/Settle", &emptypb.Empty{}, &emptypb.Empty{}, grpc.WaitForReady(true))
	if status.Code(err) != codes.Unimplemented {
		_ = conn.Close()
		return fmt.Errorf("connect to %s: %w", conn.Target(), err)
	}
	return nil
}

func (b *socketBroker) path(id uint32) string {
	return filepath.Join(b.dir, fmt.Sprintf("broker-%d.sock", id))
}

func (b *socketBroker) ready(id uint32) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[uint32]chan struct{}{}
	}
	if b.waiting[id] == nil {
		b.waiting[id] = make(chan struct{})
	}
	return b.waiting[id]
}
