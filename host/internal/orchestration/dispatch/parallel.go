package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// strategy is how the candidates of one call are asked.
type strategy struct {
	name  string
	width int           // race, tournament: how many start together
	after time.Duration // hedge: of silence
	max   int           // hedge: how many join
}

func (p strategy) recordedWidth() int {
	if p.name == policy.Race || p.name == policy.Tournament {
		return p.width
	}
	return 0
}

// strategy settles how this call is asked. Candidates that may have done
// something are never asked side by side, and one candidate alone makes a
// cascade.
func (o *operation) strategy() strategy {
	p := o.w.Policy
	s := strategy{name: p.Strategy}
	switch s.name {
	case policy.Race:
		s.width = p.RaceWidth
	case policy.Tournament:
		s.width = p.TournamentWidth
	case policy.Hedge:
		s.max, s.after = p.HedgeMax, p.HedgeAfter
		s.width = 1 + s.max
	default:
		return strategy{name: policy.Cascade}
	}
	accepted := o.binding.Accepted
	if o.w.Op != "call" || !o.repeatable(accepted) {
		return strategy{name: policy.Cascade}
	}
	o.most = max(o.most, s.width)
	room := o.affordable(accepted[:min(s.width, len(accepted))])
	s.width = min(s.width, room)
	s.max = min(s.max, room-1)
	if s.name == policy.Hedge && s.after == 0 && len(accepted) > 0 {
		s.after = o.usually(accepted[0])
	}
	if s.width < 2 || s.name == policy.Hedge && s.after == 0 {
		return strategy{name: policy.Cascade}
	}
	return s
}

// repeatable tells whether all candidates may be asked at once: asking them
// changes nothing.
func (o *operation) repeatable(ids []string) bool {
	for _, id := range ids {
		if c, ok := o.d.Registry.Capability(id); ok && c.Recovery(o.w.Input) != contract.RecoveryNone {
			return false
		}
	}
	return true
}

// usually is how long a capability may be silent before that is unusual; 0 if
// nobody can say.
func (o *operation) usually(capID string) time.Duration {
	if cs := o.w.Policy.stats[capID]; cs != nil {
		if d, ok := cs.percentile(0.95, fewAreNoP95); ok {
			return max(d, time.Millisecond)
		}
	}
	c, ok := o.d.Registry.Capability(capID)
	if !ok || !c.Cost.HasLatency {
		return 0
	}
	return 2 * c.Cost.Latency
}

// together asks candidates side by side, if the strategy says so. More tells
// that a cascade over those that are left goes on after the failure, which is
// nil if nobody was asked yet.
func (o *operation) together(ctx context.Context) (failure *Failure, more bool) {
	if o.plan.name == policy.Cascade {
		return nil, true
	}
	f := &field{op: o, ctx: ctx, arrivals: make(chan *attempt, o.most), failures: map[string]*Failure{}}
	defer f.stop()
	defer func() {
		for _, failure := range f.failures {
			o.refused(failure)
		}
	}()
	accepted := false
	switch o.plan.name {
	case policy.Race:
		accepted = f.race()
	case policy.Hedge:
		accepted = f.hedge()
	case policy.Tournament:
		accepted = f.tournament()
	}
	switch {
	case accepted, o.failed != nil:
		return nil, false
	case f.final != nil:
		return f.final, false
	}
	return f.exhausted()
}

// lossGrace is the time that the loser of a race has to report its usage after
// it was told to stop. The winner's answer waits for it, so it is short: a plugin
// that heeds a cancel answers within milliseconds, and one that hangs is why there
// are hedges.
const lossGrace = 250 * time.Millisecond

// field is the entrants of one race, hedge or tournament. Everything but the
// calls themselves happens on the goroutine that serves, so answers are judged
// one after another in the order in which they came.
type field struct {
	op       *operation
	ctx      context.Context
	arrivals chan *attempt // has room for everybody
	running  []*attempt
	started  int
	graces   sync.WaitGroup // of losers

	failures map[string]*Failure // by capability
	final    *Failure            // one after which the table ends the node
}

// enter starts the next candidate, if there is one.
func (f *field) enter() bool {
	f.op.beside = f.started > 0
	defer func() { f.op.beside = false }()
	capID, ok := f.op.next()
	if !ok || f.final != nil {
		return false
	}
	f.op.used = append(f.op.used, capID)
	a := &attempt{}
	if failure := f.op.begin(f.ctx, a, capID, f.op.plan.name); failure != nil {
		f.fail(capID, failure)
		return false
	}
	if f.op.failed != nil {
		return false
	}
	a.rank = f.started
	f.started++
	a.stop = make(chan struct{})
	a.call.Stop = a.stop
	ctx, cancel := context.WithCancel(f.ctx)
	a.ctx, a.cancel = ctx, cancel
	f.running = append(f.running, a)
	go f.call(ctx, a)
	return true
}

// call runs beside the others. A defect is raised where it can be dealt with.
func (f *field) call(ctx context.Context, a *attempt) {
	defer func() {
		a.panicked = recover()
		a.ended = f.op.d.Clock.Now()
		select {
		case <-a.stop:
			a.lost = true
		default:
		}
		f.arrivals <- a
	}()
	a.answer, a.err = f.op.invoke(ctx, a)
}

// wait returns those whose answers are there, in the order of the candidates,
// or nobody if the alarm came first.
func (f *field) wait(alarm <-chan struct{}) []*attempt {
	var batch []*attempt
	select {
	case a := <-f.arrivals:
		batch = append(batch, a)
	case <-alarm:
		return nil
	}
	for {
		select {
		case a := <-f.arrivals:
			batch = append(batch, a)
			continue
		default:
		}
		break
	}
	slices.SortFunc(batch, byRank)
	f.running = slices.DeleteFunc(f.running, func(r *attempt) bool { return slices.Contains(batch, r) })
	for _, a := range batch {
		a.cancel()
		if a.panicked != nil {
			f.stop()
			panic(a.panicked)
		}
	}
	return batch
}

func byRank(a, b *attempt) int { return cmp.Compare(a.rank, b.rank) }

// judge says whether the answer was accepted, and remembers why not.
func (f *field) judge(a *attempt) bool {
	failure := f.op.finish(f.ctx, a, new(attemptResult))
	if failure == nil {
		return f.op.failed == nil
	}
	f.fail(a.capability.ID, failure)
	return false
}

func (f *field) fail(capID string, failure *Failure) {
	f.failures[capID] = failure
	if f.final == nil && ends(failure) {
		f.final = failure
	}
}

// race takes the first answer that is accepted. Who fails is replaced while
// candidates are left.
func (f *field) race() bool {
	for range f.op.plan.width {
		f.enter()
	}
	for len(f.running) > 0 && f.op.failed == nil {
		batch := f.wait(nil)
		for i, a := range batch {
			if f.judge(a) {
				f.lose(batch[i+1:])
				return true
			}
			f.enter()
		}
	}
	return false
}

// hedge asks one candidate, and another one beside it whenever there was
// silence for too long. If all have failed, the cascade goes on.
func (f *field) hedge() bool {
	f.enter()
	joined := 0
	alarm, off := f.alarm(f.op.plan.after)
	defer func() { off() }()
	for len(f.running) > 0 && f.op.failed == nil {
		batch := f.wait(alarm)
		if batch == nil {
			off()
			alarm = nil
			if f.bound() {
				continue
			}
			if joined++; f.enter() && joined < f.op.plan.max {
				alarm, off = f.alarm(f.op.plan.after)
			}
			continue
		}
		bound := f.bound()
		for i, a := range batch {
			if bound && !a.voice.bound() {
				f.op.recordLoser(a) // somebody else is heard for good
				continue
			}
			if f.judge(a) {
				f.lose(batch[i+1:])
				return true
			}
		}
		if f.bound() {
			f.hush()
		}
	}
	return false
}

// bound tells whether one entrant was heard for good.
func (f *field) bound() bool { return f.op.w.Flow.bound() }

// hush stops the entrants that cannot be heard any more.
func (f *field) hush() {
	for _, a := range f.running {
		if !a.voice.bound() {
			f.drain(a)
		}
	}
}

// drain tells an entrant to stop at once, and ends its call if no usage was
// reported within lossGrace.
func (f *field) drain(a *attempt) {
	if a.drained {
		return
	}
	a.drained = true
	close(a.stop)
	f.graces.Go(func() {
		if f.op.d.Clock.Wait(a.ctx, lossGrace) == nil {
			a.cancel()
		}
	})
}

// alarm closes its channel after d; off ends it earlier, and may be called
// again.
func (f *field) alarm(d time.Duration) (rings <-chan struct{}, off func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	ring, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if f.op.d.Clock.Wait(ctx, d) == nil {
			close(ring)
		}
	}()
	return ring, func() { cancel(); <-done }
}

// tournament lets everybody answer and takes the best.
func (f *field) tournament() bool {
	for range f.op.plan.width {
		f.enter()
	}
	type scored struct {
		result Result
		rank   int
	}
	var accepted []scored
	for len(f.running) > 0 && f.op.failed == nil {
		for _, x := range f.wait(nil) {
			if f.judge(x) {
				accepted = append(accepted, scored{f.op.result, x.rank})
			}
		}
	}
	if len(accepted) == 0 || f.op.failed != nil {
		return false
	}
	best := slices.MinFunc(accepted, func(a, b scored) int {
		return cmp.Or(
			-compareScores(a.result.Verdict.Score.Value(), b.result.Verdict.Score.Value()),
			compareCosts(a.result.Usage.Key("cost-usd"), b.result.Usage.Key("cost-usd")),
			cmp.Compare(a.rank, b.rank))
	})
	attempts, once := f.op.result.Attempts, f.op.result.DoneOnce
	f.op.result = best.result
	f.op.result.Attempts, f.op.result.DoneOnce = attempts, once
	for _, a := range accepted {
		if a.result.Attempt != best.result.Attempt {
			f.op.result.Outscored = append(f.op.result.Outscored, a.result.Attempt)
		}
	}
	slices.Sort(f.op.result.Outscored)
	return true
}

func compareScores(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	if !xok || !yok {
		return 0
	}
	return x.Cmp(y)
}

// compareCosts has an unknown cost last.
func compareCosts(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	return compareKnown(xok, yok, func() int { return x.Cmp(y) })
}

// exhausted is the end of a field without an accepted answer: those who may be
// asked again are, one after the other, and then the others in a cascade.
func (f *field) exhausted() (failure *Failure, more bool) {
	order := slices.Clone(f.op.used)
	if f.op.plan.name == policy.Tournament { // who was nearest first
		slices.SortStableFunc(order, func(a, b string) int {
			return -compareScores(scoreOf(f.failures[a]), scoreOf(f.failures[b]))
		})
	}
	for _, capID := range order {
		failure = f.op.tryAgain(f.ctx, capID, 1, f.failures[capID])
		if failure == nil || f.op.failed != nil {
			return nil, false
		}
		if ends(failure) {
			return failure, false
		}
	}
	return failure, f.op.goesOn(failure)
}

// scoreOf is 0 for a candidate without an answer.
func scoreOf(f *Failure) edn.Value {
	if f == nil || !f.Score.IsNumber() {
		return edn.Int(0)
	}
	return f.Score
}

// ends tells whether the table ends the node after this failure, whoever is
// left.
func ends(f *Failure) bool {
	hopeful := *f
	hopeful.NextLeft = true
	action, _ := Decide(hopeful)
	return action == End
}

// lose stops the entrants that still run, waits for their usage, and accounts
// for them and for those that answered too late, in the order of the candidates.
func (f *field) lose(late []*attempt) {
	for _, a := range f.running {
		f.drain(a)
	}
	for len(f.running) > 0 {
		late = append(late, f.wait(nil)...)
	}
	slices.SortFunc(late, byRank)
	for _, a := range late {
		f.op.recordLoser(a)
	}
}

// stop leaves nothing running behind.
func (f *field) stop() {
	for _, a := range f.running {
		a.cancel()
	}
	for range f.running {
		a := <-f.arrivals
		usage := mapOrNil(a.answer.Response.Key("result").Key("usage"))
		f.op.settle(&a.reservation, settlement{usage: usage, unknown: usage.IsNil()})
	}
	f.running = nil
	f.graces.Wait()
}

// outrun accounts for an entrant that another one was faster than. An entrant
// that failed before it was told to stop has failed; what it reports afterwards
// counts as usage only.
func (o *operation) recordLoser(a *attempt) {
	r := new(attemptResult)
	a.account(r)
	var sent edn.Value
	switch err := contract.AsError(a.err); {
	case err == nil:
		response, err := contract.CheckResponse(a.answer.Response, o.wanted(a.capability))
		if err != nil {
			response = a.answer.Response
			if !a.lost {
				r.err, r.label = o.disowned(r, err), journal.OutcomeError
			}
		}
		r.usage = mapOrNil(response.Key("result").Key("usage"))
	case a.lost:
		sent = err.Details.Key("sent?")
	case err.Type != "canceled":
		o.lost(context.Background(), r, err, a.limits, a.ended)
	}
	if r.err == nil {
		r.label = journal.OutcomeCanceled
		r.err = contract.Errorf("race/lost", "node %s: another answer was accepted before that of :%s", o.w.Node, a.capability.ID)
		if !sent.IsNil() {
			r.err = r.err.WithDetail("sent?", sent)
		}
	}
	o.recordEnd(r)
	o.settle(&r.reservation, r.settlement())
	o.count(r)
	o.list(r)
}
