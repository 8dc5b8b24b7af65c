package otlp

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// outageEvery is the time between two lines about a collector that receives nothing.
const outageEvery = time.Minute

// outage logs that the collector stopped receiving a signal, at most once in outageEvery
// while that lasts, and that it receives the signal again.
type outage struct {
	log hclog.Logger
	now func() time.Time

	mu   sync.Mutex
	lost map[string]*loss // by signal
}

// loss is what the collector did not receive of a signal since it stopped receiving it.
type loss struct {
	total, told int64     // told: how many the last line had
	at          time.Time // of the last line
}

// note takes the outcome of sending n items of a signal.
func (o *outage) note(signal string, n int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, out := o.lost[signal]
	if err == nil {
		if out {
			o.log.Info("the collector receives "+signal+" again", "lost", of.total)
			delete(o.lost, signal)
		}
		return
	}
	if !out {
		of = &loss{}
		if o.lost == nil {
			o.lost = map[string]*loss{}
		}
		o.lost[signal] = of
	}
	of.total += n
	if now := o.now(); !out || now.Sub(of.at) >= outageEvery {
		o.log.Warn("the collector did not receive "+signal, "count", of.total-of.told, "error", err)
		of.told, of.at = of.total, now
	}
}
