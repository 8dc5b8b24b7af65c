package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// run copies the run with number n.
func (r *repairer) run(ctx context.Context, n int64) error {
	var row runRow // stays zero if the row is lost
	err := r.src.read.one(ctx, "run_by_number", []any{n}, row.columns())
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	r.dst.writer.lastRun = n
	if !row.Removed.IsZero() {
		return r.dst.writer.saveRun(ctx, &row, "")
	}
	kept, damage, err := r.verified(ctx, n, row.ID)
	if err != nil {
		return err
	}
	found := RepairedRun{Run: row.ID, Records: len(kept)}
	if found.Run == "" && len(kept) > 0 {
		found.Run = kept[0].rec.Run
	}
	if found.Cut, err = r.cutOff(ctx, n, &row, found); err != nil {
		return err
	}
	switch _, err := readRun(ctx, r.dst.write, found.Run); {
	case found.Run == "", err == nil: // or an old copy of another run
		r.report.Unnamed += found.Records + found.Cut
		return nil
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	out := summaryOf(row)
	out.n, out.ID, out.bytes = n, found.Run, 0
	lost, err := r.copy(ctx, &row, &out, kept)
	if err != nil {
		return err
	}
	// A finished run that was reopened and lost records since then is incomplete.
	whole := out.Ended() && out.Epoch >= row.Epoch || out.State == row.State && endsAs(row, out.Records, out.chain) == nil && lost == nil
	for _, err := range append([]error{damage, differs(row, out)}, lost...) {
		var d *Damage
		if !errors.As(err, &d) {
			continue
		}
		found.Damage = cmp.Or(found.Damage, d)
		if d.Hash != "" {
			found.Lost = append(found.Lost, d.Hash)
		}
	}
	if r.older && found.Damage == nil && !row.Ended() && len(kept) > 0 {
		found.Damage, whole = &Damage{Seq: len(kept) + 1, What: "records after the last one may be lost"}, false
	}
	if found.Damage == nil {
		return r.dst.writer.saveRun(ctx, &out, "")
	}
	if found.Lost != nil && out.Purged.IsZero() {
		out.Purged = r.now
	}
	switch {
	case len(kept) == 0:
		found.Halted = !row.Ended()
		out = row
		out.Removed, out.Error, out.bytes = r.now, "journal/damaged", 0
		if found.Halted {
			out.State, out.Finished = journal.StatusFailed, r.now
		}
	case !whole:
		found.Halted = true
		if err := r.end(ctx, &out, kept, &found); err != nil {
			return err
		}
	}
	found.Damage.Run, found.State = found.Run, out.State
	r.report.Damaged = append(r.report.Damaged, found)
	return r.dst.writer.saveRun(ctx, &out, "")
}

// verifiedRecord is a record whose chain value was verified.
type verifiedRecord struct {
	rec   journal.Record
	chain sum
	body  []byte
}

// verified returns the records of run number n up to the first damage. damage is a *Damage, nil if
// there is none; err is any other error.
func (r *repairer) verified(ctx context.Context, n int64, run string) (out []verifiedRecord, damage, err error) {
	decode := r.src.decoder()
	_, _, err = r.src.chain(ctx, n, math.MaxInt, func(seq int, chain sum, body []byte) error {
		rec, err := decodeAs(decode, run, seq, body)
		if err == nil {
			run, out = rec.Run, append(out, verifiedRecord{rec, chain, body})
		}
		return err
	})
	var d *Damage
	if errors.As(err, &d) {
		return out, err, nil
	}
	return out, nil, err
}

// cutOff writes the records that are not kept to the cut-off file of the repair and returns their
// number.
func (r *repairer) cutOff(ctx context.Context, n int64, row *runRow, found RepairedRun) (int, error) {
	last := row.Records
	err := r.src.stored(ctx, n, found.Records, math.MaxInt, func(seq int, chain sum, body []byte) error {
		last = max(last, seq)
		line := edn.MustMap(edn.K("run"), edn.Text(found.Run), edn.K("seq"), edn.Int(int64(seq)), edn.K("chain"), edn.Text(chain.hash()))
		if v, err := edn.Read(body, storedLimits); err == nil {
			line = line.AssocKey("record", v)
		} else {
			line = line.AssocKey("bytes", readableText(string(body)))
		}
		return r.cutLine(line)
	})
	var d *Damage
	if errors.As(err, &d) { // the records behind are only in the damaged files
		err = nil
	}
	return max(0, last-found.Records), err
}

func readableText(s string) edn.Value { return edn.Text(strings.ToValidUTF8(s, "\uFFFD")) }

func (r *repairer) cutLine(line edn.Value) error {
	_, err := r.cut.Write(append(line.Canonical(), '\n'))
	return err
}

// copy writes the kept records to dst, with the values that match their hash. lost has a *Damage
// for each other value. row is the row in src, out the one in dst.
func (r *repairer) copy(ctx context.Context, row, out *runRow, kept []verifiedRecord) (lost []error, err error) {
	seen := map[string]bool{}
	w := r.dst.writer
	for _, k := range kept {
		k.rec.Refs(func(ref journal.Ref) {
			hash := ref.Hash()
			if err != nil || seen[hash] {
				return
			}
			seen[hash] = true
			v, failed := r.src.Value(ctx, hash)
			var d *Damage
			switch {
			case failed == nil:
				_, err = w.put(ctx, v, out.n)
			case errors.As(failed, &d):
				lost = append(lost, &Damage{Seq: k.rec.Seq, Hash: hash, What: d.What})
			case !errors.Is(failed, contract.OfType("replay/values-purged")):
				err = failed
			case row.Purged.IsZero():
				lost = append(lost, &Damage{Seq: k.rec.Seq, Hash: hash, What: "the value is missing"})
			}
		})
		if err != nil {
			return nil, err
		}
		out.apply(k.rec, k.chain)
		if !out.Imported {
			r.settled.apply(k.rec, out.Principal)
		}
		if err := w.addRecord(ctx, out, k.body); err != nil {
			return nil, err
		}
	}
	out.bytes = int64(w.stored)
	return lost, nil
}

// end appends a last record to a run that lost records: run/suspended, or run/finished with
// journal/damaged if the run also lost values.
func (r *repairer) end(ctx context.Context, out *runRow, kept []verifiedRecord, found *RepairedRun) error {
	// The time from the last record to now counts as suspended.
	rec := journal.Record{Run: out.ID, Seq: out.Records + 1, At: kept[len(kept)-1].rec.At, Epoch: out.Epoch}
	if rec.Body = (&journal.RunSuspended{Why: "journal/damaged"}); found.Lost != nil {
		records := bodies(kept)
		rec.At, rec.Body = r.now, failed(out, records, found.Damage)
		for _, open := range journal.NewHistory(records).Reserved { // their calls may have been made (LED-005)
			r.lost.add(act.Windows(open, out.Principal), budget.Counter{
				Used: policy.AmountsOf(open.Amount),
				Mark: budget.AtLeast,
			})
		}
	}
	run := &liveRun{id: out.ID, rowState: rowState{row: *out}}
	if out.Ended() { // a record that was cut off had reopened the run
		h := journal.NewHistory(bodies(kept))
		again := rec
		again.Epoch++
		again.Body = &journal.RunResumed{
			Host:       journalRepair,
			Boot:       journalRepair,
			Config:     h.Config,
			Was:        h.Config,
			Why:        journal.ResumedDecision,
			By:         journalRepair,
			DeadlineAt: h.DeadlineAt,
		}
		run.row.State = stateOpen
		if err := r.dst.writer.record(ctx, newItem(run, again)); err != nil {
			return err
		}
		rec.Seq, rec.Epoch = rec.Seq+1, again.Epoch
	}
	err := r.dst.writer.record(ctx, newItem(run, rec))
	*out = run.row
	out.bytes = int64(r.dst.writer.stored)
	return err
}

func bodies(kept []verifiedRecord) []journal.Record {
	records := make([]journal.Record, len(kept))
	for i, k := range kept {
		records[i] = k.rec
	}
	return records
}

// failed returns the run/finished record of a run that lost records and values.
func failed(out *runRow, records []journal.Record, damage *Damage) *journal.RunFinished {
	failure := contract.Errorf("journal/damaged", "run %s was ended after record %d, because the journal was damaged: %s", out.ID,
		out.Records, damage.What).WithHint("what it did after this record is not known: look at its effects before the request is sent again")
	response := edn.MustMap(edn.K("proto"), edn.Int(contract.Proto), edn.K("run/id"), edn.Text(out.ID), edn.K("error"), failure.Value())
	if accepted, ok := records[0].Body.(*journal.RunAccepted); ok {
		response = response.AssocKey("trace", accepted.Trace)
	}
	account := journal.NewAccount(records)
	return &journal.RunFinished{
		Status:   journal.StatusFailed,
		Response: journal.RefTo(response),
		Executed: account.Executed(),
		Latency:  max(0, records[len(records)-1].At.Sub(out.Accepted)),
		Totals:   account.Totals(),
		Err:      failure,
	}
}
