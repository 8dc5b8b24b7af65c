package dispatch

import (
	"encoding/hex"
	"strconv"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// limits are the deadlines of one attempt: soft is that of the capability, end
// that of the call, including the extension that the node may grant.
type limits struct {
	begun    time.Time
	soft     time.Time
	end      time.Time
	extended bool
}

func (l limits) given() time.Duration { return l.end.Sub(l.begun) }

// limits computes the deadline of an attempt: the earlier one of node and
// capability. The run bounds both through its context. A zero end means no
// deadline.
func (o *operation) limits(c *registry.Capability) limits {
	l := limits{end: o.w.Deadline}
	if c.Limits.Timeout <= 0 {
		return l
	}
	l.begun = o.d.Clock.Now()
	soft := l.begun.Add(c.Limits.Timeout)
	if !l.end.IsZero() && !soft.Before(l.end) {
		return l
	}
	l.soft, l.end = soft, soft
	if o.w.Policy.Extend > 0 {
		l.extended = true
		l.end = soft.Add(o.w.Policy.Extend)
		if d := o.w.Deadline; !d.IsZero() && d.Before(l.end) {
			l.end = d
		}
	}
	return l
}

func (o *operation) call(c *registry.Capability, deadline time.Time, scopes policy.Scopes, r *reservation,
	asked prompt.Composed) Call {
	return Call{
		CapID:     c.ID,
		Run:       o.run.ID,
		Node:      o.w.Node,
		Path:      o.w.Path,
		Attempt:   o.number,
		Deadline:  deadline,
		Request:   o.request(c, asked),
		Effects:   effects(c),
		Scope:     scopeValue(scopes),
		Roles:     o.run.Grant.Roles(),
		EffectKey: o.effectKey(),
		Budget:    o.callBudget(r),
		Within:    o.w.Budget,
		Deepest:   o.w.Deepest,
		AtLeast:   o.run.AtLeast,
		Stack:     o.w.Stack,
		Trace:     o.run.Trace,
		Shadow:    o.run.Shadow,
	}
}

// request returns the envelope, with the findings of the last round in a repair
// and with the composed prompt for a language model.
func (o *operation) request(c *registry.Capability, asked prompt.Composed) edn.Value {
	v := o.w.Policy.envelope(c, o.run.Trace, o.w.Input, o.w.System)
	if o.round == 0 && asked.Value.IsNil() {
		return v
	}
	around := v.Key("context")
	if around.IsNil() {
		around = edn.MustMap()
	}
	if o.round > 0 {
		around = around.AssocKey("repair", o.repairContext)
	}
	if !asked.Value.IsNil() {
		around = around.AssocKey("prompt", asked.Value)
	}
	return v.AssocKey("context", around)
}

// effectKey returns the key of the node's effect, which is the same over
// attempts, candidates and resumes: the hash of run, node path and repair
// round.
func (o *operation) effectKey() string {
	if o.key == "" {
		text := append(o.scratch.key[:0], o.run.ID...)
		text = append(text, '\n')
		text = o.w.Path.AppendCanonical(text)
		text = append(text, '\n')
		text = strconv.AppendInt(text, int64(o.round), 10)
		sum := blake3.Sum256(text)
		o.key = string(hex.AppendEncode(append(o.scratch.key[:0], "b3:"...), sum[:]))
	}
	return o.key
}
