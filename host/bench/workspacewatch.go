package main

import (
	"context"
	"fmt"
	"runtime/metrics"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
)

// watched measures the time from the change of a file to the event of its commit, with the waiting
// times for more changes set to the minimum.
func (b *workspaceBench) watched() []row {
	ctx := context.Background()
	w := watch.New(b.workspace, watch.Options{Debounce: 1, Batch: 1, Scan: scan.Options{Now: ahead}})
	defer w.Close()
	s := must(w.Subscribe(ctx, watch.SubscribeOptions{}))
	defer s.Close()
	if e := must(s.Next(ctx)); e.Kind != watch.Ready {
		panic(fmt.Sprint("the first event is ", e.Kind))
	}
	var took, git []time.Duration
	for round := range 20 * b.rounds {
		began := time.Now()
		b.changeOne(round)
		for changed := false; !changed; {
			e := must(s.Next(ctx))
			changed = e.Kind == watch.Change && e.Counts.Modified == 1
		}
		took = append(took, time.Since(began))
		if round%20 == 0 {
			git = append(git, b.git("", "status", "--porcelain"))
		}
		b.quiet(s)
	}
	size := " in " + b.size()
	p50 := median(took)
	return []row{
		against("watch: a change"+size+" to its event", p50, "git status", median(git), b.goal(0.15)).of("WS-245", 0.05),
		{work: "watch: median time" + size, ours: figure(p50), goal: "<= 20 ms", within: p50 <= 20*time.Millisecond},
		{work: "watch: the slowest of 20" + size, ours: figure(quantile(took, 0.95)), within: true},
	}
}

// quiet reads further events of the last change, because two writes can be two transactions.
func (b *workspaceBench) quiet(s *watch.Subscription) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := s.Next(ctx)
		cancel()
		if err != nil {
			return
		}
	}
}

// sampleHeap measures the size of live and dead heap objects until done is closed, and then sends
// the maximum.
func sampleHeap(done <-chan struct{}, largest chan<- uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	top := uint64(0)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		metrics.Read(sample)
		top = max(top, sample[0].Value.Uint64())
		select {
		case <-tick.C:
		case <-done:
			largest <- top
			return
		}
	}
}

// scanOnce scans and returns the number of nodes.
func scanOnce(w *core.Workspace) int {
	return must(w.Scan(context.Background(), scan.Options{Now: ahead})).Result.Tree.Root.Count()
}
