package daemon

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// aboutRun returns the log fields of a run in one of its epochs (TEL-001): trace and span are those
// of the exported span.
func aboutRun(id string, epoch int, accepted *journal.RunAccepted) []any {
	return aboutCall(id, epoch, accepted, edn.Vector(), 0)
}

// aboutCall returns the log fields of an attempt, or those of the run if attempt is 0.
func aboutCall(id string, epoch int, accepted *journal.RunAccepted, path edn.Value, attempt int) []any {
	fields := []any{"run", id, "intent", accepted.Intent, "principal", accepted.Principal}
	return append(fields, traceFields(spans.CallContext(id, epoch, accepted.Trace, path, attempt))...)
}

// traceFields returns the log fields of a span.
func traceFields(c spans.Context) []any {
	return []any{"trace", hex.EncodeToString(c.Trace[:]), "span", hex.EncodeToString(c.Span[:])}
}

// runEnded logs the failure of a run, and that it waits for another configuration. It logs the
// failures of its attempts too, at level debug.
func (d *Daemon) runEnded(run *act.Run) {
	log := d.log.Named("runs")
	if !log.IsInfo() {
		return
	}
	records := run.Records()
	if len(records) == 0 {
		return
	}
	accepted, begun := records[0].Body.(*journal.RunAccepted)
	if s, ok := records[len(records)-1].Body.(*journal.RunSuspended); ok && begun && s.Why == journal.WhyNotReady {
		last := records[len(records)-1]
		log.Warn("a run is suspended: what is left of it does not fit the configuration", append(
			append(aboutRun(last.Run, last.Epoch, accepted), d.errorFields(s.Err)...),
			"next", fmt.Sprintf("restore what is missing, then `ferment runs resume %s`", last.Run))...)
	}
	end, ended := records[len(records)-1].Body.(*journal.RunFinished)
	if !begun || !ended {
		return
	}
	if log.IsDebug() {
		for i, rec := range records {
			if args := d.attemptFailed(records[:i], rec, accepted); args != nil {
				log.Debug("attempt failed", args...)
			}
		}
	}
	if end.Err != nil && end.Status != journal.StatusCanceled {
		last := records[len(records)-1]
		log.Info("run failed", append(aboutRun(last.Run, last.Epoch, accepted), d.errorFields(end.Err)...)...)
	}
}

// attemptFailed returns the log fields for a failed attempt; nil if rec is not the failure of an
// attempt that was executed.
func (d *Daemon) attemptFailed(before []journal.Record, rec journal.Record, accepted *journal.RunAccepted) []any {
	failed, ok := rec.Body.(*journal.AttemptFinished)
	if !ok || failed.Err == nil {
		return nil
	}
	for _, earlier := range slices.Backward(before) {
		started, ok := earlier.Body.(*journal.AttemptStarted)
		if !ok || started.Attempt != failed.Attempt || !earlier.Path.Equal(rec.Path) {
			continue
		}
		if started.Recorded {
			return nil
		}
		args := append(aboutCall(rec.Run, earlier.Epoch, accepted, rec.Path, failed.Attempt),
			"node", rec.Node, "attempt", failed.Attempt, "capability", started.CapID)
		if started.Generation > 0 {
			args = append(args, "generation", started.Generation)
		}
		return append(args, d.errorFields(failed.Err)...)
	}
	return nil
}

// errorFields returns the log fields of an error of a run. The message may quote requests and
// answers, so it is included only with telemetry.content = "full".
func (d *Daemon) errorFields(err *contract.Error) []any {
	fields := []any{"error", err.Type}
	if l := d.loaded(); l != nil && journal.Content(l.Telemetry.Content) == journal.ContentFull {
		fields = append(fields, "message", err.Message)
	}
	return fields
}

// panicked logs a panic that ended a run.
func (d *Daemon) panicked(run, where string, value any, stack []byte) {
	args := []any{"run", run}
	if h := d.host.Load(); h != nil {
		if records, err := h.journal.Records(run); err == nil && len(records) > 0 {
			if accepted, ok := records[0].Body.(*journal.RunAccepted); ok {
				args = aboutRun(run, records[len(records)-1].Epoch, accepted)
			}
		}
	}
	d.log.Named("runs").Error("a run panicked", append(args, "where", where, "panic", fmt.Sprint(value), "stack", string(stack))...)
}
