package policy

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The strategies (ATT-004). Cascade tries the candidates one after another. Race starts several and
// takes the first answer that passes. Hedge starts another one if an answer is late. Tournament
// takes the best of several answers.
const (
	Cascade    = "cascade"
	Race       = "race"
	Hedge      = "hedge"
	Tournament = "tournament"
)

// The orderings of the candidates of a call.
const (
	Declared     = "declared"
	QualityAware = "quality-aware"
	CostFirst    = "cost-first"
	LatencyFirst = "latency-first"
	Availability = "availability"
	Learning     = "learned"
)

// The times at which text of an answer is streamed relative to its acceptance
// (GATE-005).
const (
	GatePassed  = "gate-passed" // after acceptance
	FirstToken  = "first-token" // at once; no other candidate is tried afterwards
	Provisional = "provisional" // at once; retracted if the answer fails
)

// Defaults for values that no layer writes.
const (
	DefaultStrategy   = Cascade
	DefaultOrdering   = Declared
	DefaultStream     = GatePassed
	DefaultMaxBackoff = 10 * time.Second
	DefaultWidth      = 2 // candidates of a race or a tournament
	DefaultHedges     = 1
)

// Policy is the effective policy of one call: the folded layers with defaults
// filled in. It is immutable; slices must not be changed.
type Policy struct {
	// Layer holds every written value with its origin, for explain.
	Layer Layer

	// Candidates is the written list; CandidatesSet distinguishes an empty list
	// from an unwritten one.
	Candidates    []string
	CandidatesSet bool
	Fallbacks     []string
	Exclude       []string

	SameCapMax  int
	FallbackMax int
	Backoff     time.Duration
	MaxBackoff  time.Duration

	// SwitchOn is the set of failures after which the next candidate may be
	// tried. If no layer wrote one it is the full set (ATT-009).
	SwitchOn SwitchSet
	// SwitchOnNames is the written set, nil if none was written.
	SwitchOnNames []string

	// Must and Should are sorted and disjoint: a name in both is must.
	Must, Should []string
	// ScoreMin is a number 0..1; 0 by default.
	ScoreMin edn.Value
	// Judge is the name of the judge that grades the answers, empty if there is
	// none. With JudgeMust, a grade below ScoreMin alone rejects the answer.
	Judge     string
	JudgeMust bool

	Strategy, Ordering, Stream string
	Learned                    *Learned // nil unless Ordering is learned
	// RepairMax is 0 if answers are not repaired. RepairAsked reports whether
	// the node itself requested repair.
	RepairMax   int
	RepairAsked bool
	// RaceWidth and TournamentWidth are at least 2, HedgeMax at least 1.
	RaceWidth, TournamentWidth, HedgeMax int
	HedgeAfter                           time.Duration
	Role                                 string
	Model, Temperature                   edn.Value
	Context                              edn.Value
	Constraints                          edn.Value
	Budget                               edn.Value

	// Effects are the allowed effects, sorted; EffectsSet is false if no layer restricts
	// effects.
	Effects    []string
	EffectsSet bool

	// Deadline and Extend are zero if not written.
	Deadline, Extend time.Duration

	// Conflicts are keys of :requires with contradicting values; a call with
	// any is :plan/invalid.
	Conflicts []string

	invalidRetry Val[int]
}

// Resolve fills in the defaults. The error is that of an invalid `:switch-on`
// member; all other values were validated where they were written.
func (l Layer) Resolve() (Policy, error) {
	p := Policy{
		Layer:           l,
		Candidates:      l.Candidates.V,
		CandidatesSet:   l.Candidates.Set,
		Fallbacks:       l.Fallbacks.Strings(),
		Exclude:         l.Exclude.Strings(),
		SameCapMax:      l.SameCapMax.V,
		FallbackMax:     l.FallbackMax.V,
		Backoff:         l.Backoff.V,
		MaxBackoff:      l.MaxBackoff.Or(DefaultMaxBackoff),
		ScoreMin:        l.ScoreMin.Or(edn.Int(0)),
		Judge:           l.Judge.V,
		JudgeMust:       l.JudgeSeverity.V == registry.JudgeMust,
		Strategy:        l.Strategy.Or(DefaultStrategy),
		Stream:          l.Stream.Or(DefaultStream),
		RepairMax:       l.RepairMax.V,
		RepairAsked:     l.RepairMax.V > 0 && l.RepairMax.Origin.Source == SourceNode,
		RaceWidth:       l.RaceWidth.Or(DefaultWidth),
		TournamentWidth: l.TournamentWidth.Or(DefaultWidth),
		HedgeMax:        l.HedgeMax.Or(DefaultHedges),
		HedgeAfter:      l.HedgeAfter.V,
		Ordering:        l.Ordering.Or(DefaultOrdering),
		Role:            l.Role.V,
		Model:           l.Model.V,
		Temperature:     l.Temperature.V,
		Context:         l.Context.Value(),
		Constraints:     l.Constraints.Value(),
		Budget:          l.Budget.Value(),
		EffectsSet:      l.Effects.Set,
		Deadline:        l.Deadline.V,
		Extend:          l.Extend.V,
		Conflicts:       l.Conflicts,
		invalidRetry:    l.InvalidRetryMax,
	}
	if l.Effects.Set {
		p.Effects = slices.Sorted(slices.Values(l.Effects.V))
	}
	p.Must, p.Should = l.gates()
	if p.Ordering == Learning {
		p.Learned = l.Learned.resolve()
	}
	if !l.SwitchOn.Written() {
		p.SwitchOn = FullSwitchSet()
		return p, nil
	}
	p.SwitchOnNames = l.SwitchOn.Names().Strings()
	if p.SwitchOnNames == nil {
		p.SwitchOnNames = []string{}
	}
	set, err := ParseSwitchSet(p.SwitchOnNames)
	p.SwitchOn = set
	return p, err
}

// gates joins the lists of GATE-001: checks are must, soft checks are should,
// and a name in both is must.
func (l Layer) gates() (must, should []string) {
	must = append(l.Must.Strings(), l.Checks.Names().Strings()...)
	slices.Sort(must)
	must = slices.Compact(must)
	for _, n := range append(l.Should.Strings(), l.Soft.Strings()...) {
		if _, found := slices.BinarySearch(must, n); !found {
			should = append(should, n)
		}
	}
	slices.Sort(should)
	return must, slices.Compact(should)
}

// Retries returns the number of retries of one candidate after a failure of
// this type.
func (p *Policy) Retries(failureType string) int {
	if p.invalidRetry.Set && (failureType == "runtime/invalid-result" || failureType == "schema/invalid") {
		return p.invalidRetry.V
	}
	return p.SameCapMax
}

// AllowsEffects reports whether every effect is within the allowed set, and
// returns the first that is not. The effect none needs no permission.
func (l *Layer) AllowsEffects(effects []string) (missing string, ok bool) {
	if !l.Effects.Set {
		return "", true
	}
	for _, e := range effects {
		if e != "none" && !slices.Contains(l.Effects.V, e) {
			return e, false
		}
	}
	return "", true
}

// Book holds the policy layers of one configuration.
type Book struct {
	// Builtin and Default are merged below every intent.
	Builtin, Default Layer
	// Intents holds the layer of each declared intent, merged with its dispatch
	// block.
	Intents map[string]Layer
}

// For returns the merged layers of the configuration for an intent: built-in, default and
// intent.
func (b *Book) For(intent string) Layer {
	base := Merge(b.Builtin, b.Default)
	if l, ok := b.Intents[intent]; ok {
		return Merge(base, l)
	}
	return base
}
