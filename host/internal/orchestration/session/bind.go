package session

import (
	"context"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Binding fills a part of a request from a session variable (SES-014).
type Binding struct {
	Var      string
	Target   []string // path of keywords in the request
	Coerce   string   // identity, keyword, string, trimmed-string or keyword-or-string
	Required bool
}

// ShippedBindings returns the bindings that every configuration has.
func ShippedBindings() []Binding {
	return []Binding{
		{Var: "session/language", Target: []string{"constraints", "language"}, Coerce: "keyword"},
		{Var: "session/style", Target: []string{"constraints", "style"}, Coerce: "keyword"},
		{Var: "session/system-prompt", Target: []string{"input", "system"}, Coerce: "trimmed-string"},
		{Var: "session/context-summary", Target: []string{"context", "summary"}, Coerce: "trimmed-string"},
	}
}

// Bound is a binding with the coerced value of its variable.
type Bound struct {
	Binding
	Value edn.Value
}

// Warning reports that a part of the session was not added to a request, such as a
// binding that was left out or turns that were cut.
type Warning struct {
	Var    string // empty: none
	Reason string
	Target []string
}

// Value returns the warning in the form used in responses.
func (w Warning) Value() edn.Value {
	var b edn.MapBuilder
	b.OptKeyword("var", w.Var)
	b.Key("reason", edn.K(w.Reason))
	path := make([]edn.Value, len(w.Target))
	for i, part := range w.Target {
		path[i] = edn.K(part)
	}
	b.Key("target", edn.Vector(path...))
	return b.Map()
}

// Left returns the warning about a binding that is left out for a reason. If the binding is
// required, it returns an error instead: the argument of with the detail :var, or invalid-request
// if that is nil.
func (b Binding) Left(reason string, of *contract.Error) (Warning, *contract.Error) {
	if b.Required {
		if of == nil {
			of = contract.Errorf("invalid-request", "the session variable :%s, which the configuration requires, cannot be bound: %s", b.Var, reason)
		}
		return Warning{}, of.WithDetail("var", edn.K(b.Var))
	}
	return Warning{Var: b.Var, Reason: reason, Target: b.Target}, nil
}

// coerced returns the value in the form that b.Coerce demands; false if it cannot be
// converted.
func (b Binding) coerced(v edn.Value) (edn.Value, bool) {
	name, isKeyword := v.AsKeyword()
	s, isText := v.AsString()
	keyword := func() (edn.Value, bool) {
		k, err := edn.Keyword(strings.TrimPrefix(strings.TrimSpace(s), ":"))
		return k, err == nil && isText
	}
	switch b.Coerce {
	case "keyword":
		if isKeyword {
			return v, true
		}
		return keyword()
	case "string", "trimmed-string":
		if isKeyword {
			s, isText = name, true
		}
		if b.Coerce == "trimmed-string" {
			s = strings.TrimSpace(s)
		}
		return edn.Text(s), isText && s != ""
	case "keyword-or-string":
		return v, isKeyword || isText
	}
	return v, !v.IsNil()
}

// Bindings returns the session of an act, the variables that the configuration binds to
// its request, and warnings about bindings that are left out (SES-014). A binding is
// skipped without a warning if isSet reports that its target is set, or if its variable
// is not set, even if it is required. A variable that is denied by the policy or
// ill-typed is left out; if the binding is required, that is an error. Other errors are
// those of Get.
func (s *Service) Bindings(
	ctx context.Context, who Caller, id, intent string, isSet func(target []string) bool,
) (of Session, bound []Bound, left []Warning, err *contract.Error) {
	if of, err = s.Get(ctx, who, id); err != nil {
		return of, nil, nil, err
	}
	rules := s.rules.Load()
	if len(rules.Bindings) == 0 {
		return of, nil, nil, nil
	}
	a := rules.Policy.Effective(OpDefaults, intent)
	keys := make([]string, len(rules.Bindings))
	for i, b := range rules.Bindings {
		keys[i] = b.Var
	}
	stored, failure := s.store.Vars(ctx, id, keys...)
	if failure != nil {
		return of, nil, nil, failed("read session "+id, failure)
	}
	now := s.clock()
	for _, b := range rules.Bindings {
		i := slices.IndexFunc(stored, func(v Var) bool { return v.Key == b.Var && !expired(v.Expires, now) })
		if i < 0 || isSet(b.Target) {
			continue
		}
		value, fits := b.coerced(stored[i].Value)
		reason, of := "ill-typed", (*contract.Error)(nil)
		if denied := checkRead(a, []string{b.Var}); len(denied) > 0 {
			fits, reason, of = false, "policy-read-forbidden", rules.refused("bind session "+id, 1, denied)
		}
		if fits {
			bound = append(bound, Bound{b, value})
			continue
		}
		w, err := b.Left(reason, of)
		if err != nil {
			return Session{}, nil, nil, err
		}
		left = append(left, w)
	}
	return of, bound, left, nil
}
