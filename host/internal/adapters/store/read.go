package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Filter selects runs. A zero field, except Limit, does not limit the selection.
type Filter struct {
	Status    string // "open", "suspended", or the status of run/finished
	Intent    string
	Principal string
	Tenant    string    // of the caller
	Session   string    // id
	Reach     Reach     // only these runs
	Since     time.Time // accepted then or later
	Until     time.Time // accepted before
	Active    time.Time // not finished, or finished then or later
	Before    string    // runs that were recorded before this one
	Key       string    // hash of an idempotency key
	Limit     int       // 0: 100
}

// Reach limits queries to the runs of a caller, a tenant or a session; an empty field does not
// limit. A limited reach excludes imported runs, because their callers, tenants and sessions belong
// to another host (AUTH-012).
type Reach struct{ Principal, Tenant, Session string }

// All reports whether the reach does not limit anything.
func (r Reach) All() bool { return r == Reach{} }

// limited is 1 for a limited reach, as statements have it.
func (r Reach) limited() int {
	if r.All() {
		return 0
	}
	return 1
}

// narrow applies the reach to the other fields; false: no run is in both.
func (f *Filter) narrow() bool {
	for _, part := range []struct {
		field *string
		only  string
	}{{&f.Principal, f.Reach.Principal}, {&f.Tenant, f.Reach.Tenant}, {&f.Session, f.Reach.Session}} {
		if part.only == "" {
			continue
		}
		if *part.field != "" && *part.field != part.only {
			return false
		}
		*part.field = part.only
	}
	return true
}

// Runs returns the summaries of the runs that f selects, the latest first.
func (s *Store) Runs(ctx context.Context, f Filter) ([]Run, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	if !f.narrow() {
		return nil, nil
	}
	args := []any{f.Status, f.Intent, f.Principal, nanos(f.Since), nanos(f.Until), f.Before, f.Key, f.Limit,
		nanos(f.Active), f.Reach.limited()}
	name := "runs"
	switch {
	case f.Session != "":
		name, args = "runs_of_session", append(args, f.Session, f.Tenant)
	case f.Tenant != "":
		name, args = "runs_of_tenant", append(args, f.Tenant)
	}
	rows, err := readRuns(ctx, s.read, name, args...)
	if err != nil {
		return nil, err
	}
	out := make([]Run, len(rows))
	for i := range rows {
		out[i] = rows[i].Run
	}
	return out, nil
}

// Run returns the summary of one run. The error for an unknown id is run/not-found.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	row, err := s.run(ctx, id)
	return row.Run, err
}

// InReach reports whether a run is within a limited reach. An unknown or imported run is not.
func (s *Store) InReach(ctx context.Context, id string, r Reach) (bool, error) {
	var n int64
	err := s.read.one(ctx, "run_in_reach", []any{id, r.Principal, r.Tenant, r.Session}, []any{&n})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Keyed returns the id of the run that was accepted with the idempotency key of a hash; empty if
// there is no such run. The error is journal/unavailable if the files of the database were removed
// or replaced: the next process may not know the key.
func (s *Store) Keyed(ctx context.Context, hash string) (run string, err error) {
	if err := s.CheckFiles(); err != nil {
		return "", err
	}
	err = s.read.one(ctx, "run_by_key", []any{hash}, []any{&run})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return run, err
}

func (s *Store) run(ctx context.Context, id string) (runRow, error) {
	row, err := readRun(ctx, s.read, id)
	if errors.Is(err, sql.ErrNoRows) {
		return row, contract.Errorf("run/not-found", "journal: read run %s: it is not recorded", id)
	}
	return row, err
}

// Match returns up to limit ids of runs within a reach that begin with a prefix, the
// latest first.
func (s *Store) Match(ctx context.Context, prefix string, limit int, by Reach) (ids []string, err error) {
	var id string
	args := []any{prefix, prefix + "\U0010FFFF", limit, by.Principal, by.Tenant, by.Session, by.limited()}
	err = s.read.all(ctx, "runs_like", args, []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

// Unfinished is a run without run/finished, with its last record.
type Unfinished struct {
	Run  Run
	Last journal.Record
	Left bool // another host had it, which was shut down
}

// Unfinished returns the open runs of this host with their last records, the oldest first. To
// continue a run, append a record with a higher epoch.
func (s *Store) Unfinished(ctx context.Context) ([]Unfinished, error) {
	rows, err := s.ownOpen(ctx)
	if err != nil {
		return nil, err
	}
	return s.unfinished(ctx, rows)
}

// ownOpen reads the rows of the open runs of this host.
func (s *Store) ownOpen(ctx context.Context) ([]runRow, error) {
	if s.shared != nil {
		return readRuns(ctx, s.read, "runs_of", s.shared.number())
	}
	return readRuns(ctx, s.read, "runs_open")
}

func (s *Store) unfinished(ctx context.Context, rows []runRow) ([]Unfinished, error) {
	out := make([]Unfinished, 0, len(rows))
	for _, row := range rows {
		last, err := s.Read(ctx, row.ID, row.Records-1, 1)
		if err != nil {
			return nil, err
		}
		if len(last) == 1 {
			out = append(out, Unfinished{Run: row.Run, Last: last[0]})
		}
	}
	return out, nil
}

// Stored is a record in its stored form.
type Stored struct {
	Seq   int
	Chain string
	Bytes []byte // canonical EDN
}

// Bytes returns, in stored form, up to limit records of a run with sequence numbers above after.
// The error for an unknown run is run/not-found.
func (s *Store) Bytes(ctx context.Context, run string, after, limit int) ([]Stored, error) {
	row, err := s.run(ctx, run)
	if err != nil {
		return nil, err
	}
	var out []Stored
	err = s.stored(ctx, row.n, after, limit, func(seq int, chain sum, body []byte) error {
		out = append(out, Stored{seq, chain.hash(), body})
		return nil
	})
	return out, err
}

// page is the number of records that are read at once.
const page = 500

// stored yields the records of a run after seq, without a transaction around
// them.
func (s *Store) stored(ctx context.Context, run int64, after, limit int, each func(seq int, chain sum, body []byte) error) error {
	type row struct {
		seq   int
		chain sum
		body  []byte
	}
	for limit > 0 {
		var rows []row
		var r row
		err := s.read.all(ctx, "records", []any{run, after, min(limit, page)}, []any{&r.seq, &r.chain, &r.body}, func() error {
			rows = append(rows, r)
			r.body = nil
			return nil
		})
		for _, r := range rows { // also those before a damaged page
			if err := each(r.seq, r.chain, r.body); err != nil {
				return err
			}
			after = r.seq
		}
		if err != nil || len(rows) < page {
			return err
		}
		limit -= len(rows)
	}
	return nil
}

// Read returns up to limit records of a run with sequence numbers above after. The values of a
// record are loaded when they are first used. The error for an unknown run is run/not-found.
func (s *Store) Read(ctx context.Context, run string, after, limit int) ([]journal.Record, error) {
	row, err := s.run(ctx, run)
	if err != nil {
		return nil, err
	}
	var bodies []body
	failed := s.stored(ctx, row.n, max(0, after), limit, func(seq int, _ sum, text []byte) error {
		bodies = append(bodies, body{seq: seq, text: text})
		return nil
	})
	out, err := s.decodeAll(run, bodies)
	return out, cmp.Or(err, failed)
}

// body is a record as it is stored, and what was read of it.
type body struct {
	seq  int
	text []byte
	rec  journal.Record
	err  error
	done bool
}

// decodedTogether is the number of records above which several processors decode them.
const decodedTogether = 64

// decodeAll decodes records of one run that follow each other, up to the first damage.
func (s *Store) decodeAll(run string, bodies []body) (out []journal.Record, err error) {
	d := s.journalDecoder()
	if workers := runtime.GOMAXPROCS(0); len(bodies) > decodedTogether && workers > 1 {
		var all sync.WaitGroup
		for part := range slices.Chunk(bodies, (len(bodies)+workers-1)/workers) {
			all.Go(func() {
				for i := range part {
					part[i].decode(d, false)
				}
			})
		}
		all.Wait()
	}
	out = make([]journal.Record, 0, len(bodies))
	for i := range bodies {
		b := &bodies[i]
		if b.decode(d, true); b.err != nil {
			return out, &Damage{Run: run, Seq: b.seq, What: b.err.Error()}
		}
		out = append(out, b.rec)
	}
	return out, nil
}

// decode decodes the record. Records that refer to each other are decoded in order;
// others at any time.
func (b *body) decode(d *journal.Decoder, inOrder bool) {
	if b.done {
		return
	}
	v, err := edn.Read(b.text, storedLimits)
	if err == nil && !inOrder && d.Ordered(v) {
		return
	}
	b.done, b.err = true, err
	if err == nil {
		b.rec, b.err = d.Decode(v)
	}
}

// decoder returns a function that decodes the records of one run in order.
func (s *Store) decoder() func(body []byte) (journal.Record, error) {
	d := s.journalDecoder()
	return func(body []byte) (journal.Record, error) {
		v, err := edn.Read(body, storedLimits)
		if err != nil {
			return journal.Record{}, err
		}
		return d.Decode(v)
	}
}

// journalDecoder returns a decoder whose records read their values from the store.
func (s *Store) journalDecoder() *journal.Decoder {
	near := &neighbors{s: s}
	return &journal.Decoder{Values: func(hash string) edn.Value {
		v, err := readValue(context.Background(), hash, near)
		if err != nil {
			return edn.Nil()
		}
		return v
	}}
}

// Value returns a value by its hash and verifies it. The error is replay/values-purged if the value
// is not stored, and a *Damage if it does not have its hash.
func (s *Store) Value(ctx context.Context, hash string) (edn.Value, error) {
	return readValue(ctx, hash, s)
}

// contents are where values are read from.
type contents interface {
	content(ctx context.Context, by string, key any) (content, error)
}

func readValue(ctx context.Context, hash string, from contents) (edn.Value, error) {
	want, err := parseSum(hash)
	if err != nil {
		return edn.Nil(), fmt.Errorf("store: read value: %w", err)
	}
	c, err := from.content(ctx, byHash, want)
	if errors.Is(err, sql.ErrNoRows) {
		return edn.Nil(), contract.Errorf("replay/values-purged", "store: read value %s: it is not stored, or was purged", hash)
	}
	if err == nil {
		v, failed := assemble(c, func(n int64) (content, error) { return from.content(ctx, byNumber, n) })
		if failed == nil {
			return v, nil
		}
		err = failed
	}
	var d *Damage
	switch {
	case errors.As(err, &d):
		return edn.Nil(), &Damage{Hash: hash, What: d.What}
	case errors.Is(err, errDamaged), errors.Is(err, fs.ErrNotExist), errors.Is(err, sql.ErrNoRows):
		return edn.Nil(), &Damage{Hash: hash, What: err.Error()}
	}
	return edn.Nil(), err
}

// The statements that read a value.
const (
	byHash   = "content_by_hash"
	byNumber = "content"
)

// Readable reports whether the value with a hash is stored and a run within the reach names it.
func (s *Store) Readable(ctx context.Context, hash string, by Reach) (bool, error) {
	want, err := parseSum(hash)
	if err != nil {
		return false, fmt.Errorf("store: read value: %w", err)
	}
	var n int64
	err = s.read.one(ctx, "readable", []any{want, by.Principal, by.Tenant, by.Session, by.limited()}, []any{&n})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// content reads a value as it is stored.
func (s *Store) content(ctx context.Context, by string, key any) (content, error) {
	return readContent(ctx, s.read, s.blobs, by, key)
}

// readContent reads a value. Without files the body of one that is a file stays
// nil.
func readContent(ctx context.Context, from *statements, files *blobs, by string, key any) (c content, err error) {
	err = from.one(ctx, by, []any{key}, []any{&c.n, &c.hash, &c.owner, &c.form, &c.size, &c.body})
	if err != nil {
		return c, err
	}
	switch {
	case c.body != nil:
	case files == nil:
		return c, nil
	default:
		c.body, err = files.read(c.hash)
	}
	if err == nil && len(c.body) != c.size {
		err = fmt.Errorf("%w: it has %d bytes instead of %d", errDamaged, len(c.body), c.size)
	}
	return c, err
}

// neighbors reads values of one run one after the other. A run stores its values in
// the order of its records, so one query reads those that are asked for next.
type neighbors struct {
	s    *Store
	mu   sync.Mutex
	read map[any]content // by hash and by number
}

// Limits of what one query reads ahead: values, and bytes of each.
const (
	aheadValues = 128
	aheadSize   = 8 << 10
)

func (r *neighbors) content(ctx context.Context, by string, key any) (content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.read[key]; ok {
		return c, nil
	}
	found, err := r.s.content(ctx, by, key)
	if err != nil || by != byHash {
		return found, err
	}
	r.read = map[any]content{}
	var c content
	// A value comes after its parts.
	_ = r.s.read.all(ctx, "contents_near", []any{found.n - aheadValues/8, found.n + aheadValues, found.owner, aheadSize},
		[]any{&c.n, &c.hash, &c.owner, &c.form, &c.size, &c.body}, func() error {
			if len(c.body) == c.size {
				r.read[c.hash], r.read[c.n] = c, c
			}
			c.body = nil
			return nil
		})
	return found, nil
}
