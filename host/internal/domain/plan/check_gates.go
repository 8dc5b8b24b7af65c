package plan

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// gates reports must checks that no answer of a node can pass: checks that
// nothing provides, and checks provided only by the candidates whose answers
// they judge. It warns of checks that require input which neither the node nor
// its answer names.
func (c *checker) gates(p *Plan, n *Node, l *policy.Layer) {
	look := func(name string, where ...edn.Value) {
		path := p.path(n.Index, where...)
		check, ok := c.env.Registry.Check(name)
		switch {
		case !ok:
			c.bad(checkMust, path, edn.Nil(), "nothing provides the must check :%s in %s", name, showPath(path))
		case check.Kind != registry.CheckCapability:
		case len(c.env.Registry.Candidates(check.Intent)) == 0:
			c.bad(checkMust, path, edn.Nil(), "nothing provides the must check :%s, which asks for :%s, in %s", name,
				check.Intent, showPath(path))
		case n.Candidates == nil && !c.judgeable(n, l, check):
			c.bad(checkMust, path, edn.Nil(),
				"nothing that may judge the candidates provides the must check :%s, which asks for :%s, in %s",
				name, check.Intent, showPath(path))
		default:
			if keys := c.lacks(n, check); len(keys) > 0 {
				c.warn(checkMust, path,
					"the must check :%s asks for :%s, and its input lacks %s: request and answer do not name it, in %s",
					name, check.Intent, strings.Join(keys, " and "), showPath(path))
			}
		}
	}
	key := kIntent
	if n.Op == OpTool {
		key = kToolID
	}
	for _, name := range c.inheritedMusts(n.Intent) {
		if c.faces(n, name) {
			look(name, key)
		}
	}
	if n.Layer == nil {
		return
	}
	own := func(list policy.Names, where ...edn.Value) {
		for i := range list {
			// Unknown names are reported by checks.
			if _, ok := c.env.Registry.Check(list[i].Name); ok {
				look(list[i].Name, where...)
			}
		}
	}
	own(n.Layer.Must, kDone, kMust)
	own(n.Layer.Checks.Base.V, kDispatch, kChecksHard)
	own(n.Layer.Checks.Add.V, kDispatch, kChecks)
}

// faces reports whether a must check of a weaker layer applies to the node. A
// hard list of the node replaces weaker checks, but not weaker must lists.
func (c *checker) faces(n *Node, name string) bool {
	return n.Layer == nil || !n.Layer.Checks.Base.Set || c.env.base(n.Intent).Must.Has(name)
}

// inheritedMusts returns those must checks of the weaker layers of an intent that call a capability
// or that nothing provides.
func (c *checker) inheritedMusts(intent string) []string {
	if list, ok := c.mustOf[intent]; ok {
		return list
	}
	var list []string
	l := c.env.base(intent)
	for _, names := range []policy.Names{l.Must, l.Checks.Names()} {
		for i := range names {
			if check, ok := c.env.Registry.Check(names[i].Name); !ok || check.Kind == registry.CheckCapability {
				list = append(list, names[i].Name)
			}
		}
	}
	if c.mustOf == nil {
		c.mustOf = make(map[string][]string)
	}
	c.mustOf[intent] = list
	return list
}

// judgeable reports whether any capability may serve a check of a node's
// answer. It is true for a node without candidates.
func (c *checker) judgeable(n *Node, l *policy.Layer, check *registry.Check) bool {
	d := c.env.Demand(n, l)
	authors := d.Bind().Accepted
	return len(authors) == 0 ||
		slices.ContainsFunc(authors, func(author string) bool { return policy.Judgeable(c.env.Registry, check, author) })
}

// lacks returns the keys that the intent of a check requires and that neither
// the request of the node, nor its answer, nor the parameters of the check name
// (GATE-009). Of several alternatives it returns the keys of the first. Open
// maps may hold more keys than they name, so these keys may be present
// nevertheless. A check that does not apply to every answer lacks nothing.
func (c *checker) lacks(n *Node, check *registry.Check) []string {
	in, known := c.env.Registry.Schema(c.env.Registry.InSchema(check.Intent, ""))
	out, described := c.env.Registry.Schema(c.env.outSchema(n))
	if check.Conditional || !known || !described {
		return nil
	}
	answers, all := alternatives([]*schema.Schema{out}, nil, 0)
	nameless := func(s *schema.Schema) bool { return s.Kind() != schema.KindMap || len(s.Entries()) == 0 }
	if !all || slices.ContainsFunc(answers, nameless) {
		return nil
	}
	wanted, all := alternatives([]*schema.Schema{in}, nil, 0)
	if !all {
		return nil
	}
	given := func(key edn.Value) bool {
		named := func(s *schema.Schema) bool { _, has := s.Entry(key); return has }
		return key.String() == ":check/request" || key.String() == ":check/result" ||
			check.Params.IsMap() && check.Params.Has(key) || slices.ContainsFunc(answers, named) || c.mayHave(n, key)
	}
	var missing []string
	for _, s := range wanted {
		var lacking []string
		for _, e := range s.Entries() {
			if !e.Optional && !given(e.Key) {
				lacking = append(lacking, e.Key.String())
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		if missing == nil {
			missing = lacking
		}
	}
	return missing
}

// mayHave reports whether the input of a node may have a key.
func (c *checker) mayHave(n *Node, key edn.Value) bool {
	return !n.Input.Constant() && n.Input.root.kind == partSlot || n.Input.Source().IsMap() && n.Input.Source().Has(key)
}

// learned warns of a call with the ordering policy.Learning and without an
// objective must check: its outcomes would only be the grades of a judge.
func (c *checker) learned(p *Plan, n *Node) {
	base := c.env.base(n.Intent)
	ordering, path := base.Ordering, p.path(n.Index, kIntent)
	if n.Layer != nil && n.Layer.Ordering.Set {
		ordering, path = n.Layer.Ordering, p.path(n.Index, kDispatch, kPolicy)
	}
	if ordering.V != policy.Learning {
		return
	}
	all := *base
	if n.Layer != nil {
		all = policy.Merge(*base, *n.Layer)
	}
	if !all.HasMustBesides(quality.SchemaValid) {
		c.warn(checkLearned, path, "the policy :learned has no must check besides schema-valid to learn from, so it learns "+
			"only from a judge, or that every answer passes; add one to :done :must, in %s", showPath(path))
	}
}
