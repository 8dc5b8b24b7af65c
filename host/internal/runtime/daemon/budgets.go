package daemon

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Budgets implements httpapi.Control (LED-006).
func (c control) Budgets(ctx context.Context, user string) (edn.Value, *contract.Error) {
	h, l := c.now()
	named, unknown := h.callerNamed(ctx, user)
	switch {
	case unknown == nil:
		user = named
	case unknown.Type != "user/not-found" || !accountID(user): // a deleted account has counters too
		return edn.Nil(), unknown
	}
	b := l.Generation.Budgets
	var scopes []edn.Value
	add := func(kind budget.Kind, ids ...string) *contract.Error {
		for _, id := range ids {
			v, err := h.balance(ctx, b, kind, id)
			if err != nil {
				return err
			}
			scopes = append(scopes, v)
		}
		return nil
	}
	if user == "" && b.Of(budget.Tenant.String()).Written {
		tenants, err := h.tenants(ctx, b)
		if err != nil {
			return edn.Nil(), unwritable(err)
		}
		if err := add(budget.Tenant, tenants...); err != nil {
			return edn.Nil(), err
		}
	}
	switch block := b.Of(budget.User.String()); {
	case !block.Written && user != "":
		return edn.Nil(), unlimited(budget.User)
	case user != "":
		if err := add(budget.User, user); err != nil {
			return edn.Nil(), err
		}
	case block.Written:
		users, err := h.ledger.Seen(ctx, budget.User, budget.Per(block.Per))
		if err != nil {
			return edn.Nil(), unwritable(err)
		}
		if err := add(budget.User, users...); err != nil {
			return edn.Nil(), err
		}
	}
	var m edn.MapBuilder
	m.Key("scopes", edn.Vector(scopes...))
	var each []edn.Value
	for _, kind := range []budget.Kind{budget.Tenant, budget.User, budget.Run} {
		if block := b.Of(kind.String()); block.Written && user == "" {
			each = append(each, edn.MustMap(
				edn.K("scope"), edn.K(kind.String()),
				edn.K("limit"), limitsOf(block),
				edn.K("where"), edn.Text(block.Where),
			))
		}
	}
	m.Key("each", edn.Vector(each...))
	return m.Map(), nil
}

// tenants returns the tenants that have used their budget in the current window; the host itself is
// always the first.
func (h *Host) tenants(ctx context.Context, b *policy.Budgets) ([]string, error) {
	seen, err := h.ledger.Seen(ctx, budget.Tenant, budget.Per(b.Of(budget.Tenant.String()).Per))
	seen = slices.DeleteFunc(slices.Clone(seen), func(id string) bool { return id == act.Tenant })
	return append([]string{act.Tenant}, seen...), err
}

// limitsOf returns all limits of a block as an EDN map, including those per run and per call.
func limitsOf(block *policy.ScopeBudget) edn.Value {
	v := act.LimitsValue(block.Limits)
	for _, f := range block.Calls {
		v = v.Assoc(f.Key, f.Value)
	}
	if block.Wall > 0 {
		v = v.AssocKey("wall-ms", edn.Int(block.Wall.Milliseconds()))
	}
	if block.Depth > 0 {
		v = v.AssocKey("depth", edn.Int(int64(block.Depth)))
	}
	return v
}

// AdjustBudget implements httpapi.Control.
func (c control) AdjustBudget(ctx context.Context, change httpapi.BudgetChange) (edn.Value, *contract.Error) {
	h, l := c.now()
	user, unknown := h.callerNamed(ctx, change.User)
	if unknown != nil {
		return edn.Nil(), unknown
	}
	kind, id := budget.Tenant, policy.TenantOf(change.Tenant)
	if id != policy.HostTenant {
		if err := identity.CheckTenant(id); err != nil {
			return edn.Nil(), err
		}
	}
	if user != "" {
		kind, id = budget.User, user
	}
	b := l.Generation.Budgets
	block := b.Of(kind.String())
	if !block.Written {
		return edn.Nil(), unlimited(kind)
	}
	if kind == budget.Tenant {
		if err := h.knowsTenant(ctx, b, id); err != nil {
			return edn.Nil(), err
		}
	}
	grant, err := amounts("grant", change.Grant)
	if err != nil {
		return edn.Nil(), err
	}
	charge, err := amounts("charge", change.Charge)
	if err != nil {
		return edn.Nil(), err
	}
	if grant.IsZero() && charge.IsZero() {
		return edn.Nil(), contract.Errorf("invalid-request",
			"budget-adjust changes nothing: neither :grant nor :charge has an amount above 0")
	}
	scope := budget.Scope{Kind: kind, ID: id, Limits: block.Limits, Per: budget.Per(block.Per)}
	for _, d := range policy.Dimensions() {
		if grant.Has(d) && !block.Limits.Bounds(d) {
			return edn.Nil(), contract.Errorf("invalid-request",
				"the budget of %s does not limit %s, so nothing can be added to it", scope, d).
				WithHint("add to one of its limits: " + act.LimitsValue(block.Limits).String())
		}
	}
	if err := h.ledger.Adjust(ctx, scope, budget.Adjustment{Grant: grant, Charge: charge}); err != nil {
		return edn.Nil(), unwritable(err)
	}
	return h.balance(ctx, b, kind, id)
}

// knowsTenant returns an error for a tenant that has neither an account nor a counter in the
// current window.
func (h *Host) knowsTenant(ctx context.Context, b *policy.Budgets, id string) *contract.Error {
	if id == policy.HostTenant {
		return nil
	}
	users, unread := h.identity.Users(ctx)
	if unread != nil {
		return unread
	}
	if slices.ContainsFunc(users, func(u identity.User) bool { return u.Tenant == id }) {
		return nil
	}
	counted, err := h.tenants(ctx, b)
	switch {
	case err != nil:
		return unwritable(err)
	case slices.Contains(counted, id):
		return nil
	}
	return contract.Errorf("not-found", "no account has the tenant %q, and nothing was counted for it in this window",
		id).WithHint("\"ferment admin budget show\" and \"ferment user list\" show the tenants")
}

// callerNamed returns the name under which the calls of a caller are counted. For a login that is
// the id of its account. Callers without an account, such as those of an issuer, have names with a
// slash and are returned as they are, like the empty name. The error for an unknown login is
// user/not-found.
func (h *Host) callerNamed(ctx context.Context, name string) (string, *contract.Error) {
	if strings.ContainsRune(name, 0) { // PostgreSQL cannot store it
		return "", contract.Errorf("invalid-request", "%.80q is not the name of a caller: it has the character U+0000", name)
	}
	kind, _, external := strings.Cut(name, "/")
	if name == "" || name == httpapi.Anonymous || external && kind != "user" {
		return name, nil
	}
	u, err := h.identity.User(ctx, name)
	return u.ID, err
}

// accountID reports whether name has the form of an account id, such as "user/7". A login never
// contains a slash.
func accountID(name string) bool {
	number, is := strings.CutPrefix(name, "user/")
	_, err := strconv.ParseUint(number, 10, 63)
	return is && err == nil
}

func amounts(key string, v edn.Value) (policy.Amounts, *contract.Error) {
	l, err := policy.LimitsOf(v)
	if err != nil {
		return policy.Amounts{}, contract.Errorf("invalid-request", "budget-adjust :%s: %w", key, err)
	}
	return l.Amounts(), nil
}

// balance returns the balance of one scope as a response value.
func (h *Host) balance(
	ctx context.Context, b *policy.Budgets, kind budget.Kind, id string,
) (edn.Value, *contract.Error) {
	block := b.Of(kind.String())
	scope := budget.Scope{Kind: kind, ID: id, Limits: block.Limits, Per: budget.Per(block.Per)}
	all, err := h.ledger.Balances(ctx, []budget.Scope{scope})
	if err != nil {
		return edn.Nil(), unwritable(err)
	}
	_, soft := block.Reached(all[0].Scope.Limits, all[0].Used)
	v := act.BalanceValue(all[0]).
		AssocKey("granted", all[0].Granted.Value()).
		AssocKey("soft?", edn.Bool(soft)).
		AssocKey("where", edn.Text(block.Where))
	if kind == budget.Tenant {
		v = v.AssocKey("tenant", edn.Text(id))
	}
	return v, nil
}

func unlimited(kind budget.Kind) *contract.Error {
	return contract.Errorf("not-found", "the configuration has no block budget %q, so nothing is counted there", kind).
		WithHint("\"ferment config docs budget\" describes the block")
}

func unwritable(err error) *contract.Error {
	return contract.Errorf("budget/unavailable", "the ledger of this host: %w", err)
}
