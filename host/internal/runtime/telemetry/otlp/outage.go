package otlp

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// outageEvery is the time between two lines about a collector that does not receive a
// signal.
const outageEvery = time.Minute

// outage logs that the collector did not receive a signal, at most once in outageEvery,
// and after such a line that it receives the signal again.
type outage struct {
	log hclog.Logger
	now func() time.Time

	mu      sync.Mutex
	signals map[string]*signal
}

// signal is what was logged of a signal.
type signal struct {
	out     bool      // the last line says that it is not received
	at      time.Time // of the last line that said so
	dropped int64     // as of the last line
}

// note takes the outcome of sending a signal. dropped is the number of its items that are
// lost so far; 0 for one whose next items make up for them.
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
