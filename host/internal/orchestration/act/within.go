package act

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HostCall is a request that a plugin makes within a call.
type HostCall struct {
	// Act is the request with its caller, bounded by the limits of the call.
	Act Act
	// Parent is the call that the plugin executes, N numbers its requests from
	// 1.
	Parent dispatch.Call
	N      int
	// Tell receives the text of the answer as it arrives, if the request is
	// streamed. Its error is ignored: if the receiver is gone, ctx is
	// canceled.
	Tell func(piece edn.Value) error
}

// flights indexes the runs in progress for requests within them.
type flights struct {
	mu   sync.Mutex
	byID map[string]*flight
}

func (x *flights) add(f *flight) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byID == nil {
		x.byID = map[string]*flight{}
	}
	x.byID[f.id] = f
}

func (x *flights) remove(f *flight) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, f.id)
}

func (x *flights) find(id string) *flight {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// Within executes a host call as a part of the run that its call belongs to:
// at the path of that call with "h<n>" appended (IR-010, IR-014). known is
// false if this service does not have the run. The result is always a response
// envelope; the error is the one in it.
func (s *Service) Within(ctx context.Context, c HostCall) (response edn.Value, err *contract.Error, known bool) {
	outer := s.flights.find(c.Parent.Run)
	if outer == nil {
		return edn.Nil(), nil, false
	}
	f := &flight{
		service:  s,
		act:      c.Act,
		begun:    s.config.Clock.Now(),
		id:       outer.id,
		seed:     outer.seed,
		recorder: outer.recorder,
		ctx:      ctx,
		inside: &eval.Place{Path: append(slices.Collect(c.Parent.Path.Elems()), edn.Text("h"+strconv.Itoa(c.N))),
			Node: c.Parent.Node, CapID: c.Parent.CapID},
	}
	f.act.Fill = outer.act.Fill
	f.halt, f.mask = outer.halt, outer.mask
	f.budget.account = outer.budget.account
	f.asks = outer.asks
	f.grant = s.config.Effects.Grant(f.act.caller())
	f.tell = c.teller()
	if err := s.stage(s.inner, f); err != nil {
		return s.Refusal(f.act, err), err, true
	}
	f.inside.Request = f.essence(f.act.Request)
	if given, err := f.recallCall(outer, &c.Parent); err != nil || !given.IsNil() {
		if err != nil {
			given = s.Refusal(f.act, err)
		}
		return given, err, true
	}
	wall := time.Duration(f.request.DeadlineMS) * time.Millisecond
	if most := f.budget.wall; most > 0 && most < wall {
		wall, f.walled = most, true
	}
	ctx, cancel := context.WithDeadline(ctx, f.begun.Add(wall))
	defer cancel()
	f.ctx = ctx
	if f.err = s.stage(s.route, f); f.err == nil {
		f.err = s.stage(s.execute, f)
	}
	f.ended = ctx.Err()
	if f.err == nil && f.past != nil && journal.Masked(f.out()) { // a recorded answer, whose secret is lost
		f.err = dispatch.SecretMissing(c.Parent.Node, "the answer to its request")
	}
	if err := s.stage(s.reply, f); err != nil {
		return s.Refusal(f.act, err), err, true
	}
	return f.response, f.err, true
}

// recallCall looks up what an earlier attempt of the calling node recorded for this
// request (JRN-046). If the recorded request is the same, its committed nodes are not
// called again. A different request is executed as a new one, unless an earlier one had
// an effect that must not be repeated: then the run is suspended for a decision. If a
// decision was made, given is the response to return; else it is nil.
//
// Parallel attempts do not share their requests.
func (f *flight) recallCall(outer *flight, parent *dispatch.Call) (given edn.Value, err *contract.Error) {
	if parent.Attempt == 1 || outer.act.Fill != nil {
		return edn.Nil(), nil
	}
	records, failed := f.service.config.Journal.Records(f.id)
	if failed != nil {
		return edn.Nil(), contract.AsError(failed)
	}
	past := journal.NewHistory(records)
	caller, path := past.At(parent.Path), edn.Vector(f.inside.Path...)
	if caller == nil {
		return edn.Nil(), nil
	}
	tried := caller.Attempt(parent.Attempt)
	call := past.HostCall(path)
	switch {
	case tried == nil || tried.Started.Entrant != "" || call == nil:
		return edn.Nil(), nil
	case call.Decided != nil:
		return f.decidedCall(call, tried.Started)
	case call.Plan.Request.Hash() == f.inside.Request.Hash():
		f.past = past
		return edn.Nil(), nil
	case caller.Diverges || !past.AskedOnce(parent.Path):
		return edn.Nil(), nil
	}
	err = outcomeOfCall(path, tried.Started)
	if outer.halt != nil {
		err = outer.suspend(&journal.RunSuspended{Why: err.Type, Open: []journal.Question{{
			Path:      path,
			Node:      parent.Node,
			Attempt:   parent.Attempt,
			CapID:     parent.CapID,
			EffectKey: parent.EffectKey,
		}}})
	}
	return edn.Nil(), err
}

// outcomeOfCall returns the error of a request that differs from the recorded one, after
// an effect that must not be repeated.
func outcomeOfCall(path edn.Value, by *journal.AttemptStarted) *contract.Error {
	return contract.Errorf("effects/outcome-unknown", "attempt %d of :%s makes another request to the host at %s than the attempt before it, "+
		"which had an effect that must not be repeated", by.Attempt, by.CapID, path).WithDetail("effect/key", edn.Text(by.EffectKey))
}

// decidedCall returns the response or the error that a decision gives to a request of a
// plugin.
func (f *flight) decidedCall(call *journal.Place, by *journal.AttemptStarted) (edn.Value, *contract.Error) {
	if call.Decided.Choice == journal.DecisionFail {
		return edn.Nil(), outcomeOfCall(edn.Vector(f.inside.Path...), by)
	}
	value := f.mask.Restore(call.Decided.Value)
	sch, _ := f.outSchema()
	f.mask.Learn(sch, value)
	if journal.Masked(value) {
		return edn.Nil(), dispatch.SecretMissing(call.Node, "the decided answer")
	}
	given := contract.ValueResult(value)
	return given.AssocKey("trace", f.request.Trace).AssocKey("run/id", edn.Text(f.id)), nil
}

// teller returns a function that passes text records of the answer to Tell, numbered
// from 1.
func (c HostCall) teller() func(journal.Body) {
	seq := int64(0)
	return func(body journal.Body) {
		var b edn.MapBuilder
		seq++
		b.Key("seq", edn.Int(seq))
		switch x := body.(type) {
		case *journal.AttemptChunk:
			b.Key("kind", edn.K("text"))
			b.Key("text", edn.Text(x.Text()))
		case *journal.AttemptRetracted:
			b.Key("kind", edn.K("retract"))
			if reason, err := edn.Keyword(x.Reason); err == nil {
				b.Key("reason", reason)
			}
		}
		_ = c.Tell(b.Map())
	}
}
