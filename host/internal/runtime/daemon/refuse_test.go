package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// serving returns a daemon in a phase, with a host under a configuration.
func serving(phase string, loaded *setup.Loaded, change func(*Host)) *Daemon {
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
	loaded := func(profile string) *setup.Loaded { return &setup.Loaded{Config: &config.Config{Profile: profile}} }
	for name, row := range map[string]struct {
		d         *Daemon
		typ       string
		retryable bool
	}{
		"coming up":           {&Daemon{phase: phaseStarting}, "runtime/starting", true},
		"going down":          {serving(phaseDraining, loaded("prod"), nil), "runtime/draining", true},
		"its host going down": {serving("ready", loaded("prod"), func(h *Host) { h.refuseActs() }), "runtime/draining", true},
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
	l := &setup.Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{Tenant: block, User: block}}}}
	c := control{serving("ready", l, func(h *Host) { h.ledger = lostLedger{} })}
	noTenant := &setup.Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{User: block}}}}
	users := control{serving("ready", noTenant, func(h *Host) { h.ledger = lostLedger{} })}
	for name, ask := range map[string]func() (edn.Value, *contract.Error){
		"show all":      func() (edn.Value, *contract.Error) { return c.Budgets(t.Context(), "") },
		"show one user": func() (edn.Value, *contract.Error) { return c.Budgets(t.Context(), "uid/4") },
		"show users":    func() (edn.Value, *contract.Error) { return users.Budgets(t.Context(), "") },
		"adjust": func() (edn.Value, *contract.Error) {
			return c.AdjustBudget(t.Context(), httpapi.BudgetChange{User: "uid/4", Grant: edn.MustRead(`{:attempts 1}`)})
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

// LED-006, AUTH-012: names that are none of a tenant or of a caller do not come to the
// ledger, which some databases could not keep.
func TestBudgetsOfImpossibleNames(t *testing.T) {
	limits, err := policy.LimitsOf(edn.MustRead(`{:max-attempts 5}`))
	require.NoError(t, err)
	block := policy.ScopeBudget{Written: true, Limits: limits, Per: "total"}
	l := &setup.Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{Tenant: block, User: block}}}}
	accounts, err := identity.Open(t.Context(), &identity.Memory{})
	require.NoError(t, err)
	c := control{serving("ready", l, func(h *Host) { h.ledger, h.identity = lostLedger{}, accounts })}
	for name, typ := range map[string]string{
		"an\x00n": "invalid-request", "user/1\x00": "invalid-request", "ann": "user/not-found", "user/ann": "user/not-found",
		"user/-1": "user/not-found", "user/1": "budget/unavailable", "uid/1": "budget/unavailable",
	} {
		_, refused := c.Budgets(t.Context(), name)
		require.NotNil(t, refused, "%q", name)
		assert.Equal(t, typ, refused.Type, "%q", name)
	}
	for _, row := range []struct{ tenant, user, typ string }{
		{"", "", "budget/unavailable"}, {policy.HostTenant, "", "budget/unavailable"}, {"acme", "", "budget/unavailable"},
		{"", "uid/1", "budget/unavailable"}, {"", "user/1", "user/not-found"}, {"", "a b", "user/not-found"},
		{"ac\x00me", "", "invalid-request"}, {"Acme", "", "invalid-request"}, {"a b", "", "invalid-request"}, {"", "an\x00n", "invalid-request"},
	} {
		change := httpapi.BudgetChange{Tenant: row.tenant, User: row.user, Charge: edn.MustRead(`{:attempts 1}`)}
		_, refused := c.AdjustBudget(t.Context(), change)
		require.NotNil(t, refused, "%q %q", row.tenant, row.user)
		assert.Equal(t, row.typ, refused.Type, "%q %q", row.tenant, row.user)
	}
}

// LED-006: the budget of a tenant is named, and changed only for a tenant that has an
// account or a counter.
func TestBudgetsOfTenants(t *testing.T) {
	limits, err := policy.LimitsOf(edn.MustRead(`{:max-attempts 5}`))
	require.NoError(t, err)
	block := policy.ScopeBudget{Written: true, Limits: limits, Per: "total"}
	l := &setup.Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{Tenant: block}}}}
	accounts, err := identity.Open(t.Context(), &identity.Memory{})
	require.NoError(t, err)
	_, refused := accounts.AddUser(t.Context(), &identity.Settings{}, identity.NewUser{Login: "pia", Tenant: "lab"})
	require.Nil(t, refused)
	ledger := budget.NewMemory(nil)
	counted := budget.Scope{Kind: budget.Tenant, ID: "issued", Limits: limits, Per: budget.Total}
	require.NoError(t, ledger.Adjust(t.Context(), counted, budget.Adjustment{Charge: policy.Count(policy.Attempts, 1)}))
	c := control{serving("ready", l, func(h *Host) { h.ledger, h.identity = ledger, accounts })}

	_, refused = c.AdjustBudget(t.Context(), httpapi.BudgetChange{Tenant: "nosuch", Grant: edn.MustRead(`{:attempts 1}`)})
	require.NotNil(t, refused)
	assert.Equal(t, "not-found", refused.Type)
	for _, tenant := range []string{"", "lab", "issued"} {
		v, refused := c.AdjustBudget(t.Context(), httpapi.BudgetChange{Tenant: tenant, Grant: edn.MustRead(`{:attempts 1}`)})
		require.Nil(t, refused, tenant)
		assert.Equal(t, edn.Text(policy.TenantOf(tenant)), v.Key("tenant"))
	}
	shown, refused := c.Budgets(t.Context(), "")
	require.Nil(t, refused)
	var names []string
	for scope := range shown.Key("scopes").Elems() {
		name, _ := scope.Key("tenant").AsString()
		names = append(names, name)
	}
	assert.ElementsMatch(t, []string{"host", "issued", "lab"}, names)
}

// LED-006: what a deleted account has used is shown under its id; nothing is added to its
// budget.
func TestBudgetOfADeletedAccount(t *testing.T) {
	limits, err := policy.LimitsOf(edn.MustRead(`{:max-attempts 5}`))
	require.NoError(t, err)
	block := policy.ScopeBudget{Written: true, Limits: limits, Per: "total"}
	l := &setup.Loaded{Config: &config.Config{Generation: &build.Generation{Budgets: &policy.Budgets{User: block}}}}
	accounts, err := identity.Open(t.Context(), &identity.Memory{})
	require.NoError(t, err)
	ledger := budget.NewMemory(nil)
	c := control{serving("ready", l, func(h *Host) { h.ledger, h.identity = ledger, accounts })}
	set := &identity.Settings{}
	u, refused := accounts.AddUser(t.Context(), set, identity.NewUser{Login: "ann"})
	require.Nil(t, refused)
	charge := httpapi.BudgetChange{User: "ann", Charge: edn.MustRead(`{:attempts 2}`)}
	_, refused = c.AdjustBudget(t.Context(), charge)
	require.Nil(t, refused)
	before, refused := c.Budgets(t.Context(), "ann")
	require.Nil(t, refused)
	assert.Contains(t, before.String(), ":used {:attempts 2}")
	_, _, refused = accounts.DeleteUser(t.Context(), set, "ann", false)
	require.Nil(t, refused)

	after, refused := c.Budgets(t.Context(), u.ID)
	require.Nil(t, refused)
	assert.Equal(t, before.String(), after.String())
	_, refused = c.Budgets(t.Context(), "ann")
	require.NotNil(t, refused)
	charge.User = u.ID
	_, refused = c.AdjustBudget(t.Context(), charge)
	require.NotNil(t, refused)
	assert.Equal(t, "user/not-found", refused.Type)
}
