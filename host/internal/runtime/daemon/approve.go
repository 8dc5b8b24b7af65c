package daemon

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Approve implements httpapi.Control. It writes the lock file entry of a plugin from the current
// description of its program, then reloads. If the reload fails, the entry stays written, and the
// error states this.
func (c control) Approve(ctx context.Context, name string) (edn.Value, *contract.Error) {
	outcome, err := c.approve(ctx, name)
	if err != nil {
		return edn.Nil(), err
	}
	c.log.Info("plugin approved", "plugin", name, "changed", outcome.Changed, "lock-file", outcome.Path)
	result, err := c.Daemon.Reload(ctx, "approve "+name)
	if err != nil {
		return edn.Nil(), approvedOnly(name, outcome, err)
	}
	return outcome.Value().AssocKey("reload", result), nil
}

// approve writes the entry. It holds the reload lock, so that no reload reads the file at the same
// time.
func (d *Daemon) approve(ctx context.Context, name string) (*setup.LockOutcome, *contract.Error) {
	if d.options.Lockfile == setup.LockfileReadonly {
		return nil, contract.Errorf("config/lock",
			"the daemon was started with --lockfile=readonly, so it approves nothing").
			WithHint("approve on the machine where the lock file is kept, and deploy the file")
	}
	d.reloads.one.Lock()
	defer d.reloads.one.Unlock()
	o := d.options
	o.Attached = nil // the program is approved, not the attached process
	outcome, err := setup.LockIn(ctx, o.Options, d.host.Load().env.WithoutCache(), setup.LockWish{Approve: name})
	var wrong *setup.InvalidConfigError
	switch {
	case errors.As(err, &wrong):
		return nil, invalid(wrong.Config)
	case err != nil:
		return nil, contract.AsError(err)
	}
	return outcome, nil
}

// approvedOnly returns the error for a reload that was rejected after the approval was written.
func approvedOnly(name string, outcome *setup.LockOutcome, err *contract.Error) *contract.Error {
	wrapped := *err
	wrapped.Message = "plugin " + name + " is approved in " + outcome.Name + ", but the reload failed and the daemon " +
		"keeps its configuration: " +
		err.Message
	return wrapped.WithDetail("approved", outcome.Value())
}
