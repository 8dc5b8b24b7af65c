package journal

import (
	"context"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Journal stores the records of runs.
//
// Life of a run in it: 1. The first Append of a run id opens the run. 2. Records arrive
// in the order of their Seq, from one goroutine at a time. 3. run/finished closes the
// run: later appends are rejected, except for a run/resumed that reopens it (RUN-022).
//
// Append returns nil when the record is stored; for a Syncer it may not be durable
// before Sync. The error is a *contract.Error. The values that a record refers to are
// stored with it.
type Journal interface {
	Append(ctx context.Context, rec Record) error
}

// Source reads the records of a run, while it executes and after it.
type Source interface {
	// Follow returns a cursor that reads a run from the first record after seq; 0 is the
	// start. The run need not exist yet.
	Follow(run string, seq int) *Cursor
}

// Opener is an optional interface of a Journal: it returns the log of one run,
// which saves a lookup per record.
type Opener interface {
	// Open returns the log of a run, which takes records of that run only. It
	// stays valid after the run was dropped.
	Open(run string) Journal
}

// Syncer is an optional interface of a Journal whose Append returns before the record is
// durable.
type Syncer interface {
	// Sync returns when all records appended to the run are durable. The error is a
	// *contract.Error of type journal/unavailable; records may then be lost.
	Sync(ctx context.Context, run string) error
}

var (
	_ Journal = (*Memory)(nil)
	_ Source  = (*Memory)(nil)
	_ Opener  = (*Memory)(nil)
)

// Observer is called with every record, in the order of Seq within a run, once cursors return the
// record. Observe must not block. past returns the records of the run so far, for a run that an
// earlier process began; it may be nil.
type Observer interface {
	Observe(rec Record, past func() []Record)
}

// Memory keeps runs in memory. The zero value is ready to use.
type Memory struct {
	// Observer, if not nil, is called with every record, except in a Memory of NewHeld. Set
	// it before the first run.
	Observer Observer
	// Acts, if not nil, receives an ActFinished for each run that finishes (TEL-002), except
	// in a Memory of NewHeld. Set it before the first run.
	Acts HostStream

	mu   sync.Mutex
	runs map[string]*run
	held bool
}

// run is the log of one run. Cursors refer to it, so that they can read a
// dropped run to its end.
type run struct {
	mu       sync.Mutex
	chunks   [][]Record // of chunkSize each, except the last
	count    int
	shown    int // records that cursors return
	held     bool
	observer Observer
	acts     HostStream
	finished bool
	ended    bool                 // finished, or suspended: cursors end
	failed   error                // error for cursors that have read all records
	changed  chan struct{}        // closed at the next append; nil without waiting readers
	values   map[string]edn.Value // filled at the first lookup
	indexed  int                  // records whose values are indexed
}

// A chunk holds chunkSize records, so that a long run is not copied as it
// grows. The first chunk starts small, because most runs make one call.
const (
	chunkSize  = 32
	firstChunk = 10
)

func (r *run) at(i int) *Record { return &r.chunks[i/chunkSize][i%chunkSize] }

// all returns the present records for reading; later appends do not change
// them.
func (r *run) all() []Record {
	if len(r.chunks) == 1 {
		return r.chunks[0][:r.count:r.count]
	}
	out := make([]Record, 0, r.count)
	for _, c := range r.chunks {
		out = append(out, c...)
	}
	return out
}

// NewMemory returns an empty journal.
func NewMemory() *Memory { return &Memory{} }

// NewHeld returns an empty journal whose cursors return a record only after Show.
func NewHeld() *Memory { return &Memory{held: true} }

// Load adds an unfinished run that was recorded before; records are all its records from
// the first on. Cursors return them at once, and more records may be appended.
func (m *Memory) Load(id string, records []Record) {
	r := m.open(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chunks, r.count, r.shown = chunked(records), len(records), len(records)
}

// chunked divides records into full chunks and a last one.
func chunked(records []Record) [][]Record {
	var chunks [][]Record
	for c := range slices.Chunk(records, chunkSize) {
		chunks = append(chunks, append(make([]Record, 0, chunkSize), c...))
	}
	return chunks
}

// Show lets cursors return the records of a run up to seq, in a Memory of NewHeld. It
// does nothing for an unknown run.
func (m *Memory) Show(id string, seq int) {
	m.mu.Lock()
	r := m.runs[id]
	m.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.show(min(seq, r.count))
}

// Fail makes cursors on a run return err after the records that are present. It has no
// effect on a run that has ended.
func (m *Memory) Fail(id string, err error) {
	r := m.open(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
	r.wake()
}

// Recorded returns a cursor over the records of a finished run.
func Recorded(records []Record) *Cursor {
	return &Cursor{run: &run{chunks: chunked(records), count: len(records), shown: len(records), finished: true, ended: true}}
}

// Unreadable returns a cursor for a run whose records cannot be read: Next and Page
// always return err.
func Unreadable(err error) *Cursor { return &Cursor{run: &run{}, err: err} }

func (m *Memory) open(id string) *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	if r == nil {
		if m.runs == nil {
			m.runs = make(map[string]*run)
		}
		r = &run{held: m.held, observer: m.Observer, acts: m.Acts}
		m.runs[id] = r
	}
	return r
}

// Append implements Journal.
func (m *Memory) Append(_ context.Context, rec Record) error {
	if err := rec.Check(); err != nil {
		return err
	}
	return m.open(rec.Run).append(rec)
}

// Open implements Opener.
func (m *Memory) Open(id string) Journal { return m.open(id) }

// Append implements Journal.
func (r *run) Append(_ context.Context, rec Record) error {
	if err := rec.Check(); err != nil {
		return err
	}
	return r.append(rec)
}

func (r *run) append(rec Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if resumed, ok := rec.Body.(*RunResumed); r.finished && !(ok && resumed.Reopens()) {
		return refused(string(rec.Body.Kind()), "the run is finished")
	}
	if rec.Seq != r.count+1 {
		return refused(string(rec.Body.Kind()), "seq is out of order")
	}
	if r.count%chunkSize == 0 {
		room := chunkSize
		if r.count == 0 {
			room = firstChunk
		}
		r.chunks = append(r.chunks, make([]Record, 0, room))
	}
	last := &r.chunks[len(r.chunks)-1]
	*last = append(*last, rec)
	r.count++
	r.finished = rec.Body.Kind() == KindRunFinished
	r.ended = r.finished || rec.Body.Kind() == KindRunSuspended
	if !r.held {
		r.show(r.count)
		if r.observer != nil {
			r.observer.Observe(rec, nil)
		}
		if r.finished && r.acts != nil {
			if _, err := r.acts.Record(context.Background(), rec.At, ActOf(r.all())); err != nil {
				return err
			}
		}
	}
	return nil
}

// show lets cursors return the first n records.
func (r *run) show(n int) {
	if n <= r.shown {
		return
	}
	r.shown = n
	r.wake()
}

// wake wakes the cursors that wait.
func (r *run) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Records returns the present records of a run. The caller may append to the slice, but not change
// its elements. The error is always nil.
func (m *Memory) Records(id string) ([]Record, error) {
	m.mu.Lock()
	r := m.runs[id]
	m.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all(), nil
}

// Has reports whether a run has records.
func (m *Memory) Has(id string) bool {
	m.mu.Lock()
	r := m.runs[id]
	m.mu.Unlock()
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count > 0
}

// Get returns a value that a record of the run refers to, by its hash; false if there is
// no such run or value.
func (m *Memory) Get(id, hash string) (edn.Value, bool) {
	m.mu.Lock()
	r := m.runs[id]
	m.mu.Unlock()
	if r == nil {
		return edn.Nil(), false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = make(map[string]edn.Value)
	}
	for ; r.indexed < r.count; r.indexed++ {
		r.at(r.indexed).Refs(func(ref Ref) { r.values[ref.Hash()] = ref.Value() })
	}
	v, ok := r.values[hash]
	return v, ok
}

// Drop removes a run. Existing cursors on it can still read its records.
func (m *Memory) Drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, id)
}

// Follow implements Source.
func (m *Memory) Follow(id string, seq int) *Cursor {
	return &Cursor{run: m.open(id), next: max(0, seq)}
}

// Cursor reads the records of a run in order and waits for later ones. It is for one
// goroutine.
type Cursor struct {
	run  *run
	next int
	err  error // of Unreadable
}

// Next returns the next record. It blocks until there is one; ok is false after the last
// record of a finished or suspended run. The error is that of ctx, or that of the
// journal.
func (c *Cursor) Next(ctx context.Context) (rec Record, ok bool, err error) {
	page, err := c.page(ctx, 1)
	if err != nil || len(page) == 0 {
		return Record{}, false, err
	}
	return page[0], true, nil
}

// Page implements Reader. A page has the records that are available, at most 32.
func (c *Cursor) Page(ctx context.Context) ([]Record, error) { return c.page(ctx, chunkSize) }

func (c *Cursor) page(ctx context.Context, most int) ([]Record, error) {
	if c.err != nil {
		return nil, c.err
	}
	for {
		page, wait, err := c.run.page(c.next, most)
		if err != nil || wait == nil {
			c.next += len(page)
			return page, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// page returns up to most records after the first n, which must not be changed; none
// after the end of the run. If there are none yet, wait is a channel that is closed when
// there may be some.
func (r *run) page(n, most int) (page []Record, wait <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < r.shown {
		chunk, from := r.chunks[n/chunkSize], n%chunkSize
		to := from + min(most, r.shown-n, chunkSize-from)
		return chunk[from:to:to], nil, nil
	}
	switch {
	case r.ended && r.shown == r.count:
		return nil, nil, nil
	case r.failed != nil:
		return nil, nil, r.failed
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return nil, r.changed, nil
}
