package wire

import (
	"context"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Service is a plugin. Its methods must be safe for concurrent use. Configure
// succeeds once, before any Invoke that succeeds. Errors reach the host as
// typed errors.
type Service interface {
	// Describe returns the description of the plugin and has no side effects. A
	// nil config requests the description without a configuration.
	Describe(ctx context.Context, config edn.Value, host HostInfo) (Description, error)
	// Configure configures the plugin. host is nil if the host serves none.
	// After success the plugin owns host and closes it; after an error or
	// findings it must not keep it.
	Configure(ctx context.Context, setup Setup, host *Caller) (Description, error)
	// Health calls send with the current state at once and after each change,
	// until ctx ends or send fails.
	Health(ctx context.Context, send func(Health) error) error
	// EndRun is called when a run has ended.
	EndRun(ctx context.Context, run string) error
	// Drain rejects new calls and waits for those in flight until the deadline.
	// Then it cancels the calls that still run and returns their number.
	Drain(ctx context.Context, deadline time.Time, reason string) (unfinished int, err error)
	// Invoke answers one call.
	Invoke(ctx context.Context, call Call, out *Emitter) (edn.Value, error)
}

// Broker connects a plugin to the socket that its host announced under an id.
// The broker of go-plugin implements it.
type Broker interface {
	DialWithOptions(id uint32, opts ...grpc.DialOption) (*grpc.ClientConn, error)
}

var _ Broker = (*plugin.GRPCBroker)(nil)

// Register registers service on server, which was created with ServerOptions.
// broker connects to the host service; it may be nil.
func Register(server grpc.ServiceRegistrar, service Service, broker Broker) {
	s := &pluginServer{service: service, broker: broker}
	pluginv1.RegisterLifecycleServer(server, s)
	pluginv1.RegisterCapabilityServer(server, s)
}

type pluginServer struct {
	pluginv1.UnimplementedLifecycleServer
	pluginv1.UnimplementedCapabilityServer
	service Service
	broker  Broker
}

func (s *pluginServer) Describe(
	ctx context.Context, req *pluginv1.DescribeRequest,
) (*pluginv1.DescribeResponse, error) {
	enc := encodingOf(req.GetConfig())
	config, err := decodeOptional(req.GetConfig())
	var d Description
	if err == nil {
		d, err = s.service.Describe(ctx, config, hostInfoFrom(req.GetHost()))
	}
	resp := &pluginv1.DescribeResponse{}
	if err == nil {
		if resp.Description, err = describing(enc, d.Value); err == nil {
			resp.Findings, err = encodeFindings(enc, d.Findings)
		}
	}
	if err != nil {
		failure, err := inline(enc, contract.AsError(err).Value())
		return &pluginv1.DescribeResponse{Error: failure}, err
	}
	return resp, nil
}

func (s *pluginServer) Configure(
	ctx context.Context, req *pluginv1.ConfigureRequest,
) (*pluginv1.ConfigureResponse, error) {
	enc := encodingOf(req.GetConfig())
	d, err := s.configure(ctx, req)
	resp := &pluginv1.ConfigureResponse{}
	if err == nil {
		if resp.Description, err = describing(enc, d.Value); err == nil {
			resp.Findings, err = encodeFindings(enc, d.Findings)
		}
	}
	if err != nil {
		failure, err := inline(enc, contract.AsError(err).Value())
		return &pluginv1.ConfigureResponse{Error: failure}, err
	}
	return resp, nil
}

// describing encodes a description; nil gives nil.
func describing(enc Encoding, d edn.Value) (*pluginv1.Payload, error) {
	if enc == JSON && !d.IsNil() {
		d = writeSchemas(d)
	}
	return optional(enc, d)
}

func (s *pluginServer) configure(ctx context.Context, req *pluginv1.ConfigureRequest) (Description, error) {
	config, err := decodeOptional(req.GetConfig())
	if err != nil {
		return Description{}, err
	}
	secrets, err := decodeOptional(req.GetSecrets())
	if err != nil {
		return Description{}, err
	}
	var host *Caller
	if id := req.GetBrokerId(); id != 0 && s.broker != nil {
		conn, err := s.broker.DialWithOptions(id, DialOptions()...)
		if err != nil {
			return Description{}, contract.Errorf("runtime/start-failed", "configure: connect to the host: %w", err)
		}
		conn.Connect() // connect early, so that the first request of the plugin does not wait
		host = newCaller(conn)
	}
	d, err := s.service.Configure(ctx, Setup{
		Config:      config,
		Secrets:     secrets,
		Root:        req.GetRoot(),
		Host:        hostInfoFrom(req.GetHost()),
		Plugin:      req.GetPlugin(),
		Instance:    req.GetInstance(),
		Generation:  req.GetGeneration(),
		LogLevel:    req.GetLogLevel(),
		MaxInFlight: int(req.GetMaxInFlight()),
	}, host)
	if host != nil && (err != nil || len(d.Findings) > 0) {
		_ = host.Close() // rejected: the service does not own the connection
	}
	return d, err
}

func (s *pluginServer) Health(
	req *pluginv1.HealthRequest, stream grpc.ServerStreamingServer[pluginv1.HealthEvent],
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	return s.service.Health(ctx, func(h Health) error {
		event, err := h.proto()
		if err != nil {
			return err
		}
		if err := stream.Send(event); err != nil {
			return err
		}
		if req.GetOnce() {
			cancel()
		}
		return nil
	})
}

func (s *pluginServer) EndRun(ctx context.Context, req *pluginv1.EndRunRequest) (*pluginv1.EndRunResponse, error) {
	return &pluginv1.EndRunResponse{}, s.service.EndRun(ctx, req.GetRun())
}

func (s *pluginServer) Drain(ctx context.Context, req *pluginv1.DrainRequest) (*pluginv1.DrainResponse, error) {
	n, err := s.service.Drain(ctx, offWire(req.GetDeadlineUnixNano(), time.Now()), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &pluginv1.DrainResponse{Unfinished: uint32(n)}, nil
}

func (s *pluginServer) Invoke(
	req *pluginv1.InvokeRequest, stream grpc.ServerStreamingServer[pluginv1.InvokeEvent],
) error {
	return serveInvoke(req, stream, s.service.Invoke)
}

func (s *pluginServer) Calls(stream grpc.BidiStreamingServer[pluginv1.CallFrames, pluginv1.EventFrames]) error {
	return serveCalls(stream, s.service.Invoke)
}

// encodingOf returns EDN for a request without a payload.
func encodingOf(p *pluginv1.Payload) Encoding {
	if p.GetEncoding() == string(JSON) {
		return JSON
	}
	return EDN
}

func decodeOptional(p *pluginv1.Payload) (edn.Value, error) {
	if p == nil {
		return edn.Nil(), nil
	}
	return DecodePayload(p, nil)
}
