package journal

import (
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// HostRun is what records of the host itself have as their run.
const HostRun = "host"

// HostEvent says what happened to a candidate beside the attempts: its breaker
// opened, its answers fell below their floor. It stands in the stream of the
// host, and in the run in which it showed.
type HostEvent struct {
	Event   string
	Details edn.Value // a map
	CapID   string
	Intent  string
}

// Kind implements Body.
func (*HostEvent) Kind() Kind { return KindHostEvent }

func (x *HostEvent) fault() string {
	switch {
	case x.Event == "":
		return "event"
	case !isMap(x.Details):
		return "details"
	}
	return ""
}

func (x *HostEvent) fields(b *edn.MapBuilder) {
	p := put{b}
	p.kw("event", x.Event)
	p.val("details", x.Details)
	p.kw("cap/id", x.CapID)
	p.kw("intent", x.Intent)
}

func (x *HostEvent) refs(func(Ref)) {}

// hostKept is how many of its own records a host keeps in memory.
const hostKept = 1000

// Host is the stream of the host itself, as far back as memory reaches. Its
// zero value is ready, and it may be used by many goroutines.
type Host struct {
	mu   sync.Mutex
	seq  int
	last []Record // a ring once it is full
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
	return nil
}

// Records are those that are kept, oldest first.
func (h *Host) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.last) < hostKept {
		return append([]Record(nil), h.last...)
	}
	oldest := h.seq % hostKept
	return append(append([]Record(nil), h.last[oldest:]...), h.last[:oldest]...)
}
