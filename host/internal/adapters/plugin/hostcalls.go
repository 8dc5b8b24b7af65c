package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// HostCalls answers the calls that a plugin makes to its host during a call.
type HostCalls interface {
	// HostInvoke executes a nested request within the call that the plugin works on, with the
	// trace, remaining budget, deadline, effects and stack of that call, whatever the request
	// contains. ctx ends with that call, which waits for HostInvoke. It returns the response
	// envelope. It may be called concurrently.
	HostInvoke(ctx context.Context, c HostCall) (edn.Value, error)
}

// HostCall is one request of a plugin.
type HostCall struct {
	Plugin string
	// Parent is the call that the plugin works on. N is the number of the request within that call,
	// from 1.
	Parent dispatch.Call
	N      int
	// Granted are the capabilities whose handles the call received, and those that the
	// configuration of the plugin names. They are sorted.
	Granted []string
	Request edn.Value
	// Emit sends a piece of the answer. It must not be called concurrently. It blocks while the
	// plugin does not read, and fails when the process has ended.
	Emit func(piece edn.Value) error
}

// hostSide implements the requests of one process to the host.
type hostSide struct {
	plugin string
	named  []string // capabilities that the configuration names
	depth  func() int
	host   *shared
	store  *stateStore
	log    *pluginLog
	// self is the calling process, nil until it is configured. It may be
	// draining: the calls in flight may still make requests.
	self   atomic.Pointer[service]
	asking atomic.Int32 // requests in flight
}

var _ wire.Host = (*hostSide)(nil)

// defect converts a panic into the error of a request, so that a defect does not stop the host. It
// must be deferred directly.
func (h *hostSide) defect(op string, run *string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	h.log.write(Line{
		Plugin:  h.plugin,
		Run:     *run,
		At:      h.host.clock.Now(),
		Level:   "error",
		Message: fmt.Sprintf("the host panicked while it answered %s of the plugin: %v", op, p),
		Fields:  map[string]any{"@module": "supervisor", "stack": string(debug.Stack())},
	})
	*err = contract.Errorf("runtime/internal", "plugin %s: %s failed because of a defect of the host: %v", h.plugin, op, p)
}

// Invoke implements wire.Host.
func (h *hostSide) Invoke(ctx context.Context, call wire.Call, out *wire.Emitter) (response edn.Value, err error) {
	run := ""
	defer h.defect("a request", &run, &err)
	calls := h.host.calls.Load()
	if calls == nil {
		return edn.Nil(), contract.Errorf("runtime/not-ready",
			"plugin %s: this host does not answer requests of plugins", h.plugin)
	}
	s := h.self.Load()
	var parent *inFlight
	if s != nil {
		parent, _ = s.find(call.Context.CallID)
	}
	if parent == nil {
		return edn.Nil(), contract.Errorf("auth/forbidden",
			"plugin %s: request to the host: %q is not the id of a call in flight", h.plugin, call.Context.CallID).
			WithHint("make requests to the host only within a call, with its id")
	}
	run = parent.call.Run
	if n := len(parent.call.Stack) + 1; n > h.depth() {
		return edn.Nil(), contract.Errorf("plan/too-deep", "plugin %s: calls are nested %d deep, the limit is %d",
			h.plugin, n, h.depth()).
			WithSource(contract.SourcePlugin)
	}
	if h.asking.Add(1) > wire.MaxHostCalls {
		h.asking.Add(-1)
		return edn.Nil(), contract.Errorf("runtime/overloaded",
			"plugin %s: %d requests to the host are in flight, the limit is %d", h.plugin, wire.MaxHostCalls, wire.MaxHostCalls).
			WithSource(contract.SourcePlugin)
	}
	defer h.asking.Add(-1)
	n, refused := parent.begin(h.host.clock.Now())
	if refused != nil {
		return edn.Nil(), contract.Errorf(refused.Type, "plugin %s: %s", h.plugin, refused.Message).
			WithSource(contract.SourcePlugin)
	}
	defer parent.done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(parent.ctx, func() { cancel(context.Cause(parent.ctx)) })()
	out.GiveUp(parent.ctx) // a plugin that does not read must not block its call
	return (*calls).HostInvoke(parent.held(ctx), HostCall{
		Plugin: h.plugin, Parent: parent.call, N: n, Granted: granted(parent, h.named), Request: call.Request, Emit: out.Delta,
	})
}

// granted returns the capabilities that a request within a call may use, sorted.
func granted(parent *inFlight, named []string) []string {
	if len(named) == 0 {
		return parent.granted()
	}
	all := slices.Concat(parent.granted(), named)
	slices.Sort(all)
	return all
}

// begin counts a request on behalf of the call. The caller ends it with done.
func (c *inFlight) begin(now time.Time) (n int, err *contract.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return 0, contract.Errorf("auth/forbidden", "the call that the request belongs to has ended").
			WithHint("make requests to the host before the call is answered")
	case c.open == wire.MaxHostCallsPerCall:
		return 0, contract.Errorf("runtime/overloaded", "the call has %d requests to the host in flight, which is the limit", c.open)
	case c.asked >= wire.MaxHostCallsTotal+int(now.Sub(c.began)/time.Second):
		return 0, contract.Errorf("plan/too-large", "the call has made %d requests to the host, which is the limit", c.asked)
	}
	c.asked++
	c.open++
	c.asking.Add(1)
	return c.asked, nil
}

// done ends a request that begin counted.
func (c *inFlight) done() {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	c.asking.Done()
}

// end rejects further requests within the call, cancels those in flight and waits for their end.
func (c *inFlight) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.cancel(errAnswered)
	c.asking.Wait()
}

// errAnswered is the cancellation cause of the requests of a call that has ended.
var errAnswered = errors.New("the call that the request belongs to has ended")

// granted returns the capabilities whose handles are in the input or context of the call.
func (c *inFlight) granted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.looked {
		c.looked = true
		c.handles = contract.Handles(edn.Vector(c.call.Request.Key("input"), c.call.Request.Key("context")))
	}
	return c.handles
}

// State implements wire.Host.
func (h *hostSide) State(_ context.Context, change wire.StateChange) (stored wire.Stored, err error) {
	defer h.defect("a change of state", new(string), &err)
	return h.store.apply(change)
}

// stateStore is the key-value store of one plugin. It is kept in memory while the host runs, also
// when processes of the plugin are restarted.
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

// apply performs one operation. Versions never repeat, so that a deleted and
// recreated key has a new version.
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
	if s.bytes-now.bytes+next.bytes > wire.MaxStateBytes || now.version == 0 && len(s.values) >= wire.MaxStateKeys {
		return wire.Stored{}, contract.Errorf("runtime/overloaded",
			"state: the store of the plugin is full: it has %d keys and %d bytes, the limits are %d keys and %d bytes",
			len(s.values), s.bytes, wire.MaxStateKeys, wire.MaxStateBytes)
	}
	s.last++
	s.bytes += next.bytes - now.bytes
	s.values[c.Key] = next
	return wire.Stored{Value: next.value, Version: next.version}, nil
}
