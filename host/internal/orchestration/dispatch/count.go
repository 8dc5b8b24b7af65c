package dispatch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// countIntent is the intent with which a language model counts the input tokens of a
// request without answering it. countOf is the key in its context that names the
// intent of that request.
const (
	countIntent = "model/count"
	countOf     = "count/of"
)

// countLimit is the timeout of a count. A count should take 250 ms, but the
// first one loads the tokenizer table.
const countLimit = 1500 * time.Millisecond

// Input implements funds.Request.
func (q *callRequest) Input(c *registry.Capability) int64 {
	if n := q.counted[c.ID]; n > 0 && q.countedIn == q.round {
		return n
	}
	w := q.n.w
	if q.tokens == 0 {
		q.tokens = policy.CountTokens(w.Input, w.Policy.Context, w.Policy.Constraints, edn.Text(w.System))
	}
	n := q.tokens + q.layersTokens(c)
	if q.round > 0 {
		n += policy.CountTokens(q.repair)
	}
	return n
}

// maxReasoning is the largest number of tokens that a request may grant for
// reasoning; plugins reject more.
const maxReasoning = 1 << 20

// askedReasoning is the number of tokens that a plugin leaves for reasoning if the request asks its model
// to reason and no other number is known.
const askedReasoning = 2048

// Output implements funds.Request. More than the declared headroom is reserved if the
// request asks a model to reason or grants more tokens for that, or if an answer was
// empty because reasoning had used up its limit.
func (q *callRequest) Output(c *registry.Capability) (n, headroom int64, ok bool) {
	most, ok := policy.MostOut(c, q.n.w.Policy.Budget)
	if !ok {
		return 0, 0, false
	}
	declared := int64(c.Limits.HeadroomTokens)
	headroom = max(declared, q.n.w.Policy.stats[c.ID].Headroom(q.n.d.Executor.State(c.ID).Edition))
	reasoning := q.n.w.Input.Key("reasoning")
	if n, asked := reasoning.Key("budget-tokens").AsInt(); asked && n <= maxReasoning {
		headroom = max(headroom, n)
	}
	effort, asked := reasoning.AsKeyword()
	if s, written := reasoning.AsString(); written {
		effort, asked = strings.TrimPrefix(s, ":"), true // a caller without EDN
	}
	if asked && effort != "none" {
		headroom = max(headroom, askedReasoning)
	}
	return most - declared + headroom, headroom, true
}

// Countable implements funds.Request. The count is requested once per capability
// and repair round (LLM-022).
func (q *callRequest) Countable(c *registry.Capability) bool {
	if !slices.Contains(c.Intents, countIntent) || q.n.w.Intent == countIntent || c.Effectful() {
		return false
	}
	if q.countedIn != q.round {
		q.counted, q.countedIn = nil, q.round
	}
	_, known := q.counted[c.ID]
	return !known
}

// Count implements funds.Request.
func (q *callRequest) Count(ctx context.Context, c *registry.Capability) {
	if q.counted == nil {
		q.counted = make(map[string]int64)
	}
	q.counted[c.ID] = q.callCount(ctx, c)
}

// callCount calls the capability to count the input tokens; 0 if it does not
// answer.
func (q *callRequest) callCount(ctx context.Context, c *registry.Capability) int64 {
	if !q.n.d.Executor.State(c.ID).Ready {
		return 0
	}
	deadline := q.n.now().Add(countLimit)
	if d := q.n.w.Deadline; !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	answer, err := q.n.d.Executor.Invoke(ctx, Call{
		CapID:    c.ID,
		Run:      q.n.run.ID,
		Epoch:    q.n.run.Epoch,
		Session:  q.n.run.Session,
		Node:     q.n.w.Node,
		Path:     q.n.w.Path,
		Attempt:  q.attempts,
		Deadline: deadline,
		Request:  q.countRequest(c),
		Effects:  effects(c),
		Scope:    edn.MustMap(),
		Stack:    q.n.w.Stack,
		Trace:    q.n.run.Trace,
		Shadow:   true,
	})
	if err != nil {
		return 0
	}
	n, _ := answer.Response.Key("result").Key("out").Key("tokens-in").AsInt()
	return n
}

// countRequest returns the request of the call with the intent replaced.
func (q *callRequest) countRequest(c *registry.Capability) edn.Value {
	v := q.envelope(c, q.composePrompt(c))
	around := v.Key("context")
	if around.IsNil() {
		around = edn.MustMap()
	}
	return v.AssocKey("task", v.Key("task").AssocKey("intent", edn.K(countIntent))).
		AssocKey("context", around.AssocKey(countOf, journal.Keyword(q.n.w.Intent)))
}
