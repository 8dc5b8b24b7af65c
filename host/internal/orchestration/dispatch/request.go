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

// limits are the ends of one attempt: soft is that of the capability, end what
// the call itself gets, with the one extension that the node may grant.
type limits struct {
	begun    time.Time
	soft     time.Time
	end      time.Time
	extended bool
}

func (l limits) given() time.Duration { return l.end.Sub(l.begun) }

// limits computes the deadline of an attempt: the least of node and capability.
// The run bounds both through its context. A zero end means no bound of its own.
func (s *serving) limits(c *registry.Capability) limits {
	l := limits{end: s.w.Deadline}
	if c.Limits.Timeout <= 0 {
		return l
	}
	l.begun = s.d.Clock.Now()
	soft := l.begun.Add(c.Limits.Timeout)
	if !l.end.IsZero() && !soft.Before(l.end) {
		return l
	}
	l.soft, l.end = soft, soft
	if s.w.Terms.Extend > 0 {
		l.extended = true
		l.end = soft.Add(s.w.Terms.Extend)
		if d := s.w.Deadline; !d.IsZero() && d.Before(l.end) {
			l.end = d
		}
	}
	return l
}

func (s *serving) call(c *registry.Capability, deadline time.Time, scopes policy.Scopes, e *expense, asked prompt.Composed) Call {
	return Call{
		CapID:     c.ID,
		Run:       s.run.ID,
		Node:      s.w.Node,
		Path:      s.w.Path,
		Attempt:   s.number,
		Deadline:  deadline,
		Request:   s.request(c, asked),
		Effects:   effects(c),
		Scope:     scopeValue(scopes),
		Roles:     s.run.Grant.Roles(),
		EffectKey: s.effectKey(),
		Budget:    s.slice(e),
		Within:    s.w.Budget,
		Deepest:   s.w.Deepest,
		AtLeast:   s.run.AtLeast,
		Stack:     s.w.Stack,
		Trace:     s.run.Trace,
		Shadow:    s.run.Shadow,
	}
}

// request is the envelope; in a repair it says what was wrong. What a language
// model is asked comes with it.
func (s *serving) request(c *registry.Capability, asked prompt.Composed) edn.Value {
	v := s.w.Terms.envelope(c, s.run.Trace, s.w.Input, s.w.System)
	if s.round == 0 && asked.Value.IsNil() {
		return v
	}
	around := v.Key("context")
	if around.IsNil() {
		around = edn.MustMap()
	}
	if s.round > 0 {
		around = around.AssocKey("repair", s.told)
	}
	if !asked.Value.IsNil() {
		around = around.AssocKey("prompt", asked.Value)
	}
	return v.AssocKey("context", around)
}

// effectKey names the effect of the node: the same over attempts, candidates
// and resumes. It is the hash of run, node path and repair round.
func (s *serving) effectKey() string {
	if s.key == "" {
		text := append(s.room.key[:0], s.run.ID...)
		text = append(text, '\n')
		text = s.w.Path.AppendCanonical(text)
		text = append(text, '\n')
		text = strconv.AppendInt(text, int64(s.round), 10)
		sum := blake3.Sum256(text)
		s.key = string(hex.AppendEncode(append(s.room.key[:0], "b3:"...), sum[:]))
	}
	return s.key
}
