package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Damage is the error for a record or a value that is missing or differs from what was written.
type Damage struct {
	Run  string // empty for a value that was read by its hash, and for the database
	Seq  int    // number of the record; 0: not a record
	Hash string // of the damaged value; empty if it is not a value
	What string
	// Lost says that the database is not the one that was left: what it lacks is not known.
	Lost bool
}

// Error implements error.
func (d *Damage) Error() string {
	var at []string
	if d.Run != "" {
		at = append(at, "run "+d.Run)
	}
	if d.Seq > 0 {
		at = append(at, fmt.Sprintf("record %d", d.Seq))
	}
	if d.Hash != "" {
		at = append(at, "value "+d.Hash)
	}
	return fmt.Sprintf("store: verify %s: %s", cmp.Or(strings.Join(at, ", "), "database"), d.What)
}

// Unwrap returns an error of type journal/damaged.
func (d *Damage) Unwrap() error { return contract.Errorf("journal/damaged", "%s", d.Error()) }

// verifyUnfinished verifies the chains of the open runs of this host, and those of
// suspended runs.
func (s *Store) verifyUnfinished(ctx context.Context) error {
	rows, err := s.ownOpen(ctx)
	if err != nil {
		return err
	}
	suspended, err := readRuns(ctx, s.read, "runs_suspended")
	if err != nil {
		return err
	}
	for _, row := range append(rows, suspended...) {
		if err := s.verifyChain(ctx, row, nil); err != nil {
			return err
		}
	}
	return nil
}

// unnamed returns a *Damage for each run that has records but no summary.
func (s *Store) unnamed(ctx context.Context) (out []*Damage, err error) {
	var numbers []int64
	var n int64
	if err := s.read.all(ctx, "unnamed_runs", nil, []any{&n}, func() error { numbers = append(numbers, n); return nil }); err != nil {
		return nil, err
	}
	for _, n := range numbers {
		d := &Damage{What: "its summary is missing"}
		err := s.stored(ctx, n, 0, 1, func(_ int, _ sum, body []byte) error {
			if rec, err := s.decoder()(body); err == nil {
				d.Run = rec.Run
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Verify compares every record of a run with its chain value, the summary with the records, and
// every value with its hash. The error is a *Damage for the first difference. The records of a
// removed run and the values of a purged run are not verified.
func (s *Store) Verify(ctx context.Context, run string) error {
	err := s.verifyOnce(ctx, run)
	var d *Damage
	if errors.As(err, &d) { // the records may have been removed during the check
		return s.verifyOnce(ctx, run)
	}
	return err
}

func (s *Store) verifyOnce(ctx context.Context, run string) error {
	row, err := s.run(ctx, run)
	if err != nil {
		return err
	}
	return s.verify(ctx, row)
}

// VerifyAll verifies every run and session and the host stream, and returns all damage.
func (s *Store) VerifyAll(ctx context.Context) ([]*Damage, error) {
	var out []*Damage
	_, err := s.VerifyEach(ctx, func(d *Damage) { out = append(out, d) }, nil)
	return out, err
}

// VerifyEach verifies as VerifyAll does, and calls found for each damage. It may run while the
// store is in use. After each run it calls pause, if not nil, with the time that the check of the
// run took; an error of pause stops it. It returns the number of verified runs.
func (s *Store) VerifyEach(
	ctx context.Context, found func(*Damage), pause func(took time.Duration) error,
) (runs int, err error) {
	if runs, err = s.verifyRuns(ctx, found, pause); err != nil {
		return runs, err
	}
	_, damaged, err := s.VerifySessions(ctx)
	for _, d := range damaged {
		found(d)
	}
	if err != nil {
		return runs, err
	}
	d, err := s.verifyHost(ctx)
	if d != nil {
		found(d)
	}
	return runs, err
}

func (s *Store) verifyRuns(
	ctx context.Context, found func(*Damage), pause func(took time.Duration) error,
) (verified int, err error) {
	for f := (Filter{Limit: page}); ; {
		runs, err := s.Runs(ctx, f)
		if err != nil {
			return verified, err
		}
		if len(runs) == 0 {
			lost, err := s.unnamed(ctx)
			for _, d := range lost {
				found(d)
			}
			return verified, err
		}
		for _, r := range runs {
			began := time.Now()
			err := s.Verify(ctx, r.ID)
			var d *Damage
			switch {
			case errors.As(err, &d):
				found(d)
			case err != nil && !errors.Is(err, contract.OfType("run/not-found")): // it may be removed by now
				return verified, err
			}
			verified++
			if pause == nil {
				continue
			}
			if err := pause(time.Since(began)); err != nil {
				return verified, err
			}
		}
		f.Before = runs[len(runs)-1].ID
	}
}

func (s *Store) verify(ctx context.Context, row runRow) error {
	if !row.Removed.IsZero() {
		return nil
	}
	seen := map[string]bool{}
	decode := s.decoder()
	summary := summaryOf(row)
	summary.ID = row.ID
	err := s.verifyChain(ctx, row, func(seq int, chain sum, body []byte) error {
		rec, err := decodeAs(decode, row.ID, seq, body)
		if err != nil {
			return err
		}
		summary.apply(rec, chain)
		return s.verifyValues(ctx, row, rec, seen)
	})
	if err != nil {
		return err
	}
	return differs(row, summary)
}

// differs returns a *Damage unless row is the summary of the records. Session and tenant are not
// compared, because their tables do not have older runs.
func differs(row, summary runRow) error {
	summary.bytes, summary.session, summary.tenant = row.bytes, row.session, row.tenant
	if summary == row {
		return nil
	}
	if row.n == 0 {
		return &Damage{Run: summary.ID, What: "its summary is lost"}
	}
	if err := endsAs(row, summary.Records, summary.chain); err != nil {
		return err
	}
	return &Damage{Run: row.ID, What: "its summary differs from its records"}
}

// summaryOf returns the initial summary of a run, with the fields of its row that do not come from
// records.
func summaryOf(row runRow) runRow {
	return runRow{n: row.n, bytes: row.bytes,
		Run: Run{State: stateOpen, Imported: row.Imported, Pinned: row.Pinned, Purged: row.Purged}}
}

// decodeAs decodes a record and checks its run and sequence number. An empty run is not checked.
// The error is a *Damage.
func decodeAs(decode func([]byte) (journal.Record, error), run string, seq int, body []byte) (journal.Record, error) {
	rec, err := decode(body)
	switch {
	case err != nil:
		return rec, &Damage{Run: run, Seq: seq, What: err.Error()}
	case rec.Seq != seq, run != "" && rec.Run != run:
		return rec, &Damage{Run: run, Seq: seq, What: fmt.Sprintf("it is record %d of run %s", rec.Seq, rec.Run)}
	}
	return rec, nil
}

func (s *Store) verifyValues(ctx context.Context, row runRow, rec journal.Record, seen map[string]bool) (err error) {
	rec.Refs(func(ref journal.Ref) {
		hash := ref.Hash()
		if err != nil || seen[hash] {
			return
		}
		seen[hash] = true
		_, failed := s.Value(ctx, hash)
		var d *Damage
		switch {
		case errors.As(failed, &d):
			err = &Damage{Run: row.ID, Seq: rec.Seq, Hash: hash, What: d.What}
		case failed != nil && errors.Is(failed, contract.OfType("replay/values-purged")):
			if row.Purged.IsZero() {
				err = &Damage{Run: row.ID, Seq: rec.Seq, Hash: hash, What: "the value is missing"}
			}
		default:
			err = failed
		}
	})
	return err
}

// verifyChain verifies the chain of a run and compares the last record with the row. each, if not
// nil, is called with every verified record.
func (s *Store) verifyChain(ctx context.Context, row runRow, each func(seq int, chain sum, body []byte) error) error {
	most := row.Records + 1 // one more record would be damage
	if !row.Ended() {
		most-- // the run may have grown since the row was read
	}
	last, chain, err := s.chain(ctx, row.n, most, each)
	var d *Damage
	switch {
	case errors.As(err, &d):
		d.Run = row.ID
		if d.Seq == 0 { // the damage is in the database
			d.Seq = last + 1
		}
		return err
	case err != nil:
		return err
	}
	return endsAs(row, last, chain)
}

// endsAs returns a *Damage unless the row has the number and the chain value of the last record.
func endsAs(row runRow, last int, chain sum) error {
	switch {
	case last != row.Records:
		return &Damage{Run: row.ID, Seq: min(last, row.Records) + 1,
			What: fmt.Sprintf("the run has %d records instead of %d", last, row.Records)}
	case chain != row.chain:
		return &Damage{Run: row.ID, Seq: last, What: "its chain value is not that of the run"}
	}
	return nil
}

// chain calls each with up to most records of the run with number n, after it has verified their
// chain values. It returns the number and the chain value of the last verified record. The error is
// a *Damage for the first difference, or that of each or of the database.
func (s *Store) chain(
	ctx context.Context, n int64, most int, each func(seq int, chain sum, body []byte) error,
) (last int, chain sum, err error) {
	err = s.stored(ctx, n, 0, most, func(seq int, stored sum, body []byte) error {
		if seq != last+1 {
			return &Damage{Seq: last + 1, What: fmt.Sprintf("the record is missing; the next one is %d", seq)}
		}
		last, chain = seq, chained(chain, body)
		if chain != stored {
			return &Damage{Seq: seq, What: "its bytes do not match its chain value"}
		}
		if each == nil {
			return nil
		}
		return each(seq, chain, body)
	})
	return last, chain, err
}
