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

// Calls of the check for what calls leave behind, and what they may leave. The
// bounds are wide enough for the pools and the garbage of any runtime.
const (
	growthWarmUp  = 200
	growthCalls   = 1000
	growthWorkers = 8
	growthPatient = 8 * time.Second // for real work; the rest are refused calls

	moreDescriptors = 24
	moreThreads     = 24
	moreMemory      = 64 << 20
)

func pressureChecks() []Check {
	return []Check{
		{ID: "core/load/growth", Requirements: []string{"CALL-009"}, Process: true,
			Text: fmt.Sprintf("%d calls leave no descriptors, threads or memory behind", growthCalls),
			run:  loadGrowth},
	}
}

func loadGrowth(ctx context.Context, b *bench) error {
	in, d, err := b.ready(ctx)
	if err != nil {
		return err
	}
	questions := b.questions(d)
	b.random.Shuffle(len(questions), func(i, j int) { questions[i], questions[j] = questions[j], questions[i] })
	if err := b.load(ctx, in, questions, growthWarmUp); err != nil {
		return err
	}
	before, measured := holdings(in.PID())
	if err := b.load(ctx, in, questions, growthCalls); err != nil {
		return err
	}
	if err := b.idle(ctx, in, "the last answer"); err != nil || !measured {
		return err
	}
	// What the last calls held may take a moment to go.
	limit := time.Now().Add(b.soon)
	for {
		after, _ := holdings(in.PID())
		grown := after.minus(before)
		if grown.within() {
			return nil
		}
		if time.Now().After(limit) {
			return want(fmt.Sprintf("at most %d descriptors, %d threads and %d MiB more after %d calls", moreDescriptors, moreThreads, moreMemory>>20, growthCalls),
				"%d descriptors, %d threads and %d MiB more", grown.descriptors, grown.threads, grown.memory>>20)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// load makes n calls, several at a time. When real work takes too long, the
// rest are calls that the plugin refuses.
func (b *bench) load(ctx context.Context, in Instance, questions []question, n int) error {
	patient := time.Now().Add(growthPatient * time.Duration(n) / (growthCalls + growthWarmUp))
	refused := question{capability: contract.Capability{ID: "conformance/no-such-capability"}, intent: "conformance/no-such-intent", input: edn.MustMap()}
	var next atomic.Int64
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
				}
				if _, err := b.ask(ctx, in, q); err != nil {
					failures[i] = typedError(err)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// held is what a process has of its machine.
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
