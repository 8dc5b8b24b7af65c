package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// allowance is the effective budget of one act.
type allowance struct {
	account *budget.Account
	// around are the scopes in which nodes of the act reserve. counted are the scopes that
	// its response reports: around, and those in which the whole run is reserved.
	around, counted budget.Chain
	limits          policy.Limits // the tightest of all scopes
	budgets         *policy.Budgets
	atLeast         bool
	wall            time.Duration // 0: limited by the deadline only
	wide            []wideScope   // scopes beyond the run
	depth           request.Limit

	aside *journal.BudgetReserved // for the whole run; nil: none

	worst     edn.Value // nil if nothing is counted
	unbounded bool
}

func compileBudget(s *Service) (func(*flight) *contract.Error, error) {
	c := &s.config
	return func(f *flight) *contract.Error {
		if f.id == "" {
			f.id = c.NewID()
		}
		if f.budget.account == nil { // a host call and a resumed run have one already
			f.budget.account = budget.NewAccount(c.Ledger)
		}
		if f.budget.wide = f.scopes(); f.cache.spared() {
			return nil
		}
		return f.refuseWorst(f.budget.wide)
	}, nil
}

// scopes determines the budget scopes of the run. A host call uses the scopes
// of its parent call.
func (f *flight) scopes() (wide []wideScope) {
	a, budgets := &f.budget, f.service.config.Budgets
	asked := f.request.BudgetLimits
	own, _ := policy.LimitsOf(f.request.Budget) // validated with the request
	a.depth = asked.MaxDepth
	a.take(policy.WallLimit(asked.MaxWallMS))
	if f.act.Stack != nil {
		a.around, a.atLeast = f.act.Within, f.act.AtLeast
	} else {
		wide = wideScopes(budgets, &f.act)
		a.atLeast = budgets.AtLeast()
		a.take(budgets.Wall())
		if d := budgets.Depth(); d > 0 {
			a.depth = a.depth.Lower(request.Limited(int64(d)))
		}
		if budgets != nil {
			own = own.Tighter(budgets.Run.Limits)
		}
	}
	for _, w := range wide {
		a.counted = a.counted.In(w.scope)
		if !f.reservesRun(w) {
			a.around = a.around.In(w.scope)
		}
	}
	if !own.IsZero() || len(wide) > 0 || budgets != nil && budgets.Run.Written {
		run := budget.Scope{Kind: budget.Run, ID: f.scopeID(), Limits: own}
		a.account.Owns(run)
		a.around, a.counted = a.around.In(run), a.counted.In(run)
	}
	a.budgets = f.granted(wide)
	a.limits = a.budgets.Around(policy.FieldsOf(f.request.Budget, policy.Origin{}))
	return wide
}

// reservesRun reports whether the worst case of the whole run is reserved in scope w
// before the run starts. A resumed run keeps the reservation that it started with.
func (f *flight) reservesRun(w wideScope) bool {
	if f.past == nil {
		return w.block.RefuseWorst
	}
	aside := f.budget.aside
	return aside != nil && slices.Contains(aside.Scopes, w.scope.Kind.String())
}

// granted returns the budgets of the configuration plus the current grants of
// operators.
func (f *flight) granted(wide []wideScope) *policy.Budgets {
	budgets := f.service.config.Budgets
	if len(wide) == 0 {
		return budgets
	}
	var chain budget.Chain
	for _, w := range wide {
		chain = chain.In(w.scope)
	}
	all, err := f.budget.account.Balances(context.Background(), chain)
	if err != nil {
		return budgets // an unreadable ledger also fails the reservation
	}
	more := map[budget.Kind]policy.Amounts{}
	for _, b := range all {
		more[b.Scope.Kind] = b.Granted
	}
	return budgets.Raised(more[budget.Tenant], more[budget.User])
}

// host returns the tenant scope, in which work outside the run reserves; nil if the
// tenant has no budget. It returns the scope even if the whole run is reserved in it:
// that reservation does not cover work outside the run.
func (a *allowance) host() budget.Chain {
	for _, of := range []budget.Chain{a.counted, a.around} { // around for a host call
		if len(of) > 0 && of[0].Kind == budget.Tenant {
			return of[:1:1]
		}
	}
	return nil
}

// scopeID returns the id of the scope of the run, or of a host call within it.
func (f *flight) scopeID() string {
	if f.inside == nil {
		return f.id
	}
	return f.id + edn.Vector(f.inside.Path...).String()
}

func (a *allowance) take(wall time.Duration) {
	if wall > 0 && (a.wall == 0 || wall < a.wall) {
		a.wall = wall
	}
}

// Tenant is the id of the budget of callers without a tenant of their own.
const Tenant = policy.HostTenant

// Windows returns the windows of the tenant and the user in which a recorded reservation
// counts, in no particular order. principal is the caller of the run.
func Windows(r *journal.BudgetReserved, principal string) []budget.Window {
	var out []budget.Window
	for kind, id := range map[budget.Kind]string{budget.Tenant: policy.TenantOf(r.Tenant), budget.User: principal} {
		if name := kind.String(); slices.Contains(r.Scopes, name) {
			out = append(out, budget.Window{Kind: kind, ID: id, Begin: r.Windows[name].UTC()})
		}
	}
	return out
}

// wideScope is a scope that outlives runs.
type wideScope struct {
	scope budget.Scope
	block *policy.ScopeBudget
}

func wideScopes(b *policy.Budgets, a *Act) []wideScope {
	if b == nil {
		return nil
	}
	var out []wideScope
	for _, w := range []struct {
		block *policy.ScopeBudget
		kind  budget.Kind
		id    string
	}{{&b.Tenant, budget.Tenant, policy.TenantOf(a.Tenant)}, {&b.User, budget.User, a.Principal}} {
		if w.block.Written {
			out = append(out, wideScope{budget.Scope{
				Kind:   w.kind,
				ID:     w.id,
				Limits: w.block.Limits,
				Per:    budget.Per(w.block.Per),
			}, w.block})
		}
	}
	return out
}

// refuseWorst computes the worst-case cost of an act with a budget. Budgets with
// RefuseWorst reject the act with budget/would-exceed if they cannot cover that cost,
// else they reserve it (BUD-004).
func (f *flight) refuseWorst(wide []wideScope) *contract.Error {
	a := &f.budget
	if len(a.around)+len(a.counted) == 0 {
		return nil
	}
	w, err := f.worstWithRoute()
	if err != nil {
		return err
	}
	a.worst, a.unbounded = w.Value(), len(w.Open) > 0
	env := f.planEnv()
	env.Budgets = a.budgets
	findings := plan.WithinBudget(w, env, f.plan)
	if f.source == "request" {
		f.findings = append(f.findings, findings...)
	}
	if f.act.Stack != nil {
		return nil // the run that it belongs to was checked as a whole
	}
	for _, finding := range findings {
		if finding.Severity == plan.Error {
			return f.wouldExceed(w, findings, finding.Message)
		}
	}
	return f.setAside(wide, w)
}

// worst returns the worst case of the plan. Acts of the same shape share the result.
func (f *flight) worst() *plan.Worst {
	if f.shape == nil {
		w := plan.WorstCase(f.plan, f.planEnv())
		return &w
	}
	f.shape.worstOnce.Do(func() { f.shape.worst = plan.WorstCase(f.shape.plan, f.planEnv()) })
	return &f.shape.worst
}

func (f *flight) wouldExceed(w *plan.Worst, findings []plan.Finding, why string) *contract.Error {
	list := make([]edn.Value, len(findings))
	for i, x := range findings {
		list[i] = x.Value()
	}
	return contract.Errorf("budget/would-exceed", "%s", why).
		WithDetail("worst-case", w.Value()).
		WithDetail("limit", f.budget.limits.Value()).
		WithDetail("findings", edn.Vector(list...)).
		WithHint("fewer candidates, retries or items lower the worst case in the details; or raise the limit")
}

// setAside reserves the worst case in the budgets that require it, before anything is
// spent. A resumed run already has its reservation. The error is budget/would-exceed or
// budget/unavailable.
func (f *flight) setAside(wide []wideScope, w *plan.Worst) *contract.Error {
	if f.past != nil {
		return nil
	}
	var chain budget.Chain
	for _, x := range wide {
		if x.block.RefuseWorst {
			chain = chain.In(x.scope)
		}
	}
	if len(chain) == 0 {
		return nil
	}
	hold, err := f.budget.account.ReserveRun(context.Background(), chain, w.Amounts)
	var lack *budget.ExceededError
	switch {
	case errors.As(err, &lack):
		return lack.Contract("budget/would-exceed", f.service.config.Clock.Now()).WithDetail("worst-case", w.Value())
	case err != nil:
		return contract.Errorf("budget/unavailable", "the budget reservation of the act could not be recorded: %w", err)
	}
	f.budget.aside = &journal.BudgetReserved{
		For:     "run",
		Scopes:  chain.Kinds(),
		Amount:  w.Amounts.Value(),
		Windows: hold.Begins(),
		Tenant:  chain.Tenant(),
	}
	return nil
}

// settleBudget settles reservations whose owner is gone, and the reservation
// for the whole run, before the records are read. Those of a suspended run stay
// open.
func (f *flight) settleBudget() {
	a := f.budget.account
	if a == nil || f.inside != nil || f.stopped != nil {
		return
	}
	f.recall()
	a.Drain(f.ending)
	if took, mark, ok := a.SettleRun(f.ending); ok {
		// If this record fails, the last record of the run fails too.
		_ = f.recorder.Record(edn.Vector(), "",
			&journal.BudgetSettled{Of: f.budget.aside, Amount: took.Value(), Mark: mark.String()})
	}
}

// wallSpent returns the error of a run that used up the wall time of its budget.
func (f *flight) wallSpent() *contract.Error {
	limit := edn.Int(f.budget.wall.Milliseconds())
	return contract.Errorf("budget/exceeded", "the run has used up the %s ms of wall time of its budget", limit).
		WithDetail("scope", edn.K("run")).
		WithDetail("dimension", edn.K("wall-ms")).
		WithDetail("limit", limit).
		WithDetail("left", edn.Int(0))
}

// value returns the balances of the run's budgets at its end; nil without
// budgets.
func (a *allowance) value() edn.Value {
	if a.account == nil {
		return edn.Nil()
	}
	totals := a.account.Totals()
	if len(a.counted) == 0 && totals.Reserved.IsZero() {
		return edn.Nil()
	}
	balances, err := a.account.Balances(context.Background(), a.counted)
	if err != nil {
		balances = nil
	}
	scopes := make([]edn.Value, 0, len(balances))
	for _, b := range balances {
		scopes = append(scopes, BalanceValue(b))
	}
	return edn.MustMap(
		edn.K("reserved"), totals.Reserved.Value(),
		edn.K("settled"), totals.Settled.Value(),
		edn.K("refunded"), totals.Refunded.Value(),
		edn.K("mark"), edn.K(totals.Mark.String()),
		edn.K("scopes"), edn.Vector(scopes...))
}

// BalanceValue returns the balance of a scope as in responses.
func BalanceValue(b budget.Balance) edn.Value {
	var m edn.MapBuilder
	m.Key("scope", edn.K(b.Scope.Kind.String()))
	if b.Scope.Kind == budget.User {
		m.Key("user", edn.Text(b.Scope.ID))
	}
	m.Key("limit", LimitsValue(b.Scope.Limits))
	m.Key("used", b.Used.Value())
	m.Key("reserved", b.Reserved.Value())
	m.Key("left", LimitsValue(b.Left()))
	m.Key("mark", edn.K(b.Mark.String()))
	if !b.Resets.IsZero() {
		m.Key("per", edn.K(string(b.Scope.Per)))
		m.Key("resets", edn.Inst(b.Resets))
	}
	return m.Map()
}

// LimitsValue returns limits as a map of dimension names, without the prefix "max-", as
// in reports. Unlimited dimensions are absent.
func LimitsValue(l policy.Limits) edn.Value {
	var b edn.MapBuilder
	for _, d := range policy.Dimensions() {
		if l.Bounds(d) {
			b.Key(d.String(), l.Max(d))
		}
	}
	return b.Map()
}

// soft returns warnings about nearly used-up budgets (LED-006).
func (f *flight) soft() []edn.Value {
	b := f.service.config.Budgets
	if b == nil || f.budget.account == nil {
		return nil
	}
	balances, err := f.budget.account.Balances(context.Background(), f.budget.counted)
	if err != nil {
		return nil
	}
	var out []edn.Value
	for _, x := range balances {
		block := map[budget.Kind]*policy.ScopeBudget{budget.Tenant: &b.Tenant, budget.User: &b.User,
			budget.Run: &b.Run}[x.Scope.Kind]
		if block == nil || !block.Written {
			continue
		}
		d, reached := block.Reached(x.Scope.Limits, x.Used)
		if !reached {
			continue
		}
		text := fmt.Sprintf("the budget of %s has %s of %s %s left", x.Scope, plainNumber(x.Left().Max(d)),
			plainNumber(x.Scope.Limits.Max(d)), d)
		if !x.Resets.IsZero() {
			text += "; it begins anew at " + x.Resets.UTC().Format(time.RFC3339)
		}
		out = append(out, edn.MustMap(edn.K("type"), edn.K("budget/soft-limit"), edn.K("message"), edn.Text(text)))
	}
	return out
}

func plainNumber(v edn.Value) string {
	s := v.String()
	if v.IsDecimal() {
		s = s[:len(s)-1]
	}
	return s
}
