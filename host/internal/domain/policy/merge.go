package policy

import (
	"slices"
	"time"
)

// Merge combines two layers by the rules of POL-001. It changes neither, is
// associative, and has the zero Layer as identity on both sides.
func Merge(weak, strong Layer) Layer {
	out := Layer{
		Candidates:      nearest(weak.Candidates, strong.Candidates),
		Fallbacks:       union(weak.Fallbacks, strong.Fallbacks),
		Exclude:         union(weak.Exclude, strong.Exclude),
		First:           nearest(weak.First, strong.First),
		Swap:            swapped(weak.Swap, strong.Swap),
		SameCapMax:      nearest(weak.SameCapMax, strong.SameCapMax),
		FallbackMax:     nearest(weak.FallbackMax, strong.FallbackMax),
		Backoff:         nearest(weak.Backoff, strong.Backoff),
		MaxBackoff:      nearest(weak.MaxBackoff, strong.MaxBackoff),
		InvalidRetryMax: nearest(weak.InvalidRetryMax, strong.InvalidRetryMax),
		SwitchOn:        mergeAdditive(weak.SwitchOn, strong.SwitchOn),
		Checks:          mergeAdditive(weak.Checks, strong.Checks),
		Soft:            union(weak.Soft, strong.Soft),
		Must:            union(weak.Must, strong.Must),
		Should:          union(weak.Should, strong.Should),
		ScoreMin:        nearest(weak.ScoreMin, strong.ScoreMin),
		Judge:           nearest(weak.Judge, strong.Judge),
		JudgeSeverity:   nearest(weak.JudgeSeverity, strong.JudgeSeverity),
		Strategy:        nearest(weak.Strategy, strong.Strategy),
		Stream:          nearest(weak.Stream, strong.Stream),
		RepairMax:       nearest(weak.RepairMax, strong.RepairMax),
		RaceWidth:       nearest(weak.RaceWidth, strong.RaceWidth),
		TournamentWidth: nearest(weak.TournamentWidth, strong.TournamentWidth),
		HedgeMax:        nearest(weak.HedgeMax, strong.HedgeMax),
		HedgeAfter:      nearest(weak.HedgeAfter, strong.HedgeAfter),
		Ordering:        nearest(weak.Ordering, strong.Ordering),
		Learned:         strong.Learned.over(weak.Learned),
		Breaker:         strong.Breaker.Over(weak.Breaker),
		Role:            nearest(weak.Role, strong.Role),
		Model:           nearest(weak.Model, strong.Model),
		Temperature:     nearest(weak.Temperature, strong.Temperature),
		Context:         mergeFields(weak.Context, strong.Context, strongerField),
		Constraints:     mergeFields(weak.Constraints, strong.Constraints, strongerField),
		Budget:          mergeFields(weak.Budget, strong.Budget, smallerField),
		Effects:         intersect(weak.Effects, strong.Effects),
		Scopes:          MeetAll(weak.Scopes, strong.Scopes),
		Deadline:        smallest(weak.Deadline, strong.Deadline),
		Extend:          nearest(weak.Extend, strong.Extend),
	}
	out.Conflicts = mergeConflicts(weak.Conflicts, strong.Conflicts)
	out.Requires, out.Conflicts = mergeRequires(&weak.Requires, &strong.Requires, out.Conflicts)
	return out
}

func strongerField(_, strong Field) Field { return strong }

// smallerField keeps the lower limit, or the stronger one if that raises. A value
// that is not a number is never lower, so a malformed limit cannot lift a valid one.
func smallerField(weak, strong Field) Field {
	s, ok := strong.Value.AsNumber()
	if !ok {
		return weak
	}
	if w, ok := weak.Value.AsNumber(); ok && !strong.Raises && w.Cmp(s) <= 0 {
		return weak
	}
	strong.Raises = strong.Raises || weak.Raises
	return strong
}

func smallest(weak, strong Val[time.Duration]) Val[time.Duration] {
	switch {
	case !strong.Set:
		return weak
	case !weak.Set || strong.V < weak.V:
		return strong
	}
	return weak
}

// intersect returns the members of both lists. The origin is the strongest
// layer that wrote.
func intersect(weak, strong Val[[]string]) Val[[]string] {
	switch {
	case !strong.Set:
		return weak
	case !weak.Set:
		return strong
	}
	both := make([]string, 0, len(weak.V))
	for _, e := range weak.V {
		if slices.Contains(strong.V, e) {
			both = append(both, e)
		}
	}
	return Of(both, strong.Origin)
}

func mergeRequires(weak, strong *Requires, conflicts []string) (Requires, []string) {
	add := func(differ bool, key string) {
		if differ {
			conflicts = mergeConflicts(conflicts, []string{key})
		}
	}
	one := func(w, s Val[string], key string) Val[string] {
		add(w.Set && s.Set && w.V != s.V, key)
		return nearest(s, w)
	}
	many := func(w, s Val[[]string], key string) Val[[]string] {
		add(w.Set && s.Set && !slices.Equal(w.V, s.V), key)
		return nearest(s, w)
	}
	out := Requires{
		InSchema:   one(weak.InSchema, strong.InSchema, "in-schema"),
		OutSchema:  one(weak.OutSchema, strong.OutSchema, "out-schema"),
		ResultType: one(weak.ResultType, strong.ResultType, "result/type"),
		CapKind:    one(weak.CapKind, strong.CapKind, "cap/kind"),
		CapTags:    many(weak.CapTags, strong.CapTags, "cap/tags"),
		Effects:    many(weak.Effects, strong.Effects, "effects/allowed"),
	}
	return out, conflicts
}

func mergeConflicts(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// swapped returns the swaps of the stronger layer that has any.
func swapped(weak, strong map[string]string) map[string]string {
	if len(strong) > 0 {
		return strong
	}
	return weak
}

// MergeChoice merges into dst only the values that binding reads: candidates,
// fallbacks, exclusions, the number of fallbacks, effects and requirements, at
// a fraction of the cost of Merge. The operands stay unchanged and must not be
// dst.
func MergeChoice(dst, weak, strong *Layer) {
	dst.Candidates = nearest(weak.Candidates, strong.Candidates)
	dst.Fallbacks = union(weak.Fallbacks, strong.Fallbacks)
	dst.Exclude = union(weak.Exclude, strong.Exclude)
	dst.Swap = swapped(weak.Swap, strong.Swap)
	dst.FallbackMax = nearest(weak.FallbackMax, strong.FallbackMax)
	dst.Effects = intersect(weak.Effects, strong.Effects)
	dst.Scopes = MeetAll(weak.Scopes, strong.Scopes)
	conflicts := mergeConflicts(weak.Conflicts, strong.Conflicts)
	dst.Requires, dst.Conflicts = mergeRequires(&weak.Requires, &strong.Requires, conflicts)
}
