package plugin

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
)

var _ dispatch.Remediator = (*Client)(nil)

// Renew implements dispatch.Remediator.
func (c *Client) Renew(capID string, done func(error)) {
	t, ok := c.targets[capID]
	if !ok {
		done(c.absent(capID))
		return
	}
	s := c.supervisor
	s.background(func() {
		if t.unit.trying.Load() {
			done(dispatch.ErrChanging)
			return
		}
		done(s.swap(s.life, t.unit.name, CauseQuality, false))
	})
}

// Restart implements dispatch.Remediator.
func (c *Client) Restart(capID string) error {
	return c.tell(capID, evRestart{CauseQuality}, false)
}

// Quarantine implements dispatch.Remediator.
func (c *Client) Quarantine(capID, why string, until time.Time) error {
	t, ok := c.targets[capID]
	if !ok {
		return c.absent(capID)
	}
	reason := contract.Errorf("runtime/quarantined", "plugin %s: %s", t.unit.name, why).
		WithHint("it comes back at " + until.UTC().Format(time.RFC3339) + ", or with \"ferment plugin release " + t.unit.name + "\"")
	if err := c.tell(capID, evQuarantine{err: reason}, true); err != nil {
		return err
	}
	s := c.supervisor
	s.shared.clock.AfterFunc(until.Sub(s.shared.clock.Now()), func() { t.unit.forgive(reason) })
	return nil
}

// tell hands an event to the processes of a plugin. It returns when they have
// begun to do what it says, so that the next call finds them changed.
func (c *Client) tell(capID string, event any, held bool) error {
	t, ok := c.targets[capID]
	if !ok {
		return c.absent(capID)
	}
	t.unit.tell(event, held)
	return nil
}

// forgive ends a quarantine if it is still the one for that reason.
func (u *unit) forgive(reason *contract.Error) {
	u.mu.Lock()
	st := u.current.face()
	still := !u.closed && u.held && st.State == Quarantined && st.Err == reason
	u.mu.Unlock()
	if still {
		u.tell(evRelease{}, false)
	}
}
