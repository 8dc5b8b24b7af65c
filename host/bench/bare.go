package main

import (
	"context"
	"os"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"runtime/debug"
)

// The peer of a plugin call: a go-plugin program without Ferment, with one method that returns the
// bytes it receives. It has the same transport (unix socket, automatic mutual TLS) and the same
// collector settings.

const roleBare = "bare"

var bareHandshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BENCH_BARE", MagicCookieValue: "echo"}

type bareEcho struct{ plugin.NetRPCUnsupportedPlugin }

const echoMethod = "/bench.Bare/Echo"

var bareService = grpc.ServiceDesc{
	ServiceName: "bench.Bare",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			return in, nil
		},
	}},
}

// GRPCServer implements plugin.GRPCPlugin.
func (bareEcho) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&bareService, struct{}{})
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (bareEcho) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func serveBare() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: bareHandshake,
		Plugins:         plugin.PluginSet{"echo": bareEcho{}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(16<<20))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// bare is a running peer.
type bare struct {
	client *plugin.Client
	conn   *grpc.ClientConn
}

func startBare() (*bare, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: bareHandshake, Plugins: plugin.PluginSet{"echo": bareEcho{}},
		Cmd: exec.Command(self, roleBare), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS: true, SkipHostEnv: true, Logger: hclog.NewNullLogger(),
	})
	protocol, err := client.Client()
	if err != nil {
		client.Kill()
		return nil, err
	}
	raw, err := protocol.Dispense("echo")
	if err != nil {
		client.Kill()
		return nil, err
	}
	return &bare{client: client, conn: raw.(*grpc.ClientConn)}, nil
}

func (b *bare) echo(ctx context.Context, payload []byte) error {
	out := new(wrapperspb.BytesValue)
	return b.conn.Invoke(ctx, echoMethod, wrapperspb.Bytes(payload), out)
}

func (b *bare) close() { b.client.Kill() }
