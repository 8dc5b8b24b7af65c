package httpapi

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Requests reach objects of other callers by an operation besides that of their route: runs/any or
// session/any. Each request, except for acts, that uses one has an audit record auth/permitted with
// the rule and the reason; the record of a run has the decisions about its act (AUTH-013). Requests
// about the caller's own objects are not recorded, nor are those for the state of the host:
// /metrics, /diag/telemetry, /health and /ready.

// runKeys are the keys with which requests name runs.
var runKeys = []string{"run", "other", "a", "b"}

// reach returns the runs that the caller may see: its own, or with runs/any those of its tenant, or
// all if it has no tenant (AUTH-012). A session token limits them to its session. The runKeys of in
// name the runs of the request; without names the request concerns all runs, or those of
// :principal.
func (x *exchange) reach(all Runs, in edn.Value) Runs {
	if x.who.Tenant != "" && !x.via.admin {
		all = all.OfTenant(x.who.Tenant)
	}
	if x.who.Session != "" {
		all = all.InSession(x.who.Session)
	}
	d := x.decide(policy.AnyRuns)
	if d.OK {
		run, others := x.ofOthers(all, in)
		if others {
			x.useOthers(d, run, "")
			return all
		}
	}
	return all.OwnedBy(x.who.Name)
}

// ofOthers reports whether a request concerns runs of other callers, and returns the id of the
// first one that it names. It reports true if the owner of a run cannot be read.
func (x *exchange) ofOthers(all Runs, in edn.Value) (run string, others bool) {
	named := false
	for _, key := range runKeys {
		name := text(in, key)
		if name == "" {
			continue
		}
		named = true
		id, owner, err := all.Owner(x.r.Context(), name)
		switch {
		case err == nil && owner != x.who.Name:
			return id, true
		case err != nil && err.Type != "run/not-found":
			return name, true
		}
	}
	return "", !named && text(in, "principal") != x.who.Name
}

// anySession reports whether a session action needs session/any and the caller has it: the session
// id belongs to another caller, or the action lists sessions.
func (x *exchange) anySession(ctx context.Context, service *session.Service, a *Action, id string) (bool, *contract.Error) {
	d := x.decide(policy.AnySession)
	switch {
	case !d.OK, id == "" && a.Name != "list": // it creates a session
		return false, nil
	case id != "":
		owner, err := service.Owner(ctx, id)
		if err != nil || owner == "" || owner == x.who.Name {
			return false, err
		}
	}
	x.useOthers(d, "", id)
	return true, nil
}

// useOthers records, once per request, that it reaches objects of other callers because of decision
// d.
func (x *exchange) useOthers(d policy.Decision, run, sessionID string) {
	if x.reached {
		return
	}
	x.reached = true
	x.decisions = append(x.decisions, d.Value())
	x.api.backend.Permitted(Permission{
		Principal: x.who.Name,
		Address:   x.client(),
		Decision:  d,
		Request:   x.r.Method + " " + truncate(x.r.URL.Path, 300),
		Run:       run,
		Session:   sessionID,
	})
}
