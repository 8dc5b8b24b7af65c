package otlp

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// outageEvery is the minimum time between two log lines about a collector that does not receive a
// signal.
const outageEvery = time.Minute

// outage logs that the collector did not receive a signal, at most once per outageEvery, and after
// that once that it receives the signal again.
type outage struct {
	log hclog.Logger
	now func() time.Time

	mu      sync.Mutex
	signals map[string]*signal
}

// signal is the logging state of one signal.
type signal struct {
	out     bool      // the last line reported an outage
	at      time.Time // time of the last line about an outage
	dropped int64     // number of dropped items at the last line
}

// note processes the result err of sending a signal. dropped is the total number of lost items; 0
// for metrics, whose next points replace the lost ones.
func (o *outage) note(name string, dropped int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.signals[name]
	if s == nil {
		if o.signals == nil {
			o.signals = map[string]*signal{}
		}
		s = &signal{}
		o.signals[name] = s
	}
	now := o.now()
	var about []any
	if dropped > s.dropped {
		about = []any{"dropped", dropped - s.dropped}
	}
	switch {
	case err != nil && (s.at.IsZero() || now.Sub(s.at) >= outageEvery):
		o.log.Warn("the collector did not receive "+name, append(about, "error", err)...)
		s.out, s.at, s.dropped = true, now, dropped
	case err == nil && s.out:
		o.log.Info("the collector receives "+name+" again", about...)
		s.out, s.dropped = false, dropped
	}
}
