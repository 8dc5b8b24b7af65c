package journal

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// HostRun is the run id of records of the host itself.
const HostRun = "host"

// HostStream is the event stream of a host: records of its actions outside of runs, and
// one ActFinished for each finished run. Its records are numbered without gaps.
//
// A HostStream is safe for concurrent use.
type HostStream interface {
	// Record queues a record. It blocks while the queue is full, until ctx is done. wait
	// blocks until the record is durable; its error is a *contract.Error of type
	// journal/unavailable.
	Record(ctx context.Context, at time.Time, body Body) (wait func(ctx context.Context) error, err error)
	// Bounds returns the numbers of the oldest and the newest stored record. Without records
	// first is last+1.
	Bounds(ctx context.Context) (first, last int, err error)
	// Read returns the records that q selects, oldest first; none if there are none yet.
	Read(ctx context.Context, q HostQuery) ([]Record, error)
	// More returns a channel that is closed when the next record is appended. A reader calls
	// it before Bounds and Read, so that it misses no record.
	More() <-chan struct{}
}

// View selects a part of the records of a HostStream.
type View uint8

// The views of a stream.
const (
	// ViewEvents are the events of plugins and candidates: states of processes, breakers, swaps,
	// quality. The audit trail is not part of it, because reading that needs another operation.
	ViewEvents View = iota
	// ViewAudit is the audit trail: actions with their principals (TEL-002).
	ViewAudit
)

// Has reports whether a record belongs to the view.
func (v View) Has(b Body) bool {
	switch b.(type) {
	case *HostEvent, *PluginTransition:
		return v == ViewEvents
	}
	return v == ViewAudit
}

// HostQuery selects records of a stream.
type HostQuery struct {
	View  View
	After int // record number; negative: the last Limit records of ViewEvents, the first Limit of ViewAudit
	Limit int
}

// HostCursor returns the cursor after the record with number seq, for HostAfter.
func HostCursor(seq int) string { return HostRun + "." + strconv.Itoa(seq) }

// HostPage is one page of the records of a host stream.
type HostPage struct {
	Records []Record
	Cursor  string // for the next call of HostAfter
	More    bool   // the limit was reached; more records may be available
}

// HostAfter returns the records of a view after a cursor, at most limit of them. An empty cursor is
// a negative HostQuery.After. Without a later record it blocks until one is appended. If ctx is
// done before that, it returns an empty page with a cursor, and no error. Errors are
// stream/bad-cursor, stream/cursor-ahead, stream/gone and those of the stream.
func HostAfter(ctx context.Context, s HostStream, v View, cursor string, limit int) (HostPage, *contract.Error) {
	after, err := parseHostCursor(cursor)
	if err != nil {
		return HostPage{}, err
	}
	// ctx limits only the wait for new records; a read of stored ones is completed.
	reading := context.WithoutCancel(ctx)
	for {
		more := s.More()
		first, last, err := s.Bounds(reading)
		switch {
		case err != nil:
			return HostPage{}, contract.AsError(err)
		case after > last:
			return HostPage{}, contract.Errorf("stream/cursor-ahead", "cursor %s is beyond the end of the host stream, %s",
				cursor, HostCursor(last))
		case after >= 0 && after < first-1:
			return HostPage{}, contract.Errorf("stream/gone", "cursor %s is before the oldest kept event of the host stream, %s",
				cursor, HostCursor(first))
		}
		records, err := s.Read(reading, HostQuery{View: v, After: after, Limit: limit})
		if err != nil {
			return HostPage{}, contract.AsError(err)
		}
		if n := len(records); n > 0 {
			return HostPage{records, HostCursor(records[n-1].Seq), n == limit}, nil
		}
		after = last // records after it are not in the view, or come later
		cursor = HostCursor(last)
		select {
		case <-more:
		case <-ctx.Done():
			return HostPage{Cursor: cursor}, nil
		}
	}
}

func parseHostCursor(cursor string) (int, *contract.Error) {
	if cursor == "" {
		return -1, nil
	}
	number, ok := strings.CutPrefix(cursor, HostRun+".")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || HostCursor(n) != cursor {
		return 0, contract.Errorf("stream/bad-cursor", "%q is not a cursor of the host stream, expected a form such as host.12", cursor)
	}
	return n, nil
}

// hostKept is the number of records that a Host holds; older ones are dropped.
const hostKept = 1000

// Host is a HostStream in memory that holds the last 1000 records. The zero value is
// ready to use.
type Host struct {
	// Observer, if not nil, is called with each record. It is set before the first one.
	Observer Observer

	mu   sync.Mutex
	seq  int
	last []Record      // a ring once it is full
	more chan struct{} // closed when the next record is appended; nil without a waiting reader
}

var _ HostStream = (*Host)(nil)

// Record implements HostStream.
func (h *Host) Record(_ context.Context, at time.Time, body Body) (wait func(ctx context.Context) error, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rec := Record{Run: HostRun, Seq: h.seq + 1, At: at, Epoch: 1, Body: body}
	if err := rec.Check(); err != nil {
		return nil, err
	}
	if len(h.last) < hostKept {
		h.last = append(h.last, rec)
	} else {
		h.last[h.seq%hostKept] = rec
	}
	h.seq++
	if h.Observer != nil {
		h.Observer.Observe(rec, nil)
	}
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
	return func(context.Context) error { return nil }, nil
}

// Bounds implements HostStream.
func (h *Host) Bounds(context.Context) (first, last int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seq - len(h.last) + 1, h.seq, nil
}

// Read implements HostStream.
func (h *Host) Read(_ context.Context, q HostQuery) (out []Record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.last {
		rec := h.last[i]
		if len(h.last) == hostKept {
			rec = h.last[(h.seq+i)%hostKept]
		}
		if rec.Seq > q.After && q.View.Has(rec.Body) {
			out = append(out, rec)
		}
	}
	switch extra := len(out) - q.Limit; {
	case extra <= 0:
	case q.After < 0 && q.View == ViewEvents:
		out = out[extra:]
	default:
		out = out[:q.Limit]
	}
	return out, nil
}

// More implements HostStream.
func (h *Host) More() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		h.more = make(chan struct{})
	}
	return h.more
}
