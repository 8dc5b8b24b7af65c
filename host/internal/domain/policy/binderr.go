package policy

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Err returns the error of a binding without accepted candidates, nil if there
// are any (BIND-004, BIND-008). The details hold every rejection.
//
// The type is unsupported/intent, retryable if some candidate was rejected for
// readiness alone. It is breaker/open or budget/exceeded if every candidate
// that matches otherwise was rejected for that reason.
func (b *Binding) Err(intent string) *contract.Error {
	if len(b.Accepted) > 0 {
		return nil
	}
	fit, breaker, budget, waiting := 0, 0, 0, 0
	for _, r := range b.Rejected {
		switch r.Reason {
		case ReasonBreaker:
			breaker++
		case ReasonBudget:
			budget++
		case ReasonNotReady:
			waiting++
		case ReasonQuarantined:
		default:
			continue
		}
		fit++
	}
	typ := "unsupported/intent"
	switch {
	case fit > 0 && breaker == fit:
		typ = "breaker/open"
	case fit > 0 && budget == fit:
		typ = "budget/exceeded"
	}
	e := contract.Errorf(typ, "%s", b.Sentence(intent)).
		WithDetail("intent", edn.K(intent)).
		WithDetail("rejected", RejectionsValue(b.Rejected))
	if typ == "unsupported/intent" && waiting+breaker+budget > 0 {
		e = e.WithRetryable(true)
	}
	if cause := b.cause(); cause != nil {
		e = e.WithCause(cause)
	}
	return e
}

// Sentence describes in one line which candidates were rejected, and why.
func (b *Binding) Sentence(intent string) string {
	if len(b.Rejected) == 0 {
		return fmt.Sprintf("no capability serves :%s", intent)
	}
	const most = 4
	var parts []string
	for i, r := range b.Rejected {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(b.Rejected)-most))
			break
		}
		part := fmt.Sprintf(":%s is %s", r.Cap, r.Reason)
		if r.Why != nil && r.Why.Type == r.Reason {
			part += " (" + r.Why.Message + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("no capability can serve :%s: %s", intent, strings.Join(parts, ", "))
}

// cause returns the error behind the first rejection that has one.
func (b *Binding) cause() *contract.Error {
	for _, r := range b.Rejected {
		if r.Why != nil {
			return r.Why
		}
	}
	return nil
}

// RejectionsValue returns rejections as the vector that records and error
// details hold.
func RejectionsValue(list []Rejection) edn.Value {
	vs := make([]edn.Value, len(list))
	for i := range list {
		vs[i] = list[i].Value()
	}
	return edn.Vector(vs...)
}

// Degraded returns `:why` of a degraded answer: the matching candidates ahead
// of the serving one that were unavailable, each as [cap why] (BIND-009). It is
// nil if there are none.
func (b *Binding) Degraded(served string) edn.Value {
	ahead := make(map[string]bool, len(b.List))
	for _, id := range b.List {
		if id == served {
			break
		}
		ahead[id] = true
	}
	var why []edn.Value
	for _, r := range b.Rejected {
		if !ahead[r.Cap] {
			continue
		}
		switch r.Reason {
		case ReasonNotReady, ReasonQuarantined, ReasonBreaker, ReasonBudget:
		default:
			continue
		}
		reason := r.Reason
		if r.Why != nil {
			reason = r.Why.Type
		}
		why = append(why, edn.Vector(edn.K(r.Cap), edn.K(reason)))
	}
	if why == nil {
		return edn.Nil()
	}
	return edn.Vector(why...)
}
