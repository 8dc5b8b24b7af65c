package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Damage is a record or a value that is not what was written, or is missing.
type Damage struct {
	Run  string // empty: a value that was read by its hash
	Seq  int    // record; 0: the run itself
	Hash string // of the damaged value, if it is one
	What string
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
	return fmt.Sprintf("store: verify %s: %s; restore a backup, or move the database away to begin a new journal",
		strings.Join(at, ", "), d.What)
}

// Unwrap gives a *Damage the error type journal/damaged.
func (d *Damage) Unwrap() error { return contract.Errorf("journal/damaged", "%s", d.What) }

// verifyUnfinished verifies the chains of open runs.
func (s *Store) verifyUnfinished(ctx context.Context) error {
	rows, err := readRuns(ctx, s.read, "runs_open")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := s.verifyChain(ctx, row, nil); err != nil {
			return err
		}
	}
	return nil
}

// Verify compares every record of a run with its chain value, the summary with
// the records, and every value with its hash. The error is a *Damage at the
// first difference. A removed run has nothing to verify, a purged one no values.
func (s *Store) Verify(ctx context.Context, run string) error {
	row, err := s.run(ctx, run)
	if err != nil {
		return err
	}
	return s.verify(ctx, row)
}

// VerifyAll verifies every run and returns all damage.
func (s *Store) VerifyAll(ctx context.Context) ([]*Damage, error) {
	var out []*Damage
	for f := (Filter{Limit: page}); ; {
		runs, err := s.Runs(ctx, f)
		if err != nil || len(runs) == 0 {
			return out, err
		}
		for _, r := range runs {
			err := s.Verify(ctx, r.ID)
			var d *Damage
			switch {
			case errors.As(err, &d):
				out = append(out, d)
			case err != nil:
				return out, err
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
	summary := runRow{Run: Run{ID: row.ID, State: stateOpen}}
	chain, err := s.verifyChain(ctx, row, func(seq int, body []byte) error {
		rec, err := decode(body)
		switch {
		case err != nil:
			return &Damage{Run: row.ID, Seq: seq, What: err.Error()}
		case rec.Run != row.ID || rec.Seq != seq:
			return &Damage{Run: row.ID, Seq: seq, What: fmt.Sprintf("it is record %d of run %s", rec.Seq, rec.Run)}
		}
		summary.apply(rec, sum{})
		return s.verifyValues(ctx, row, rec, seen)
	})
	if err != nil {
		return err
	}
	summary.n, summary.chain, summary.bytes = row.n, chain, row.bytes
	summary.Imported, summary.Pinned, summary.Purged = row.Imported, row.Pinned, row.Purged
	if summary != row {
		return &Damage{Run: row.ID, What: "its summary differs from its records"}
	}
	return nil
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

// verifyChain compares the records of a run with their chain values and its last
// one with the row. each may be nil.
func (s *Store) verifyChain(ctx context.Context, row runRow, each func(seq int, body []byte) error) (sum, error) {
	var chain sum
	last, most := 0, row.Records+1 // one more would be damage
	if !row.Ended() {
		most-- // the run may have grown since its row was read
	}
	err := s.stored(ctx, row.n, 0, most, func(seq int, stored sum, body []byte) error {
		if seq != last+1 {
			return &Damage{Run: row.ID, Seq: last + 1, What: fmt.Sprintf("the record is missing; the next one is %d", seq)}
		}
		last, chain = seq, chained(chain, body)
		if chain != stored {
			return &Damage{Run: row.ID, Seq: seq, What: "its bytes do not match its chain value"}
		}
		if each == nil {
			return nil
		}
		return each(seq, body)
	})
	switch {
	case err != nil:
		if isCorrupt(err) {
			err = &Damage{Run: row.ID, Seq: last + 1, What: err.Error()}
		}
		return chain, err
	case last != row.Records:
		return chain, &Damage{Run: row.ID, Seq: min(last, row.Records) + 1,
			What: fmt.Sprintf("the run has %d records instead of %d", last, row.Records)}
	case chain != row.chain:
		return chain, &Damage{Run: row.ID, Seq: last, What: "its chain value is not that of the run"}
	}
	return chain, nil
}
