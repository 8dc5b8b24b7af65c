package daemon

import (
	"context"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// executor calls plugins and the host itself, and knows when people can be asked:
// their answers arrive through the journal of a daemon.
type executor struct {
	*plugin.Client
	registry *registry.Registry
	access   *policy.Access
	asks     bool // people can be asked
	host     *Host
}

var (
	_ dispatch.Executor = executor{}
	_ dispatch.Trials   = executor{}
)

func (x executor) human(capID string) bool {
	c, ok := x.registry.Capability(capID)
	return ok && c.Human != nil
}

func (x executor) ours(capID string) bool {
	c, ok := x.registry.Capability(capID)
	return ok && c.Host
}

func unasked(capID string) *contract.Error {
	return contract.Errorf("runtime/not-ready", "people answer :%s, and only a daemon with a journal on disk asks them", capID).
		WithRetryable(false).WithHint("start \"ferment serve\" with store.driver = \"sqlite\", and send the act to it")
}

// State implements dispatch.Executor.
func (x executor) State(capID string) dispatch.CapState {
	switch {
	case x.ours(capID):
		return dispatch.CapState{Ready: true}
	case !x.human(capID):
		return x.Client.State(capID)
	case x.asks:
		return dispatch.CapState{Ready: true}
	}
	return dispatch.CapState{Reason: "runtime/not-ready", Why: unasked(capID)}
}

// Await implements dispatch.Executor.
func (x executor) Await(ctx context.Context, capID string) error {
	switch {
	case x.ours(capID):
		return nil
	case !x.human(capID):
		return x.Client.Await(ctx, capID)
	case x.asks:
		return nil
	}
	return unasked(capID)
}

// Invoke implements dispatch.Executor. Calls of plans do not come here for people.
func (x executor) Invoke(ctx context.Context, call dispatch.Call) (dispatch.Answer, error) {
	if x.human(call.CapID) {
		return dispatch.Answer{}, contract.Errorf("runtime/invoke-failed", "people answer :%s, and cannot be a check or a judge", call.CapID)
	}
	if x.ours(call.CapID) {
		return x.converse(ctx, call)
	}
	call, err := x.resolved(ctx, call)
	if err != nil {
		return dispatch.Answer{}, err
	}
	return x.Client.Invoke(ctx, call)
}

// Answer implements httpapi.Runs.
func (j *Journal) Answer(ctx context.Context, name, id string, answer edn.Value, by string) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	records, failed := j.store.Read(ctx, run.ID, 0, run.Records)
	if failed != nil {
		return edn.Nil(), failureOf(failed)
	}
	if id, missing = interruptOf(records, id); missing != nil {
		return edn.Nil(), missing.WithWhere("run", edn.Text(run.ID))
	}
	active := j.running(run.ID)
	if active == nil {
		return edn.Nil(), j.unexecuted(ctx, "answer interrupt "+id+" of", run)
	}
	if err := active.run.Answer(id, answer, by); err != nil {
		return edn.Nil(), err.WithWhere("run", edn.Text(run.ID))
	}
	return edn.MustMap(edn.K("run"), edn.Text(run.ID), edn.K("interrupt"), edn.Text(id)), nil
}

// interruptOf returns the id of the open interrupt that a caller has named by its
// id or its node, or not at all if it is the only one.
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
		return "", contract.Errorf("interrupt/not-found", "the run has %d open interrupts that fit: name one by its id, such as %s", len(ids), ids[0])
	}
	for _, rec := range records {
		if end, ok := rec.Body.(*journal.InterruptAnswered); ok && (end.Interrupt == name || rec.Node == name) {
			return "", interrupt.Answered(end.Interrupt)
		}
	}
	return "", contract.Errorf("interrupt/not-found", "the run has no open interrupt%s", strings.TrimRight(" "+name, " "))
}
