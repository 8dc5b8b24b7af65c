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

// Filter selects runs. A zero field, except Limit, does not restrict the selection.
type Filter struct {
	Status    string // "open", "suspended", or the status of run/finished
	Intent    string
	Principal string
	Tenant    string    // tenant of the caller
	Session   string    // id of the session
	Reach     Reach     // restricts the selection further
	Since     time.Time // accepted at this time or later
	Until     time.Time // accepted before
	Active    time.Time // unfinished, or finished at this time or later
	Before    string    // id of a run; selects runs that were recorded before it
	Key       string    // hash of an idempotency key
	Limit     int       // 0: 100
}

// Reach restricts queries to the runs of a caller, a tenant or a session; an empty field does not
// restrict. A limited reach excludes imported runs, because their callers, tenants and sessions
// belong to another host (AUTH-012).
type Reach struct{ Principal, Tenant, Session string }

// All reports whether the reach includes all runs.
func (r Reach) All() bool { return r == Reach{} }

// limited returns 1 for a limited reach, else 0, as an argument of statements.
func (r Reach) limited() int {
	if r.All() {
		return 0
	}
	return 1
}

// narrow merges the reach into the other fields; false if no run can match both.
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

// Match returns up to limit ids of runs within a reach that start with prefix, the latest first.
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
	Left bool // a host that was shut down in an orderly way had the run before
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

// Bytes returns, in stored form, up to limit records of a run with sequence numbers above after. An
// open run has only its durable records. The error for an unknown run is run/not-found.
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

// stored calls each for up to limit records of a run after seq after. It reads page by page,
// without a transaction around the pages.
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

// body is a stored record and its decoded form, once it is decoded.
type body struct {
	seq  int
	text []byte
	rec  journal.Record
	err  error
	done bool
}

// decodedTogether is the number of records above which they are decoded on several processors.
const decodedTogether = 64

// decodeAll decodes consecutive records of one run, up to the first damaged one.
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

// decode decodes the record. A record that depends on earlier ones is decoded only if inOrder is
// set; others can be decoded concurrently.
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

// decoder returns a function that decodes the records of one run, called in their order.
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

// journalDecoder returns a decoder whose records read their values from the store on first use. A
// value that cannot be read is nil.
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

// Value returns the value with a hash and verifies it. The error is replay/values-purged if the
// value is not stored, and a *Damage if it does not match its hash.
func (s *Store) Value(ctx context.Context, hash string) (edn.Value, error) {
	return readValue(ctx, hash, s)
}

// contents is a source of stored values: the store, or a cache in front of it.
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

// Statements that read a value.
const (
	byHash   = "content_by_hash"
	byNumber = "content"
)

// Readable reports whether the value with a hash is stored and used by a run within the reach. A
// hash that is not valid is an error.
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

// content returns a value in its stored form.
func (s *Store) content(ctx context.Context, by string, key any) (content, error) {
	return readContent(ctx, s.read, s.blobs, by, key)
}

// readContent returns a value in its stored form. If files is nil, the body of a value that is
// stored as a file is nil.
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

// neighbors reads the values of one run. A run stores its values in the order of its records, so
// one query also reads those that are likely to be needed next. It is safe for concurrent use.
type neighbors struct {
	s    *Store
	mu   sync.Mutex
	read map[any]content // by hash and by number
}

// Limits of read-ahead: number of values in one query, and bytes of each value.
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
	// A value is stored after its parts.
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
