package daemon

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
)

// live implements history.Live with the runs in progress of a host.
type live struct{ host *Host }

var _ history.Live = live{}

// State implements history.Live.
func (l live) State(run string) string { return l.host.runs.stateOf(run) }

// Running implements history.Live.
func (l live) Running(run string) *act.Run {
	if active := l.host.runs.active(run); active != nil {
		return active.run
	}
	return nil
}

// Reading implements history.Live.
func (l live) Reading(run string) (leave func()) { return l.host.runs.readers.enter(run) }

// Resume implements history.Live.
func (l live) Resume(run string, how act.Resumption) (*act.Run, *contract.Error) {
	return l.host.resume(run, how)
}

// Fill implements history.Live.
func (l live) Fill(ctx context.Context, of string, records []journal.Record, how act.Filling) (run *act.Run, _ *contract.Error) {
	taken, err := l.host.Take()
	if err != nil {
		return nil, err
	}
	defer taken.Release()
	t := taken.(*turn)
	a, err := t.of.service.Fill(of, records, how)
	if err != nil {
		return nil, err
	}
	a.TraceParent = httpapi.TraceParent(ctx)
	if _, err := t.perform(ctx, a, func(r *act.Run) { run = r }); run == nil {
		return nil, err
	}
	return run, nil
}
