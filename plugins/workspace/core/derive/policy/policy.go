package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The kinds of policies.
const (
	Concatenate store.Word = "concatenate"
	Summarize   store.Word = "summarize"
	Filter      store.Word = "filter"
	Custom      store.Word = "custom"
)

// The orders of the text. With store.BindsInputs it is always that of names; else the
// basis has the order of node and frame id.
const (
	OrderNode store.Word = "node"
	OrderName store.Word = "name"
)

// The headings of concatenated frames.
const (
	HeadingNone store.Word = "none"
	HeadingPath store.Word = "path"
)

// versions are the versions of the built-in kinds. A new version makes all frames of the kind
// stale.
var versions = map[store.Word]int{Concatenate: 1, Summarize: 1, Filter: 1}

// Policy is a parsed policy with its defaults filled in.
type Policy struct {
	Kind      store.Word
	Separator string     // of concatenate and filter
	Heading   store.Word // of concatenate and filter

	Types, Agents, Origins []string // of filter; nil selects all
	Name                   string   // glob on the name of the entry
	MinBytes, MaxBytes     int      // 0 means no limit
	MaxFrames              int      // 0 means no limit
	// FreshOnly makes the caller leave out frames that are not fresh when it
	// selects frames. Text does not check it.
	FreshOnly bool

	Intent        string // of custom: one of both
	Synthesizer   string
	Params        edn.Value
	Deterministic bool

	// Order and Truncate belong to the request; they change the text, so they are
	// part of the digest.
	Order    store.Word
	Truncate bool

	version string // of a registered synthesizer
}

// Synthesizer is a function that combines frames. It must be deterministic.
type Synthesizer struct {
	Name    string
	Version string
	Run     func(frames []Frame, params edn.Value) (string, error)
}

// Registry are the synthesizers by name.
type Registry map[string]Synthesizer

// ownIntents are the intents of a workspace that call others or change what a request is about to
// read. A request of the workspace that called one could call itself.
var ownIntents = []string{
	"context/generate", "context/synthesize", "context/regenerate", "context/batch", "workspace/watch",
}

// CheckIntent returns an error if a request of the workspace must not call intent (WS-095). at is
// the path of the intent in the input.
func CheckIntent(intent string, at ...edn.Value) error {
	if slices.Contains(ownIntents, intent) {
		return invalid(at, "the intent :%s of the workspace cannot be called from one of its own", intent)
	}
	return nil
}

func invalid(at []edn.Value, format string, args ...any) *contract.Error {
	return contract.Errorf("input/invalid", format, args...).WithDetail("path", edn.Vector(at...))
}

// reader reads the keys of a policy and records the first problem.
type reader struct {
	v    edn.Value
	at   []edn.Value
	seen map[string]bool
	err  error
}

func (r *reader) fail(key, format string, args ...any) { r.failAt(edn.K(key), format, args...) }

// failAt is fail for a key as it is written, which may be of any kind.
func (r *reader) failAt(key edn.Value, format string, args ...any) {
	if r.err == nil {
		r.err = invalid(append(slices.Clone(r.at), key), format, args...)
	}
}

func (r *reader) get(key string) edn.Value {
	r.seen[key] = true
	return r.v.Key(key)
}

func (r *reader) text(key, usual string) string {
	v := r.get(key)
	if v.IsNil() {
		return usual
	}
	s, ok := v.AsString()
	if !ok {
		r.fail(key, "a string is expected, found %s", v)
	}
	return s
}

func (r *reader) number(key string) int {
	v := r.get(key)
	if v.IsNil() {
		return 0
	}
	n, ok := v.AsInt()
	if !ok || n < 0 {
		r.fail(key, "a number that is not negative is expected, found %s", v)
	}
	return int(n)
}

func (r *reader) flag(key string) bool {
	v := r.get(key)
	b, ok := v.AsBool()
	if !ok && !v.IsNil() {
		r.fail(key, "true or false is expected, found %s", v)
	}
	return b
}

func (r *reader) word(key string, allowed ...store.Word) store.Word {
	v := r.get(key)
	if v.IsNil() {
		return allowed[0]
	}
	name, _ := v.AsKeyword()
	if !slices.Contains(allowed, store.Word(name)) {
		r.fail(key, "%s is not one of %s", v, words(allowed))
	}
	return store.Word(name)
}

func words(list []store.Word) string {
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = ":" + string(w)
	}
	return strings.Join(names, ", ")
}

// names reads a set of strings or keywords, sorted.
func (r *reader) names(key string) []string {
	v := r.get(key)
	if v.IsNil() {
		return nil
	}
	if !v.IsSet() && !v.IsVector() {
		r.fail(key, "a set of names is expected, found %s", v)
		return nil
	}
	list := []string{}
	for x := range v.Elems() {
		s, ok := x.AsString()
		if !ok {
			s, ok = x.AsKeyword()
		}
		if !ok {
			r.fail(key, "a name is expected, found %s", x)
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Parse reads a policy: a map, or the keyword of a kind. Nil is concatenate.
func Parse(v edn.Value, known Registry) (*Policy, error) {
	if name, ok := v.AsKeyword(); ok {
		v = edn.MustMap(edn.K("kind"), edn.K(name))
	}
	if v.IsNil() {
		v = edn.MustMap()
	}
	at := []edn.Value{edn.K("policy")}
	if !v.IsMap() {
		return nil, invalid(at, "a map or a keyword is expected, found %s", v)
	}
	r := &reader{v: v, at: at, seen: map[string]bool{}}
	p := &Policy{Kind: r.word("kind", Concatenate, Summarize, Filter, Custom), Order: OrderNode}
	switch p.Kind {
	case Concatenate, Filter:
		p.Separator, p.Heading = r.text("separator", "\n"), r.word("heading", HeadingNone, HeadingPath)
	case Custom:
		r.custom(p, known)
	}
	if p.Kind == Filter {
		p.Types, p.Agents, p.Origins, p.Name = r.names("types"), r.names("agents"), r.names("origins"), r.text("name", "")
		p.MinBytes, p.MaxBytes, p.MaxFrames = r.number("min-bytes"), r.number("max-bytes"), r.number("max-frames")
		p.FreshOnly = r.flag("fresh-only?")
		if _, err := path.Match(p.Name, ""); err != nil {
			r.fail("name", "%q is not a pattern", p.Name)
		}
	}
	for k := range v.Entries() {
		if name, ok := k.AsKeyword(); !ok || !r.seen[name] {
			r.failAt(k, "the policy %s has no key %s", p.Kind, k)
		}
	}
	return p, r.err
}

func (r *reader) custom(p *Policy, known Registry) {
	p.Params, p.Synthesizer = r.get("params"), r.text("synthesizer", "")
	if v := r.get("intent"); !v.IsNil() {
		var ok bool
		if p.Intent, ok = v.AsKeyword(); !ok {
			r.fail("intent", "a keyword is expected, found %s", v)
		} else if err := CheckIntent(p.Intent, append(slices.Clone(r.at), edn.K("intent"))...); err != nil && r.err == nil {
			r.err = err
		}
	}
	p.Deterministic = r.flag("deterministic?")
	switch {
	case (p.Intent == "") == (p.Synthesizer == ""):
		r.fail("intent", "a custom policy has either an intent or a synthesizer")
	case p.Synthesizer != "":
		s, ok := known[p.Synthesizer]
		if !ok {
			r.fail("synthesizer", "no synthesizer %q is registered", p.Synthesizer)
		}
		p.version, p.Deterministic = s.Version, true
	}
}

// Value returns the policy as data, with its defaults filled in. Parse accepts
// it.
func (p *Policy) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("kind", edn.K(string(p.Kind)))
	if p.Kind == Concatenate || p.Kind == Filter {
		b.Key("separator", edn.Text(p.Separator))
		b.Key("heading", edn.K(string(p.Heading)))
	}
	sets := map[string][]string{"types": p.Types, "agents": p.Agents, "origins": p.Origins}
	for key, list := range sets {
		if list == nil {
			continue
		}
		members := make([]edn.Value, len(list))
		for i, s := range list {
			members[i] = edn.Text(s)
		}
		b.Key(key, edn.MustSet(members...))
	}
	b.OptText("name", p.Name)
	b.OptInt("min-bytes", int64(p.MinBytes))
	b.OptInt("max-bytes", int64(p.MaxBytes))
	b.OptInt("max-frames", int64(p.MaxFrames))
	b.OptTrue("fresh-only?", p.FreshOnly)
	b.OptKeyword("intent", p.Intent)
	b.OptText("synthesizer", p.Synthesizer)
	b.Opt("params", p.Params)
	b.OptTrue("deterministic?", p.Deterministic && p.Synthesizer == "")
	return b.Map()
}

// Reads returns the properties of a selected frame, besides its id, on which the result of Text
// depends.
func (p *Policy) Reads(sel store.Selection) []store.Word {
	custom := p.Kind == Custom
	list := []store.Word{store.BoundName, store.BoundKind}
	if custom || sel.Type == store.EveryType {
		list = append(list, store.BoundType)
	}
	if custom || p.Agents != nil {
		list = append(list, store.BoundAgent)
	}
	if custom || p.Origins != nil {
		list = append(list, store.BoundOrigin)
	}
	return append(list, store.BoundContent)
}

// Digest returns a hash that identifies the policy, the version of its
// synthesizer, and everything else in the request that determines which frames
// are used or what the text is.
func (p *Policy) Digest(sel store.Selection) (string, error) {
	selection, err := edn.Encode(sel)
	if err != nil {
		return "", contract.Errorf("runtime/internal", "encode the selection of a synthesis: %w", err)
	}
	var b edn.MapBuilder
	b.Key("policy", p.Value())
	b.Key("selection", selection)
	b.Key("order", edn.K(string(p.Order)))
	b.OptTrue("truncate?", p.Truncate)
	b.Key("version", edn.Text(p.Version()))
	return edn.Hash(b.Map()), nil
}

// Version returns the version of the synthesizer.
func (p *Policy) Version() string {
	if p.Kind == Custom {
		return p.version
	}
	return fmt.Sprint(versions[p.Kind])
}

// Sampled reports whether equal frames can give different texts.
func (p *Policy) Sampled() bool { return p.Kind == Custom && !p.Deterministic }

// CheckWord returns an error unless found is one of the allowed words. key is its
// key in the input.
func CheckWord(key string, found store.Word, allowed []store.Word) error {
	if slices.Contains(allowed, found) {
		return nil
	}
	return invalid([]edn.Value{edn.K(key)}, ":%s is not one of %s", found, words(allowed))
}
