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

// Line opens the socket on which a host serves one plugin, and tells the plugin
// where it is.
type Line interface {
	// Listen returns once the plugin has been told. Call it once.
	Listen(ctx context.Context) (Listening, error)
	// Broken ends when the plugin breaks the rules of the connection itself. Its
	// cause is the typed error.
	Broken() context.Context
}

// Listening is a socket of a host for one plugin. The plugin knows it by ID.
type Listening struct {
	net.Listener
	ID          uint32
	Credentials credentials.TransportCredentials
}

// The methods of go-plugin whose streams the host bounds itself, because the
// library reads them without a limit.
const (
	brokerMethod = "/plugin.GRPCBroker/StartStream"
	stdioMethod  = "/plugin.GRPCStdio/StreamStdio"
)

// brokerLine is the line of a plugin process. It announces the socket on the
// stream that go-plugin's broker opens, but leaves nothing else to the broker:
// that keeps an entry for each message of the plugin, listens in a directory
// that the plugin can replace by a symbolic link, and takes any number of
// connections.
type brokerLine struct {
	config *plugin.ClientConfig // complete once the connection exists
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

// hostID is the broker id of the one socket of a plugin, and hostSocket its name
// in the directory that the process was given.
const (
	hostID     = 1
	hostSocket = "host"
)

// Listen implements Line. The directory lies in one that the plugin cannot
// write, so no part of the path but the last can be a link of the plugin's, and
// bind does not follow the last.
func (l *brokerLine) Listen(ctx context.Context) (Listening, error) {
	if l.config.UnixSocketConfig == nil || l.config.TLSConfig == nil {
		return Listening{}, contract.Errorf("runtime/internal", "serve the plugin: the start has no socket directory or no certificate")
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

// announce sends a ConnInfo of goplugin.proto. A plugin that ended the stream, or
// does not serve the broker at all, cannot call its host; that is no failure.
func (l *brokerLine) announce(ctx context.Context, path string) error {
	select {
	case stream := <-l.opened:
		if err := stream.SendMsg(outgoing{{head: connInfo(hostID, "unix", path)}}); err != nil && !errors.Is(err, io.EOF) && l.broken.Err() == nil {
			return contract.Errorf("runtime/start-failed", "tell the plugin where its host listens: %w", err)
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

// options make the connection to the plugin keep the bounds.
func (l *brokerLine) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

func (l *brokerLine) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.broken, cancel)()
	err := next(ctx, method, req, reply, conn, opts...)
	if l.broken.Err() != nil {
		return contract.AsError(context.Cause(l.broken))
	}
	return err
}

func (l *brokerLine) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if l.broken.Err() != nil {
		return nil, contract.AsError(context.Cause(l.broken))
	}
	opts = slices.Clip(opts) // gRPC passes the same slice to streams that open at once
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

// silent is a stream on which the plugin has nothing to say.
type silent struct {
	grpc.ClientStream
	line *brokerLine
}

// RecvMsg implements grpc.ClientStream. go-plugin closes the stream on an error.
func (s silent) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil && status.Code(err) != codes.ResourceExhausted {
		return err
	}
	broken := contract.Errorf("runtime/protocol", "the plugin sent a message on the broker stream, where the host expects none").
		WithSource(contract.SourcePlugin).WithHint("send nothing on plugin.GRPCBroker.StartStream; see section 4 of the plugin contract")
	s.line.fail(broken)
	return broken
}

// hostOptions are those of the server of a Host.
func hostOptions(c credentials.TransportCredentials) []grpc.ServerOption {
	return append(ServerOptions(), grpc.Creds(c), grpc.MaxConcurrentStreams(MaxHostStreams), grpc.ConnectionTimeout(hostHandshake))
}

// hostHandshake is how long a connection to the host may take to prove that it
// is the plugin's.
const hostHandshake = 5 * time.Second

// fewConnections closes connections beyond MaxHostConnections as they come.
type fewConnections struct {
	net.Listener
	places chan struct{}
}

func limitConnections(l net.Listener) net.Listener {
	return fewConnections{l, make(chan struct{}, MaxHostConnections)}
}

// Accept implements net.Listener.
func (l fewConnections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err // as it is: gRPC asks it whether it is temporary
		}
		select {
		case l.places <- struct{}{}:
			return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
