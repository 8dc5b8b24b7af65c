package daemon

import (
	"context"
	"math"
	"runtime"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// queueOf returns the queue settings for the number of processors of this machine.
func queueOf(c *config.Config) queue.Settings {
	s := queue.Settings{Workers: c.Host.MaxRuns, MaxQueued: c.Queue.MaxQueued}
	for _, class := range c.Queue.Classes {
		workers := class.Workers
		if class.PerCore > 0 {
			workers = max(1, int(math.Round(class.PerCore*float64(runtime.NumCPU()))))
		}
		s.Classes = append(s.Classes, queue.Class{Name: class.Name, Workers: workers, MaxQueued: class.MaxQueued, Weight: class.Weight})
	}
	return s
}

func classesOf(q *config.Queue) act.Classes {
	c := act.Classes{Accepted: q.Default, Intents: q.Intents}
	for _, class := range q.Classes {
		c.Names = append(c.Names, class.Name)
	}
	return c
}

// Submit implements httpapi.Turn.
func (t *turn) Submit(a act.Act) (edn.Value, *contract.Error) {
	h := t.host
	_, durable := h.journal.(journal.Syncer)
	err := h.admits()
	switch {
	case err != nil:
	case !t.of.loaded.Queue.Enabled:
		err = contract.Errorf("queue/disabled", "this host does not accept acts with :response/type :accepted: queue.enabled is false")
	case !durable:
		err = contract.Errorf("queue/disabled", "this host does not accept acts with :response/type :accepted: its runs are in memory").
			WithHint("send the request without :response/type :accepted, or set store.driver = \"sqlite\"")
	}
	if err != nil {
		return t.of.service.Refusal(a, err), err
	}
	run, err := t.of.service.Submit(a)
	if err != nil {
		return t.of.service.Refusal(a, err), err
	}
	state := "queued"
	if run.Attached() {
		state = h.runs.stateOf(run.ID())
	}
	records, failed := h.journal.Records(run.ID())
	switch {
	case !run.Attached():
		h.enqueue(run, "", func(error) {})
	case run.Stored() && a.Replayed != nil:
		a.Replayed()
	}
	if failed != nil {
		err := history.Failure(failed)
		return t.of.service.Refusal(a, err), err
	}
	return history.JobValue(records, state), nil
}

// enqueue executes a run when it reaches the head of the queue, under the configuration that is
// then in force. why is the reason for which the run was interrupted; empty for a new run. A run
// that cannot continue stays open in the journal, and failed is called.
func (h *Host) enqueue(run *act.Run, why string, failed func(error)) {
	active := &activeRun{run: run}
	h.runs.track(active)
	h.runs.after.Go(func() {
		defer h.untrack(active)
		if !run.AwaitTurn() {
			return
		}
		taken, err := h.Take()
		if err != nil {
			run.Abandon(err)
			return
		}
		t := taken.(*turn)
		defer t.Release()
		h.runs.bind(active, t.of)
		records, unread := h.journal.Records(run.ID())
		if unread != nil {
			run.Abandon(contract.AsError(unread))
			failed(unread)
			return
		}
		if err := t.of.service.Begin(run, records, why); err != nil {
			failed(err)
		}
	})
}

// track adds an accepted run.
func (r *runs) track(active *activeRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[active.run.ID()] = active
}

// bind sets the generation of a run that has left the queue.
func (r *runs) bind(active *activeRun, of *generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	active.of = of
}

// untrack removes a run that has ended.
func (h *Host) untrack(active *activeRun) {
	r, id := h.runs, active.run.ID()
	r.readers.over(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
	if !r.closed && active.of != nil {
		// The caller has its answer now; plugins release the state of the run afterwards.
		r.after.Go(func() {
			if h.runEnded != nil {
				h.runEnded(active.run)
			}
			h.Ended(context.Background(), id)
		})
	}
}
