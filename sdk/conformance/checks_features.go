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
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/wire"
)

func streamingChecks() []Check {
	return []Check{
		{ID: "streaming/deltas/sent", Requirements: []string{"STREAM-001"},
			Text: "a capability that declares streaming sends a delta before its answer",
			run: func(ctx context.Context, b *bench) error {
				return b.streams(ctx, func(a answer) error {
					if len(a.deltas) == 0 {
						return want("a delta of "+a.String(), "an answer without one")
					}
					return nil
				})
			}},
		{ID: "streaming/deltas/counted", Requirements: []string{"STREAM-002"},
			Text: "deltas are maps with a :kind, and :seq counts them from 1, also during other calls",
			run: func(ctx context.Context, b *bench) error {
				return b.streamsAtOnce(ctx, counted)
			}},
		{ID: "streaming/deltas/joined", Requirements: []string{"STREAM-003"},
			Text: "the concatenated deltas of kind :text are a text of the answer, also during other calls and for edge cases of the input",
			run: func(ctx context.Context, b *bench) error {
				return b.streamsAtOnce(ctx, joined)
			}},
		{ID: "streaming/cancel/stops", Requirements: []string{"STREAM-004"},
			Text: "a stream that is cancelled after a delta stops",
			run:  shared(streamCancel)},
	}
}

// streaming returns the questions of the capabilities that stream.
func (b *bench) streaming(d contract.Description) []question {
	return slices.DeleteFunc(b.questions(d), func(q question) bool { return !q.capability.Streams })
}

// streams asks every question that is answered with a stream.
func (b *bench) streams(ctx context.Context, check func(answer) error) error {
	in, d, err := b.lent(ctx)
	if err != nil {
		return err
	}
	return b.streamsOf(ctx, in, d, check)
}

// streamCalls is the number of concurrent calls per question in the checks of
// deltas.
const streamCalls = 8

// streamsAtOnce is streams, and then asks each question several times
// concurrently, with edge cases of its input and with a long text, which may be answered
// with many deltas. Calls that do not end quickly are
// cancelled; other checks test how a call ends.
func (b *bench) streamsAtOnce(ctx context.Context, check func(answer) error) error {
	in, d, err := b.lent(ctx)
	if err != nil {
		return err
	}
	if err := b.streamsOf(ctx, in, d, check); err != nil {
		return err
	}
	quick, cancel := context.WithTimeout(ctx, quickly)
	defer cancel()
	for _, q := range b.streaming(d) {
		all := slices.Concat(slices.Repeat([]question{q}, streamCalls), variants(d, q), longer(d, q))
		failures := make([]error, len(all))
		var wg sync.WaitGroup
		for i, q := range all {
			wg.Go(func() {
				if a, err := b.ask(quick, in, q); err == nil && a.response.Key("result").HasKey("out") {
					failures[i] = check(a)
				}
			})
		}
		wg.Wait()
		for _, err := range failures {
			if err != nil {
				return fmt.Errorf("in parallel with other calls: %w", err)
			}
		}
	}
	return nil
}

func (b *bench) streamsOf(ctx context.Context, in Instance, d contract.Description, check func(answer) error) error {
	all := b.streaming(d)
	if len(all) == 0 {
		return untestable("no capability says that it streams (:cap/streams? true)")
	}
	for _, q := range all {
		a, err := b.value(ctx, in, q)
		if err != nil {
			return err
		}
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
}

func counted(a answer) error {
	for i, delta := range a.deltas {
		n, ok := delta.Key("seq").AsInt()
		if !ok || n != int64(i+1) || wordOf(delta.Key("kind")) == "" {
			return want(fmt.Sprintf("delta %d of %s as a map with a :kind and :seq %d", i+1, a, i+1), "%s", cut(delta.String()))
		}
	}
	return nil
}

func joined(a answer) error {
	var text strings.Builder
	for _, delta := range a.deltas {
		switch wordOf(delta.Key("kind")) {
		case "text":
			piece, _ := delta.Key("text").AsString()
			text.WriteString(piece)
		case "retract":
			text.Reset()
		}
	}
	if text.Len() == 0 {
		return nil
	}
	for _, v := range a.out.Entries() {
		if s, _ := v.AsString(); s == text.String() {
			return nil
		}
	}
	return want(fmt.Sprintf("the text of the deltas of %s in the answer: %q", a, cut(text.String())), "%s",
		cut(a.out.String()))
}

func streamCancel(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	all := b.streaming(d)
	if len(all) == 0 {
		return untestable("no capability says that it streams (:cap/streams? true)")
	}
	for _, q := range all {
		callCtx, cancel := context.WithCancel(ctx)
		_, _ = in.Client().Invoke(callCtx, b.context(q), q.request(), func(wire.Event) { cancel() })
		cancel()
		if err := b.idle(ctx, in, "the caller of a stream went away"); err != nil {
			return err
		}
	}
	return nil
}

func hostCallChecks() []Check {
	return []Check{
		{ID: "host-calls/context/handle", Requirements: []string{"HOSTCALL-001"},
			Text: "a host call carries the handle of the call that the plugin works on",
			run: func(ctx context.Context, b *bench) error {
				return b.asking(ctx, func(q question, parent wire.CallContext, asked wire.Call) error {
					if asked.Context.CallID == parent.CallID {
						return nil
					}
					return want(fmt.Sprintf("call id %q in a host call of %s", parent.CallID, q), "%q", asked.Context.CallID)
				})
			}},
		{ID: "host-calls/context/stack", Requirements: []string{"HOSTCALL-002"},
			Text: "a host call has the stack of its caller with the calling capability at the end",
			run: func(ctx context.Context, b *bench) error {
				return b.asking(ctx, func(q question, parent wire.CallContext, asked wire.Call) error {
					stack := append(slices.Clone(parent.Stack), q.capability.ID)
					if slices.Equal(asked.Context.Stack, stack) {
						return nil
					}
					return want(fmt.Sprintf("the stack %v in a host call of %s", stack, q), "%v", asked.Context.Stack)
				})
			}},
		{ID: "host-calls/context/limits", Requirements: []string{"HOSTCALL-003"},
			Text: "a host call has a deadline and a budget within those of the call that the plugin works on",
			run: func(ctx context.Context, b *bench) error {
				return b.asking(ctx, withinLimits)
			}},
		{ID: "host-calls/error/typed", Requirements: []string{"HOSTCALL-004"},
			Text: "an error of the host leads to an answer or to a typed error",
			run:  hostError},
		{ID: "host-calls/cancel/passed", Requirements: []string{"HOSTCALL-005"},
			Text: "a host call is cancelled with the call that the plugin works on",
			run:  hostCancel},
	}
}

// hostBudget is the budget of calls whose host calls are checked.
func hostBudget() edn.Value { return edn.MustRead(`{:max-tokens 100 :max-roundtrips 3}`) }

// asking asks every question and passes each host call that the plugin makes
// for it to check.
func (b *bench) asking(ctx context.Context,
	check func(q question, parent wire.CallContext, asked wire.Call) error,
) error {
	host := &Host{}
	for intent, out := range b.opts.Answers {
		host.AnswerValue(intent, out)
	}
	root, err := b.root()
	if err != nil {
		return err
	}
	in, d, err := b.readyWith(ctx, b.setup(root), host)
	if err != nil {
		return err
	}
	seen := 0
	for _, q := range b.questions(d) {
		parent := b.context(q)
		parent.CallID, parent.Stack, parent.Budget = "conformance-"+q.intent, []string{"conformance/outer"}, hostBudget()
		if _, err := in.Client().Invoke(ctx, parent, q.request(), nil); err != nil && typedError(err) != nil {
			return typedError(err)
		}
		calls := host.Calls()
		for _, asked := range calls[seen:] {
			if err := check(q, parent, asked); err != nil {
				return err
			}
		}
		seen = len(calls)
	}
	if seen == 0 {
		return b.askedNothing(host, ", and what the host says as :answers {:an/intent {..}}")
	}
	return nil
}

// askedNothing is the result of a check that needs a host call, with a plugin that made none. One
// that keeps state in its host passes, as it may need its host for nothing else.
func (b *bench) askedNothing(host *Host, also string) error {
	host.mu.Lock()
	defer host.mu.Unlock()
	need := "give an input with which it does in the samples" + also
	if host.stateRequests > 0 {
		b.note = "made without a host call, because the plugin asks its host only for state: if it makes host calls, " + need
		return nil
	}
	return untestable("the plugin asks its host for nothing: %s", need)
}

func withinLimits(q question, parent wire.CallContext, asked wire.Call) error {
	at := asked.Context.Deadline
	// Compare the values on the wire.
	if at.IsZero() || at.UnixNano() > parent.Deadline.UnixNano() {
		return want(fmt.Sprintf("a deadline in a host call of %s that is not after %s", q,
			parent.Deadline.Format(time.RFC3339Nano)), "%s", at.Format(time.RFC3339Nano))
	}
	if asked.Context.Budget.IsNil() {
		return want(fmt.Sprintf("the budget %s in a host call of %s", parent.Budget, q), "none")
	}
	for key, most := range parent.Budget.Entries() {
		has, ok := asked.Context.Budget.Get(key)
		if !ok {
			continue // the host applies its own
		}
		n, isNumber := has.AsNumber()
		if limit, _ := most.AsNumber(); !isNumber || n.Cmp(limit) > 0 {
			return want(fmt.Sprintf("%s at most %s in a host call of %s", key, most, q), "%s", has)
		}
	}
	return nil
}

func hostError(ctx context.Context, b *bench) error {
	host := &Host{}
	busy := contract.Errorf("runtime/overloaded", "the host is busy")
	host.answerOthers(func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) { return edn.Nil(), busy })
	root, err := b.root()
	if err != nil {
		return err
	}
	in, d, err := b.readyWith(ctx, b.setup(root), host)
	if err != nil {
		return err
	}
	host.failState(busy)
	for _, q := range b.questions(d) {
		response, err := b.invoke(ctx, in, q, q.request(), nil)
		if err := ended(response, err); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	if len(host.Calls()) == 0 {
		if err := b.askedNothing(host, ""); err != nil {
			return err
		}
	}
	return b.alive(ctx, in, "an error of the host")
}

func hostCancel(ctx context.Context, b *bench) error {
	host := &Host{}
	asked := make(chan struct{}, 1)
	ended := make(chan struct{})
	var once sync.Once
	host.answerOthers(func(ctx context.Context, _ wire.Call, _ *wire.Emitter) (edn.Value, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-ctx.Done()
		once.Do(func() { close(ended) })
		return edn.Nil(), ctx.Err()
	})
	root, err := b.root()
	if err != nil {
		return err
	}
	in, d, err := b.readyWith(ctx, b.setup(root), host)
	if err != nil {
		return err
	}
	for _, q := range b.questions(d) {
		callCtx, cancel := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = in.Client().Invoke(callCtx, b.context(q), q.request(), nil)
		}()
		select {
		case <-over: // it makes no host call
			cancel()
			continue
		case <-asked:
		}
		cancel()
		<-over
		select {
		case <-ended:
			return b.idle(ctx, in, "the caller went away")
		case <-time.After(b.soon):
			return want(fmt.Sprintf("an end of the host call of %s soon after the end of its caller", q), "it goes on after %s", b.soon)
		}
	}
	return b.askedNothing(host, "")
}

func muxChecks() []Check {
	return []Check{
		{ID: "mux/calls/answered", Requirements: []string{"MUX-002"},
			Text: "calls that share one stream end like calls with separate streams",
			run:  alone(muxAnswers)},
		{ID: "mux/cancel/one", Requirements: []string{"MUX-003"},
			Text: "the end of one call on a shared stream does not affect the others",
			run:  alone(muxCancel)},
		{ID: "mux/cancel/ends", Requirements: []string{"MUX-002", "MUX-003"},
			Text: "a call on a shared stream ends with one event after its cancel frame and at its deadline, and stops working",
			run:  alone(muxEnds)},
	}
}

// muxed starts an instance whose calls share a stream.
func (b *bench) muxed(ctx context.Context) (Instance, contract.Description, error) {
	root, err := b.root()
	if err != nil {
		return nil, contract.Description{}, err
	}
	setup := b.setup(root)
	setup.Host.Features = []string{profileMux}
	return b.readyWith(ctx, setup, b.host())
}

// alone makes a call by itself and ignores its failure, which other checks
// test.
func (b *bench) alone(ctx context.Context, in Instance, d contract.Description, c contract.Capability) error {
	q := question{capability: c, intent: firstIntent(c), input: b.input(d, c)}
	if err := b.hanging.blocks(q); err != nil {
		return err
	}
	response, err := in.Client().Invoke(ctx, b.context(q), q.request(), nil)
	return ended(response, err)
}

func muxAnswers(ctx context.Context, b *bench, single Instance, d contract.Description) error {
	in, _, err := b.muxed(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var failed sync.Mutex
	failures := make([]error, len(d.Capabilities))
	for i, c := range d.Capabilities {
		if b.alone(ctx, single, d, c) != nil {
			continue
		}
		for range 4 {
			wg.Go(func() {
				if err := b.alone(ctx, in, d, c); err != nil {
					failed.Lock()
					defer failed.Unlock()
					failures[i] = fmt.Errorf("capability %s, on a stream with others: %w", c.ID, err)
				}
			})
		}
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func muxCancel(ctx context.Context, b *bench, single Instance, d contract.Description) error {
	in, _, err := b.muxed(ctx)
	if err != nil {
		return err
	}
	c, input := b.long(d)
	callCtx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = in.Client().Invoke(callCtx, b.callContext(c), request(c, input), nil)
	}()
	beside := make(chan error, 1)
	if _, err = b.inFlight(ctx, in, over); err == nil {
		go func() { beside <- b.alone(ctx, in, d, d.Capabilities[0]) }()
	}
	cancel()
	<-over
	if err != nil {
		return nil // another check tests probes
	}
	if err := <-beside; err != nil && b.alone(ctx, single, d, d.Capabilities[0]) == nil {
		return fmt.Errorf("capability %s, beside a call that was cancelled: %w", d.Capabilities[0].ID, err)
	}
	return nil
}

// Reasons for which a call must end.
const (
	cancelledLater  = "a cancel frame"
	cancelledAtOnce = "a cancel frame beside the call"
	expired         = "its deadline"
)

// errStreamLost means that a stream of calls has ended before its calls.
var errStreamLost = errors.New("the stream of calls has ended")

// muxEnds makes calls with frames of its own, because a client does not wait for the end of a call
// that it has cancelled. Other checks test calls that do not end on streams of their own either.
func muxEnds(ctx context.Context, b *bench, single Instance, d contract.Description) error {
	in, _, err := b.muxed(ctx)
	if err != nil {
		return err
	}
	err = b.endOnStream(ctx, in, d)
	if err != nil && (cancelStops(ctx, b, single, d) != nil || deadlineStops(ctx, b, single, d) != nil) {
		return nil
	}
	return err
}

// endOnStream makes a call for each reason for which it must end.
func (b *bench) endOnStream(ctx context.Context, in Instance, d contract.Description) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pluginv1.NewCapabilityClient(in.Conn()).Calls(ctx)
	if err != nil {
		return nil // another check tests that there is one
	}
	for i, why := range []string{cancelledLater, cancelledAtOnce, expired} {
		if err := b.endsFor(ctx, in, d, stream, uint64(i+1), why); errors.Is(err, errStreamLost) {
			return nil // other checks test that the stream stays open
		} else if err != nil {
			return fmt.Errorf("after %s: %w", why, err)
		}
		if err := b.idle(ctx, in, why); err != nil {
			return err
		}
	}
	return nil
}

// endsFor makes a long call on a stream and fails unless it ends soon for a reason.
func (b *bench) endsFor(
	ctx context.Context, in Instance, d contract.Description, stream pluginv1.Capability_CallsClient, number uint64, why string,
) error {
	c, input := b.long(d)
	request, err := b.invokeRequest(in, c, input)
	if err != nil {
		return &fault{err}
	}
	if why == expired {
		request.Context.DeadlineUnixNano = time.Now().Add(50 * time.Millisecond).UnixNano()
	}
	stop := &pluginv1.CallFrame{Call: number, Frame: &pluginv1.CallFrame_Cancel{Cancel: true}}
	frames := []*pluginv1.CallFrame{{Call: number, Frame: &pluginv1.CallFrame_Invoke{Invoke: request}}}
	if why == cancelledAtOnce {
		frames = append(frames, stop)
	}
	if err := stream.Send(&pluginv1.CallFrames{Frames: frames}); err != nil {
		return errStreamLost
	}
	var end *pluginv1.InvokeEvent
	over := make(chan struct{})
	go func() {
		defer close(over)
		end, err = endOf(stream, number)
	}()
	if why == cancelledLater {
		if _, failure := b.inFlight(ctx, in, over); failure != nil {
			return failure
		}
		_ = stream.Send(&pluginv1.CallFrames{Frames: []*pluginv1.CallFrame{stop}}) // the receiver sees a failure
	}
	select {
	case <-over:
	case <-time.After(b.soon):
		return want(fmt.Sprintf("an event that ends the call within %s", b.soon), "none")
	}
	if err != nil || end.GetError() != nil {
		return err
	}
	if response, err := wire.DecodePayload(end.GetResult(), nil); err == nil && failed(response, nil) {
		return nil
	}
	if b.opts.Slow != nil {
		return want("an event of type error", "an answer")
	}
	b.tooQuick()
	return nil
}

// endOf receives the events of a call on a stream without other calls, and returns the last one.
func endOf(stream pluginv1.Capability_CallsClient, number uint64) (*pluginv1.InvokeEvent, error) {
	for seq := uint64(1); ; {
		message, err := stream.Recv()
		if err != nil {
			return nil, errStreamLost
		}
		for _, frame := range message.GetFrames() {
			e := frame.GetEvent()
			if frame.GetCall() != number || e.GetSeq() != seq {
				return nil, want(fmt.Sprintf("event %d of call %d", seq, number), "event %d of call %d",
					e.GetSeq(), frame.GetCall())
			}
			if e.GetError() != nil || e.GetResult() != nil {
				return e, nil
			}
			seq++
		}
	}
}

func swapChecks() []Check {
	return []Check{
		{ID: "hot-swap/instances/two", Requirements: []string{"SWAP-001"},
			Text: "a second instance with the same configuration becomes ready beside the first, and both answer",
			run:  swapTwo},
		{ID: "hot-swap/drain/beside", Requirements: []string{"SWAP-002"},
			Text: "while one instance drains, another one answers as before",
			run:  swapDrain},
	}
}

// pair starts two instances of the plugin side by side.
func (b *bench) pair(ctx context.Context) (older, newer Instance, d contract.Description, err error) {
	if older, _, err = b.ready(ctx); err != nil {
		return nil, nil, d, err
	}
	root, err := b.root()
	if err != nil {
		return nil, nil, d, err
	}
	setup := b.setup(root)
	setup.Generation++
	if newer, d, err = b.readyWith(ctx, setup, b.host()); err != nil {
		return nil, nil, d, fmt.Errorf("start a second instance: %w", err)
	}
	return older, newer, d, nil
}

func swapTwo(ctx context.Context, b *bench) error {
	older, newer, d, err := b.pair(ctx)
	if err != nil {
		return err
	}
	for _, q := range b.questions(d) {
		_, first := b.ask(ctx, older, q)
		_, second := b.ask(ctx, newer, q)
		if err := alike(q, first, second, "the instance beside it"); err != nil {
			return err
		}
	}
	return nil
}

// alike fails unless a question is answered by both instances, or refused by
// both.
func alike(q question, first, second error, what string) error {
	for _, err := range []error{first, second} {
		if err != nil && typedError(err) != nil {
			return typedError(err)
		}
	}
	switch {
	case first == nil && second != nil:
		return want(fmt.Sprintf("an answer of %s by %s too", q, what), "%v", second)
	case first != nil && second == nil:
		return want(fmt.Sprintf("an answer of %s by both instances", q), "%v", first)
	}
	return nil
}

func swapDrain(ctx context.Context, b *bench) error {
	older, newer, d, err := b.pair(ctx)
	if err != nil {
		return err
	}
	questions := b.questions(d)
	before := make([]error, len(questions))
	for i, q := range questions {
		_, before[i] = b.ask(ctx, newer, q)
	}
	calls := b.flood(ctx, older, questions, drainCalls)
	drained := make(chan error, 1)
	go func() {
		_, err := b.drain(ctx, older, b.call)
		drained <- err
	}()
	var during error
	for i, q := range questions {
		_, err := b.ask(ctx, newer, q)
		if during == nil {
			during = alike(q, before[i], err, "the instance beside the one that drains")
		}
	}
	err = <-drained
	calls.wait()
	if err != nil {
		return err
	}
	for i, q := range questions {
		_, err := b.ask(ctx, newer, q)
		if during == nil {
			during = alike(q, before[i], err, "the instance beside the one that has drained")
		}
	}
	return during
}
