package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// hostCalls executes the requests that plugins send to the host within a call. Each request is an
// act of its own, but has the trace, remaining time and effects of the call, and the configuration
// of its run. A plugin cannot widen these bounds.
type hostCalls struct{ host *Host }

var _ plugin.HostCalls = hostCalls{}

// HostInvoke implements plugin.HostCalls.
func (h hostCalls) HostInvoke(ctx context.Context, c plugin.HostCall) (edn.Value, error) {
	return h.invoke(ctx, c, dispatch.Behalf{Unkept: c.Parent.Shadow || c.Parent.Behalf.Unkept})
}

// invoke executes a request. behalf is the place in a conversation for which agents called by the
// request run, if any.
func (h hostCalls) invoke(ctx context.Context, c plugin.HostCall, behalf dispatch.Behalf) (edn.Value, error) {
	parent := c.Parent
	bounded, err := within(parent, c.Request, time.Now())
	if err != nil {
		return edn.Nil(), err
	}
	turn := h.host.nested(parent.Run)
	defer turn.Release()
	reg := turn.Registry()
	if bounded, err = checkHandles(bounded, c.Granted, reg); err != nil {
		return edn.Nil(), err
	}
	if intent, _ := bounded.Key("task").Key("intent").AsKeyword(); intent == contract.DescribeIntent {
		return describe(bounded.Key("input"), reg)
	}
	if delegates(parent, bounded, reg) {
		return h.delegate(ctx, turn, c, bounded)
	}
	return h.perform(ctx, turn, c, bounded, behalf)
}

// accounts returns the other principals on whose account a call makes requests.
func accounts(parent dispatch.Call) []policy.Caller {
	out := slices.Clone(parent.Caller.Also)
	for i := range out {
		out[i].Same = out[i].Same || out[i].Name == parent.Principal
	}
	return out
}

// perform executes a request as an act. bounded is the request as returned by within.
func (h hostCalls) perform(ctx context.Context, turn *turn, c plugin.HostCall, bounded edn.Value, behalf dispatch.Behalf) (edn.Value, error) {
	parent := c.Parent
	a := act.Act{
		Request:       bounded,
		Principal:     c.Plugin,
		PrincipalType: "plugin",
		Roles:         parent.Caller.Roles,
		Narrow:        parent.Caller.Narrow,
		Tenant:        parent.Caller.Tenant,
		Also:          accounts(parent),
		Stack:         append(slices.Clone(parent.Stack), parent.CapID),
		Within:        parent.Within,
		AtLeast:       parent.AtLeast,
		Deepest:       parent.Deepest,
		Behalf:        behalf,
	}
	response, failure, known := edn.Nil(), (*contract.Error)(nil), false
	if !parent.Shadow {
		response, failure, known = turn.of.service.Within(ctx, act.HostCall{
			Act:    a,
			Parent: parent,
			N:      c.N,
			Tell:   c.Emit,
		})
	}
	if !known { // shadow calls are not part of the run
		response, failure = turn.Do(ctx, a)
	}
	if failure != nil {
		return edn.Nil(), failure
	}
	return response, nil
}

// within returns a request with the bounds of the call in which it is made. The error is
// invalid-request, or timeout/hard if the deadline has passed.
func within(parent dispatch.Call, request edn.Value, now time.Time) (edn.Value, error) {
	if !request.IsMap() {
		return edn.Nil(), contract.Errorf("invalid-request", "request of a plugin: expected a map, got %s", request.Kind())
	}
	if request = request.Dissoc(edn.K("session/id")); parent.Session != "" {
		request = request.AssocKey("session/id", edn.Text(parent.Session))
	}
	if parent.Trace.IsMap() {
		request = request.AssocKey("trace", parent.Trace)
	}
	if !parent.Deadline.IsZero() {
		left := parent.Deadline.Sub(now).Milliseconds()
		if left < 1 {
			return edn.Nil(), contract.Errorf("timeout/hard", "the deadline of the call passed")
		}
		if own, ok := request.Key("deadline-ms").AsInt(); !ok || own > left {
			request = request.AssocKey("deadline-ms", edn.Int(left))
		}
	}
	allowed := parent.Effects
	if len(allowed) == 0 {
		allowed = []string{"none"}
	}
	var kept []string
	if asked := request.Key("effects").Key("allowed"); asked.IsNil() {
		kept = allowed
	} else {
		for e := range asked.Elems() {
			if effect, ok := e.AsKeyword(); ok && slices.Contains(allowed, effect) {
				kept = append(kept, effect)
			}
		}
	}
	if len(kept) == 0 {
		kept = []string{"none"}
	}
	effects := edn.MustMap(edn.K("allowed"), edn.Keywords(kept...))
	scope, err := narrowed(parent.Scope, request.Key("effects").Key("scope"))
	if err != nil {
		return edn.Nil(), err
	}
	if scope.Len() > 0 {
		effects = effects.AssocKey("scope", scope)
	}
	return request.AssocKey("effects", effects), nil
}

// narrowed returns the intersection of the scope of a call and the scope that a request asks for.
func narrowed(parent, asked edn.Value) (edn.Value, error) {
	var out policy.Scopes
	for _, v := range []edn.Value{parent, asked} {
		for key, scope := range v.Entries() {
			effect, _ := key.AsKeyword()
			s, problems := effects.ParseScope(effect, scope)
			if len(problems) > 0 {
				return edn.Nil(), contract.Errorf("invalid-request", "the scope of :%s %s", effect, problems[0])
			}
			out = policy.MeetAll(out, policy.Scopes{{Effect: effect, Scope: s}})
		}
	}
	return out.Value(), nil
}
