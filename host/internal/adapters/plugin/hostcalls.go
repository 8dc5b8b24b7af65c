package plugin

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// HostCalls answers what a plugin asks of its host while it works on a call.
type HostCalls interface {
	// HostInvoke answers another request within the call that the plugin works
	// on: under that call's trace, remaining budget, deadline, effects and
	// stack, whatever the request says. ctx ends with that call. It returns the
	// response envelope; emit may be called with pieces of it before.
	HostInvoke(ctx context.Context, plugin string, parent dispatch.Call, request edn.Value, emit func(delta edn.Value) error) (edn.Value, error)
}

// hostSide is what one process can reach of its host.
type hostSide struct {
	plugin string
	depth  func() int
	host   *shared
	store  *stateStore
	// self is the process that asks, nil until it is configured. It may be on
	// its way out: the calls that it still works on may ask as before.
	self atomic.Pointer[service]
}

var _ wire.Host = (*hostSide)(nil)

// Invoke implements wire.Host.
func (h *hostSide) Invoke(ctx context.Context, call wire.Call, out *wire.Emitter) (edn.Value, error) {
	calls := h.host.calls.Load()
	if calls == nil {
		return edn.Nil(), contract.Errorf("runtime/not-ready", "plugin %s: this host answers no requests of plugins", h.plugin)
	}
	s := h.self.Load()
	var parent *inFlight
	if s != nil {
		parent, _ = s.find(call.Context.CallID)
	}
	if parent == nil {
		return edn.Nil(), contract.Errorf("auth/forbidden", "plugin %s: a request of a plugin belongs to a call that it works on, %q is none", h.plugin, call.Context.CallID)
	}
	if n := len(parent.call.Stack) + 1; n > h.depth() {
		return edn.Nil(), contract.Errorf("plan/too-deep", "plugin %s: %d calls wait for each other, the limit is %d", h.plugin, n, h.depth()).
			WithSource(contract.SourcePlugin)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(parent.ctx, func() { cancel(context.Cause(parent.ctx)) })()
	return (*calls).HostInvoke(ctx, h.plugin, parent.call, call.Request, out.Delta)
}

// State implements wire.Host.
func (h *hostSide) State(_ context.Context, change wire.StateChange) (wire.Stored, error) {
	return h.store.apply(change)
}

// Limits of what one plugin may keep in its host.
const (
	maxStateKeys  = 4096
	maxStateBytes = 8 << 20
)

// stateStore is the small store of one plugin. It lives as long as the host and
// outlives the processes of the plugin.
type stateStore struct {
	mu     sync.Mutex
	values map[string]stored
	bytes  int
	last   uint64
}

type stored struct {
	value   edn.Value
	version uint64
	bytes   int
}

func newStateStore() *stateStore { return &stateStore{values: map[string]stored{}} }

// apply does one operation. Versions never repeat, so that a key which was
// deleted and made anew does not look like the old one.
func (s *stateStore) apply(c wire.StateChange) (wire.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.values[c.Key]
	if c.Op == wire.StateGet {
		return wire.Stored{Value: now.value, Version: now.version}, nil
	}
	if c.IfVersion != nil && *c.IfVersion != now.version {
		return wire.Stored{Value: now.value, Version: now.version, Conflict: true}, nil
	}
	if c.Op == wire.StateDelete {
		s.bytes -= now.bytes
		delete(s.values, c.Key)
		return wire.Stored{}, nil
	}
	next := stored{value: c.Value.Detach(), version: s.last + 1, bytes: len(c.Key) + len(c.Value.Canonical())}
	if s.bytes-now.bytes+next.bytes > maxStateBytes || now.version == 0 && len(s.values) >= maxStateKeys {
		return wire.Stored{}, contract.Errorf("runtime/overloaded", "state: the store of the plugin is full (%d keys, %d bytes)", len(s.values), s.bytes)
	}
	s.last++
	s.bytes += next.bytes - now.bytes
	s.values[c.Key] = next
	return wire.Stored{Value: next.value, Version: next.version}, nil
}
