package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Line opens the socket on which a host serves one plugin and announces it to
// the plugin.
type Line interface {
	// Listen returns after the announcement. Call it once.
	Listen(ctx context.Context) (Listening, error)
	// Broken returns a context that is canceled when the plugin violates the
	// rules of the connection. Its cause is the typed error.
	Broken() context.Context
}

// Listening is the host's socket for one plugin. ID identifies it to the plugin.
type Listening struct {
	net.Listener
	ID          uint32
	Credentials credentials.TransportCredentials
}

// Methods of go-plugin whose streams the host limits itself, because the
// library reads them without a limit.
const (
	brokerMethod = "/plugin.GRPCBroker/StartStream"
	stdioMethod  = "/plugin.GRPCStdio/StreamStdio"
)

// brokerLine is the Line of a plugin process. It announces the socket on the
// stream of go-plugin's broker, but does not use the broker otherwise: the
// broker keeps an entry for each message of the plugin, listens in a directory
// that the plugin can replace by a symbolic link, and accepts any number of
// connections.
type brokerLine struct {
	config *plugin.ClientConfig // complete after the connection is established
	opened chan grpc.ClientStream

	broken context.Context
	fail   context.CancelCauseFunc
}

var _ Line = (*brokerLine)(nil)

func newBrokerLine(config *plugin.ClientConfig) *brokerLine {
	l := &brokerLine{config: config, opened: make(chan grpc.ClientStream, 1)}
	l.broken, l.fail = context.WithCancelCause(context.Background())
	return l
}

// hostID is the broker id of the host's socket, hostSocket its file name in the
// directory of the process.
const (
	hostID     = 1
	hostSocket = "host"
)

// Listen implements Line. The plugin cannot write to the parent directory, so
// only the last element of the path can be a link of the plugin, and bind does
// not follow the last element.
func (l *brokerLine) Listen(ctx context.Context) (Listening, error) {
	if l.config.UnixSocketConfig == nil || l.config.TLSConfig == nil {
		return Listening{}, contract.Errorf("runtime/internal",
			"serve the plugin: the start has no socket directory or no certificate")
	}
	path := filepath.Join(l.config.UnixSocketConfig.TempDir, hostSocket)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return Listening{}, contract.Errorf("runtime/start-failed", "serve the plugin: %w", err)
	}
	if err := l.announce(ctx, path); err != nil {
		_ = listener.Close()
		return Listening{}, err
	}
	return Listening{Listener: listener, ID: hostID, Credentials: credentials.NewTLS(l.config.TLSConfig)}, nil
}

// Broken implements Line.
func (l *brokerLine) Broken() context.Context { return l.broken }

// announce sends a ConnInfo of goplugin.proto. A plugin that ended the stream,
// or does not serve the broker, cannot call its host; that is not an error.
func (l *brokerLine) announce(ctx context.Context, path string) error {
	select {
	case stream := <-l.opened:
		err := stream.SendMsg(outgoing{{head: connInfo(hostID, "unix", path)}})
		if err != nil && !errors.Is(err, io.EOF) && l.broken.Err() == nil {
			return contract.Errorf("runtime/start-failed", "send the address of the host to the plugin: %w", err)
		}
	case <-l.broken.Done():
	case <-ctx.Done():
		return endOf(ctx, "configure")
	}
	if l.broken.Err() != nil {
		return contract.AsError(context.Cause(l.broken))
	}
	return nil
}

func connInfo(id uint32, network, address string) []byte {
	out := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(id))
	out = protowire.AppendString(protowire.AppendTag(out, 2, protowire.BytesType), network)
	return protowire.AppendString(protowire.AppendTag(out, 3, protowire.BytesType), address)
}

// options returns dial options that enforce the bounds.
func (l *brokerLine) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

func (l *brokerLine) unary(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.broken, cancel)()
	err := next(ctx, method, req, reply, conn, opts...)
	if l.broken.Err() != nil {
		return contract.AsError(context.Cause(l.broken))
	}
	return err
}

func (l *brokerLine) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if l.broken.Err() != nil {
		return nil, contract.AsError(context.Cause(l.broken))
	}
	opts = slices.Clip(opts) // gRPC passes the same slice to concurrent streams
	switch method {
	case brokerMethod:
		opts = append(opts, grpc.MaxCallRecvMsgSize(MaxNotice))
	case stdioMethod:
		opts = append(opts, grpc.MaxCallRecvMsgSize(MaxPrinted))
	}
	s, err := next(ctx, desc, conn, method, opts...)
	if err != nil || method != brokerMethod {
		return s, err
	}
	select {
	case l.opened <- s:
	default:
	}
	return silent{s, l}, nil
}

// silent is a stream on which the plugin must not send messages.
type silent struct {
	grpc.ClientStream
	line *brokerLine
}

// RecvMsg implements grpc.ClientStream. go-plugin closes the stream on an error.
func (s silent) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil && status.Code(err) != codes.ResourceExhausted {
		return err
	}
	broken := contract.Errorf("runtime/protocol",
		"the plugin sent a message on the broker stream, where the host expects none").
		WithSource(contract.SourcePlugin).
		WithHint("send nothing on plugin.GRPCBroker.StartStream; see section 4 of the plugin contract")
	s.line.fail(broken)
	return broken
}

// hostOptions returns the options of the server of a Host.
func hostOptions(c credentials.TransportCredentials) []grpc.ServerOption {
	return append(ServerOptions(), grpc.Creds(c), grpc.MaxConcurrentStreams(MaxHostStreams),
		grpc.ConnectionTimeout(hostHandshake))
}

// hostHandshake limits the TLS handshake of a connection to the host.
const hostHandshake = 5 * time.Second

// limitedListener closes connections beyond MaxHostConnections at once.
type limitedListener struct {
	net.Listener
	places chan struct{}
}

func limitConnections(l net.Listener) net.Listener {
	return limitedListener{l, make(chan struct{}, MaxHostConnections)}
}

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err // unwrapped: gRPC checks whether it is temporary
		}
		select {
		case l.places <- struct{}{}:
			return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// limitedConn is a connection that releases its place when it is closed.
type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
