package daemon

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Identity implements httpapi.Backend.
func (d *Daemon) Identity() *identity.Service {
	if h := d.host.Load(); h != nil {
		return h.identity
	}
	return nil
}

// Denied implements httpapi.Backend: it writes a line of the audit log and, if a rule
// has decided, an event of the host (AUTH-013). What callers without valid credentials
// send makes no event: it would push the others out.
func (d *Daemon) Denied(r httpapi.Denial) {
	d.log.Named("audit").Warn(r.Event,
		"principal", r.Principal,
		"address", r.Address,
		"operation", r.Operation,
		"decision", r.Decision.String(),
		"message", r.Message,
	)
	h := d.host.Load()
	if h == nil || r.Decision.IsNil() {
		return
	}
	_ = h.events.Record(time.Now(), &journal.HostEvent{Event: r.Event, Details: edn.MustMap(
		edn.K("principal"), edn.Text(r.Principal),
		edn.K("address"), edn.Text(r.Address),
		edn.K("decision"), r.Decision,
	)}) // whole by construction
}
