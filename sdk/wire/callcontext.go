package wire

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// CallContext accompanies the request of a call: its position in the run, its
// budget, deadline and effects. The zero value of a field means not set.
type CallContext struct {
	// TraceParent is the W3C trace context of the caller.
	TraceParent string
	Run         string
	// Node is the id of the node in its plan, Path the vector that leads to it.
	Node string
	Path edn.Value
	// Attempt counts from 1.
	Attempt int
	// Deadline is absolute; it is also the deadline of the call's context. A
	// deadline derived from time.Now stays correct when the system clock is
	// set.
	Deadline time.Time
	// Budget is a map of the remaining budget. If the host limits tokens or money,
	// :reserved-tokens-out is the number of tokens that the call may produce,
	// reasoning included.
	Budget edn.Value
	// Effects are names without colon; Scope is a map.
	Effects []string
	Scope   edn.Value
	// EffectKey is the same for all attempts, candidates and resumes of one
	// call.
	EffectKey string
	// Stack lists the capabilities that wait for this call, outermost first.
	Stack []string
	// CallID identifies the call to the host. A plugin sends it back with
	// requests to the host on behalf of the call.
	CallID string
	// Principal is the caller as the host identified it. Permits are the
	// operations that plugins check, such as workspace/admin, and that the rules of
	// the host permit to it. A request cannot set them.
	Principal string
	Permits   []string
}

// Proto returns the message form; values are encoded in enc.
func (c CallContext) Proto(enc Encoding) (*pluginv1.CallContext, error) {
	p := &pluginv1.CallContext{
		TraceParent: c.TraceParent,
		Run:         c.Run,
		Node:        c.Node,
		Attempt:     uint32(max(c.Attempt, 0)),
		Effects:     c.Effects,
		EffectKey:   c.EffectKey,
		Stack:       c.Stack,
		CallId:      c.CallID,
		Principal:   c.Principal,
		Permits:     c.Permits,
	}
	if !c.Deadline.IsZero() {
		p.DeadlineUnixNano = onWire(c.Deadline, time.Now())
	}
	var err error
	for _, part := range []struct {
		to *[]byte
		v  edn.Value
	}{{&p.Path, c.Path}, {&p.Budget, c.Budget}, {&p.Scope, c.Scope}} {
		if part.v.IsNil() {
			continue
		}
		if *part.to, err = write(enc, part.v); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// CallContextFrom reads the message form. A nil message is the zero context.
func CallContextFrom(p *pluginv1.CallContext, enc Encoding) (CallContext, error) {
	c := CallContext{
		TraceParent: p.GetTraceParent(),
		Run:         p.GetRun(),
		Node:        p.GetNode(),
		Attempt:     int(p.GetAttempt()),
		Effects:     p.GetEffects(),
		EffectKey:   p.GetEffectKey(),
		Stack:       p.GetStack(),
		CallID:      p.GetCallId(),
		Principal:   p.GetPrincipal(),
		Permits:     p.GetPermits(),
	}
	if at := p.GetDeadlineUnixNano(); at != 0 {
		c.Deadline = offWire(at, time.Now())
	}
	for _, part := range []struct {
		to   *edn.Value
		name string
		text []byte
	}{{&c.Path, "path", p.GetPath()}, {&c.Budget, "budget", p.GetBudget()}, {&c.Scope, "scope", p.GetScope()}} {
		if len(part.text) == 0 {
			continue
		}
		v, err := DecodePayload(&pluginv1.Payload{Encoding: string(enc), Body: part.text}, nil)
		if err != nil {
			return CallContext{}, contract.Errorf("runtime/protocol", "call context: %s: %w", part.name, err)
		}
		*part.to = v
	}
	return c, nil
}
