package tally

import (
	"math/big"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// The usual windows of a Meter, and the grain to which the start of a window is
// truncated.
const (
	Grain       = 10 * time.Second
	ShortWindow = 5 * time.Minute
	LongWindow  = time.Hour
)

// Meter counts the records of all runs while they are written. It is a journal.Observer,
// safe for concurrent use.
//
// Observe counts a record synchronously, which takes about a microsecond: there is no
// queue that could overflow.
type Meter struct {
	mu    sync.Mutex
	begin time.Time
	runs  map[string]*Run
	total Counts
	slots map[int64]*Counts // of one Grain each, by their begin
	last  int64             // the newest slot
	seen  int64             // records
}

// NewMeter returns a meter that counts from begin on.
func NewMeter(begin time.Time) *Meter {
	return &Meter{begin: begin.Truncate(time.Millisecond), runs: map[string]*Run{}, slots: map[int64]*Counts{}}
}

// Observe implements journal.Observer: it counts a record. For a run that an earlier
// process began, past supplies the earlier records; they restore the state of the
// run and are not counted. past may be nil.
func (m *Meter) Observe(rec journal.Record, past func() []journal.Record) {
	switch rec.Body.(type) {
	case *journal.AttemptChunk, *journal.AttemptRetracted, *journal.EnvRead, *journal.BudgetReserved, *journal.HostEvent:
		return // records of these kinds are not counted
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen++
	r := m.runs[rec.Run]
	if r == nil {
		r = &Run{}
		if rec.Run != journal.HostRun {
			m.runs[rec.Run] = r
		}
		if rec.Seq > 1 && past != nil {
			for _, old := range past() {
				if old.Seq < rec.Seq {
					r.add(old, unheard{})
				}
			}
		}
	}
	r.add(rec, meterPeriods{m})
	switch rec.Body.(type) {
	case *journal.RunFinished, *journal.RunSuspended:
		delete(m.runs, rec.Run)
	}
}

// meterPeriods is a counter that adds to the total and to the slot of a Meter. The
// caller holds the lock of the Meter.
type meterPeriods struct{ *Meter }

func (m meterPeriods) each(at time.Time, add func(*Counts)) {
	if at.Before(m.begin) {
		return
	}
	add(&m.total)
	slot := at.Truncate(Grain).Unix()
	oldest := m.last - int64((LongWindow+Grain)/time.Second)
	if slot < oldest {
		return
	}
	if m.slots[slot] == nil {
		m.slots[slot] = &Counts{}
	}
	add(m.slots[slot])
	if slot <= m.last {
		return
	}
	m.last, oldest = slot, slot-int64((LongWindow+Grain)/time.Second)
	for old := range m.slots {
		if old < oldest {
			delete(m.slots, old)
		}
	}
}

func (m meterPeriods) count(at time.Time, k Key) {
	m.each(at, func(c *Counts) { c.count(k, 1) })
}

func (m meterPeriods) time(at time.Time, k Key, took time.Duration) {
	m.each(at, func(c *Counts) { c.time(k, took) })
}

func (m meterPeriods) spend(at time.Time, k Key, usd *big.Rat) {
	m.each(at, func(c *Counts) { c.spend(k, usd) })
}

// Total returns a copy of the counts since the start of the meter, and the time of that
// start.
func (m *Meter) Total() (*Counts, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &Counts{}
	out.Merge(&m.total)
	return out, m.begin
}

// Window returns a copy of the counts of the last length before now, and the time at
// which they start: a multiple of Grain, or the start of the meter. length is at most
// LongWindow.
func (m *Meter) Window(now time.Time, length time.Duration) (*Counts, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, since := &Counts{}, now.Truncate(Grain).Add(-length)
	for slot, c := range m.slots {
		if slot >= since.Unix() {
			out.Merge(c)
		}
	}
	if since.Before(m.begin) {
		since = m.begin
	}
	return out, since
}
