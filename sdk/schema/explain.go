package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// explain lists the reasons why v does not fit s; checked is the meter of the
// validation.
func explain(s *Schema, v edn.Value, checked meter) []Finding {
	if checked.left < 0 {
		if checked.ctx != nil && checked.ctx.Err() != nil {
			return []Finding{{Message: "was not checked to its end: " + checked.ctx.Err().Error()}}
		}
		return []Finding{{Message: fmt.Sprintf("cannot be checked in %d steps", checked.limit)}}
	}
	m := newMeter(checked.ctx, v)
	e := explainer{meter: &m}
	e.value(s, v)
	list := finish(e.found, e.dropped)
	if m.left < 0 {
		list = append(list, Finding{Message: "there may be more findings: the value is too large to explain in full"})
	}
	return list
}

// explainer walks a value and collects findings.
type explainer struct {
	*meter
	path    []edn.Value
	found   []Finding
	dropped int
	secret  bool // inside a schema marked :secret
	reach   int  // depth of the deepest value that was rejected
}

func (e *explainer) add(s *Schema, expected, got edn.Value, message string) {
	e.reach = max(e.reach, len(e.path))
	e.put(s, expected, got, message)
}

// put adds a finding that does not count as progress, for example for a missing
// key. It reports whether the finding is kept.
func (e *explainer) put(s *Schema, expected, got edn.Value, message string) bool {
	if len(e.found) >= maxCollected || !e.spend(explainCost/4) {
		e.dropped++
		return false
	}
	if e.secret || s.hidesSecret {
		if !got.IsNil() {
			got = masked
		}
	} else {
		got = excerpt(got)
	}
	e.found = append(e.found, Finding{Path: slices.Clone(e.path), Expected: expected, Got: got, Message: message})
	return true
}

// below runs f one step deeper.
func (e *explainer) below(key edn.Value, f func()) {
	e.path = append(e.path, key)
	f()
	e.path = e.path[:len(e.path)-1]
}

// value explains v and returns the number of passed checks, which shows how far
// an alternative got.
func (e *explainer) value(s *Schema, v edn.Value) (passed int) {
	if !e.spend(explainCost) {
		return 0
	}
	if e.secret && IsSecretHash(v) {
		return 1
	}
	if s.Props().Secret && !e.secret {
		e.secret = true
		defer func() { e.secret = false }()
	}
	switch s.kind {
	case KindRef:
		return e.value(s.target, v)
	case KindMaybe:
		if v.IsNil() {
			return 1
		}
		return e.value(s.kids[0], v)
	case KindAnd:
		for _, kid := range s.kids {
			passed += e.value(kid, v)
		}
		return passed
	case KindOr:
		return e.alternatives(s, v)
	case KindNot:
		if s.kids[0].accepts(v, e.meter) {
			inner := s.kids[0].Deref()
			e.add(s, s.short, v, "should not be "+noun(inner))
			return 0
		}
		return 1
	case KindMap, KindMapOf, KindVector, KindList, KindSequential, KindSet, KindTuple:
		return e.collection(s, v)
	}
	if s.accepts(v, e.meter) {
		return 1
	}
	e.add(s, s.short, v, e.scalarMessage(s, v))
	if s.numeric() && s.rightNumber(v.Kind()) {
		return 1 // of the right type, out of its bounds
	}
	return 0
}

// alternatives reports the branch that got furthest: the one with the most
// passed checks, then the one that failed deepest, then the one with the fewest
// findings.
func (e *explainer) alternatives(s *Schema, v edn.Value) int {
	if !e.spend(len(s.kids) * (1 + len(s.kids[0].Deref().entries)) / 4) {
		return 0
	}
	if key, ok := s.Discriminator(); ok {
		if tag, ok := v.Get(key); ok {
			return e.tagged(s, key, tag, v)
		}
	}
	return e.nearestOf(s.kids, v)
}

// nearestOf reports the alternative that got furthest.
func (e *explainer) nearestOf(kids []*Schema, v edn.Value) int {
	var best explainer
	bestPassed := -1
	for _, kid := range kids {
		branch := explainer{meter: e.meter, path: e.path, secret: e.secret, reach: -1}
		passed := branch.value(kid, v)
		if len(branch.found) == 0 {
			return passed
		}
		if passed > bestPassed ||
			passed == bestPassed && branch.reach > best.reach ||
			passed == bestPassed && branch.reach == best.reach && len(branch.found) < len(best.found) {
			best, bestPassed = branch, passed
		}
	}
	e.reach = max(e.reach, best.reach)
	e.dropped += best.dropped
	e.spend(len(best.found))
	for _, f := range best.found {
		f.others += len(kids) - 1
		if len(e.found) >= maxCollected {
			e.dropped++
			continue
		}
		e.found = append(e.found, f)
	}
	return bestPassed
}

// tagged reports a map by the alternative that its discriminator selects, or
// reports an unknown discriminator.
func (e *explainer) tagged(s *Schema, key, tag, v edn.Value) int {
	var named []*Schema
	var words []edn.Value
	for _, kid := range s.kids {
		entry, _ := kid.Deref().Entry(key)
		if entry.Schema.accepts(tag, e.meter) {
			named = append(named, kid)
		}
		for _, word := range entry.Schema.Deref().Members() {
			if e.spend(1+len(words)/16) && !slices.ContainsFunc(words, func(w edn.Value) bool { return edn.Equal(w, word) }) {
				words = append(words, word)
			}
		}
	}
	if len(named) > 0 {
		return e.nearestOf(named, v)
	}
	e.below(key, func() {
		e.add(s, edn.Vector(append([]edn.Value{edn.K("enum")}, words...)...), tag, "should be "+oneOf(words))
	})
	return 0
}

func (e *explainer) collection(s *Schema, v edn.Value) int {
	if !s.rightCollection(v.Kind()) {
		message := "should be " + noun(s)
		if s.kind == KindSet {
			message += e.duplicates(s, v)
		}
		e.add(s, s.short, v, message)
		return 0
	}
	passed := 1
	if n := v.Len(); n < s.minLen {
		e.add(s, s.limits(), v, "should have at least "+count(s.minLen, s.unitWord()))
	} else if s.maxLen >= 0 && n > s.maxLen {
		e.add(s, s.limits(), v, "should have at most "+count(s.maxLen, s.unitWord()))
	}
	switch s.kind {
	case KindMap:
		return passed + e.mapEntries(s, v)
	case KindMapOf:
		return passed + e.mapOf(s, v)
	case KindSet:
		return passed + e.set(s, v)
	case KindTuple:
		if v.Len() != len(s.kids) {
			e.add(s, s.short, v, "should have exactly "+count(len(s.kids), "element"))
		}
	}
	for i := range v.Len() {
		kid := s.element(i)
		if kid == nil {
			break
		}
		val, _ := v.Nth(i)
		e.below(edn.Int(int64(i)), func() { passed += e.value(kid, val) })
	}
	return passed
}

// element returns the schema of one position of a sequence, nil if there is
// none.
func (s *Schema) element(i int) *Schema {
	switch {
	case s.kind == KindTuple && i < len(s.kids):
		return s.kids[i]
	case s.kind == KindTuple || len(s.kids) == 0:
		return nil
	}
	return s.kids[0]
}

func (e *explainer) mapEntries(s *Schema, v edn.Value) (passed int) {
	if !e.spend(len(s.entries)) {
		return 0
	}
	known := 0
	meant := e.meant(s, v)
	for i := range s.entries {
		entry := &s.entries[i]
		val, ok := v.Get(entry.Key)
		if !ok {
			if name, _ := entry.Key.AsKeyword(); !entry.Optional && !slices.Contains(meant, name) {
				message := "required key is missing" + e.typo(s, entry.Key, v)
				e.below(entry.Key, func() { e.put(entry.Schema, entry.Schema.Deref().short, edn.Nil(), message) })
			}
			continue
		}
		known++
		was := e.secret
		e.secret = was || entry.Props.Secret
		e.below(entry.Key, func() { passed += e.value(entry.Schema, val) })
		e.secret = was
	}
	if s.closed && known < v.Len() {
		e.unknownKeys(s, v)
	}
	return passed
}

// meant returns the missing keys that are nearest to unknown keys of a closed
// map; they are reported together with the unknown key.
func (e *explainer) meant(s *Schema, v edn.Value) (all []string) {
	if !s.closed || e.secret || v.Len() > maxTypoSearch {
		return nil
	}
	names := s.keyNames()
	for key := range v.Entries() {
		if name, ok := key.AsKeyword(); ok {
			if _, known := s.Entry(key); !known {
				if near := e.nearest(name, names); utf8.RuneCountInString(near) >= minTypo {
					all = append(all, near)
				}
			}
		}
	}
	return all
}

func (e *explainer) unknownKeys(s *Schema, v edn.Value) {
	names := s.keyNames()
	told := 0
	for key, val := range v.Entries() {
		if _, ok := s.Entry(key); ok {
			continue
		}
		message := "unknown key"
		if name, ok := key.AsKeyword(); ok && told < maxFindings && !e.secret {
			if near := e.nearest(name, names); near != "" {
				message += "; did you mean :" + near + "?"
			}
		}
		told++
		e.below(e.step(key, false), func() {
			if e.put(s, edn.Nil(), val, message) && !e.secret {
				e.found[len(e.found)-1].Keys = names
			}
		})
	}
}

// nearest is Nearest, which compares the name with each known one.
func (e *explainer) nearest(name string, known []string) string {
	n := min(len(name), maxNameForDistance)
	if !e.spend(len(known) * (1 + n*n/128)) {
		return ""
	}
	return Nearest(name, known)
}

// step returns a key or member of the value as a path step: cut if it is long,
// masked if it is inside a secret or may be one itself.
func (e *explainer) step(key edn.Value, secret bool) edn.Value {
	if e.secret || secret {
		return masked
	}
	return excerpt(key)
}

func (s *Schema) keyNames() []string {
	names := make([]string, 0, len(s.entries))
	for i := range s.entries {
		if name, ok := s.entries[i].Key.AsKeyword(); ok {
			names = append(names, name)
		}
	}
	return names
}

// maxTypoSearch limits the search for a misspelled key.
const maxTypoSearch = 64

// minTypo is the length of the shortest name that is compared.
const minTypo = 4

// typo returns a key of v that is similar to the missing one.
func (e *explainer) typo(s *Schema, missing, v edn.Value) string {
	want, ok := missing.AsKeyword()
	if !ok || v.Len() > maxTypoSearch || e.secret || !e.spend(v.Len()) {
		return ""
	}
	var strange []string
	for key := range v.Entries() {
		if _, known := s.Entry(key); known {
			continue
		}
		if name, ok := key.AsKeyword(); ok {
			strange = append(strange, name)
		} else if name, ok := key.AsString(); ok && name == want {
			return fmt.Sprintf("; the key is the string %q, not a keyword", name)
		}
	}
	if utf8.RuneCountInString(want) < minTypo {
		return "" // short names are all similar
	}
	if near := e.nearest(want, strange); near != "" {
		return "; is :" + near + " meant?"
	}
	return ""
}

func (e *explainer) mapOf(s *Schema, v edn.Value) (passed int) {
	keys, vals := s.kids[0], s.kids[1]
	for key, val := range v.Entries() {
		e.below(e.step(key, keys.hidesSecret), func() {
			before := len(e.found)
			passed += e.value(keys, key)
			for i := before; i < len(e.found); i++ {
				e.found[i].Message = "key " + e.found[i].Message
			}
			passed += e.value(vals, val)
		})
	}
	return passed
}

func (e *explainer) set(s *Schema, v edn.Value) (passed int) {
	if len(s.kids) == 0 {
		return 0
	}
	kid := s.kids[0]
	for member := range v.Elems() {
		e.below(e.step(member, kid.hidesSecret), func() { passed += e.value(kid, member) })
	}
	return passed
}

// duplicates explains why an array read from JSON did not become a set.
func (e *explainer) duplicates(s *Schema, v edn.Value) string {
	if v.Kind() != edn.KindVector {
		return ""
	}
	seen := make(map[string]int)
	for i := range min(v.Len(), maxCollected) {
		member, _ := v.Nth(i)
		if len(s.kids) > 0 {
			member, _ = s.kids[0].coerce(member, e.meter)
		}
		if !e.spend(sizeOf(member, maxSteps)) {
			return ""
		}
		hash := edn.Hash(member)
		if first, ok := seen[hash]; ok {
			return fmt.Sprintf("; members %d and %d are equal", first, i)
		}
		seen[hash] = i
	}
	return ""
}

// limits returns the type word with the bounds of the schema.
func (s *Schema) limits() edn.Value {
	var props edn.MapBuilder
	if s.minLen > 0 {
		props.Key("min", edn.Int(int64(s.minLen)))
	}
	if s.maxLen >= 0 {
		props.Key("max", edn.Int(int64(s.maxLen)))
	}
	return edn.Vector(edn.K(s.kind.String()), props.Map())
}

func (s *Schema) unitWord() string {
	switch s.kind {
	case KindString:
		return "character"
	case KindMap, KindMapOf:
		return "key"
	case KindSet:
		return "member"
	}
	return "element"
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// scalarMessage describes a value that a schema without inner schemas rejected.
func (e *explainer) scalarMessage(s *Schema, v edn.Value) string {
	switch {
	case s.numeric() && s.rightNumber(v.Kind()):
		if s.min != nil && s.min.compare(v) < 0 {
			return "should be at least " + s.min.spec.String()
		}
		return "should be at most " + s.max.spec.String()
	case s.kind == KindString && v.Kind() == edn.KindString:
		text, _ := v.AsString()
		if utf8.RuneCountInString(text) < s.minLen {
			return "should have at least " + count(s.minLen, "character")
		}
		return "should have at most " + count(s.maxLen, "character")
	}
	return "should be " + noun(s) + e.suggestion(s, v)
}

// suggestion suggests a keyword for a string in the place of one.
func (e *explainer) suggestion(s *Schema, v edn.Value) string {
	text, ok := v.AsString()
	if !ok || e.secret || s.hidesSecret || len(text) > maxGot {
		return ""
	}
	kw, err := edn.Keyword(strings.TrimPrefix(text, ":"))
	switch {
	case s.kind == KindKeyword && err == nil, s.kind == KindEnum && err == nil && s.isMember(kw):
		return "; write " + kw.String()
	}
	return ""
}

// maxListed limits the members of an enumeration that a message lists.
const maxListed = 20

// noun describes the values that fit.
func noun(s *Schema) string {
	switch s.kind {
	case KindAny:
		return "any value"
	case KindNil:
		return "nil"
	case KindBoolean:
		return "true or false"
	case KindInt:
		return "an integer"
	case KindDouble:
		return "a floating-point number"
	case KindDecimal:
		return "a decimal like 1.5M"
	case KindNumber:
		return "a number"
	case KindChar:
		return "a character"
	case KindInst:
		return "an instant"
	case KindUUID:
		return "a UUID"
	case KindMapOf:
		return "a map"
	case KindSequential:
		return "a vector or a list"
	case KindTuple:
		return "a vector of " + count(len(s.kids), "element")
	case KindRe:
		if s.nonBlank {
			return "text that is not blank"
		}
		return "a string that matches " + edn.Text(s.pattern.String()).String()
	case KindEnum:
		return oneOf(s.members)
	case KindMaybe, KindOr, KindAnd, KindNot:
		return "a value that fits " + excerpt(s.spec).String()
	}
	return "a " + s.kind.String()
}

func oneOf(members []edn.Value) string {
	if len(members) == 1 {
		return excerpt(members[0]).String()
	}
	var b strings.Builder
	b.WriteString("one of ")
	for i, member := range members {
		if i == maxListed {
			fmt.Fprintf(&b, " and %d more", len(members)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(excerpt(member).String())
	}
	return b.String()
}
