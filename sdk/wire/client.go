package wire

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Client is the host's end of one plugin process. Create one per process and
// call Close when the process has ended.
type Client struct {
	lifecycle  pluginv1.LifecycleClient
	capability pluginv1.CapabilityClient
	line       Line
	shared     shared // stream of calls

	hide hider

	mu       sync.Mutex
	encoding Encoding
	learned  bool // the encoding was set by an answer of Describe or by UseEncoding
	claimed  bool // a host service exists or is being created
	host     *grpc.Server
	closed   bool
	serving  sync.WaitGroup
}

// NewClient returns a client of the plugin behind conn. line may be nil if the
// plugin gets no host service.
func NewClient(conn grpc.ClientConnInterface, line Line) *Client {
	c := &Client{
		lifecycle:  pluginv1.NewLifecycleClient(conn),
		capability: pluginv1.NewCapabilityClient(conn),
		line:       line,
		encoding:   EDN,
	}
	c.shared.capability, c.shared.limit = c.capability, MaxMessage
	return c
}

// HideWith sets the functions that remove secrets from texts of the plugin.
// failures is applied to errors and health events, before a text is cut, quoted or
// folded. answers returns the function for one answer or delta, or nil if there is
// nothing to remove; an answer whose output it changes has :text/masked in the :quality of its
// :invoke/meta. HideWith must be called before the client is used; the
// functions must be safe for concurrent use.
func (c *Client) HideWith(failures func(string) string, answers func() func(string) string) {
	c.hide = hider{failures: failures, answers: answers}
	c.shared.hide = c.hide
}

// LimitMessages sets the largest message that this end accepts, in bytes. The
// options of the connection must have the same limit.
func (c *Client) LimitMessages(n int) { c.shared.limitTo(n) }

// GRPCClient implements plugin.GRPCPlugin.
func (g *GRPC) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	if g.line == nil {
		return NewClient(conn, nil), nil
	}
	return NewClient(conn, g.line), nil
}

// Broken returns a context that is canceled when the plugin violates the rules
// of the connection, so that no further call is possible. Its cause is the
// typed error.
func (c *Client) Broken() context.Context {
	if c.line == nil {
		return context.Background()
	}
	return c.line.Broken()
}

// atMost limits the answer of one RPC below the limit of the connection.
func (c *Client) atMost(n int) grpc.CallOption {
	return grpc.MaxCallRecvMsgSize(min(n, c.shared.mostMessage()))
}

// Encoding returns the encoding of calls: that of the answer to Describe,
// unless UseEncoding set another.
func (c *Client) Encoding() Encoding {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.encoding
}

// UseEncoding sets the encoding of subsequent calls.
func (c *Client) UseEncoding(enc Encoding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.encoding, c.learned = enc, true
}

func (c *Client) knowsEncoding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.learned
}

// Describe returns the description for the given configuration, with every
// secret nil; edn.Nil() means no configuration. Findings are not an error. If
// the encoding of the plugin is unknown, Describe first calls it without a
// configuration, because only the answer shows which encoding it can read.
func (c *Client) Describe(ctx context.Context, config edn.Value, host HostInfo) (Description, error) {
	if !config.IsNil() && !c.knowsEncoding() {
		if d, err := c.describe(ctx, edn.Nil(), host); err != nil || len(d.Findings) > 0 {
			return d, err
		}
	}
	return c.describe(ctx, config, host)
}

func (c *Client) describe(ctx context.Context, config edn.Value, host HostInfo) (Description, error) {
	const op = "describe"
	req := &pluginv1.DescribeRequest{Host: host.proto()}
	var err error
	if req.Config, err = optional(c.Encoding(), config); err != nil {
		return Description{}, err
	}
	resp, err := c.lifecycle.Describe(ctx, req, c.atMost(MaxDescription))
	if err != nil {
		return Description{}, c.hide.transport(ctx, op, err)
	}
	d, err := descriptionFrom(c.hide, op, config, resp.GetDescription(), resp.GetFindings(), resp.GetError())
	if err == nil && d.Encoding != "" {
		c.UseEncoding(d.Encoding)
	}
	return d, err
}

// Configure configures the plugin and, if host is not nil, serves it to the
// plugin until Close. Call it once. Findings are not an error, but a plugin
// with findings must not be called.
func (c *Client) Configure(ctx context.Context, setup Setup, host Host) (Description, error) {
	const op = "configure"
	enc := c.Encoding()
	config, err := optional(enc, setup.Config)
	if err != nil {
		return Description{}, err
	}
	secrets, err := optional(enc, setup.Secrets)
	if err != nil {
		return Description{}, err
	}
	id, err := c.serveHost(ctx, host)
	if err != nil {
		return Description{}, err
	}
	resp, err := c.lifecycle.Configure(ctx, &pluginv1.ConfigureRequest{
		Config:      config,
		Secrets:     secrets,
		Root:        setup.Root,
		BrokerId:    id,
		Host:        setup.Host.proto(),
		Plugin:      setup.Plugin,
		Instance:    setup.Instance,
		Generation:  setup.Generation,
		LogLevel:    setup.LogLevel,
		MaxInFlight: uint32(max(setup.MaxInFlight, 0)),
	}, c.atMost(MaxDescription))
	if err != nil {
		return Description{}, c.hide.transport(ctx, op, err)
	}
	d, err := descriptionFrom(c.hide, op, setup.Config, resp.GetDescription(), resp.GetFindings(), resp.GetError())
	if err == nil && slices.Contains(setup.Host.Features, FeatureMux) && announces(d.Value, FeatureMux) {
		c.shared.allow()
	}
	return d, err
}

// announces reports whether a description contains a feature.
func announces(d edn.Value, feature string) bool {
	for f := range d.Key("features").Elems() {
		if name, ok := f.AsString(); ok && name == feature {
			return true
		}
		if name, ok := f.AsKeyword(); ok && name == feature {
			return true
		}
	}
	return false
}

func descriptionFrom(
	hide hider, op string, config edn.Value, description, findings, failure *pluginv1.Payload,
) (Description, error) {
	var d Description
	if failure != nil {
		v, err := hide.decode(errorForm, failure, nil)
		if err != nil {
			return d, err
		}
		return d, errorFrom(hide.value(v), contract.SourcePlugin)
	}
	var err error
	if d.Findings, err = findingsFrom(hide, findings, config); err != nil {
		return d, err
	}
	if description == nil {
		if op == "describe" && len(d.Findings) == 0 {
			return d, contract.Errorf("runtime/protocol",
				"%s: expected a description, findings or an error, got none of them", op)
		}
		return d, nil
	}
	d.Encoding = Encoding(description.GetEncoding())
	d.Value, err = hide.decode(descriptionForm, description, nil)
	if err == nil && d.Encoding == JSON {
		d.Value, err = readSchemas(d.Value)
	}
	return d, err
}

// Probe makes one round trip and returns the state of the plugin. Success
// proves that the process responds. ctx limits it.
func (c *Client) Probe(ctx context.Context) (Health, error) {
	var last Health
	seen := false
	err := c.health(ctx, true, func(h Health) error {
		last, seen = h, true
		return nil
	})
	if err == nil && !seen {
		err = contract.Errorf("runtime/protocol", "health: the stream ended without a state")
	}
	return last, err
}

// Watch calls on with the state of the plugin, at once and after each change,
// until on returns an error, ctx ends, or the plugin ends the stream (nil).
func (c *Client) Watch(ctx context.Context, on func(Health) error) error {
	return c.health(ctx, false, on)
}

func (c *Client) health(ctx context.Context, once bool, on func(Health) error) error {
	const op = "health"
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.lifecycle.Health(streamCtx, &pluginv1.HealthRequest{Once: once}, c.atMost(MaxHealth))
	if err != nil {
		return c.hide.transport(ctx, op, err)
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.hide.transport(ctx, op, err)
		}
		h, err := healthFrom(c.hide, event)
		if err != nil {
			return err
		}
		if err := on(h); err != nil {
			return err
		}
		if once {
			return nil
		}
	}
}

// EndRun notifies the plugin that a run has ended.
func (c *Client) EndRun(ctx context.Context, run string) error {
	if _, err := c.lifecycle.EndRun(ctx, &pluginv1.EndRunRequest{Run: run}, c.atMost(MaxNotice)); err != nil {
		return c.hide.transport(ctx, "end run", err)
	}
	return nil
}

// Drain makes the plugin reject new calls and waits for those in flight. It
// returns the number of calls that did not end before the deadline.
func (c *Client) Drain(ctx context.Context, deadline time.Time, reason string) (unfinished int, err error) {
	req := &pluginv1.DrainRequest{DeadlineUnixNano: onWire(deadline, time.Now()), Reason: reason}
	resp, err := c.lifecycle.Drain(ctx, req, c.atMost(MaxNotice))
	if err != nil {
		return 0, c.hide.transport(ctx, "drain", err)
	}
	return int(resp.GetUnfinished()), nil
}

// Invoke makes one call and returns the response envelope, validated only by
// the rules of this package. on may be nil; it receives deltas and progress in
// order, on the goroutine of the caller, and slows the plugin down while it
// runs. The call ends with ctx or at call.Deadline.
func (c *Client) Invoke(ctx context.Context, call CallContext, request edn.Value, on func(Event)) (edn.Value, error) {
	return c.InvokeUntil(ctx, nil, call, request, on)
}

// InvokeUntil is Invoke for a call whose answer may become unnecessary. When
// stop is closed, the call is canceled at the plugin, and an answer that
// arrives before ctx ends is still returned. A call on a stream of its own
// returns :canceled at once, because no answer can follow its cancellation.
func (c *Client) InvokeUntil(
	ctx context.Context, stop <-chan struct{}, call CallContext, request edn.Value, on func(Event),
) (edn.Value, error) {
	const op = "invoke"
	req, err := encodeInvoke(c.Encoding(), call, request)
	if err != nil {
		return edn.Nil(), err
	}
	if len(req.Blobs) == 0 && len(req.Request.Body) <= mostMuxed {
		if answer, made, err := c.shared.invoke(ctx, stop, op, call.Deadline, req, on); made {
			return answer, err
		}
	}
	ctx, release := UntilStopped(ctx, stop, func() *contract.Error {
		return contract.Errorf("canceled", "%s: the answer is no longer needed", op)
	})
	defer release()
	in := inbound{op: op, from: contract.SourcePlugin, on: on, hide: c.hide}
	return invoke(ctx, &in, c.capability.Invoke, call.Deadline, req)
}

// serveHost starts the host service and returns its broker id, 0 for none.
func (c *Client) serveHost(ctx context.Context, host Host) (uint32, error) {
	if host == nil || c.line == nil {
		return 0, nil
	}
	if err := c.claimHost(); err != nil {
		return 0, err
	}
	socket, err := c.line.Listen(ctx)
	if err != nil {
		return 0, err
	}
	server := grpc.NewServer(hostOptions(socket.Credentials)...)
	pluginv1.RegisterHostServer(server, &hostServer{host: host})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = socket.Close()
		return 0, contract.Errorf("runtime/internal", "configure: the client is closed")
	}
	c.host = server
	c.serving.Go(func() { _ = server.Serve(limitConnections(socket.Listener)) })
	return socket.ID, nil
}

// claimHost makes sure that only one Configure serves the host.
func (c *Client) claimHost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return contract.Errorf("runtime/internal", "configure: the client is closed")
	case c.claimed:
		return contract.Errorf("runtime/internal", "configure: the plugin is configured already")
	}
	c.claimed = true
	return nil
}

// Close stops the host service at once: requests of the plugin to its host and
// the shared stream of calls are cut. It does not end the process or its
// connection.
func (c *Client) Close() {
	c.shared.close()
	c.mu.Lock()
	server := c.host
	c.closed = true
	c.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	c.serving.Wait()
}

func (h HostInfo) proto() *pluginv1.HostInfo {
	return &pluginv1.HostInfo{Version: h.Version, Features: h.Features}
}

func hostInfoFrom(p *pluginv1.HostInfo) HostInfo {
	return HostInfo{Version: p.GetVersion(), Features: p.GetFeatures()}
}
