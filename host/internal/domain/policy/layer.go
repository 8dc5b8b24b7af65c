package policy

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Source is the kind of a layer, from the weakest to the strongest.
type Source uint8

// The layers of POL-001, weak to strong.
const (
	SourceBuiltin Source = iota
	SourceDefault
	SourceIntent
	SourceRouting
	SourceMeta
	SourceRequest
	SourceNode
)

var sourceNames = [...]string{"built-in", "default", "intent", "routing", "meta", "request", "node"}

// String returns the name that explain prints.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown"
}

// Origin is the layer that wrote a value and the place where it is written.
type Origin struct {
	Source Source
	// Where is "file:line:column" or a node path, empty if there is no text.
	Where string
}

// Val is a value that a layer may leave unwritten.
type Val[T any] struct {
	V      T
	Set    bool
	Origin Origin
}

// Of returns a Val that is set to v.
func Of[T any](v T, from Origin) Val[T] { return Val[T]{V: v, Set: true, Origin: from} }

// Or returns the value, or d if it was not written.
func (v Val[T]) Or(d T) T {
	if v.Set {
		return v.V
	}
	return d
}

// nearest returns the stronger value if it was written.
func nearest[T any](weak, strong Val[T]) Val[T] {
	if strong.Set {
		return strong
	}
	return weak
}

// Name is one member of a list that several layers add to.
type Name struct {
	Name   string
	Origin Origin
}

// Names is a list without duplicates, in the order of first mention.
type Names []Name

// NamesOf makes a list that one layer wrote; duplicates are dropped.
func NamesOf(from Origin, names ...string) Names {
	var out Names
	for _, n := range names {
		if !out.Has(n) {
			out = append(out, Name{Name: n, Origin: from})
		}
	}
	return out
}

// Has reports whether the list holds the name.
func (n Names) Has(name string) bool {
	for i := range n {
		if n[i].Name == name {
			return true
		}
	}
	return false
}

// Strings returns the names alone, in order.
func (n Names) Strings() []string {
	if len(n) == 0 {
		return nil
	}
	out := make([]string, len(n))
	for i := range n {
		out[i] = n[i].Name
	}
	return out
}

// union appends the members of strong that weak lacks. Both operands stay
// untouched.
func union(weak, strong Names) Names {
	if len(weak) == 0 {
		return strong
	}
	var out Names
	for _, n := range strong {
		if !weak.Has(n.Name) {
			if out == nil {
				out = append(make(Names, 0, len(weak)+len(strong)), weak...)
			}
			out = append(out, n)
		}
	}
	if out == nil {
		return weak
	}
	return out
}

// Additive is a list that stronger layers add to or replace. Base, if written,
// replaces the members of all weaker layers; Add extends it.
type Additive struct {
	// Base is written by a replacing key (`:switch-on/replace`, `:checks/hard`).
	Base Val[Names]
	// Add is written by the adding key (`:switch-on`, `:checks`).
	Add Val[Names]
}

// Written reports whether any layer wrote the list, even an empty one.
func (a Additive) Written() bool { return a.Base.Set || a.Add.Set }

// Names returns the effective list.
func (a Additive) Names() Names { return union(a.Base.V, a.Add.V) }

func mergeAdditive(weak, strong Additive) Additive {
	if strong.Base.Set {
		return strong
	}
	out := Additive{Base: weak.Base, Add: weak.Add}
	if strong.Add.Set {
		if !weak.Add.Set {
			out.Add = strong.Add
		} else {
			out.Add.V = union(weak.Add.V, strong.Add.V)
		}
	}
	return out
}

// Requires holds the requirements of a caller on the capability (contracts.md
// ENV-003). Two different values for one key are a contradiction.
type Requires struct {
	InSchema   Val[string]
	OutSchema  Val[string]
	ResultType Val[string]
	CapKind    Val[string]
	CapTags    Val[[]string]
	Effects    Val[[]string]
}

// Layer holds the policy values written in one place. Unwritten values are the
// zero value; the zero Layer is the identity of Merge.
type Layer struct {
	// Candidates are capability ids in order; the strongest layer that sets them wins.
	Candidates Val[[]string]
	// Fallbacks are appended to whatever candidates are used.
	Fallbacks Names
	// Exclude removes capabilities; it is applied last.
	Exclude Names
	// First is the capability that stays first among the candidates, whatever the ordering: the
	// one that a router chose.
	First Val[string]
	// Swap maps a capability to the one that takes its place among the candidates. Only a
	// replay writes it.
	Swap map[string]string

	// SameCapMax bounds the retries of one candidate, FallbackMax the further candidates that are
	// tried.
	SameCapMax  Val[int]
	FallbackMax Val[int]
	// Backoff and MaxBackoff bound the delay between attempts of one candidate.
	Backoff    Val[time.Duration]
	MaxBackoff Val[time.Duration]
	// InvalidRetryMax bounds retries of one candidate whose answer was invalid,
	// separately from SameCapMax; a node's `:max-attempts` writes it (IR-008).
	InvalidRetryMax Val[int]

	SwitchOn Additive

	// Checks are added to Must, Soft to Should.
	Checks Additive
	Soft   Names
	Must   Names
	Should Names
	// ScoreMin is a number 0..1.
	ScoreMin Val[edn.Value]

	// Judge names the judge that grades answers. JudgeSeverity is the effect of
	// a grade below ScoreMin.
	Judge         Val[string]
	JudgeSeverity Val[string]

	// RepairMax bounds the number of repair attempts of one candidate.
	RepairMax Val[int]

	Strategy Val[string]
	// Stream decides when text of an answer is streamed to the caller.
	Stream Val[string]
	// RaceWidth and TournamentWidth are the number of candidates that start together.
	// HedgeMax is the number of hedges; each starts after HedgeAfter without an answer (0:
	// the p95 latency of the candidate, or twice its declared latency).
	RaceWidth       Val[int]
	TournamentWidth Val[int]
	HedgeMax        Val[int]
	HedgeAfter      Val[time.Duration]

	Ordering Val[string]
	Learned  *LearnedLayer // of the ordering learned; merged field by field
	// Breaker is merged field by field.
	Breaker     registry.Breaker
	Role        Val[string]
	Model       Val[edn.Value]
	Temperature Val[edn.Value]

	// Context and Constraints are maps merged key by key; the stronger value wins.
	Context     Fields
	Constraints Fields
	// Budget holds one limit per key (`:max-usd`). The smallest wins, unless a stronger one
	// has Raises set.
	Budget Fields

	// Effects are the allowed effects; the sets of all layers intersect.
	Effects Val[[]string]
	// Scopes narrow these effects; those of all layers are combined with MeetAll.
	Scopes   Scopes
	Requires Requires
	// Conflicts are the keys of Requires to which layers gave different
	// values, sorted. The value kept is that of the weakest layer.
	Conflicts []string

	// Deadline bounds the node; the smallest wins.
	Deadline Val[time.Duration]
	// Extend is the extension of the deadline that a soft timeout may get.
	Extend Val[time.Duration]
}

// Field is one entry of a map that layers merge key by key.
type Field struct {
	Key    edn.Value
	Value  edn.Value
	Origin Origin
	// Raises is true for a budget limit that replaces the limits of weaker layers even if
	// they are lower. Stronger layers can still lower it.
	Raises bool
}

// Fields is a map as a list of entries with their origins; keys are distinct.
type Fields []Field

// FieldsOf makes the fields that one layer wrote. It returns nil if v is not a
// map.
func FieldsOf(v edn.Value, from Origin) Fields {
	out := slices.Grow(Fields(nil), v.Len())
	for k, x := range v.Entries() {
		out = append(out, Field{Key: k, Value: x, Origin: from})
	}
	return out
}

var kTemperature = edn.K("temperature")

// SetBudget sets Budget to the limits of v, the :budget of a request or a node. A :temperature in v
// sets Temperature instead: it is an option, not a limit, so the value of the strongest layer wins,
// not the smallest.
func (l *Layer) SetBudget(v edn.Value, from Origin) {
	if t, ok := v.Get(kTemperature); ok {
		l.Temperature = Of(t, from)
		v = v.Dissoc(kTemperature)
	}
	l.Budget = FieldsOf(v, from)
}

// RaisedBudget returns a layer with a budget that replaces the limits of weaker layers, for
// a caller that has the operation budget/raise.
func RaisedBudget(b request.Budget, from Origin) Layer {
	var l Layer
	l.SetBudget(b.Value(), from)
	for i := range l.Budget {
		l.Budget[i].Raises = true
	}
	return l
}

// Value returns the fields as a map.
func (f Fields) Value() edn.Value {
	var b edn.MapBuilder
	for i := range f {
		b.Set(f[i].Key, f[i].Value)
	}
	return b.Map()
}

func (f Fields) index(key edn.Value) int {
	return slices.IndexFunc(f, func(x Field) bool { return edn.Equal(x.Key, key) })
}

// mergeFields merges two maps; pick decides keys that both have.
func mergeFields(weak, strong Fields, pick func(weak, strong Field) Field) Fields {
	if len(weak) == 0 {
		return strong
	}
	if len(strong) == 0 {
		return weak
	}
	out := append(make(Fields, 0, len(weak)+len(strong)), weak...)
	for _, s := range strong {
		if i := weak.index(s.Key); i >= 0 {
			out[i] = pick(weak[i], s)
		} else {
			out = append(out, s)
		}
	}
	return out
}
