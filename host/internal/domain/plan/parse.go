package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Option configures Parse.
type Option func(*parser)

// WithLimits replaces DefaultLimits.
func WithLimits(l Limits) Option { return func(ps *parser) { ps.limits = l } }

// Depth sets the number of levels of plans, maps and host calls around the
// plan.
func Depth(levels int) Option { return func(ps *parser) { ps.depth = levels } }

// Parse parses a plan value. Positions may be nil. The findings cover everything that the value
// alone shows; Check includes them in its own. The plan is nil only if v is not a map with a vector
// or list under :nodes. It must not run if any finding is an error.
func Parse(v edn.Value, pos *edn.Positions, opts ...Option) (*Plan, []Finding) {
	ps := &parser{limits: DefaultLimits()}
	for _, o := range opts {
		o(ps)
	}
	if pos != nil {
		ps.at = &locator{pos: pos}
	}
	p := ps.plan(v, ps.depth)
	fs := ps.at.settle(ps.list)
	if p != nil {
		p.findings, p.at = fs, ps.at
	}
	return p, fs
}

// parser is the state of one Parse.
type parser struct {
	findings
	at     *locator
	limits Limits
	depth  int
	// nodes counts the nodes of all nested plans.
	nodes int
	// cur is the path from the root of the text to the value being parsed.
	cur []edn.Value
}

// in calls read with the current path extended by step.
func (ps *parser) in(step edn.Value, read func()) {
	ps.cur = append(ps.cur, step)
	read()
	ps.cur = ps.cur[:len(ps.cur)-1]
}

// guess reads the value under the current path as that of a known key that the written one
// resembles. A value or a place that does not fit that key is not reported, because the
// written key may mean another one.
func (ps *parser) guess(read func()) {
	before, at := len(ps.list), slices.Clone(ps.cur)
	read()
	kept := ps.list[:before]
	for _, f := range ps.list[before:] {
		if (f.Check == checkType || f.Check == checkUnknownKey) && comparePaths(f.Path, at) == 0 {
			ps.errors--
			continue
		}
		kept = append(kept, f)
	}
	ps.list = kept
}

// noNodes reports a plan without nodes, at the key that resembles :nodes if
// there is one.
func (ps *parser) noNodes(v edn.Value) {
	for key := range v.Entries() {
		if name, _ := asKeyword(key).AsKeyword(); nearestName(name, []string{"nodes"}) != "" {
			ps.in(key, func() { ps.unknownKey(key, []string{"nodes"}) })
			return
		}
	}
	ps.bad(checkType, ":nodes is missing in %s", showPath(ps.cur))
}

// plan parses a plan map; nil if v is not one.
func (ps *parser) plan(v edn.Value, depth int) *Plan {
	if v.Kind() != edn.KindMap {
		ps.bad(checkType, "wanted a map with :nodes, got %s, in %s", show(v), showPath(ps.cur))
		return nil
	}
	nodes, ok := v.Get(kNodes)
	if !ok {
		ps.noNodes(v)
		return nil
	}
	p := &Plan{Mode: Hybrid, MaxParallel: defaultPlanParallel, Source: v, depth: depth}
	for key, val := range v.Entries() {
		ps.in(key, func() { ps.planKey(p, key, val) })
	}
	ps.in(kNodes, func() {
		if k := nodes.Kind(); k != edn.KindVector && k != edn.KindList {
			ps.bad(checkType, ":nodes is a vector of maps, not %s, in %s", show(nodes), showPath(ps.cur))
			p = nil
			return
		}
		ps.body(p, nodes)
	})
	return p
}

// planKey parses one entry of a plan map, except the nodes.
func (ps *parser) planKey(p *Plan, key, v edn.Value) {
	name, _ := key.AsKeyword()
	switch name {
	case "nodes":
	case "id":
		id, ok := planID(v)
		if !ok {
			ps.wrong(v, "a string or a keyword")
		}
		p.ID = id
	case "bindings":
		if ps.bindings(v) {
			p.Bindings = v
		}
	case "mode":
		mode, ok := parseMode(v)
		if !ok {
			ps.wrongName(v, ":strict, :lazy or :hybrid", modeNames[:])
		}
		p.Mode = mode
	case "max-parallel":
		if n, ok := ps.integer(v, 1, ps.limits.MaxParallel, checkLimit); ok {
			p.MaxParallel = n
		}
	default:
		if near, ok := ps.unknownKey(key, planKeyNames).AsKeyword(); ok && !p.Source.Has(edn.K(near)) {
			ps.guess(func() { ps.planKey(p, edn.K(near), v) })
		}
	}
}

// planID returns the non-empty string or the keyword that is used as an id.
func planID(v edn.Value) (string, bool) {
	if s, ok := v.AsString(); ok && s != "" {
		return s, true
	}
	return v.AsKeyword()
}

func parseMode(v edn.Value) (Mode, bool) {
	name, _ := v.AsKeyword()
	i := slices.Index(modeNames[:], name)
	if i < 0 {
		return Hybrid, false
	}
	return Mode(i), true
}

// bindings checks the keys of bindings and warns of slot maps: bindings are
// constants (SLOT-002).
func (ps *parser) bindings(v edn.Value) bool {
	if v.Kind() != edn.KindMap {
		ps.wrong(v, "a map")
		return false
	}
	for key, val := range v.Entries() {
		ps.in(key, func() {
			if key.Kind() != edn.KindKeyword {
				ps.wrong(key, "a keyword as the name of a binding")
			}
			if isSlot, _ := slotShape(val); isSlot {
				ps.warn(checkSlotLike, "a slot in :bindings is data in %s; the plan sees the environment itself", showPath(ps.cur))
			}
		})
	}
	return true
}

// body parses the nodes of a plan or of a map; the current path is that of the
// nodes.
func (ps *parser) body(p *Plan, nodes edn.Value) {
	sc := ps.begin(p, nodes.Len())
	if sc == nil {
		return
	}
	i := 0
	for v := range nodes.Elems() {
		ps.in(edn.Int(int64(i)), func() { sc.readNode(i, v) })
		i++
	}
	for i := range p.Nodes {
		if v, ok := sc.needed[i]; ok {
			ps.in(edn.Int(int64(i)), func() { ps.in(kNeeds, func() { sc.resolveNeeds(i, v) }) })
		}
	}
}

// begin allocates n nodes; nil if they are too many.
func (ps *parser) begin(p *Plan, n int) *scope {
	p.nodesPath = slices.Clone(ps.cur)
	if limit := min(ps.limits.Nodes, ps.limits.RunNodes-ps.nodes); n > limit {
		ps.bad(checkLimit, "%d nodes are more than the limit of %d in %s", n, max(limit, 0), showPath(ps.cur))
		p.truncated = true
		return nil
	}
	ps.nodes += n
	p.Nodes = make([]Node, n)
	p.writers = make(map[string]int, n)
	p.reads = make([]read, 0, n)
	ids := make(map[string]int, n)
	return &scope{parser: ps, plan: p, ids: ids}
}

// resolveNeeds converts the ids that node i waits for to indices.
func (sc *scope) resolveNeeds(i int, v edn.Value) {
	n := &sc.plan.Nodes[i]
	j := 0
	for e := range v.Elems() {
		sc.in(edn.Int(int64(j)), func() {
			id, ok := planID(e)
			if !ok {
				sc.wrong(e, "the id of a node")
				return
			}
			k, ok := sc.ids[id]
			if !ok && sc.unreadID {
				return // the invalid id may be the one meant
			}
			if !ok {
				if by := slices.IndexFunc(sc.plan.Nodes, func(n Node) bool { return n.As == id }); by >= 0 {
					sc.bad(checkType, "%s in %s is the slot of node %d, not the id of a node: add :id %s to that node",
						strconv.Quote(id), showPath(sc.cur), by, strconv.Quote(id))
					return
				}
				near := sc.nearestID(id, i)
				sc.badNear(checkType, near, "no node has the id %s in %s", strconv.Quote(id), showPath(sc.cur))
				return
			}
			if !slices.Contains(n.Needs, k) {
				n.Needs = append(n.Needs, k)
			}
		})
		j++
	}
}

// nearestID returns the id of another node than node i that is most similar to id, or nil. Ids of
// one or two characters all resemble each other.
func (sc *scope) nearestID(id string, i int) edn.Value {
	const least = 3
	if len(id) < least {
		return edn.Nil()
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(sc.ids)), func(k string) bool {
		return len(k) < least || sc.ids[k] == i
	})
	if near := nearestName(id, known); near != "" {
		return edn.Text(near)
	}
	return edn.Nil()
}

// path returns the path of node i in the text, extended by more steps.
func (p *Plan) path(i int, more ...edn.Value) []edn.Value {
	if p.fn != nil {
		i = p.fn.node
		if len(more) > 0 && !p.fn.intent && edn.Equal(more[0], kIntent) {
			more = []edn.Value{kFn}
		}
	}
	out := make([]edn.Value, 0, len(p.nodesPath)+1+len(more))
	out = append(out, p.nodesPath...)
	out = append(out, edn.Int(int64(i)))
	out = append(out, more...)
	if len(more) > 0 && p.fn == nil {
		out[len(p.nodesPath)+1] = p.Nodes[i].asWritten(more[0])
	}
	return out
}

// bad reports an error about the value under the current path.
func (ps *parser) bad(check, format string, args ...any) {
	ps.badNear(check, edn.Nil(), format, args...)
}

// badNear is bad with a known name that resembles the written one.
func (ps *parser) badNear(check string, near edn.Value, format string, args ...any) {
	if !ps.full(Error) {
		ps.add(Finding{
			Check:   check,
			Path:    slices.Clone(ps.cur),
			Nearest: near,
			Message: fmt.Sprintf(format, args...) + suggest(near),
		})
	}
}

// warn reports a warning about the value under the current path.
func (ps *parser) warn(check, format string, args ...any) {
	if !ps.full(Warning) {
		ps.add(Finding{Check: check, Severity: Warning, Path: slices.Clone(ps.cur), Message: fmt.Sprintf(format, args...)})
	}
}

// wrong reports a value of the wrong type.
func (ps *parser) wrong(got edn.Value, wanted string) {
	if !ps.full(Error) {
		ps.bad(checkType, "wanted %s, got %s, in %s", wanted, show(got), showPath(ps.cur))
	}
}

// wrongName is wrong for one of a few keywords.
func (ps *parser) wrongName(got edn.Value, wanted string, known []string) {
	name, _ := got.AsKeyword()
	ps.badNear(checkType, nearest(name, known), "wanted %s, got %s, in %s", wanted, show(got), showPath(ps.cur))
}

// badKey reports an error about the key at the end of the current path.
func (ps *parser) badKey(check string, near edn.Value, format string, args ...any) {
	if !ps.full(Error) {
		ps.badNear(check, near, format, args...)
		ps.list[len(ps.list)-1].key = true
	}
}

// badAgain reports an error about the key at the end of the current path, which repeats the key
// under first.
func (ps *parser) badAgain(first []edn.Value, format string, args ...any) {
	if !ps.full(Error) {
		ps.badKey(checkDuplicate, edn.Nil(), format+"; first at %s", append(args, ps.at.describe(first))...)
		ps.list[len(ps.list)-1].elsewhere = first
	}
}

// unknownKey reports the unknown key at the end of the current path and returns
// the known key that it resembles most, nil for none.
func (ps *parser) unknownKey(key edn.Value, known []string) (near edn.Value) {
	name, _ := asKeyword(key).AsKeyword()
	near = nearest(name, known)
	if ps.full(Error) {
		return near
	}
	ps.badKey(checkUnknownKey, near, "unknown key %s in %s", show(key), showPath(ps.cur[:len(ps.cur)-1]))
	if near.IsNil() {
		ps.list[len(ps.list)-1].Expected = slices.Sorted(slices.Values(known))
	}
	return near
}

// tooMany reports a count above its limit.
func (ps *parser) tooMany(n, limit int, what string) {
	ps.bad(checkLimit, "%d %s are more than the limit of %d in %s", n, what, limit, showPath(ps.cur))
}

// integer parses an int within a range; a value above it is reported under the
// check.
func (ps *parser) integer(v edn.Value, lo, hi int, check string) (int, bool) {
	n, ok := v.AsInt()
	if !ok {
		ps.wrong(v, "an integer")
		ps.inMilliseconds(v)
		return 0, false
	}
	if n < int64(lo) {
		check = checkType
	}
	if n < int64(lo) || n > int64(hi) {
		ps.bad(check, "wanted an integer from %d to %d, got %d, in %s", lo, hi, n, showPath(ps.cur))
		return 0, false
	}
	return int(n), true
}

// inMilliseconds adds a hint to the last finding if v is a duration such as "5s" under a
// key that ends in -ms: the same time in milliseconds.
func (ps *parser) inMilliseconds(v edn.Value) {
	text, _ := v.AsString()
	last := ps.cur[len(ps.cur)-1].String()
	d, err := time.ParseDuration(text)
	if err == nil && d > 0 && strings.HasSuffix(last, "-ms") && !ps.full(Error) {
		ps.list[len(ps.list)-1].Hint = fmt.Sprintf("write it in milliseconds: %d", d.Milliseconds())
	}
}

// keyword parses a keyword.
func (ps *parser) keyword(v edn.Value) (string, bool) {
	name, ok := v.AsKeyword()
	if !ok {
		ps.badNear(checkType, asKeyword(v), "wanted a keyword, got %s, in %s", show(v), showPath(ps.cur))
	}
	return name, ok
}

// asKeyword returns the keyword that a keyword, a string or a symbol names, nil
// for other values.
func asKeyword(v edn.Value) edn.Value {
	name, ok := v.AsString()
	if !ok {
		name, ok = v.AsSymbol()
	}
	if !ok {
		name, _ = v.AsKeyword()
	}
	k, err := edn.Keyword(strings.TrimPrefix(name, ":"))
	if err != nil {
		return edn.Nil()
	}
	return k
}

// keywords parses a set, vector or list of keywords.
func (ps *parser) keywords(v edn.Value) ([]string, bool) {
	if !isCollection(v) {
		near := edn.Nil()
		if _, ok := v.AsKeyword(); ok {
			near = edn.SetOf(v)
		}
		ps.badNear(checkType, near, "wanted a set of keywords, got %s, in %s", show(v), showPath(ps.cur))
		return nil, false
	}
	list := make([]string, 0, v.Len())
	i := 0
	for e := range v.Elems() {
		if name, ok := e.AsKeyword(); ok {
			list = append(list, name)
		} else {
			ps.in(elementStep(v, e, i), func() { ps.keyword(e) })
		}
		i++
	}
	return list, len(list) == v.Len()
}

// elementStep is the path step to element e at index i of a collection.
func elementStep(v, e edn.Value, i int) edn.Value {
	if v.Kind() == edn.KindSet {
		return e
	}
	return edn.Int(int64(i))
}

func isCollection(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindSet, edn.KindVector, edn.KindList:
		return true
	}
	return false
}
