package history

import (
	"context"
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Answer implements httpapi.Runs.
func (j *Runs) Answer(ctx context.Context, name, id string, answer edn.Value, by string) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	records, failed := j.Store.Read(ctx, run.ID, 0, run.Records)
	if failed != nil {
		return edn.Nil(), Failure(failed)
	}
	if id, missing = interruptOf(records, id); missing != nil {
		return edn.Nil(), missing.WithWhere("run", edn.Text(run.ID))
	}
	active := j.running(run.ID)
	if active == nil {
		return edn.Nil(), j.unexecuted(ctx, "answer interrupt "+id+" of", run)
	}
	if err := active.Answer(id, answer, by); err != nil {
		return edn.Nil(), err.WithWhere("run", edn.Text(run.ID))
	}
	return edn.MustMap(edn.K("run"), edn.Text(run.ID), edn.K("interrupt"), edn.Text(id)), nil
}

// interruptOf returns the id of the open interrupt with an id or node name; name may be empty if
// only one is open. The error is interrupt/not-found, or that of an interrupt that was answered
// already.
func interruptOf(records []journal.Record, name string) (string, *contract.Error) {
	var ids []string
	for _, i := range journal.OpenInterrupts(records) {
		id := i.Body.(*journal.InterruptOpened).Interrupt
		if name == "" || name == id || name == i.Node {
			ids = append(ids, id)
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", contract.Errorf("interrupt/not-found",
			"the run has %d open interrupts that match: name one by its id, such as %s", len(ids), ids[0])
	}
	for _, rec := range records {
		if end, ok := rec.Body.(*journal.InterruptAnswered); ok && (end.Interrupt == name || rec.Node == name) {
			return "", interrupt.Answered(end.Interrupt)
		}
	}
	return "", contract.Errorf("interrupt/not-found", "the run has no open interrupt%s", strings.TrimRight(" "+name, " "))
}
