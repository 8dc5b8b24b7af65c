package daemon

import (
	"context"
	"math"
	"runtime"
	"slices"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// queueOf returns the settings of the queue for this machine.
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
		err = contract.Errorf("queue/disabled", "this host takes no acts that are answered before they run: queue.enabled is false")
	case !durable:
		err = contract.Errorf("queue/disabled", "this host takes no acts that are answered before they run: its runs are in memory").
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
		err := failureOf(failed)
		return t.of.service.Refusal(a, err), err
	}
	return jobOf(records, state), nil
}

// enqueue executes a run once it is its turn. Why says what has interrupted it, if
// it was under way. The configuration that is in force then binds it. A run that
// cannot go on stays open in the journal.
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

// bind notes the generation of a run that has waited for its turn.
func (r *runs) bind(active *activeRun, of *generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	active.of = of
}

// untrack removes a run that is over.
func (h *Host) untrack(active *activeRun) {
	r, id := h.runs, active.run.ID()
	r.readers.over(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
	if !r.closed && active.of != nil {
		// The caller has its answer; plugins release their state of the run
		// afterwards.
		r.after.Go(func() {
			if h.runEnded != nil {
				h.runEnded(active.run)
			}
			h.Ended(context.Background(), id)
		})
	}
}

// jobOf returns the payload of an accepted run: the schema res/job-accepted for one
// with the state queued, else res/job-status. State is that of the run as the host
// executes it.
func jobOf(records []journal.Record, state string) edn.Value {
	past := journal.NewHistory(records)
	last := records[len(records)-1]
	switch {
	case past.Finished:
		state = past.Status
	case past.Suspended != nil:
		state = "suspended"
	case state == "open" && !past.Active: // no host executes it now
		state = "queued"
	case state == "open":
		state = "running"
	}
	var b edn.MapBuilder
	b.Key("job/id", edn.Text(last.Run))
	b.Key("job/status", edn.K(state))
	b.Key("queue/class", edn.K(past.Accepted.Class))
	attempt := 0
	if past.Active {
		attempt = past.Epoch
	}
	b.Key("attempt", edn.Int(int64(attempt)))
	b.Key("submitted-at", instant(past.Begun))
	b.Key("updated-at", instant(last.At))
	b.Key("deadline-at", instant(past.DeadlineAt))
	if state == "queued" {
		return b.Map()
	}
	if began := slices.IndexFunc(records, begins); began >= 0 {
		b.Key("started-at", instant(records[began].At))
	} else if !past.Finished { // its first record is not on disk yet
		b.Key("started-at", instant(last.At))
	}
	if past.Canceled != nil && past.Canceled.Why != "" {
		b.Key("cancel/reason", edn.Text(past.Canceled.Why))
	}
	if end, ok := last.Body.(*journal.RunFinished); ok {
		b.Key("completed-at", instant(last.At))
		if result := end.Response.Value().Key("result"); result.IsMap() {
			b.Key("result", result)
		}
		if end.Err != nil {
			b.Key("error", end.Err.Value())
		}
	}
	return b.Map()
}

// begins reports whether a record is the first one of a run that is under way.
func begins(rec journal.Record) bool {
	return rec.Body.Kind() == journal.KindRunStarted || rec.Body.Kind() == journal.KindRunResumed
}
