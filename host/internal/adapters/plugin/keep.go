package plugin

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
)

var _ stats.Remediator = (*Client)(nil)

// Renew implements stats.Remediator.
func (c *Client) Renew(capID string, done func(error)) {
	t, ok := c.targets[capID]
	if !ok {
		done(c.absent(capID))
		return
	}
	s := c.supervisor
	s.background(func() {
		if t.unit.trying.Load() {
			done(stats.ErrChanging)
			return
		}
		done(s.Swap(s.life, t.unit.name, CauseQuality))
	})
}

// Restart implements stats.Remediator.
func (c *Client) Restart(capID string) error {
	return c.deliver(capID, evRestart{CauseQuality}, false)
}

// Quarantine implements stats.Remediator.
func (c *Client) Quarantine(capID, why string, until time.Time) error {
	t, ok := c.targets[capID]
	if !ok {
		return c.absent(capID)
	}
	reason := contract.Errorf("runtime/quarantined", "plugin %s: %s", t.unit.name, why).
		WithHint("it restarts at " + until.UTC().Format(time.RFC3339) +
			"; \"ferment plugin release " + t.unit.name + "\" starts it now")
	if err := c.deliver(capID, evQuarantine{err: reason}, true); err != nil {
		return err
	}
	s := c.supervisor
	s.shared.clock.AfterFunc(until.Sub(s.shared.clock.Now()), func() { t.unit.forgive(reason) })
	return nil
}

// deliver sends an event to the processes of a plugin. It returns when they have handled it, so
// that the next call uses the new state.
func (c *Client) deliver(capID string, event any, held bool) error {
	t, ok := c.targets[capID]
	if !ok {
		return c.absent(capID)
	}
	t.unit.deliver(event, held)
	return nil
}

// forgive ends a quarantine if reason is still its error, even if the process has not ended yet.
func (u *unit) forgive(reason *contract.Error) {
	u.mu.Lock()
	st := u.current.face()
	still := !u.closed && u.held && (st.State == Quarantined || st.State == Draining) && st.Err == reason
	u.mu.Unlock()
	if still {
		u.deliver(evRelease{}, false)
	}
}
