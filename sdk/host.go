package sdk

import (
	"context"
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Host is the plugin's way back to its host. It is safe for concurrent use.
type Host struct {
	caller *wire.Caller
	call   *call
}

// HostFrom gives the host behind ctx. Never nil; without a host its methods
// answer :runtime/not-ready.
func HostFrom(ctx context.Context) *Host {
	s := scopeOf(ctx)
	h := &Host{call: s.call}
	if s.setup != nil {
		h.caller = s.setup.host
	}
	return h
}

// Ask is a question to another capability.
type Ask struct {
	// Intent is the name of the intent without colon. It may be left out where a
	// handle names a capability that serves one intent alone.
	Intent string
	// Handle is who is asked first; the zero Handle lets the host choose.
	Handle Handle
	// Capability is the same by name. The host refuses it with :auth/forbidden
	// unless the call was given a handle of that capability.
	Capability string
	// Input is the input map: a struct, a map or an edn.Value, see Encode.
	Input any
	// Fields are further keys of the request envelope, such as :constraints,
	// :done or :budget; nil for none.
	Fields edn.Value
	// OnDelta, if set, sees pieces of the answer in order, as early as the
	// intent's policy shows them: {:kind :text :text ".."}, and {:kind :retract
	// :reason ..} when all text before it does not count. The answer is read no
	// faster than OnDelta returns.
	OnDelta func(piece edn.Value)
}

// Answer is the answer to an Ask.
type Answer struct {
	// Response is the whole response envelope.
	Response edn.Value
}

// Out is the answer's value.
func (a Answer) Out() edn.Value { return a.Response.Key("result").Key("out") }

// Decode reads the answer's value into dst, a pointer to a struct or a map.
func (a Answer) Decode(dst any) error { return edn.Decode(a.Out(), dst) }

// Invoke asks for another intent within the trace, the budget, the deadline
// and the effects of the call that ctx belongs to. Errors are typed errors of
// the host.
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
	if ask.OnDelta != nil {
		own.Key("stream?", edn.Bool(true))
	}
	return merged(ask.Fields, own.Map()), nil
}

func (h *Host) reachable(op string) error {
	if h.caller == nil {
		return contract.Errorf("runtime/not-ready", "%s: this plugin has no host to ask", op)
	}
	return nil
}

// State is the plugin's small store in the host: it outlives a restart of the
// plugin, not of the host.
func (h *Host) State() State { return State{h} }

// State keeps small values under keys, with versions. Keys have 1 to 256
// bytes, values at most 64 KiB of canonical text.
type State struct{ host *Host }

// Get reads a key. version is 0 and the value nil if there is none.
func (s State) Get(ctx context.Context, key string) (v edn.Value, version uint64, err error) {
	stored, err := s.change(ctx, wire.StateChange{Op: wire.StateGet, Key: key})
	return stored.Value, stored.Version, err
}

// Put writes a key whatever it holds and gives the new version.
func (s State) Put(ctx context.Context, key string, v edn.Value) (version uint64, err error) {
	stored, err := s.change(ctx, wire.StateChange{Op: wire.StatePut, Key: key, Value: v})
	return stored.Version, err
}

// Swap writes a key if its version is still the given one (0: it must not
// exist). If not, ok is false and current says what the key holds.
func (s State) Swap(ctx context.Context, key string, version uint64, v edn.Value) (current wire.Stored, ok bool, err error) {
	stored, err := s.change(ctx, wire.StateChange{Op: wire.StatePut, Key: key, Value: v, IfVersion: &version})
	return stored, err == nil && !stored.Conflict, err
}

// Delete removes a key; a missing key is no error.
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
