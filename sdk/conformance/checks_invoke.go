package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// parallelCalls is the number of concurrent calls in the parallel check.
const parallelCalls = 100

func invokeChecks() []Check {
	return []Check{
		{ID: "core/invoke/answer", Requirements: []string{"CALL-001", "CALL-002"},
			Text: "every capability answers with a well-formed response of a type that it declares, or with a typed error",
			run:  shared(invokeAnswer)},
		{ID: "core/invoke/unknown-capability", Requirements: []string{"CALL-005"},
			Text: "a call of a capability that the plugin does not have is an error of type :" + notFound,
			run:  shared(invokeUnknown)},
		{ID: "core/invoke/unexpected-input", Requirements: []string{"CALL-004"},
			Text: "an input of another shape is answered or refused with a typed error, and the plugin keeps running",
			run:  shared(invokeUnexpected)},
		{ID: "core/invoke/large", Requirements: []string{"PAYLOAD-003", "PAYLOAD-004"},
			Text: "a request of 5 MiB reaches the plugin, and an answer with a text of more than 1 MiB can be read",
			run:  shared(invokeLarge)},
		{ID: "core/invoke/parallel", Requirements: []string{"CALL-008"},
			Text: fmt.Sprintf("%d concurrent calls are answered or refused as :runtime/overloaded", parallelCalls),
			run:  shared(invokeParallel)},
		{ID: "core/invoke/apart", Requirements: []string{"CALL-008"},
			Text: "concurrent calls get the same answers as sequential ones",
			run:  alone(invokeApart)},
		{ID: "core/invoke/usage", Requirements: []string{"CALL-012"},
			Text: "the :usage of an answer has a known :mode, counts from 0 and an exact cost, as far as it has them",
			run:  shared(invokeUsage)},
		{ID: "core/cancel/stops", Requirements: []string{"CALL-006"},
			Text: "a cancelled call stops working",
			run:  shared(cancelStops)},
		{ID: "core/cancel/slots", Requirements: []string{"CALL-011"},
			Text: fmt.Sprintf("after %d cancelled calls the next call is answered as before", cancelledCalls),
			run:  alone(cancelSlots)},
		{ID: "core/deadline/stops", Requirements: []string{"CALL-007"},
			Text: "a call whose deadline passes stops working",
			run:  shared(deadlineStops)},
		{ID: "core/run/apart", Requirements: []string{"CALL-013"},
			Text: "calls of one run and trace get the same answers as in separate runs",
			run:  alone(runApart)},
		{ID: "core/run/after", Requirements: []string{"LIFE-004"},
			Text: "after EndRun, calls of this run and of another one get the same answers as before",
			run:  shared(runAfter)},
		{ID: "core/run/end", Requirements: []string{"LIFE-002"},
			Text: "EndRun succeeds, also for a run that the plugin never saw",
			run:  alone(endRun)},
		{ID: "core/run/again", Requirements: []string{"LIFE-002"},
			Text: "EndRun succeeds a second time for one run",
			run:  alone(endRunAgain)},
	}
}

// answered checks the result of a call: a response that keeps the contract, or
// an error that the plugin itself sent.
func answered(c contract.Capability, response edn.Value, err error) error {
	if err != nil {
		return typedError(err)
	}
	if _, refused := contract.CheckResponse(response, contract.ResultRules{CanProduce: c.CanProduce}); refused != nil {
		if failure := response.Key("error"); !failure.IsNil() && failure.Key("type").IsKeyword() {
			return nil
		}
		return want("a response that keeps the envelope", "%v in %s", refused, cut(response.String()))
	}
	return nil
}

// failed reports whether a call ended in an error, of the call or in the
// answer.
func failed(response edn.Value, err error) bool {
	if err != nil {
		return true
	}
	checked, refused := contract.CheckResponse(response, contract.ResultRules{})
	return refused != nil && !checked.Key("error").IsNil()
}

// ended checks that a call got an answer or a typed error; other checks test
// the content of answers.
func ended(_ edn.Value, err error) error {
	if err != nil {
		return typedError(err)
	}
	return nil
}

// typedError accepts an error that was sent as an answer in time.
func typedError(err error) error {
	if errors.As(err, new(*blocked)) {
		return err
	}
	e := contract.AsError(err)
	if wire.Transport(err) || e.Type == "runtime/protocol" || errors.As(err, new(*late)) {
		return want("an answer or a typed error", "%v", err)
	}
	return nil
}

// unreadable fails if an answer cannot be parsed. Other checks test calls that
// were lost or took too long.
func unreadable(err error) error {
	if e := contract.AsError(err); e != nil && !wire.Transport(err) && e.Type == protocolError {
		return want("an answer that can be read", "%v", err)
	}
	return nil
}

func invokeAnswer(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, q := range b.questions(d) {
		response, err := b.invoke(ctx, in, q, q.request(), nil)
		if err := answered(q.capability, response, err); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// invokeUsage checks the usage of every capability except models, which have a
// stricter check in their profile. The host drops an entry that is not well
// formed, so the check reads what the plugin sent. Unknown keys are allowed.
func invokeUsage(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, q := range b.questions(d) {
		if q.capability.Kind == profileLLM {
			continue
		}
		response, err := b.invoke(ctx, in, q, q.request(), nil)
		if err != nil {
			continue // other checks test how a call ends
		}
		usage := response.Key("result").Key("usage")
		var wrong []string
		_, _ = contract.CheckResponse(response, contract.ResultRules{Dropped: func(path []edn.Value) {
			if len(path) < 2 || !edn.Equal(path[1], edn.K("usage")) {
				return
			}
			name, _ := path[len(path)-1].AsKeyword()
			if len(path) == 2 || slices.Contains(usageKeys(), name) {
				wrong = append(wrong, name)
			}
		}})
		if len(wrong) > 0 {
			slices.Sort(wrong)
			return want("a well-formed :usage, or none, for "+q.String(), ":%s in %s", strings.Join(wrong, ", :"),
				cut(usage.String()))
		}
	}
	return nil
}

func invokeUnknown(ctx context.Context, b *bench, in Instance, _ contract.Description) error {
	c := absent()
	response, err := in.Client().Invoke(ctx, b.callContext(c), request(c, edn.MustMap()), nil)
	if err := refused(response, err, notFound); err != nil {
		return err
	}
	return b.alive(ctx, in, "a call of an unknown capability")
}

// oddInputs are inputs that no capability expects.
func oddInputs() []edn.Value {
	return []edn.Value{
		edn.MustMap(),
		edn.MustMap(edn.K("conformance/x"), edn.Vector(edn.Nil(), edn.Int(-1), edn.MustDecimal("0.1"))),
		edn.MustMap(edn.Text("text"), edn.SetOf(edn.Int(1)), edn.Int(7), edn.K("x")),
		edn.Int(7),
		edn.Nil(),
	}
}

func invokeUnexpected(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, c := range d.Capabilities {
		for _, input := range oddInputs() {
			call := b.callContext(c)
			call.Deadline = time.Now().Add(b.callLimit(c))
			response, err := in.Client().Invoke(ctx, call, request(c, input), nil)
			if err := ended(response, err); err != nil {
				return fmt.Errorf("capability %s, input %s: %w", c.ID, input, err)
			}
		}
	}
	return b.alive(ctx, in, "unexpected inputs")
}

func invokeLarge(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	c := d.Capabilities[0]
	const size = 5 << 20
	input := b.input(d, c).AssocKey("conformance/large", edn.Text(strings.Repeat("0123456789abcde\n", size/16)))
	call := b.callContext(c)
	call.Deadline = time.Now().Add(b.call)
	response, err := in.Client().Invoke(ctx, call, request(c, input), nil)
	if err := ended(response, err); err != nil {
		return err
	}
	if err := b.largeTexts(ctx, in, d); err != nil {
		return err
	}
	return b.alive(ctx, in, "a large request")
}

// largeText is the length of a text that the answer may repeat as one large
// blob.
const largeText = 1<<20 + 1<<16

// largePatience bounds the calls with such a text. A call that does not end by
// then is ignored.
const largePatience = 2 * time.Second

// largeTexts gives each capability a large text where its sample has a text. It
// skips capabilities that stream: they may send more deltas than a call can
// have.
func (b *bench) largeTexts(ctx context.Context, in Instance, d contract.Description) error {
	until := time.Now().Add(largePatience)
	large := edn.Text(strings.Repeat("0123456789abcde\n", largeText/16))
	for _, q := range b.questions(d) {
		for key, v := range q.input.Entries() {
			if !v.IsString() || q.capability.Streams || b.hanging.slow[q.capability.ID] {
				continue
			}
			q.input = q.input.Assoc(key, large)
			call := b.context(q)
			call.Deadline = until
			_, err := in.Client().Invoke(ctx, call, q.request(), nil)
			if err := unreadable(err); err != nil {
				return fmt.Errorf("%s with a text of %d bytes: %w", q, largeText, err)
			}
			break
		}
	}
	return nil
}

func invokeParallel(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	var wg sync.WaitGroup
	failures := make([]error, parallelCalls)
	for i := range failures {
		wg.Go(func() {
			c := d.Capabilities[i%len(d.Capabilities)]
			call := b.callContext(c)
			call.CallID = fmt.Sprintf("call-%d", i)
			call.Deadline = time.Now().Add(b.call)
			q := question{capability: c, intent: firstIntent(c), input: b.input(d, c)}
			if failures[i] = b.hanging.blocks(q); failures[i] != nil {
				return
			}
			_, err := in.Client().Invoke(ctx, call, q.request(), nil)
			if err != nil && typedError(err) != nil {
				failures[i] = want(fmt.Sprintf("each of %d concurrent calls ends within %s, beyond the limit of the plugin as "+
					":runtime/overloaded", parallelCalls, b.call), "%v", err)
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return b.idle(ctx, in, "the last answer")
}

// apartCalls is the number of concurrent calls per round in the check that
// compares their answers. A plugin that answers fast has more rounds, because a
// fault may affect only few of its calls.
const (
	apartCalls  = 16
	apartRounds = 6  // at least
	quickRounds = 48 // at most, within quickly
)

// quickly bounds the additional calls to plugins that answer fast.
const quickly = 500 * time.Millisecond

// invokeApart learns the outcomes of questions that differ little, then asks
// them concurrently.
func invokeApart(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	questions := slices.DeleteFunc(b.questions(d), func(q question) bool { return !independent(q) })
	all, err := b.learn(ctx, in, withVariants(d, questions))
	if err != nil || len(all) == 0 || !different(all) {
		return err // outcomes that do not differ cannot be mixed up
	}
	began := time.Now()
	for round := range quickRounds {
		if took := time.Since(began); took > b.call || round >= apartRounds && took > b.opts.spend(quickly) {
			break
		}
		var wg sync.WaitGroup
		failures, order := make([]error, apartCalls), make([]int, apartCalls)
		for i := range failures {
			order[i] = b.random.IntN(len(all))
			wg.Go(func() { failures[i] = b.apart(ctx, in, all, order[i]) })
		}
		wg.Wait()
		for i, err := range failures {
			if err != nil && b.settled(ctx, in, all[order[i]]) {
				return err
			}
		}
	}
	return nil
}

// runApart learns the outcomes of questions that differ little, each in its own
// run, then asks them all in one run.
func runApart(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	questions := withVariants(d, slices.DeleteFunc(b.questions(d), func(q question) bool { return !independent(q) }))
	for i := range questions {
		questions[i].at = place{run: i + 1, node: 1}
	}
	all, err := b.learn(ctx, in, questions)
	if err != nil || len(all) == 0 || !different(all) {
		return err // outcomes that do not differ cannot be mixed up
	}
	until := time.Now().Add(b.call / 2)
	for i, k := range all {
		if time.Now().After(until) {
			return nil
		}
		together := slices.Clone(all)
		together[i].at = place{run: len(questions) + 1, node: i + 1}
		if err := b.apart(ctx, in, together, i); err != nil && b.settled(ctx, in, k) {
			return fmt.Errorf("call %d of one run: %w", i+1, err)
		}
	}
	return nil
}

// apart asks one of the known questions and fails if calls are mixed up: on any
// other outcome of a capability that repeats its answers, else on the outcome
// of another question.
func (b *bench) apart(ctx context.Context, in Instance, all []known, at int) error {
	own := all[at]
	got, err := b.outcomeOf(ctx, in, own.question)
	if err != nil || got.passing() || got.equal(own.was) {
		return err
	}
	mixed := func(k known) bool { return k.was.refusal == nil && k.was.equal(got) }
	if repeats(own.capability) || slices.ContainsFunc(all, mixed) {
		return want(fmt.Sprintf("the outcome of %s for %s, also beside other calls: %s", own.question,
			cut(own.input.String()), own.was), "%s", got)
	}
	return nil
}

// cancelledCalls are cancelled in batches of cancelBatch: in total more than
// the calls in flight that a plugin is likely to allow, and per batch few
// enough for a search that takes a processor each.
const (
	cancelledCalls = 96
	cancelBatch    = 8
)

func cancelSlots(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	all, err := b.learn(ctx, in, slices.DeleteFunc(b.questions(d), func(q question) bool {
		return !repeats(q.capability) || !independent(q)
	}))
	if err != nil {
		return err
	}
	c, input := b.long(d)
	q := question{capability: c, intent: firstIntent(c), input: input}
	if _, err := b.cancelCalls(ctx, in, q, cancelledCalls); err != nil {
		return nil // another check tests that the work stops
	}
	for i := range all {
		if err := b.apart(ctx, in, all, i); err != nil && b.settled(ctx, in, all[i]) {
			return fmt.Errorf("after %d calls that were cancelled: %w", cancelledCalls, err)
		}
	}
	for _, q := range b.questions(d) {
		if _, err := b.ask(ctx, in, q); overloaded(err) {
			return want(fmt.Sprintf("an answer of %s after %d calls that were cancelled", q, cancelledCalls), "%v", err)
		} else if err != nil && typedError(err) != nil {
			return typedError(err)
		}
	}
	return nil
}

// cancelCalls asks a question n times, one batch at a time, and cancels each
// batch when it is in flight. It fails if the plugin reports that a call
// continues. going reports whether any call was in flight when it was
// cancelled.
func (b *bench) cancelCalls(ctx context.Context, in Instance, q question, n int) (going bool, err error) {
	for range n / cancelBatch {
		callCtx, cancel := context.WithCancel(ctx)
		over := b.callAll(callCtx, in, slices.Repeat([]question{q}, cancelBatch), 0)
		b.inFlightAtLeast(ctx, in, cancelBatch, over)
		select {
		case <-over:
		default:
			going = true
		}
		cancel()
		<-over
		if err := b.idle(ctx, in, "the callers went away"); err != nil {
			return going, err
		}
	}
	return going, nil
}

// inFlightAtLeast waits until n calls are in flight, as long as their number
// grows. Another check tests that the plugin answers probes meanwhile.
func (b *bench) inFlightAtLeast(ctx context.Context, in Instance, n int, over <-chan struct{}) {
	most := 0
	for still := 0; still < 5; still++ {
		h, err := b.probe(ctx, in)
		if err != nil || h.InFlight >= n {
			return
		}
		if h.InFlight > most {
			most, still = h.InFlight, 0
		}
		select {
		case <-over:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// long returns a call that should still run when it is cancelled.
func (b *bench) long(d contract.Description) (contract.Capability, edn.Value) {
	if slow := b.opts.Slow; slow != nil {
		for _, c := range d.Capabilities {
			if c.ID == slow.Capability {
				return c, slow.Input
			}
		}
	}
	c := d.Capabilities[0]
	return c, b.input(d, c)
}

// ongoing is the call of [bench.long].
type ongoing struct {
	over    chan struct{} // closed at its end
	err     error         // set before over is closed
	started bool          // it was in flight
}

// startLong starts the call of [bench.long] and returns when it is in flight or over. If no
// slow sample is given and it is over, the check has a note. ongoing is never nil.
func (b *bench) startLong(ctx context.Context, in Instance, d contract.Description) (*ongoing, error) {
	c, input := b.long(d)
	call := &ongoing{over: make(chan struct{})}
	go func() {
		defer close(call.over)
		_, call.err = in.Client().Invoke(ctx, b.callContext(c), request(c, input), nil)
	}()
	var err error
	call.started, err = b.inFlight(ctx, in, call.over)
	if !call.started {
		b.tooQuick()
	}
	return call, err
}

// tooQuick notes that the calls of the check did not last as long as it needs. With a slow
// sample that is a failure, which the check reports itself.
func (b *bench) tooQuick() {
	if b.opts.Slow == nil {
		b.note = "made without a call in flight, because calls end too early: give a capability and an input for " +
			"which it works for a second or more in the samples, as :slow {:capability :a/b :input {..}}"
	}
}

// busy starts calls that are in flight for a while: the one of the slow sample, else many
// quick ones. end waits for their end, cancels the slow one, and fails if one was lost.
func (b *bench) busy(ctx context.Context, in Instance, d contract.Description) (end func() error, err error) {
	if b.opts.Slow == nil {
		calls := b.flood(ctx, in, b.questions(d), drainCalls)
		if !calls.started {
			b.tooQuick()
		}
		return func() error { return calls.wait().lost() }, nil
	}
	callCtx, cancel := context.WithCancel(ctx)
	call, err := b.startLong(callCtx, in, d)
	return func() error {
		defer cancel()
		select {
		case <-call.over:
			return endings{call.err}.lost()
		default:
		}
		cancel()
		<-call.over
		return nil
	}, err
}

func cancelStops(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := b.startLong(callCtx, in, d)
	cancel()
	<-call.over
	if err != nil {
		return err
	}
	if !call.started && b.opts.Slow != nil {
		return untestable("the call with the input of :slow was over at once (%v)", call.err)
	}
	return b.idle(ctx, in, "the caller went away")
}

// inFlight waits until the plugin reports a call in flight. It returns false if
// the call ended before.
func (b *bench) inFlight(ctx context.Context, in Instance, over <-chan struct{}) (bool, error) {
	limit := time.NewTimer(b.call)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		h, err := b.probe(ctx, in)
		if err != nil {
			return false, want("the plugin answers probes while a call is in flight", "%v", err)
		}
		if h.InFlight > 0 {
			return true, nil
		}
		select {
		case <-over:
			return false, nil
		case <-limit.C:
			return false, want("in_flight of Health counts the call that is in flight", "%d after %s", h.InFlight, b.call)
		case <-tick.C:
		}
	}
}

func deadlineStops(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	c, input := b.long(d)
	call := b.callContext(c)
	const limit = 50 * time.Millisecond
	call.Deadline = time.Now().Add(limit)
	began := time.Now()
	response, err := in.Client().Invoke(ctx, call, request(c, input), nil)
	if took := time.Since(began); took > limit+b.soon {
		return want(fmt.Sprintf("an end after %s", limit), "%s", took)
	}
	if b.opts.Slow != nil && !failed(response, err) {
		return want("the call is cut at its deadline", "the answer %s", cut(response.String()))
	}
	if !failed(response, err) {
		b.tooQuick()
	}
	return b.idle(ctx, in, "the deadline")
}

// runAfter learns the outcomes of questions in one run, ends it, and asks them again in the
// same run and in another one.
func runAfter(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	at := func(k []known, p place) []known {
		k = slices.Clone(k)
		for i := range k {
			k[i].at = p
		}
		return k
	}
	ended, other := place{run: 1, node: 1}, place{run: 2, node: 1}
	before := b.learnEach(ctx, in, d, ended)
	if err := in.Client().EndRun(ctx, ended.name()); err != nil {
		return nil // another check tests that it succeeds
	}
	if err := b.unchanged(ctx, in, at(before, other), "the end of another run"); err != nil {
		return err
	}
	return b.unchanged(ctx, in, at(before, ended), "the end of their run")
}

func endRun(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	c := d.Capabilities[0]
	q := question{capability: c, intent: firstIntent(c), input: b.input(d, c)}
	_, _ = b.invoke(ctx, in, q, q.request(), nil)
	for _, run := range []string{b.callContext(c).Run, "conformance-never-seen", ""} {
		if err := in.Client().EndRun(ctx, run); err != nil {
			return want("EndRun succeeds", "run %q: %v", run, err)
		}
	}
	return b.alive(ctx, in, "EndRun")
}

func endRunAgain(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	q := b.questions(d)[0]
	_, _ = b.ask(ctx, in, q)
	run := b.callContext(q.capability).Run
	if err := in.Client().EndRun(ctx, run); err != nil {
		return nil // another check tests that it succeeds once
	}
	if err := in.Client().EndRun(ctx, run); err != nil {
		return want("EndRun succeeds again", "run %q: %v", run, err)
	}
	return nil
}
