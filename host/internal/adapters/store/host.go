package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxHostRecords is the maximum number of records in the stream of the host, in addition to the
// maximum age that retention sets.
const maxHostRecords = 1_000_000

// pollShared is the interval at which a waiting reader checks for records of other hosts.
const pollShared = time.Second

// hostItem is a record of the host with its encoded text. The writer assigns its number.
type hostItem struct {
	rec    journal.Record
	body   []byte
	caller *shortage // nil if no caller waits for the record, for example because it has waited for disk space
}

func newHostItem(at time.Time, body journal.Body) (hostItem, error) {
	rec := journal.Record{Run: journal.HostRun, Seq: 1, At: at, Epoch: 1, Body: body}
	if err := rec.Check(); err != nil {
		return hostItem{}, err
	}
	// The number is that of the row.
	return hostItem{rec: rec, body: rec.Value().Dissoc(edn.K("seq")).Canonical()}, nil
}

// hostEnd is the last number and chain value of the stream of the host, as the writer last read or
// wrote it.
type hostEnd struct {
	n     int64
	chain sum
	known bool
}

// HostStream returns the stream of host records. The writer appends them together with the records
// of runs, and adds a summary entry in the transaction of each run/finished. Hosts that share a
// database share one stream.
func (s *Store) HostStream() *HostStream { return &HostStream{s} }

// HostStream implements journal.HostStream with a Store.
type HostStream struct{ s *Store }

var _ journal.HostStream = (*HostStream)(nil)

// Record implements journal.HostStream. It blocks while the queue is full, except for the
// kinds that waitless names.
func (h *HostStream) Record(
	ctx context.Context, at time.Time, body journal.Body,
) (wait func(ctx context.Context) error, err error) {
	it, err := newHostItem(at, body)
	if err != nil {
		return nil, err
	}
	return h.s.queue.addHost(ctx, it, !waitless(body))
}

// waitless reports whether a record is queued even if the queue is full: the writer itself causes
// some events, and a disk that does not respond must not block the supervisor of plugins.
func waitless(body journal.Body) bool {
	switch body.(type) {
	case *journal.HostEvent, *journal.PluginTransition:
		return true
	}
	return false
}

// Bounds implements journal.HostStream.
func (h *HostStream) Bounds(ctx context.Context) (first, last int, err error) {
	return readHostBounds(ctx, h.s.read)
}

func readHostBounds(ctx context.Context, from *statements) (first, last int, err error) {
	err = from.one(ctx, "host_bounds", nil, []any{&first, &last})
	return first, last, err
}

// Read implements journal.HostStream.
func (h *HostStream) Read(ctx context.Context, q journal.HostQuery) (out []journal.Record, err error) {
	statement, args := "host_records", []any{q.After, q.Limit}
	latest := q.View == journal.ViewEvents && q.After < 0
	switch {
	case latest:
		statement, args = "last_host_events", args[1:]
	case q.View == journal.ViewEvents:
		statement = "host_events"
	}
	for more := true; more && len(out) < q.Limit; {
		var found int
		if out, found, err = h.page(ctx, statement, args, q.View, out); err != nil {
			return nil, err
		}
		more = !latest && found == q.Limit
	}
	out = out[:min(len(out), q.Limit)]
	if latest {
		slices.Reverse(out)
	}
	return out, nil
}

// page appends the records of a view among the rows of a statement to out, and returns the number
// of rows. It sets args[0] to the number of the last row, so the next call continues behind it.
func (h *HostStream) page(
	ctx context.Context, statement string, args []any, view journal.View, out []journal.Record,
) ([]journal.Record, int, error) {
	found, row := 0, hostRow{}
	err := h.s.read.all(ctx, statement, args, row.columns(), func() error {
		found++
		args[0] = row.n
		rec, err := row.record()
		if err == nil && view.Has(rec.Body) {
			out = append(out, rec)
		}
		return err
	})
	return out, found, err
}

// hostRow is a row of the table host_records.
type hostRow struct {
	n     int
	chain sum
	body  []byte
}

func (r *hostRow) columns() []any { return []any{&r.n, &r.chain, &r.body} }

func (r *hostRow) record() (journal.Record, error) {
	v, err := edn.Read(r.body, storedLimits)
	if err != nil {
		return journal.Record{}, &Damage{Run: journal.HostRun, Seq: r.n, What: err.Error()}
	}
	var d journal.Decoder
	rec, err := d.Decode(v.AssocKey("seq", edn.Int(int64(r.n))))
	if err != nil {
		return rec, &Damage{Run: journal.HostRun, Seq: r.n, What: contract.AsError(err).Message}
	}
	return rec, nil
}

// More implements journal.HostStream.
func (h *HostStream) More() <-chan struct{} {
	h.s.hostMu.Lock()
	defer h.s.hostMu.Unlock()
	if h.s.hostMore == nil {
		more := make(chan struct{})
		h.s.hostMore = more
		if h.s.shared != nil {
			time.AfterFunc(pollShared, func() { h.s.wakeHost(more) })
		}
	}
	return h.s.hostMore
}

// wakeHost wakes the readers that wait for the channel only, or all readers if it is nil.
func (s *Store) wakeHost(only chan struct{}) {
	s.hostMu.Lock()
	defer s.hostMu.Unlock()
	if s.hostMore != nil && (only == nil || only == s.hostMore) {
		close(s.hostMore)
		s.hostMore = nil
	}
}

// addHost queues a record of the host. If room is set, it blocks while the queue is full, until ctx
// ends. wait blocks until the record is durable.
func (q *queue) addHost(
	ctx context.Context, it hostItem, room bool,
) (wait func(ctx context.Context) error, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if room {
		if err := q.makeRoom(ctx); err != nil {
			return nil, err
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	caller := &shortage{}
	it.caller = caller
	if q.waiting.short {
		q.waiting.records = append(q.waiting.records, q.waiting.admit([]hostItem{it})...)
		return func(context.Context) error { return caller.err }, nil
	}
	b := q.next
	if b.idle() {
		q.arm()
	}
	b.host = append(b.host, it)
	return func(ctx context.Context) error {
		q.hurry(b)
		if err := b.wait(ctx); err != nil {
			return err
		}
		if caller.err != nil {
			return caller.err
		}
		return nil
	}, nil
}

// hostRecords writes the host records of a batch, and the summary entries of the runs that end in
// it.
func (w *writer) hostRecords(ctx context.Context, b *batch) error {
	if len(b.host)+len(b.ended) == 0 {
		return nil
	}
	if w.s.shared != nil || !w.host.known {
		if err := w.findHostEnd(ctx); err != nil {
			return err
		}
	}
	for _, list := range [][]hostItem{b.host, b.ended} {
		for i := range list {
			it := &list[i]
			w.host.n++
			w.host.chain = chained(w.host.chain, it.body)
			it.rec.Seq = int(w.host.n)
			_, err := w.sql.exec(ctx, "add_host_record", w.host.n, it.rec.At.UnixNano(), string(it.rec.Body.Kind()),
				isEvent(it.rec.Body), w.host.chain, it.body)
			if err != nil {
				return err
			}
			w.stored += len(it.body) + len(w.host.chain)
		}
	}
	_, err := w.sql.exec(ctx, "set_host_tail", w.host.n, w.host.chain)
	return err
}

// isEvent returns 1 if ViewEvents includes the record, else 0, for the column of that view.
func isEvent(b journal.Body) int64 {
	if journal.ViewEvents.Has(b) {
		return 1
	}
	return 0
}

// findHostEnd reads the end of the stream. If its row was removed, which verification reports, the
// stream goes on behind the last record.
func (w *writer) findHostEnd(ctx context.Context) error {
	err := w.sql.one(ctx, "host_end", nil, []any{&w.host.n, &w.host.chain})
	if errors.Is(err, sql.ErrNoRows) {
		if err = w.sql.one(ctx, "last_host_record", nil, []any{&w.host.n, &w.host.chain}); err == nil {
			_, err = w.sql.exec(ctx, "add_host_tail", w.host.n, w.host.chain)
		}
	}
	w.host.known = err == nil
	return err
}

// endOf returns the summary entry of the run that rec finishes; false for a record of another kind.
func (s *Store) endOf(rec journal.Record) (hostItem, bool) {
	if rec.Body.Kind() != journal.KindRunFinished {
		return hostItem{}, false
	}
	records, _ := s.memory.Records(rec.Run) // the run is live, so its records are in memory
	row := journal.ActOf(records[:min(rec.Seq, len(records))])
	if row == nil {
		return hostItem{}, false
	}
	it, err := newHostItem(rec.At, row)
	return it, err == nil
}

// hasHost reports whether the database has the table of host records; databases of older versions
// do not.
func (s *Store) hasHost(ctx context.Context) (bool, error) { return s.hasTable(ctx, "host_table") }

// hasTable reports whether the database has the table that a statement looks for.
func (s *Store) hasTable(ctx context.Context, statement string) (bool, error) {
	if s.blobs == nil {
		return true, nil // only files are opened as they are
	}
	var there int
	err := s.read.one(ctx, statement, nil, []any{&there})
	return there > 0, err
}

// verifyHost verifies the chain of the host stream and returns the first damage, nil if there is
// none. It may run while the store is in use: damage is looked for again, since retention may have
// removed records in the meantime.
func (s *Store) verifyHost(ctx context.Context) (*Damage, error) {
	if there, err := s.hasHost(ctx); err != nil || !there {
		return nil, err
	}
	d, err := s.verifyHostOnce(ctx)
	if err == nil && d != nil {
		d, err = s.verifyHostOnce(ctx)
	}
	return d, err
}

func (s *Store) verifyHostOnce(ctx context.Context) (*Damage, error) {
	end, lost, err := s.hostTail(ctx) // first: later records may come after it
	if err != nil {
		return nil, err
	}
	var chain sum
	var before, last int
	err = s.read.one(ctx, "host_head", nil, []any{&before, &chain})
	if errors.Is(err, sql.ErrNoRows) {
		return &Damage{Run: journal.HostRun, What: "the head of the stream is missing"}, nil
	}
	if err == nil {
		_, last, err = readHostBounds(ctx, s.read)
	}
	if err != nil {
		return nil, err
	}
	last = max(last, int(end.n))
	changed := func(at int) *Damage {
		return &Damage{Run: journal.HostRun, Seq: at, What: "the record is not what was written"}
	}
	if end.known && before == int(end.n) && chain != end.chain {
		return changed(before), nil
	}
	for at := before; at < last; {
		row, found := hostRow{}, 0
		err := s.read.all(ctx, "host_records", []any{at, page}, row.columns(), func() error {
			found++
			if at++; row.n != at {
				return &Damage{Run: journal.HostRun, Seq: at, What: "the record is missing"}
			}
			chain = chained(chain, row.body)
			if chain != row.chain || end.known && at == int(end.n) && chain != end.chain {
				return changed(at)
			}
			_, err := row.record()
			return err
		})
		var d *Damage
		switch {
		case errors.As(err, &d):
			return d, nil
		case err != nil:
			return nil, err
		case found == 0:
			return &Damage{Run: journal.HostRun, Seq: at + 1, What: "the record is missing"}, nil
		}
	}
	return lost, nil
}

// hostTail reads what was written last. known is false in databases of older versions. lost is the
// damage of a database that no longer has it.
func (s *Store) hostTail(ctx context.Context) (end hostEnd, lost *Damage, err error) {
	if there, err := s.hasTable(ctx, "host_tail_table"); err != nil || !there {
		return end, nil, err
	}
	err = s.read.one(ctx, "host_end", nil, []any{&end.n, &end.chain})
	if errors.Is(err, sql.ErrNoRows) {
		return end, &Damage{Run: journal.HostRun, What: "the end of the stream is missing"}, nil
	}
	end.known = err == nil
	return end, nil, err
}

// maxHostRemoved is the maximum number of records that one transaction removes, because other
// callers of the writer wait for it.
const maxHostRemoved = 10_000

// retainHost removes the host records that are too old or too many, and returns their number. The
// chain value of the last removed record is kept, so that the chain can be verified.
func (s *Store) retainHost(ctx context.Context) (removed int, err error) {
	for more := true; more; {
		now := 0
		err := s.change(ctx, func(ctx context.Context) error {
			first, keep, err := s.hostToKeep(ctx, s.write)
			if now = min(keep-first, maxHostRemoved); err != nil || now == 0 {
				return err
			}
			keep = first + now
			if _, err := s.write.exec(ctx, "set_host_head", keep-1); err != nil {
				return err
			}
			_, err = s.write.exec(ctx, "remove_host_records", keep)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed, more = removed+now, now == maxHostRemoved
	}
	return removed, nil
}

// hostToKeep returns the number of the first record of the host, and of the first one that
// retention keeps.
func (s *Store) hostToKeep(ctx context.Context, from *statements) (first, keep int, err error) {
	first, last, err := readHostBounds(ctx, from)
	keep = max(first, last-maxHostRecords+1)
	if age := s.limits.Load().Retain.Age; age > 0 && err == nil {
		var young int
		err = from.one(ctx, "first_host_since", []any{s.opts.Now().Add(-age).UnixNano()}, []any{&young})
		keep = max(keep, young)
	}
	return first, keep, err
}

// copyHost copies the host stream up to the first record that does not verify. The later records go
// into the cut-off file of the repair.
func (r *repairer) copyHost(ctx context.Context) error {
	if there, err := r.src.hasHost(ctx); err != nil || !there {
		return err
	}
	var before int
	var chain sum
	err := r.src.read.one(ctx, "host_head", nil, []any{&before, &chain})
	whole := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if whole {
		if _, err := r.dst.write.exec(ctx, "put_host_head", before, chain); err != nil {
			return err
		}
	}
	row := hostRow{}
	err = r.src.read.all(ctx, "host_records", []any{-1, maxHostRecords * 2}, row.columns(), func() error {
		rec, err := row.record()
		if whole = whole && err == nil && row.n == before+1 && chained(chain, row.body) == row.chain; !whole {
			r.report.HostCut++
			return r.cutLine(edn.MustMap(edn.K("table"), edn.Text("host_records"), edn.K("n"), edn.Int(int64(row.n)),
				edn.K("body"), readableText(string(row.body))))
		}
		before, chain = row.n, row.chain
		r.report.HostRecords++
		_, err = r.dst.write.exec(ctx, "add_host_record", row.n, rec.At.UnixNano(), string(rec.Body.Kind()), isEvent(rec.Body),
			chain, row.body)
		return err
	})
	if err == nil {
		_, err = r.dst.write.exec(ctx, "set_host_tail", before, chain)
	}
	return err
}
