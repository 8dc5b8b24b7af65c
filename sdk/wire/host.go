package wire

import (
	"context"

	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

const (
	// MaxStateKey is the longest key of the state store, in bytes.
	MaxStateKey = 256
	// MaxStateValue is the largest value of the state store, in bytes of its
	// canonical text.
	MaxStateValue = 64 << 10
)

// Host serves the requests of a plugin to its host. Implementations must be
// safe for concurrent use.
type Host interface {
	// Invoke answers a request on behalf of the call whose CallID the context
	// carries. The implementation applies the trace, budget, deadline and
	// effects of that call; the values that the plugin sent can only narrow
	// them.
	Invoke(ctx context.Context, call Call, out *Emitter) (edn.Value, error)
	// State reads or changes one key of the plugin's store. Key and value are
	// already validated.
	State(ctx context.Context, change StateChange) (Stored, error)
}

// StateOp is an operation of State.
type StateOp uint8

// The operations of State.
const (
	StateGet StateOp = iota + 1
	StatePut
	StateDelete
)

// StateChange is one operation on the store.
type StateChange struct {
	Op    StateOp
	Key   string
	Value edn.Value
	// IfVersion, if not nil, makes the operation conditional on the stored
	// version; 0 means that the key must not exist.
	IfVersion *uint64
}

// Stored is the entry of a key after an operation.
type Stored struct {
	// Value is nil if the key does not exist.
	Value edn.Value
	// Version grows with each put; 0 if the key does not exist.
	Version uint64
	// Conflict means that the condition failed and nothing changed.
	Conflict bool
}

// hostServer serves a Host to one plugin.
type hostServer struct {
	pluginv1.UnimplementedHostServer
	host Host
}

func (s *hostServer) Invoke(
	req *pluginv1.InvokeRequest, stream grpc.ServerStreamingServer[pluginv1.InvokeEvent],
) error {
	return serveInvoke(req, stream, s.host.Invoke)
}

func (s *hostServer) State(ctx context.Context, req *pluginv1.StateRequest) (*pluginv1.StateResponse, error) {
	stored, err := s.state(ctx, req)
	if err == nil {
		resp := &pluginv1.StateResponse{Version: stored.Version, Conflict: stored.Conflict}
		if stored.Version > 0 {
			resp.Value, err = inline(stateEncoding(req), stored.Value)
		}
		if err == nil {
			return resp, nil
		}
	}
	failure, err := inline(stateEncoding(req), contract.AsError(err).Value())
	return &pluginv1.StateResponse{Error: failure}, err
}

func (s *hostServer) state(ctx context.Context, req *pluginv1.StateRequest) (Stored, error) {
	change := StateChange{Op: StateOp(req.GetOp()), Key: req.GetKey(), IfVersion: req.IfVersion}
	if n := len(change.Key); n == 0 || n > MaxStateKey {
		return Stored{}, contract.Errorf("input/invalid", "state: a key has 1 to %d bytes, got %d", MaxStateKey, n)
	}
	switch change.Op {
	case StateGet, StateDelete:
	case StatePut:
		if n := len(req.GetValue().GetBody()); n > MaxStateValue {
			return Stored{}, contract.Errorf("input/invalid", "state: key %q: a value has at most %d bytes, got %d", change.Key,
				MaxStateValue, n)
		}
		v, err := DecodePayload(req.GetValue(), nil)
		if err != nil {
			return Stored{}, err
		}
		change.Value = v
	default:
		return Stored{}, contract.Errorf("runtime/protocol", "state: unknown operation %d", req.GetOp())
	}
	return s.host.State(ctx, change)
}

// stateEncoding returns the encoding of the request's value, EDN if there is
// none.
func stateEncoding(req *pluginv1.StateRequest) Encoding {
	if req.GetValue().GetEncoding() == string(JSON) {
		return JSON
	}
	return EDN
}

// Caller is the plugin's end of the host service.
type Caller struct {
	client pluginv1.HostClient
	conn   *grpc.ClientConn
}

// newCaller returns a caller of the host behind conn. Close closes conn.
func newCaller(conn *grpc.ClientConn) *Caller {
	return &Caller{client: pluginv1.NewHostClient(conn), conn: conn}
}

// Close closes the connection; calls in flight fail.
func (c *Caller) Close() error { return c.conn.Close() }

// Invoke sends a request on behalf of the call named by call.CallID and returns
// the response envelope. on may be nil.
func (c *Caller) Invoke(ctx context.Context, call CallContext, request edn.Value, on func(Event)) (edn.Value, error) {
	req, err := encodeInvoke(EDN, call, request)
	if err != nil {
		return edn.Nil(), err
	}
	in := inbound{op: "host call", from: contract.SourceHost, on: on}
	return invoke(ctx, &in, c.client.Invoke, call.Deadline, req)
}

// State reads or changes one key of the plugin's store. A failed condition is
// not an error; see Stored.Conflict.
func (c *Caller) State(ctx context.Context, change StateChange) (Stored, error) {
	req := &pluginv1.StateRequest{Op: pluginv1.StateOp(change.Op), Key: change.Key, IfVersion: change.IfVersion}
	if change.Op == StatePut {
		var err error
		if req.Value, err = inline(EDN, change.Value); err != nil {
			return Stored{}, err
		}
	}
	resp, err := c.client.State(ctx, req)
	if err != nil {
		return Stored{}, transport(ctx, "state", err)
	}
	if resp.GetError() != nil {
		v, err := decodeAs(errorForm, resp.GetError(), nil)
		if err != nil {
			return Stored{}, err
		}
		return Stored{}, errorFrom(v, contract.SourceHost)
	}
	stored := Stored{Version: resp.GetVersion(), Conflict: resp.GetConflict()}
	if resp.GetValue() != nil {
		if stored.Value, err = DecodePayload(resp.GetValue(), nil); err != nil {
			return Stored{}, err
		}
	}
	return stored, nil
}
