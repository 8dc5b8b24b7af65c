package report

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Sections are the names of the sections of a report.
var Sections = []string{"coverage", "states", "origins", "authored-stale", "models", "directories", "validation"}

// largest is the maximum number of directories in a report.
const largest = 10

// Request determines the content of a report.
type Request struct {
	Sections []string // all if empty
	FailOn   []Condition
	// Validation is the validation of the store, nil if it was not validated.
	Validation *Validation
	// Inexact are the reasons why ids can differ from git's, of all paths.
	Inexact []Inexact
}

// Needs reports whether a condition is about the validation of the store, and
// whether one is about differences to git's ids.
func (r Request) Needs() (validation, inexact bool) {
	for _, c := range r.FailOn {
		validation = validation || c.Kind == "invalid"
		inexact = inexact || c.Kind == "inexact"
	}
	return validation, inexact
}

// Inexact is a path whose ids can differ from git's.
type Inexact struct{ Path, Reason string }

// Report is the result of report. A section that was not requested is absent.
type Report struct {
	Nodes         Counts       `edn:"nodes"`
	Coverage      []Coverage   `edn:"coverage,omitempty"`
	States        []TypeCounts `edn:"states,omitempty"`
	Origins       []TypeCounts `edn:"origins,omitempty"`
	AuthoredStale []HeadRef    `edn:"authored-stale,omitempty"`
	Models        []Usage      `edn:"models,omitempty"`
	Directories   []Directory  `edn:"directories,omitempty"`
	Validation    *Validation  `edn:"validation,omitempty"`
	FailOn        *Verdict     `edn:"fail-on,omitempty"`

	findings []finding
}

// Coverage is the number of nodes that have a head of a type. It counts only
// kinds of nodes of which at least one has such a head: a type that only
// directories have is not missing on files.
type Coverage struct {
	Type    string  `edn:"frame/type"`
	Kinds   kinds   `edn:"kinds"`
	With    int     `edn:"with"`
	Without int     `edn:"without"`
	Fresh   int     `edn:"fresh"`
	Percent float64 `edn:"pct"` // rounded to one digit
	// Agents are the numbers of heads by agent.
	Agents map[string]int `edn:"agents"`

	missing []string
}

// kinds are kinds of nodes, as keywords.
type kinds []string

// MarshalEDN writes a vector of keywords.
func (k kinds) MarshalEDN() ([]byte, error) {
	list := make([]edn.Value, len(k))
	for i, name := range k {
		list[i] = edn.K(name)
	}
	return edn.Vector(list...).Canonical(), nil
}

// TypeCounts are the heads of a type by state or origin.
type TypeCounts struct {
	Type  string `edn:"frame/type"`
	Heads Counts `edn:"heads"`
}

// HeadRef identifies a head.
type HeadRef struct {
	store.Place
	Type  string `edn:"frame/type"`
	Frame id.ID  `edn:"frame/id"`
	Agent string `edn:"agent/id"`

	path string
}

// Usage is the usage of a model. Numbers that a frame does not state are not
// counted.
type Usage struct {
	Provider  string    `edn:"provider,omitempty"`
	Model     string    `edn:"model,omitempty"`
	Cap       edn.Value `edn:"cap/id,omitempty"`
	Frames    int       `edn:"frames"`
	TokensIn  int64     `edn:"tokens-in"`
	TokensOut int64     `edn:"tokens-out"`
	Cost      edn.Value `edn:"cost-usd,omitempty"`
}

// Directory is a directory with the totals of its content.
type Directory struct {
	store.Place
	Bytes int64 `edn:"bytes"` // of files and links
	Files int   `edn:"files"`
	Dirs  int   `edn:"dirs"`

	path string
}

// New returns the report of a state. It returns workspace/unscanned if f has no
// tree, and runtime/internal if a condition needs a validation that the request
// does not have, because that condition would never be met.
func New(f *Facts, r Request) (*Report, error) {
	if f.Tree == nil {
		return nil, contract.Errorf("workspace/unscanned", "nothing was scanned").WithOp("report", "")
	}
	if needed, _ := r.Needs(); needed && r.Validation == nil {
		return nil, contract.Errorf("runtime/internal", "a condition is about a validation that was not made").WithOp("report", "")
	}
	out := &Report{Nodes: Counts{"file": 0, "dir": 0}}
	for i := range f.Paths {
		out.Nodes[f.Paths[i].Mode.Kind()]++
	}
	has := func(section string) bool { return len(r.Sections) == 0 || slices.Contains(r.Sections, section) }
	covered, behind := coverage(f), authoredStale(f)
	if has("coverage") {
		out.Coverage = covered
	}
	if has("states") {
		out.States = byType(f, func(h *store.HeadInfo) string { return string(h.State) })
	}
	if has("origins") {
		out.Origins = byType(f, func(h *store.HeadInfo) string { return string(h.Origin) })
	}
	if has("authored-stale") {
		out.AuthoredStale = behind
	}
	if has("models") {
		out.Models = usage(f)
	}
	if has("directories") {
		out.Directories = directories(f)
	}
	if has("validation") {
		out.Validation = r.Validation.listed()
	}
	out.judge(f, r, covered, behind)
	return out, nil
}

// ParseSections returns the names of sections in v. A nil value gives nil.
func ParseSections(v edn.Value) (list []string, err error) {
	if v.IsNil() {
		return nil, nil
	}
	if !v.IsVector() && !v.IsSet() && !v.IsList() {
		return nil, badInput("sections", "expected a list of sections, found %.80s", v)
	}
	for x := range v.Elems() {
		name, _ := x.AsKeyword()
		if !slices.Contains(Sections, name) {
			return nil, badInput("sections", "%.80s is not a section: one of %s is expected", x, list2(Sections))
		}
		list = append(list, name)
	}
	return list, nil
}

// coverage returns the coverage of each type, sorted by type.
func coverage(f *Facts) []Coverage {
	byType := map[string]*Coverage{}
	for i := range f.Paths {
		p := &f.Paths[i]
		for _, h := range p.Heads {
			c := byType[h.Type]
			if c == nil {
				c = &Coverage{Type: h.Type, Agents: map[string]int{}}
				byType[h.Type] = c
			}
			if k := p.Mode.Kind(); !slices.Contains(c.Kinds, k) {
				c.Kinds = append(c.Kinds, k)
			}
		}
	}
	list := make([]Coverage, 0, len(byType))
	for _, c := range byType {
		slices.Sort(c.Kinds)
		c.count(f)
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Coverage) int { return cmp.Compare(a.Type, b.Type) })
	return list
}

// count fills a coverage whose kinds are known.
func (c *Coverage) count(f *Facts) {
	for i := range f.Paths {
		p := &f.Paths[i]
		if !slices.Contains(c.Kinds, p.Mode.Kind()) {
			continue
		}
		at := slices.IndexFunc(p.Heads, func(h store.HeadInfo) bool { return h.Type == c.Type })
		if at < 0 {
			c.Without++
			c.missing = append(c.missing, p.Path)
			continue
		}
		c.With++
		c.Agents[p.Heads[at].Agent]++
		if p.Heads[at].State == store.Fresh {
			c.Fresh++
		}
	}
	c.Percent = percent(c.With, c.With+c.Without)
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(float64(part)*1000/float64(whole)) / 10
}

// byType counts the heads of each type by a name.
func byType(f *Facts, name func(*store.HeadInfo) string) []TypeCounts {
	counts := map[string]Counts{}
	add := func(h *store.HeadInfo) {
		if counts[h.Type] == nil {
			counts[h.Type] = Counts{}
		}
		counts[h.Type][name(h)]++
	}
	f.heads(func(_ string, h *store.HeadInfo) { add(h) })
	for i := range f.Gone {
		add(&f.Gone[i])
	}
	list := make([]TypeCounts, 0, len(counts))
	for t, c := range counts {
		list = append(list, TypeCounts{t, c})
	}
	slices.SortFunc(list, func(a, b TypeCounts) int { return cmp.Compare(a.Type, b.Type) })
	return list
}

// authoredStale lists the heads that a person has to write again.
func authoredStale(f *Facts) (list []HeadRef) {
	for i := range f.Paths {
		for _, h := range f.Paths[i].Heads {
			if h.Origin == store.Authored && h.State == store.Stale {
				list = append(list, refOf(f.Paths[i].Path, &h))
			}
		}
	}
	return list
}

func refOf(path string, h *store.HeadInfo) HeadRef {
	return HeadRef{Place: store.PlaceOf(path), Type: h.Type, Frame: h.Frame, Agent: h.Agent, path: path}
}

// usage returns the summed usage of each model, sorted by provider, model and capability.
func usage(f *Facts) []Usage {
	type key struct{ provider, model, capability string }
	sums, costs := map[key]*Usage{}, map[key]*big.Rat{}
	for _, frame := range f.Generated {
		provider, used := frame.Meta.Key("provider"), frame.Meta.Key("usage")
		name, _ := provider.Key("name").AsString()
		model, _ := provider.Key("model").AsString()
		k := key{name, model, frame.Meta.Key("cap/id").String()}
		u := sums[k]
		if u == nil {
			u = &Usage{Provider: name, Model: model, Cap: frame.Meta.Key("cap/id")}
			sums[k] = u
		}
		in, _ := used.Key("tokens-in").AsInt()
		out, _ := used.Key("tokens-out").AsInt()
		u.Frames, u.TokensIn, u.TokensOut = u.Frames+1, u.TokensIn+in, u.TokensOut+out
		if cost, ok := used.Key("cost-usd").AsNumber(); ok {
			if costs[k] == nil {
				costs[k] = new(big.Rat)
			}
			costs[k].Add(costs[k], cost)
		}
	}
	list := make([]Usage, 0, len(sums))
	for k, u := range sums {
		if costs[k] != nil {
			u.Cost = money(costs[k])
		}
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model), edn.Compare(a.Cap, b.Cap))
	})
	return list
}

// money returns an amount as a decimal, rounded to 12 digits if it is not one.
func money(r *big.Rat) edn.Value {
	if v, err := edn.RatDecimal(r); err == nil {
		return v
	}
	v, err := edn.ParseDecimal(r.FloatString(12))
	if err != nil {
		return edn.Nil()
	}
	return v
}

// directories returns the largest directories.
func directories(f *Facts) []Directory {
	at := map[string]*Directory{}
	dir := func(path string) *Directory {
		d := at[path]
		if d == nil {
			d = &Directory{Place: store.PlaceOf(path), path: path}
			at[path] = d
		}
		return d
	}
	for i := range f.Paths {
		p := &f.Paths[i]
		isDir := p.Mode == id.Dir
		if isDir {
			dir(p.Path)
		}
		for up := p.Path; up != f.Part; {
			up = tree.Parent(up)
			if d := dir(up); isDir {
				d.Dirs++
			} else {
				d.Files++
				d.Bytes += p.Size
			}
		}
	}
	list := make([]Directory, 0, len(at))
	for _, d := range at {
		list = append(list, *d)
	}
	slices.SortFunc(list, func(a, b Directory) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.path, b.path)) })
	return list[:min(len(list), largest)]
}
