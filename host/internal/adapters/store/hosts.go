package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// Runs that several hosts write to one database: each belongs to one of them.

var _ act.Sharer = (*Store)(nil)

// Name returns the name of the database for messages, without credentials.
func (s *Store) Name() string { return s.db.name() }

// Shared reports whether other hosts may use the database. lease is then the time without a write
// of a host after which another host may take over its runs.
func (s *Store) Shared() (lease time.Duration, ok bool) {
	if s.shared == nil {
		return 0, false
	}
	return s.shared.leased(), true
}

// Take assigns the open runs of hosts whose lease has lapsed to this host, and returns them as
// Unfinished does. Later appends of those hosts fail with journal/fenced. Without a shared database
// it does nothing.
func (s *Store) Take(ctx context.Context) ([]Unfinished, error) {
	if s.shared == nil {
		return nil, nil
	}
	if found, err := s.shared.anyLapsed(ctx, s.read); !found || err != nil {
		return nil, err
	}
	var open []runRow
	left := map[string]bool{}
	err := s.change(ctx, func(ctx context.Context) error {
		taken, err := s.shared.takeLapsed(ctx, s.write)
		rows := make([]runRow, len(taken))
		open = nil
		for i, run := range taken {
			if err == nil {
				err = s.write.one(ctx, "run_by_number", []any{run.n}, rows[i].columns())
			}
			left[rows[i].ID] = run.left
			if rows[i].State == stateOpen {
				open = append(open, rows[i])
			}
		}
		if err != nil {
			return err
		}
		return s.moveReserved(ctx, rows, 0, s.shared.number())
	})
	if err != nil {
		return nil, err
	}
	for _, row := range open {
		s.forget(row.ID)
	}
	out, err := s.unfinished(ctx, open)
	for i := range out {
		out[i].Left = left[out[i].Run.ID]
	}
	return out, err
}

// HandOver releases the open runs of this host that it is not executing, so that the next host that
// calls Take gets them, and returns their number. Their budget reservations are kept. Without a
// shared database it does nothing.
func (s *Store) HandOver(ctx context.Context) (n int, err error) {
	if s.shared == nil {
		return 0, nil
	}
	err = s.change(ctx, func(ctx context.Context) error {
		rows, err := readRuns(ctx, s.write, "runs_of", s.shared.number())
		rows = slices.DeleteFunc(rows, func(row runRow) bool { // executing here, or its last record is queued
			return s.memory.Has(row.ID)
		})
		if n = len(rows); n == 0 || err != nil {
			return err
		}
		to, err := s.shared.give(ctx, s.write, rows)
		if err != nil {
			return err
		}
		return s.moveReserved(ctx, rows, s.shared.number(), to)
	})
	return n, err
}

// forget removes a run from memory that this host had lost and has now taken again.
func (s *Store) forget(run string) {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	delete(s.live, run)
	s.memory.Drop(run)
}

// Elsewhere implements act.Sharer.
func (s *Store) Elsewhere(ctx context.Context, run string) (bool, error) {
	_, mine, err := s.Owner(ctx, run)
	return !mine, err
}

// Owner returns the id of the host that may append to a run, and reports whether it is
// this one. The id is empty if the run was handed over, or the database is not shared.
func (s *Store) Owner(ctx context.Context, run string) (id string, mine bool, err error) {
	row, err := s.run(ctx, run)
	if err != nil || s.shared == nil {
		return "", err == nil, err
	}
	return s.shared.owner(ctx, s.read, row.n)
}

// owns reports whether this host may append to the run.
func (s *Store) owns(ctx context.Context, row runRow) (bool, error) {
	if s.shared == nil {
		return true, nil
	}
	_, mine, err := s.shared.owner(ctx, s.read, row.n)
	return mine, err
}

// claim assigns a run to this host and returns its current row. The error is journal/fenced if the
// run is open and the lease of its host has not lapsed.
func (s *Store) claim(ctx context.Context, row runRow) (runRow, error) {
	if mine, err := s.owns(ctx, row); mine || err != nil {
		return row, err
	}
	var from int64
	err := s.change(ctx, func(ctx context.Context) (err error) {
		from, err = s.shared.take(ctx, s.write, row.n)
		if err != nil || from == 0 || from == s.shared.number() {
			return err
		}
		return s.moveReserved(ctx, []runRow{row}, from, s.shared.number())
	})
	switch {
	case err != nil:
		return row, err
	case from == 0:
		return row, takenOver(row.ID)
	}
	return readRun(ctx, s.read, row.ID)
}

// lives returns a copy of the list of live runs.
func (s *Store) lives() []*liveRun {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	out := make([]*liveRun, 0, len(s.live))
	for _, r := range s.live {
		out = append(out, r)
	}
	return out
}

// others holds the runs of other hosts that are followed here. It is guarded by liveMu.
type others struct {
	memory  journal.Memory
	reading map[string]bool
}

// lookEvery is the interval at which a followed run of another host is read.
const lookEvery = 200 * time.Millisecond

// followOther returns a cursor on a run of another host, and starts the goroutine that reads the
// run unless it is already being read.
func (s *Store) followOther(run string, seq int) *journal.Cursor {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	select {
	case <-s.stop:
		return journal.Unreadable(closedError())
	default:
	}
	if s.others.reading == nil {
		s.others.reading = map[string]bool{}
	}
	if !s.others.reading[run] {
		s.others.reading[run] = true
		s.done.Go(func() { s.readOther(run) })
	}
	return s.others.memory.Follow(run, seq)
}

// ends reports whether no record follows rec without an action of a caller: the run is finished or
// suspended.
func ends(rec journal.Record) bool {
	kind := rec.Body.Kind()
	return kind == journal.KindRunFinished || kind == journal.KindRunSuspended
}

// readOther polls the database for the records of a run of another host until its end, and appends
// them to memory.
func (s *Store) readOther(run string) {
	defer func() {
		s.liveMu.Lock()
		defer s.liveMu.Unlock()
		delete(s.others.reading, run)
		s.others.memory.Drop(run)
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	ctx := context.Background()
	for seq := 0; ; {
		records, err := s.Read(ctx, run, seq, page)
		for _, rec := range records {
			if err == nil {
				err = s.others.memory.Append(ctx, rec)
			}
			seq = rec.Seq
		}
		var damage *Damage
		if errors.As(err, &damage) {
			s.others.memory.Fail(run, err)
			return
		}
		if len(records) > 0 && ends(records[len(records)-1]) {
			return
		}
		if len(records) == page {
			continue
		}
		select {
		case <-tick.C:
		case <-s.stop:
			s.others.memory.Fail(run, closedError())
			return
		}
	}
}
