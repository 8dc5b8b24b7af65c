package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// serving returns a daemon in a phase, with a host under a configuration.
func serving(phase string, loaded *Loaded, change func(*Host)) *Daemon {
	h := &Host{runs: newRuns()}
	h.runs.current = &generation{loaded: loaded}
	if change != nil {
		change(h)
	}
	d := &Daemon{phase: phase}
	d.host.Store(h)
	return d
}

// OPS-001, OPS-004, OPS-009, ERR-002: the errors for acts that a
// daemon does not take.
func TestTakeRefuses(t *testing.T) {
	loaded := func(profile string) *Loaded { return &Loaded{Config: &config.Config{Profile: profile}} }
	for name, row := range map[string]struct {
		d         *Daemon
		typ       string
		retryable bool
	}{
		"coming up":           {&Daemon{phase: phaseStarting}, "runtime/starting", true},
		"going down":          {serving(phaseDraining, loaded("prod"), nil), "runtime/draining", true},
		"its host going down": {serving("ready", loaded("prod"), func(h *Host) { h.runs.draining = true }), "runtime/draining", true},
		"profile admin":       {serving("ready", loaded(language.ProfileAdmin), nil), "policy/blocked", false},
	} {
		t.Run(name, func(t *testing.T) {
			turn, err := row.d.Take()
			require.NotNil(t, err)
			assert.Nil(t, turn)
			assert.Equal(t, row.typ, err.Type)
			assert.Equal(t, row.retryable, err.Retryable)
		})
	}
}

type lostLedger struct{ budget.Ledger }

func (lostLedger) Seen(context.Context, budget.Kind, budget.Per) ([]string, error) {
	return nil, errLost
}

func (lostLedger) Balances(context.Context, []budget.Scope) ([]budget.Balance, error) {
	return nil, errLost
}

func (lostLedger) Adjust(context.Context, budget.Scope, budget.Adjustment) error { return errLost }

var errLost = errors.New("the disk is gone")

// LED-002, LED-006, ERR-002: every budget action reports a ledger that cannot
// be read or written.
func TestOperatorsSeeALostLedger(t *testing.T) {
	limits, err := policy.LimitsOf(edn.MustRead(`{:max-attempts 5}`))
	require.NoError(t, err)
	block := policy.ScopeBudget{Written: true, Limits: limits, Per: "total"}
	l := &Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{Tenant: block, User: block}}}}
	c := control{serving("ready", l, func(h *Host) { h.ledger = lostLedger{} })}
	noTenant := &Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{User: block}}}}
	users := control{serving("ready", noTenant, func(h *Host) { h.ledger = lostLedger{} })}
	for name, ask := range map[string]func() (edn.Value, *contract.Error){
		"show all":      func() (edn.Value, *contract.Error) { return c.Budgets(t.Context(), "") },
		"show one user": func() (edn.Value, *contract.Error) { return c.Budgets(t.Context(), "ann") },
		"show users":    func() (edn.Value, *contract.Error) { return users.Budgets(t.Context(), "") },
		"adjust": func() (edn.Value, *contract.Error) {
			return c.AdjustBudget(t.Context(), httpapi.BudgetChange{User: "ann", Grant: edn.MustRead(`{:attempts 1}`)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ask()
			require.NotNil(t, err)
			assert.Equal(t, "budget/unavailable", err.Type)
			assert.Contains(t, err.Message, "the disk is gone")
		})
	}
}
