package journal

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HostRun is the run id of records of the host itself.
const HostRun = "host"

// HostEvent records a change of a candidate outside of attempts: its breaker
// opened, its quality fell below the floor. It is in the event stream of the
// host, and in the run that caused it.
type HostEvent struct {
	Event   string
	Details edn.Value // a map
	CapID   string
	Intent  string
}

// Kind implements Body.
func (*HostEvent) Kind() Kind { return KindHostEvent }

func (*HostEvent) describe() description { return hostEvent }

var hostEvent = kindOf(KindHostEvent, false,
	keyword("event", func(x *HostEvent) *string { return &x.Event }),
	value("details", tMap, func(x *HostEvent) *edn.Value { return &x.Details }, isMap),
	keyword("cap/id", func(x *HostEvent) *string { return &x.CapID }).optional("it concerns one"),
	keyword("intent", func(x *HostEvent) *string { return &x.Intent }).optional("it concerns one"),
)

// hostKept is the number of its own records that a host keeps in memory.
const hostKept = 1000

// Host is the event stream of the host itself, limited to hostKept records.
// The zero value is ready to use. Safe for concurrent use.
type Host struct {
	mu   sync.Mutex
	seq  int
	last []Record      // a ring once it is full
	more chan struct{} // closed when the next record is appended; nil without a waiting reader
}

// Record appends a record.
func (h *Host) Record(at time.Time, body Body) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	rec := Record{Run: HostRun, Seq: h.seq + 1, At: at, Epoch: 1, Body: body}
	if err := rec.Check(); err != nil {
		return err
	}
	if len(h.last) < hostKept {
		h.last = append(h.last, rec)
	} else {
		h.last[h.seq%hostKept] = rec
	}
	h.seq++
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
	return nil
}

// Cursor returns the current end of the stream: later records are after it.
func (h *Host) Cursor() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return hostCursor(h.seq)
}

func hostCursor(seq int) string { return HostRun + "." + strconv.Itoa(seq) }

// After returns the records after cursor, oldest first, and the cursor behind the
// last of them. An empty cursor starts at the oldest record in memory. Without a
// later record After blocks until one is appended or ctx is done; the end of ctx is
// not an error. Errors are :stream/bad-cursor, :stream/cursor-ahead and :stream/gone.
func (h *Host) After(ctx context.Context, cursor string) ([]Record, string, *contract.Error) {
	seq := -1
	if cursor != "" {
		number, ok := strings.CutPrefix(cursor, HostRun+".")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 0 || hostCursor(n) != cursor {
			return nil, "", contract.Errorf("stream/bad-cursor",
				"%q is no place in the stream of the host, such as host.12", cursor)
		}
		seq = n
	}
	for {
		h.mu.Lock()
		kept, end := h.kept(), h.seq
		if h.more == nil {
			h.more = make(chan struct{})
		}
		more := h.more
		h.mu.Unlock()
		switch first := end - len(kept); {
		case seq > end:
			return nil, "", contract.Errorf("stream/cursor-ahead", "the stream of the host ends at %s, before %s",
				hostCursor(end), cursor)
		case seq >= 0 && seq < first:
			return nil, "", contract.Errorf("stream/gone", "the stream of the host begins after %s, and %s is before",
				hostCursor(first), cursor)
		case seq >= 0:
			kept = kept[seq-first:]
		}
		if len(kept) > 0 {
			return kept, hostCursor(end), nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, hostCursor(end), nil
		}
	}
}

// Records returns the kept records, oldest first.
func (h *Host) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept()
}

func (h *Host) kept() []Record {
	if len(h.last) < hostKept {
		return append([]Record(nil), h.last...)
	}
	oldest := h.seq % hostKept
	return append(append([]Record(nil), h.last[oldest:]...), h.last[:oldest]...)
}
