package dispatch

import (
	"encoding/hex"
	"strconv"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/sdk/edn"
)

// callRequest makes the requests of a node.
type callRequest struct {
	n        *node
	attempts int       // attempts so far
	round    int       // number of the current repair round; 0: none
	repair   edn.Value // the :repair of the request in a repair round
	key      string    // effect key; empty: not computed yet

	// The following fields are used only with a budget.
	tokens int64 // estimated input tokens of the node; 0: not estimated yet
	// Input tokens as counted by a capability, 0 if it did not answer, and the
	// repair round of these counts.
	counted   map[string]int64
	countedIn int
}

var _ funds.Request = (*callRequest)(nil)

// setRound sets the repair round; each has an effect key of its own.
func (q *callRequest) setRound(round int, repair edn.Value) {
	if q.round != round {
		q.round, q.repair, q.key = round, repair, ""
	}
}

// setInput replaces the input of the node.
func (q *callRequest) setInput(input edn.Value) { q.n.w.Input, q.tokens, q.counted = input, 0, nil }

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
func (n *node) limits(c *registry.Capability) limits {
	l := limits{end: n.w.Deadline}
	if c.Limits.Timeout <= 0 {
		return l
	}
	l.begun = n.now()
	soft := l.begun.Add(c.Limits.Timeout)
	if !l.end.IsZero() && !soft.Before(l.end) {
		return l
	}
	l.soft, l.end = soft, soft
	if n.w.Policy.Extend > 0 {
		l.extended = true
		l.end = soft.Add(n.w.Policy.Extend)
		if d := n.w.Deadline; !d.IsZero() && d.Before(l.end) {
			l.end = d
		}
	}
	return l
}

// call makes the call of a capability. left is the :budget of the request.
func (q *callRequest) call(c *registry.Capability, deadline time.Time, scopes policy.Scopes, left edn.Value,
	asked prompt.Composed) Call {
	w, run := q.n.w, q.n.run
	call := Call{
		CapID:     c.ID,
		Run:       run.ID,
		Epoch:     run.Epoch,
		Session:   run.Session,
		Node:      w.Node,
		Path:      w.Path,
		Attempt:   q.attempts,
		Deadline:  deadline,
		Request:   q.envelope(c, asked),
		Effects:   effects(c),
		Scope:     scopeValue(scopes),
		Principal: run.Principal,
		Behalf:    run.behalf(),
		Permits:   run.Permits,
		Caller:    run.Grant.Caller(),
		EffectKey: q.effectKey(),
		Budget:    left,
		Within:    w.Budget,
		Deepest:   w.Deepest,
		AtLeast:   run.AtLeast,
		Stack:     w.Stack,
		Trace:     run.Trace,
		Shadow:    run.Shadow,
	}
	if c.Host {
		call.Allowed, call.AllowedScope = w.Policy.Effects, scopeValue(w.Policy.Layer.Scopes)
	}
	return call
}

// behalf returns the conversation and turn on behalf of which the run calls agents.
func (r *Run) behalf() Behalf {
	b := r.Behalf
	b.Unkept = b.Unkept || r.Shadow || r.Fill != nil
	return b
}

// envelope returns the envelope, with the findings of the last round in a repair
// and with the composed prompt for a language model.
func (q *callRequest) envelope(c *registry.Capability, asked prompt.Composed) edn.Value {
	v := q.n.w.Policy.envelope(c, q.n.run.Trace, q.n.w.Input, q.n.w.System)
	if session := q.n.run.Session; session != "" {
		v = v.AssocKey("session/id", edn.Text(session))
	}
	if q.round == 0 && asked.Value.IsNil() {
		return v
	}
	around := v.Key("context")
	if around.IsNil() {
		around = edn.MustMap()
	}
	if q.round > 0 {
		around = around.AssocKey("repair", q.repair)
	}
	if !asked.Value.IsNil() {
		around = around.AssocKey("prompt", asked.Value)
	}
	return v.AssocKey("context", around)
}

// effectKey returns the key of the node's effect, which is the same over
// attempts, candidates and resumes: the hash of run, node path and repair
// round, and of the request if the run is one of a plugin (JRN-043, JRN-046).
func (q *callRequest) effectKey() string {
	if q.key == "" {
		var room [192]byte
		text := append(room[:0], q.n.run.ID...)
		text = append(text, '\n')
		text = q.n.w.Path.AppendCanonical(text)
		text = append(text, '\n')
		text = strconv.AppendInt(text, int64(q.round), 10)
		text = append(text, q.n.run.Asked...)
		sum := blake3.Sum256(text)
		q.key = string(hex.AppendEncode(append(room[:0], "b3:"...), sum[:]))
	}
	return q.key
}

// composePrompt composes the prompt of this attempt; the zero value if the
// candidate gets none.
func (q *callRequest) composePrompt(c *registry.Capability) prompt.Composed {
	if !q.n.w.Policy.composes(c) {
		return prompt.Composed{}
	}
	return q.n.w.Policy.preparation(c).Compose(prompt.Call{System: prompt.System(q.n.w.System, q.n.w.Input),
		Input: q.n.w.Input, Repair: q.repair})
}

// layersTokens estimates how many tokens the prompt layers add to the call.
func (q *callRequest) layersTokens(c *registry.Capability) int64 {
	if !q.n.w.Policy.composes(c) || prompt.System(q.n.w.System, q.n.w.Input) != "" {
		return 0
	}
	return q.n.w.Policy.preparation(c).tokens
}
