package conformance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Calls of the check for resources left behind by calls, and the bounds. The
// bounds on descriptors, threads and memory are wide enough for the pools and
// the garbage of any runtime. They do not reveal a leak of a few KiB per call,
// so calls continue in blocks until the memory has grown by less than
// leakPerCall for each call of leakWindow blocks: garbage stops growing, a leak
// does not.
const (
	growthWarmUp  = 200
	growthCalls   = 1000
	growthWorkers = 8
	growthPatient = 8 * time.Second // for the real calls of a block; the other calls are refused

	moreDescriptors = 24
	moreThreads     = 24
	moreMemory      = 64 << 20

	leakPerCall = 5 << 10
	leakOfCut   = 8 << 10 // for each cancelled call
	leakWindow  = 3
	leakCalls   = 8000 // maximum before memory growth is a failure
)

// Calls of a block in which growth is measured. They are few, because a window
// of blocks without growth ends the check.
const (
	leakBlock    = 500
	cutCalls     = 160
	refusedCalls = 300
	healthProbes = 500
)

// leakOfProbe is smaller than leakPerCall: a host probes a plugin as long as it runs.
const leakOfProbe = 3 << 10

// leakOfRun is smaller than leakPerCall: the calls before have filled the pools of the plugin.
const leakOfRun = 3 << 10

func pressureChecks() []Check {
	return []Check{
		{ID: "core/load/growth", Requirements: []string{"CALL-009"}, Process: true,
			Text: fmt.Sprintf("%d calls leave no descriptors, threads or memory behind, nor do runs that have ended",
				growthCalls),
			run: alone(loadGrowth)},
		{ID: "core/cancel/growth", Requirements: []string{"CALL-009"}, Process: true,
			Text: "cancelled calls leave no threads and no growing memory behind",
			run:  alone(cancelGrowth)},
		{ID: "core/refuse/growth", Requirements: []string{"CALL-009"}, Process: true,
			Text: "calls that end with a typed error leave no descriptors, threads or growing memory behind",
			run:  alone(refusedGrowth)},
		{ID: "core/health/growth", Requirements: []string{"HEALTH-007"}, Process: true,
			Text: "health probes leave no descriptors, threads or growing memory behind",
			run:  alone(healthGrowth)},
		{ID: "core/load/processes", Requirements: []string{"CALL-015"}, Process: true,
			Text: fmt.Sprintf("%d calls and %d cancelled calls leave no processes behind", leftCalls, leftCancelled),
			run:  alone(loadProcesses)},
	}
}

// cancelGrowth cancels calls until the memory stops growing. A call that sleeps
// after its caller is gone uses no processor, but keeps its memory or its
// thread. loadGrowth covers calls that end before they can be cancelled.
func cancelGrowth(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	c, input := b.long(d)
	q := question{capability: c, intent: firstIntent(c), input: input}
	until := b.verdictBy(ctx)
	block := func() (bool, error) {
		some := false
		for range cutCalls / cancelBatch {
			going, err := b.cancelCalls(ctx, in, q, cancelBatch)
			if err != nil || time.Now().After(until) {
				return false, ctx.Err() // another check tests that the work stops
			}
			some = some || going
		}
		return some, ctx.Err()
	}
	if done, err := block(); err != nil || !done {
		return err
	}
	return b.leaks(ctx, in, leak{calls: cutCalls, perCall: leakOfCut, what: "cancelled calls", block: block})
}

// refusedGrowth makes calls that the plugin refuses: of an unknown capability,
// and with inputs that no capability expects.
func refusedGrowth(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	questions := []question{{capability: absent(), intent: firstIntent(absent()), input: edn.MustMap()}}
	until := time.Now().Add(b.call / 2)
	for _, q := range b.questions(d) {
		for _, q.input = range oddInputs() {
			if time.Now().After(until) {
				break
			}
			o, err := b.outcomeOf(ctx, in, q)
			if err != nil {
				return err
			}
			if o.refusal != nil && !o.passing() {
				questions = append(questions, q)
			}
		}
	}
	block := func() (bool, error) {
		worked, err := b.load(ctx, in, questions, refusedCalls, b.opts.spend(growthPatient))
		return worked == refusedCalls, err
	}
	if done, err := block(); err != nil || !done {
		return err
	}
	return b.leaks(ctx, in, leak{calls: refusedCalls, perCall: leakPerCall, what: "refused calls", block: block})
}

// healthGrowth probes the health, several probes at a time, until the memory stops
// growing. A block has as many probes as a host makes in an hour.
func healthGrowth(ctx context.Context, b *bench, in Instance, _ contract.Description) error {
	block := func() (bool, error) {
		var next atomic.Int64
		var wg sync.WaitGroup
		failures := make([]error, growthWorkers)
		for i := range failures {
			wg.Go(func() {
				for failures[i] == nil && ctx.Err() == nil && next.Add(1) <= healthProbes {
					_, failures[i] = b.probe(ctx, in)
				}
			})
		}
		wg.Wait()
		for _, err := range failures {
			if err != nil {
				return false, want("each health probe is answered", "%v", err)
			}
		}
		return true, ctx.Err()
	}
	if _, err := block(); err != nil {
		return err
	}
	return b.leaks(ctx, in, leak{calls: healthProbes, perCall: leakOfProbe, what: "health probes", block: block})
}

// Calls of the check for processes that outlive their calls, and their bound.
// The calls before the measurement fill the pools of a plugin.
const (
	leftWarmUp    = 32
	leftCalls     = 96
	leftCancelled = 32
	leftPatience  = 4 * time.Second // for the real calls of either
	moreProcesses = 16
)

func loadProcesses(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	questions := b.questions(d)
	tree := treeOf(in.PID())
	if _, err := b.load(ctx, in, questions, leftWarmUp, leftPatience); err != nil {
		return err
	}
	before, measured := tree.members()
	worked, err := b.load(ctx, in, questions, leftCalls, leftPatience)
	if err != nil || !measured {
		return err
	}
	c, input := b.long(d)
	cut := question{capability: c, intent: firstIntent(c), input: input}
	_, _ = b.cancelCalls(ctx, in, cut, leftCancelled) // another check tests that the work stops
	limit := time.Now().Add(b.soon)
	for {
		after, _ := tree.members()
		more := len(after) - len(before)
		if more <= moreProcesses {
			return nil
		}
		if time.Now().After(limit) {
			return want(fmt.Sprintf("at most %d processes more, %s after the last answer", moreProcesses, b.soon),
				"%d processes more after %d calls and %d that were cancelled", more, worked, leftCancelled)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func loadGrowth(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	questions := b.questions(d)
	b.random.Shuffle(len(questions), func(i, j int) { questions[i], questions[j] = questions[j], questions[i] })
	if _, err := b.load(ctx, in, questions, growthWarmUp, b.growthPatience(growthWarmUp)); err != nil {
		return err
	}
	before, measured := holdings(in.PID())
	worked, err := b.load(ctx, in, questions, growthCalls, b.growthPatience(growthCalls))
	if err != nil {
		return err
	}
	if err := b.idle(ctx, in, "the last answer"); err != nil || !measured {
		return err
	}
	if err := b.grown(ctx, in, before, growthCalls); err != nil || worked < growthCalls {
		return err // too slow for the calls that reveal a small leak
	}
	block := func() (bool, error) {
		worked, err := b.load(ctx, in, questions, leakBlock, b.growthPatience(leakBlock))
		return worked == leakBlock, err
	}
	if err := b.leaks(ctx, in, leak{calls: leakBlock, perCall: leakPerCall, what: "calls", block: block}); err != nil {
		return err
	}
	inRun := b.inRuns(in)
	runs := func() (bool, error) {
		worked, err := b.loadBy(ctx, questions, leakBlock, b.growthPatience(leakBlock), inRun)
		return worked == leakBlock, err
	}
	return b.leaks(ctx, in, leak{
		calls: leakBlock, perCall: leakOfRun, what: "runs of one call that have ended", block: runs,
	})
}

// inRuns returns a function that asks each question in a run of its own and ends the run.
func (b *bench) inRuns(in Instance) func(context.Context, question) error {
	var runs atomic.Int64
	return func(ctx context.Context, q question) error {
		q.at = place{run: int(runs.Add(1)), node: 1}
		_, err := b.ask(ctx, in, q)
		_ = in.Client().EndRun(ctx, q.at.name()) // another check tests that it succeeds
		return err
	}
}

// grown fails if the process holds too much more than before a number of calls.
// Resources of the last calls may take a moment to be released.
func (b *bench) grown(ctx context.Context, in Instance, before held, calls int) error {
	limit := time.Now().Add(b.soon)
	for {
		after, _ := holdings(in.PID())
		grown := after.minus(before)
		if grown.within() {
			return nil
		}
		if time.Now().After(limit) {
			expected := fmt.Sprintf("at most %d descriptors, %d threads and %d MiB more after %d calls",
				moreDescriptors, moreThreads, moreMemory>>20, calls)
			return want(expected,
				"%d descriptors, %d threads and %d MiB more", grown.descriptors, grown.threads, grown.memory>>20)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leak describes a search for memory that grows with each call.
type leak struct {
	calls   int    // per block
	perCall int64  // bytes of growth that count as a leak
	what    string // name of the calls
	// block makes the calls. It reports false if they are too slow for a verdict.
	block func() (done bool, err error)
}

// leaks fails if the memory grows with each call, or if the calls leave more
// behind than a runtime keeps for itself. Earlier calls have filled the pools
// of the plugin.
func (b *bench) leaks(ctx context.Context, in Instance, l leak) error {
	until := b.verdictBy(ctx)
	first, ok := holdings(in.PID())
	if !ok {
		return nil
	}
	sizes := []int64{first.memory}
	for n := 1; n <= leakCalls/l.calls; n++ {
		done, err := l.block()
		if err != nil {
			return err
		}
		if time.Now().After(until) { // a runtime may not have collected its garbage yet
			return b.grown(ctx, in, first, n*l.calls)
		}
		if !done {
			return nil
		}
		h, _ := holdings(in.PID())
		sizes = append(sizes, h.memory)
		if n >= leakWindow && sizes[n]-sizes[n-leakWindow] < leakWindow*int64(l.calls)*l.perCall {
			return b.grown(ctx, in, first, n*l.calls)
		}
	}
	blocks := len(sizes) - 1
	grown := sizes[blocks] - first.memory
	calls := int64(blocks) * int64(l.calls)
	return want("memory that stops growing",
		"%d MiB more after %d %s, %d KiB for each", grown>>20, calls, l.what, grown/calls>>10)
}

// verdictBy is the time at which the check must reach a verdict, before its
// limit.
func (b *bench) verdictBy(ctx context.Context) time.Time {
	until, _ := ctx.Deadline()
	return until.Add(-b.limit / 4)
}

// growthPatience is the time for n real calls of a block.
func (b *bench) growthPatience(n int) time.Duration {
	return b.opts.spend(growthPatient) * time.Duration(n) / (growthCalls + growthWarmUp)
}

// load makes n calls, several at a time. If the real calls take longer than
// patience, the remaining calls name a capability that the plugin does not have. It
// returns the number of real calls.
func (b *bench) load(ctx context.Context, in Instance, questions []question, n int, patience time.Duration) (int, error) {
	return b.loadBy(ctx, questions, n, patience, func(ctx context.Context, q question) error {
		_, err := b.ask(ctx, in, q)
		return err
	})
}

// loadBy is load with calls by a function.
func (b *bench) loadBy(
	ctx context.Context, questions []question, n int, patience time.Duration,
	call func(context.Context, question) error,
) (int, error) {
	patient := time.Now().Add(patience)
	refused := question{capability: absent(), intent: firstIntent(absent()), input: edn.MustMap()}
	var next, worked atomic.Int64
	var wg sync.WaitGroup
	failures := make([]error, growthWorkers)
	for i := range failures {
		wg.Go(func() {
			for failures[i] == nil && ctx.Err() == nil {
				at := int(next.Add(1)) - 1
				if at >= n {
					return
				}
				q := refused
				if len(questions) > 0 && time.Now().Before(patient) {
					q = questions[at%len(questions)]
					worked.Add(1)
				}
				if err := call(ctx, q); err != nil {
					failures[i] = typedError(err)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return 0, err
		}
	}
	return int(worked.Load()), ctx.Err()
}

// held are the resources that a process holds.
type held struct {
	descriptors, threads int
	memory               int64 // resident bytes
}

func (h held) minus(o held) held {
	return held{h.descriptors - o.descriptors, h.threads - o.threads, h.memory - o.memory}
}

func (h held) within() bool {
	return h.descriptors <= moreDescriptors && h.threads <= moreThreads && h.memory <= moreMemory
}
