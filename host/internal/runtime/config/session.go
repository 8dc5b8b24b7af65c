package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Session holds the settings of sessions.
type Session struct {
	Rules session.Rules
	Sweep time.Duration // interval in which expired variables are deleted
}

func (l *loader) session() {
	s := l.Root.Block("session")
	vars := s.Block("vars")
	r := session.Restrictive()
	if p := l.config.Profile; p == language.ProfileDev || p == language.ProfileTest {
		r = session.Permissive()
	}
	r.RequireQualified = vars.Flag("require_qualified")
	r.AllowedNamespaces, _ = vars.Texts("allowed_namespaces")
	r.MaxVars, r.MaxKeyChars, r.MaxValueBytes = vars.Integer("max_vars"), vars.Integer("max_key_chars"), vars.Integer("max_value")
	r.Default = vars.Text("default_class")
	r.Window = session.Window{Turns: s.Integer("window_turns"), Chars: s.Integer("window_chars")}
	r.MaxHot, r.IdleTTL = s.Integer("max_hot"), s.Duration("idle_ttl")
	r.SummaryChars = s.Integer("summary_chars")
	r.Classes[session.ClassDurable] = classOf(vars, session.Class{})
	l.lifetimes(vars, r.Classes[session.ClassDurable])
	l.classes(s, vars, &r)
	l.classNamed(vars, "default_class", slices.Collect(maps.Keys(r.Classes)))
	policy := s.Block("policy")
	if b := policy.Block("default"); b != nil {
		r.Policy.Default = accessOf(b)
	}
	r.Policy.ByOperation = accesses(r.Policy.ByOperation, policy.All("operation"))
	r.Policy.Intent = accesses(r.Policy.Intent, policy.All("intent"))
	for _, b := range s.All("binding") {
		addBinding(b, &r)
		l.bindingTarget(b)
	}
	l.config.Session = Session{Rules: r, Sweep: s.Duration("sweep")}
}

// classOf returns the class c with the attributes that a block sets.
func classOf(s *decode.Section, c session.Class) session.Class {
	set := func(name string) bool { return !s.Attrs[name].EDN.IsNil() }
	if set("default_ttl") {
		c.DefaultTTL = s.Duration("default_ttl")
	}
	if set("max_ttl") {
		c.MaxTTL = s.Duration("max_ttl")
	}
	if set("frozen_write") {
		c.FrozenWrite = s.Flag("frozen_write")
	}
	if set("frozen_delete") {
		c.FrozenDelete = s.Flag("frozen_delete")
	}
	return c
}

// lifetimes reports a class whose default lifetime is above its maximum lifetime.
func (l *loader) lifetimes(s *decode.Section, c session.Class) {
	l.atMost(s, "default_ttl", c.DefaultTTL, "max_ttl", c.MaxTTL)
}

// atMost reports a written duration d of a block that is above most, the value of the attribute
// bound; most 0 means unlimited.
func (l *loader) atMost(s *decode.Section, attr string, d time.Duration, bound string, most time.Duration) {
	v := s.Attrs[attr]
	if most == 0 || d <= most || !v.Written {
		return
	}
	l.report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("%s in %s exceeds %s", attr, s.Node.Title(), bound),
		Range:    v.At,
		Path:     s.PathOf(attr),
		Expected: edn.Text(attr + " at most " + bound),
		Found:    edn.Text(fmt.Sprintf("%s and %s", language.FormatDuration(d.Milliseconds()), language.FormatDuration(most.Milliseconds()))),
	})
}

// bindingTarget reports a binding to a part of the request that acts do not have.
func (l *loader) bindingTarget(s *decode.Section) {
	target, _ := s.Texts("target")
	known := request.Keys()
	if len(target) == 0 || slices.Contains(known, target[0]) {
		return
	}
	v := s.Attrs["target"]
	at := v.At
	if len(v.Items) > 0 && v.Items[0].At != nil {
		at = v.Items[0].At
	}
	l.report.Add(diag.Diagnostic{
		Type:     "config/unknown-name",
		Message:  fmt.Sprintf("target in %s begins with %s, which is not a part of a request", s.Node.Title(), diag.Quote(target[0])),
		Range:    at,
		Path:     s.PathOf("target"),
		Expected: diag.Words(known),
		Found:    edn.Text(target[0]),
		Nearest:  diag.Nearest(target[0], known),
	})
}

// classes adds the declared classes. A class with the name of a shipped one overrides only the
// attributes that its block sets. A namespace must belong to one class.
func (l *loader) classes(s, vars *decode.Section, r *session.Rules) {
	declared := map[string]string{}
	r.ByNamespace = maps.Clone(r.ByNamespace)
	for _, b := range s.All("class") {
		base, shipped := r.Classes[b.Label()]
		if !shipped {
			base = classOf(vars, session.Class{})
		}
		r.Classes[b.Label()] = classOf(b, base)
		l.lifetimes(b, r.Classes[b.Label()])
		of, _ := b.Texts("namespaces")
		for _, ns := range of {
			if other := declared[ns]; other != "" {
				l.report.Add(diag.Diagnostic{
					Type:    "config/duplicate",
					Message: fmt.Sprintf("%s has the namespace %s, which class %s has too", b.Node.Title(), diag.Quote(ns), diag.Quote(other)),
					Range:   b.Attrs["namespaces"].At,
					Path:    b.PathOf("namespaces"),
					Found:   edn.Text(ns),
					Hint:    "remove it from one of them",
				})
			}
			if r.ByNamespace == nil {
				r.ByNamespace = map[string]string{}
			}
			declared[ns], r.ByNamespace[ns] = b.Label(), b.Label()
		}
	}
}

func accessOf(s *decode.Section) (a session.Access) {
	a.Read, _ = s.Texts("read_namespaces")
	a.Write, _ = s.Texts("write_namespaces")
	a.Delete, _ = s.Texts("delete_namespaces")
	return a
}

// accesses returns the shipped policies, with those of the same name replaced by the declared ones.
func accesses(shipped map[string]session.Access, declared []*decode.Section) map[string]session.Access {
	out := maps.Clone(shipped)
	if out == nil {
		out = map[string]session.Access{}
	}
	for _, b := range declared {
		out[b.Label()] = accessOf(b)
	}
	return out
}

// addBinding adds a declared binding. It replaces a shipped binding of the same variable.
func addBinding(s *decode.Section, r *session.Rules) {
	target, _ := s.Texts("target")
	r.Bindings = slices.DeleteFunc(r.Bindings, func(b session.Binding) bool { return b.Var == s.Label() })
	r.Bindings = append(r.Bindings, session.Binding{
		Var:      s.Label(),
		Target:   target,
		Coerce:   s.Text("coerce"),
		Required: s.Flag("required"),
	})
}
