package sdk

import (
	"context"
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Host calls back into the host. It is safe for concurrent use.
type Host struct {
	caller *wire.Caller
	call   *call
}

// HostFrom returns the host of ctx, never nil. If there is no host, its methods
// return :runtime/not-ready.
func HostFrom(ctx context.Context) *Host {
	s := scopeOf(ctx)
	h := &Host{call: s.call}
	if s.setup != nil {
		h.caller = s.setup.host
	}
	return h
}

// Ask is a request to another capability.
type Ask struct {
	// Intent is the name of the intent without colon. It can be empty if a
	// handle names a capability that serves exactly one intent.
	Intent string
	// Handle selects the capability; with the zero Handle the host chooses.
	Handle Handle
	// Capability selects the capability by name. The host rejects it with
	// :auth/forbidden unless the call received a handle of that capability.
	Capability string
	// Input is the input map: a struct, a map or an edn.Value, converted by
	// [Encode].
	Input any
	// Fields are additional keys of the request envelope, such as :constraints,
	// :done or :budget; nil for none.
	Fields edn.Value
	// OnDelta, if set, receives parts of the answer in order, as early as the
	// policy of the intent shows them: {:kind :text :text ".."}, or {:kind
	// :retract :reason ..}, which revokes all text before it. The next part is
	// not read before OnDelta returns.
	OnDelta func(piece edn.Value)
}

// Answer is the answer to an Ask.
type Answer struct {
	// Response is the whole response envelope.
	Response edn.Value
}

// Out returns the output of the answer, nil if the answer has none.
func (a Answer) Out() edn.Value { return a.Response.Key("result").Key("out") }

// Decode decodes the output of the answer into dst, a pointer to a struct or a
// map.
func (a Answer) Decode(dst any) error { return edn.Decode(a.Out(), dst) }

// Invoke sends a request within the trace, budget, deadline and effects of the
// call of ctx, and waits for the answer. The error is a *[contract.Error], unless
// the request cannot be encoded; without a host it is :runtime/not-ready. If the
// response envelope contains an error, Invoke returns the envelope with it.
func (h *Host) Invoke(ctx context.Context, ask Ask) (Answer, error) {
	if err := h.reachable("host call"); err != nil {
		return Answer{}, err
	}
	request, err := h.request(ask)
	if err != nil {
		return Answer{}, err
	}
	var context wire.CallContext
	if h.call != nil {
		if err := h.call.ask(); err != nil {
			return Answer{}, err
		}
		context = h.call.ctx
		context.Stack = append(context.Stack[:len(context.Stack):len(context.Stack)], h.call.capID)
	}
	var on func(wire.Event)
	if ask.OnDelta != nil {
		on = func(e wire.Event) {
			if e.Kind == wire.Delta {
				ask.OnDelta(e.Value)
			}
		}
	}
	response, err := h.caller.Invoke(ctx, context, request, on)
	if err != nil {
		return Answer{}, err
	}
	if failure := response.Key("error"); !failure.IsNil() {
		return Answer{Response: response}, contract.ErrorFromValue(failure, contract.SourceHost)
	}
	return Answer{Response: response}, nil
}

func (h *Host) request(ask Ask) (edn.Value, error) {
	pinned := ask.Capability
	if ask.Handle.id != "" {
		pinned = ask.Handle.id
	}
	var task, own edn.MapBuilder
	if ask.Intent != "" || pinned == "" {
		intent, err := edn.Keyword(ask.Intent)
		if err != nil {
			return edn.Nil(), fmt.Errorf("host call: intent: %w", err)
		}
		task.Key("intent", intent)
	}
	input, err := Encode(ask.Input)
	if err != nil {
		return edn.Nil(), fmt.Errorf("host call: encode input: %w", err)
	}
	if input.IsNil() {
		input = edn.MustMap()
	}
	if pinned != "" {
		capability, err := edn.Keyword(pinned)
		if err != nil {
			return edn.Nil(), fmt.Errorf("host call: capability: %w", err)
		}
		task.Key("cap/id", capability)
	}
	own.Key("proto", edn.Int(wire.Protocol))
	if h.call != nil {
		own.Key("trace", h.call.request.Key("trace"))
	}
	own.Key("task", task.Map())
	own.Key("input", input)
	own.OptTrue("stream?", ask.OnDelta != nil)
	return merged(ask.Fields, own.Map()), nil
}

func (h *Host) reachable(op string) error {
	if h.caller == nil {
		return contract.Errorf("runtime/not-ready", "%s: the plugin is not connected to a host", op).
			WithHint("use HostFrom in calls and in the hooks after Configure")
	}
	return nil
}

// State returns the store of the plugin in the host. It survives a restart of
// the plugin, not of the host.
func (h *Host) State() State { return State{h} }

// State stores small versioned values. A key has 1 to 256 bytes, a value at
// most 64 KiB of canonical text.
type State struct{ host *Host }

// Get reads a key. If it does not exist, v is nil, version is 0 and err is nil.
func (s State) Get(ctx context.Context, key string) (v edn.Value, version uint64, err error) {
	stored, err := s.change(ctx, wire.StateChange{Op: wire.StateGet, Key: key})
	return stored.Value, stored.Version, err
}

// Put writes a key unconditionally and returns the new version.
func (s State) Put(ctx context.Context, key string, v edn.Value) (version uint64, err error) {
	stored, err := s.change(ctx, wire.StateChange{Op: wire.StatePut, Key: key, Value: v})
	return stored.Version, err
}

// Swap writes a key if its version is the given one; 0 means that the key must
// not exist. If the version differs, ok is false, err is nil and current is the
// stored value.
func (s State) Swap(
	ctx context.Context, key string, version uint64, v edn.Value,
) (current wire.Stored, ok bool, err error) {
	stored, err := s.change(ctx, wire.StateChange{Op: wire.StatePut, Key: key, Value: v, IfVersion: &version})
	return stored, err == nil && !stored.Conflict, err
}

// Delete removes a key; a missing key is not an error.
func (s State) Delete(ctx context.Context, key string) error {
	_, err := s.change(ctx, wire.StateChange{Op: wire.StateDelete, Key: key})
	return err
}

func (s State) change(ctx context.Context, c wire.StateChange) (wire.Stored, error) {
	if err := s.host.reachable("state"); err != nil {
		return wire.Stored{}, err
	}
	return s.host.caller.State(ctx, c)
}
