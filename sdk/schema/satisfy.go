package schema

import "github.com/fermenthq/ferment/sdk/edn"

// Tri is the result of a comparison that may be undecided.
type Tri int8

// The three results. The zero Tri is Unknown.
const (
	No      Tri = -1
	Unknown Tri = 0
	Yes     Tri = 1
)

// String returns "no", "unknown" or "yes".
func (t Tri) String() string {
	switch t {
	case No:
		return "no"
	case Yes:
		return "yes"
	}
	return "unknown"
}

// Satisfies compares two schemas without a value. Yes: every value of s fits t.
// No: no value of s fits t. Unknown: it depends on the value, or the comparison
// cannot decide it within its limits.
func Satisfies(s, t *Schema) Tri {
	c := comparison{memo: make(map[[2]*Schema]Tri)}
	return c.compare(s, t)
}

// maxComparisons limits the pairs that one call compares.
const maxComparisons = 100_000

type comparison struct{ memo map[[2]*Schema]Tri }

func (c *comparison) compare(s, t *Schema) Tri {
	s, t = s.Deref(), t.Deref()
	if s == t || t.kind == KindAny {
		return Yes
	}
	pair := [2]*Schema{s, t}
	if known, ok := c.memo[pair]; ok {
		return known
	}
	if len(c.memo) >= maxComparisons {
		return Unknown
	}
	// A pair that recurs while it is open comes from a recursive schema;
	// Unknown is then the safe assumption.
	c.memo[pair] = Unknown
	answer := c.decide(s, t)
	c.memo[pair] = answer
	return answer
}

func (c *comparison) decide(s, t *Schema) Tri {
	switch {
	case s.kind == KindEnum:
		return c.members(s, t)
	case s.kind == KindOr:
		return c.everyBranch(s.kids, t)
	case s.kind == KindMaybe:
		return c.maybe(s, t)
	case t.kind == KindOr:
		return c.anyOf(s, t.kids, Yes)
	case t.kind == KindMaybe:
		return c.orNil(s, t)
	case t.kind == KindAnd:
		return c.anyOf(s, t.kids, No)
	case s.kind == KindAnd:
		return c.narrowed(s.kids, t)
	case t.kind == KindNot:
		return c.outside(s, t.kids[0])
	case s.kind == KindAny || s.kind == KindNot:
		return Unknown
	case t.kind == KindEnum:
		return c.intoEnum(s, t)
	}
	return c.plain(s, t)
}

// members compares an enumeration value by value.
func (c *comparison) members(s, t *Schema) Tri {
	fit := 0
	for _, m := range s.members {
		if t.Valid(m) {
			fit++
		}
	}
	switch fit {
	case 0:
		return No
	case len(s.members):
		return Yes
	}
	return Unknown
}

// everyBranch: s is a union, so its parts must agree.
func (c *comparison) everyBranch(branches []*Schema, t *Schema) Tri {
	first := c.compare(branches[0], t)
	for _, b := range branches[1:] {
		if first == Unknown || c.compare(b, t) != first {
			return Unknown
		}
	}
	return first
}

func (c *comparison) maybe(s, t *Schema) Tri {
	answer := c.compare(s.kids[0], t)
	if t.Valid(edn.Nil()) == (answer == Yes) {
		return answer
	}
	return Unknown
}

// anyOf compares s with schemas of which one with the answer decisive is
// sufficient: Yes for the branches of a union, No for the parts of an
// intersection.
func (c *comparison) anyOf(s *Schema, others []*Schema, decisive Tri) Tri {
	answer := -decisive
	for _, o := range others {
		switch c.compare(s, o) {
		case decisive:
			return decisive
		case Unknown:
			answer = Unknown
		}
	}
	return answer
}

func (c *comparison) orNil(s, t *Schema) Tri {
	if s.kind == KindNil {
		return Yes
	}
	answer := c.compare(s, t.kids[0])
	if answer == No && s.Valid(edn.Nil()) {
		return Unknown
	}
	return answer
}

// narrowed: s is an intersection, so a certain result for one part holds for s.
func (c *comparison) narrowed(parts []*Schema, t *Schema) Tri {
	answer := Unknown
	for _, p := range parts {
		switch c.compare(p, t) {
		case No:
			return No
		case Yes:
			answer = Yes
		}
	}
	return answer
}

func (c *comparison) outside(s, inner *Schema) Tri {
	return -c.compare(s, inner)
}

func (c *comparison) intoEnum(s, t *Schema) Tri {
	for _, m := range t.members {
		if s.Valid(m) {
			if s.kind == KindNil {
				return Yes
			}
			return Unknown
		}
	}
	return No
}

// plain compares two schemas that each describe one kind of value.
func (c *comparison) plain(s, t *Schema) Tri {
	if s.kind == KindRe || t.kind == KindRe {
		return c.patterns(s, t)
	}
	if s.numeric() && t.numeric() {
		return numbers(s, t)
	}
	if !overlap(s.kind, t.kind) {
		return No
	}
	length := lengths(s, t)
	if length == No {
		return No
	}
	switch {
	case s.kind == KindMap && t.kind == KindMap:
		return lower(length, c.maps(s, t))
	case s.kind == KindMapOf && t.kind == KindMap:
		return c.mapOfToMap(s, t)
	case s.kind == KindMap && t.kind == KindMapOf:
		return c.mapToMapOf(s, t)
	case s.kind == KindMapOf:
		return lower(length, c.contents(s, lower(c.compare(s.kids[0], t.kids[0]), c.compare(s.kids[1], t.kids[1]))))
	case s.kind == KindTuple || t.kind == KindTuple:
		return lower(length, c.tuples(s, t))
	case isSequence(s.kind) || s.kind == KindSet:
		return lower(length, lower(kindFit(s.kind, t.kind), c.elements(s, t)))
	}
	return lower(length, kindFit(s.kind, t.kind))
}

// lower combines two conditions that must both hold.
func lower(a, b Tri) Tri { return min(a, b) }

func isSequence(k Kind) bool {
	return k == KindVector || k == KindList || k == KindSequential || k == KindTuple
}

// overlap reports whether some value is of both kinds.
func overlap(a, b Kind) bool {
	if a == b {
		return true
	}
	family := func(k Kind) Kind {
		switch k {
		case KindMapOf:
			return KindMap
		case KindTuple:
			return KindVector
		}
		return k
	}
	a, b = family(a), family(b)
	return a == b ||
		a == KindSequential && (b == KindVector || b == KindList) ||
		b == KindSequential && (a == KindVector || a == KindList)
}

// kindFit returns Yes if every value of kind s also has kind t. The kinds
// overlap.
func kindFit(s, t Kind) Tri {
	if s == t || t == KindSequential || s == KindTuple && t == KindVector {
		return Yes
	}
	return Unknown
}

func (c *comparison) patterns(s, t *Schema) Tri {
	stringy := func(k Kind) bool { return k == KindRe || k == KindString }
	switch {
	case !stringy(s.kind) || !stringy(t.kind):
		return No
	case s.kind == KindRe && t.kind == KindRe && s.pattern.String() == t.pattern.String():
		return Yes
	case s.kind == KindRe && t.kind == KindString && t.minLen == 0 && t.maxLen < 0:
		return Yes
	}
	return Unknown
}

func numbers(s, t *Schema) Tri {
	if s.kind != t.kind && s.kind != KindNumber && t.kind != KindNumber {
		return No
	}
	if s.min != nil && t.max != nil && s.min.rat.Cmp(t.max.rat) > 0 ||
		s.max != nil && t.min != nil && s.max.rat.Cmp(t.min.rat) < 0 {
		return No
	}
	inside := (t.min == nil || s.min != nil && s.min.rat.Cmp(t.min.rat) >= 0) &&
		(t.max == nil || s.max != nil && s.max.rat.Cmp(t.max.rat) <= 0)
	if inside && (s.kind == t.kind || t.kind == KindNumber) {
		return Yes
	}
	return Unknown
}

// lengths compares :min and :max, and the fixed length of tuples.
func lengths(s, t *Schema) Tri {
	sMin, sMax := s.span()
	tMin, tMax := t.span()
	if tMax >= 0 && sMin > tMax || sMax >= 0 && sMax < tMin {
		return No
	}
	if sMin >= tMin && (tMax < 0 || sMax >= 0 && sMax <= tMax) {
		return Yes
	}
	return Unknown
}

// span returns the range of sizes that the schema allows; -1 means no limit.
func (s *Schema) span() (least, most int) {
	switch s.kind {
	case KindTuple:
		return len(s.kids), len(s.kids)
	case KindMap:
		least, most = s.minLen, s.maxLen
		required := 0
		for i := range s.entries {
			if !s.entries[i].Optional {
				required++
			}
		}
		least = max(least, required)
		if s.closed && (most < 0 || most > len(s.entries)) {
			most = len(s.entries)
		}
		return least, most
	}
	return s.minLen, s.maxLen
}

// maps compares key by key.
func (c *comparison) maps(s, t *Schema) Tri {
	answer := Yes
	for i := range t.entries {
		want := &t.entries[i]
		have, named := s.Entry(want.Key)
		switch {
		case named:
			answer = lower(answer, c.entry(&have, want))
		case s.closed && !want.Optional:
			return No
		case !s.closed:
			answer = lower(answer, Unknown)
		}
	}
	if t.closed {
		answer = lower(answer, surplus(s, t))
	}
	return answer
}

func (c *comparison) entry(have, want *Entry) Tri {
	fit := c.compare(have.Schema, want.Schema)
	switch {
	case fit == No && have.Optional && want.Optional:
		return Unknown // fits if the key is missing
	case fit == Yes && have.Optional && !want.Optional:
		return Unknown
	}
	return fit
}

// surplus searches for keys of s that a closed t rejects.
func surplus(s, t *Schema) Tri {
	answer := Yes
	if !s.closed {
		answer = Unknown
	}
	for i := range s.entries {
		if _, ok := t.Entry(s.entries[i].Key); ok {
			continue
		}
		if !s.entries[i].Optional {
			return No
		}
		answer = Unknown
	}
	return answer
}

// mapOfToMap: a map of s may lack any key and may have others.
func (c *comparison) mapOfToMap(s, t *Schema) Tri {
	for i := range t.entries {
		e := &t.entries[i]
		if !e.Optional && (!s.kids[0].Valid(e.Key) || c.compare(s.kids[1], e.Schema) == No) {
			return No
		}
	}
	if len(t.entries) == 0 && !t.closed {
		return lengths(s, t)
	}
	return Unknown
}

func (c *comparison) mapToMapOf(s, t *Schema) Tri {
	answer := lengths(s, t)
	if !s.closed {
		answer = lower(answer, Unknown)
	}
	for i := range s.entries {
		e := &s.entries[i]
		fit := c.compare(e.Schema, t.kids[1])
		if !t.kids[0].Valid(e.Key) {
			fit = No
		}
		if fit == No && e.Optional {
			fit = Unknown
		}
		answer = lower(answer, fit)
	}
	return answer
}

// elements compares the elements of two sequences or two sets.
func (c *comparison) elements(s, t *Schema) Tri {
	if len(t.kids) == 0 {
		return Yes
	}
	if len(s.kids) == 0 {
		return Unknown
	}
	return c.contents(s, c.compare(s.kids[0], t.kids[0]))
}

// contents turns No for the members into Unknown, because an empty collection
// always fits.
func (c *comparison) contents(s *Schema, fit Tri) Tri {
	if least, _ := s.span(); fit == No && least == 0 {
		return Unknown
	}
	return fit
}

func (c *comparison) tuples(s, t *Schema) Tri {
	answer := kindFit(s.kind, t.kind)
	n, _ := s.span()
	if s.kind != KindTuple {
		n, _ = t.span()
	}
	for i := range n {
		have, want := s.element(i), t.element(i)
		switch {
		case want == nil:
		case have == nil:
			answer = lower(answer, Unknown)
		default:
			answer = lower(answer, c.compare(have, want))
		}
	}
	return answer
}
