package edn

import (
	"slices"
	"strings"
)

// List returns a list. It copies the arguments. It panics with a *ValueError if
// the result would nest deeper than MaxDepth.
func List(elems ...Value) Value { return sequence(KindList, copyNode(elems)) }

// Vector returns a vector. It copies the arguments. It panics with a
// *ValueError if the result would nest deeper than MaxDepth.
func Vector(elems ...Value) Value { return sequence(KindVector, copyNode(elems)) }

// sequence takes ownership of n.
func sequence(k Kind, n *node) Value {
	depth := depthAbove(n.elems)
	if depth > MaxDepth {
		panic(depthError(k))
	}
	return collection(k, n, depth)
}

// depthAbove returns the depth of a collection that holds elems.
func depthAbove(elems []Value) int {
	deepest := 0
	for i := range elems {
		if k := elems[i].kind; k >= KindList {
			deepest = max(deepest, elems[i].Depth())
		}
	}
	return deepest + 1
}

// Set returns a set of distinct members. Equal members or a nesting deeper than
// MaxDepth give a *ValueError.
func Set(members []Value) (Value, error) {
	n := copyNode(members)
	if !sortMembers(n.elems) {
		twin := &n.elems[duplicateMember(n.elems)]
		return Value{}, &ValueError{Kind: KindSet, Code: "duplicate-member", Message: "duplicate member " + twin.brief()}
	}
	depth := depthAbove(n.elems)
	if depth > MaxDepth {
		return Value{}, depthError(KindSet)
	}
	return collection(KindSet, n, depth), nil
}

// SetOf returns a set of the given members, equal ones merged. It panics with a
// *ValueError if the result would nest deeper than MaxDepth.
func SetOf(members ...Value) Value { return setOf(copyNode(members)) }

// setOf takes ownership of n.
func setOf(n *node) Value {
	if !sortMembers(n.elems) {
		n.elems = slices.CompactFunc(n.elems, func(a, b Value) bool { return equal(&a, &b) })
	}
	depth := depthAbove(n.elems)
	if depth > MaxDepth {
		panic(depthError(KindSet))
	}
	return collection(KindSet, n, depth)
}

// Keywords returns a set of keywords, equal ones merged. It panics if a name is
// not a valid keyword name.
func Keywords(names ...string) Value {
	n := newNode(len(names))
	for i, name := range names {
		n.elems[i] = K(name)
	}
	return setOf(n)
}

// Map returns a map of the given entries. Equal keys or a nesting deeper than
// MaxDepth give a *ValueError.
func Map(list []Entry) (Value, error) {
	n := newNode(2 * len(list))
	copy(entries(n.elems), list)
	return mapOf(n)
}

// mapOf takes ownership of n, which alternates keys and values.
func mapOf(n *node) (Value, error) {
	list := entries(n.elems)
	if !sortEntries(list) {
		twin := &list[duplicateKey(list)].Key
		return Value{}, &ValueError{Kind: KindMap, Code: "duplicate-key", Message: "duplicate key " + twin.brief()}
	}
	depth := depthAbove(n.elems)
	if depth > MaxDepth {
		return Value{}, depthError(KindMap)
	}
	return collection(KindMap, n, depth), nil
}

// insertionLimit is the size up to which insertion sort is faster than the
// general sort.
const insertionLimit = 12

// sortMembers sorts members into canonical order, stably, and reports whether
// all are distinct. Sorted input costs one pass.
func sortMembers(m []Value) (distinct bool) {
	i := 1
	for i < len(m) && compare(&m[i-1], &m[i]) < 0 {
		i++
	}
	if i >= len(m) {
		return true
	}
	if len(m) > insertionLimit {
		slices.SortStableFunc(m, func(a, b Value) int { return compare(&a, &b) })
		return duplicateMember(m) == 0
	}
	distinct = true
	for ; i < len(m); i++ {
		v, j := m[i], i
		for ; j > 0; j-- {
			c := compare(&m[j-1], &v)
			if c == 0 {
				distinct = false
			}
			if c <= 0 {
				break
			}
			m[j] = m[j-1]
		}
		m[j] = v
	}
	return distinct
}

// sortEntries is sortMembers for the keys of a map.
func sortEntries(list []Entry) (distinct bool) {
	i := 1
	for i < len(list) && compare(&list[i-1].Key, &list[i].Key) < 0 {
		i++
	}
	if i >= len(list) {
		return true
	}
	if len(list) > insertionLimit {
		slices.SortStableFunc(list, func(a, b Entry) int { return compare(&a.Key, &b.Key) })
		return duplicateKey(list) == 0
	}
	distinct = true
	for ; i < len(list); i++ {
		e, j := list[i], i
		for ; j > 0; j-- {
			c := compare(&list[j-1].Key, &e.Key)
			if c == 0 {
				distinct = false
			}
			if c <= 0 {
				break
			}
			list[j] = list[j-1]
		}
		list[j] = e
	}
	return distinct
}

// duplicateMember returns the index of a member equal to its predecessor, or 0.
func duplicateMember(sorted []Value) int {
	for i := 1; i < len(sorted); i++ {
		if equal(&sorted[i-1], &sorted[i]) {
			return i
		}
	}
	return 0
}

// duplicateKey returns the index of a key equal to its predecessor, or 0.
func duplicateKey(sorted []Entry) int {
	for i := 1; i < len(sorted); i++ {
		if equal(&sorted[i-1].Key, &sorted[i].Key) {
			return i
		}
	}
	return 0
}

// MapBuilder collects entries and makes maps of them; of equal keys the last
// wins. The zero MapBuilder is empty and ready. It is not safe for concurrent
// use.
type MapBuilder struct {
	n    int          // entries in room, unless more is used
	room [usual]Entry // enough for most maps, without heap allocation
	more []Entry      // all entries, once room is full
}

// usual is the capacity that suffices for most maps.
const usual = 10

// Set adds or replaces the value of a key.
func (b *MapBuilder) Set(key, val Value) {
	switch {
	case b.more != nil:
		b.more = append(b.more, Entry{key, val})
	case b.n < usual:
		b.room[b.n] = Entry{key, val}
		b.n++
	default:
		b.more = append(append(make([]Entry, 0, 2*usual), b.room[:]...), Entry{key, val})
	}
}

// Key adds or replaces the value of a keyword key, given without colon. It
// panics if name is not a valid keyword name; it is meant for literals.
func (b *MapBuilder) Key(name string, val Value) { b.Set(K(name), val) }

// Opt is Key for a value that is left out if it is nil.
func (b *MapBuilder) Opt(name string, val Value) {
	if !val.IsNil() {
		b.Key(name, val)
	}
}

// OptText is Key for a string that is left out if it is empty.
func (b *MapBuilder) OptText(name, s string) {
	if s != "" {
		b.Key(name, Text(s))
	}
}

// OptKeyword is Key for a keyword, given without colon, that is left out if it
// is empty. It panics like [K].
func (b *MapBuilder) OptKeyword(name, keyword string) {
	if keyword != "" {
		b.Key(name, K(keyword))
	}
}

// OptInt is Key for an integer that is left out if it is 0.
func (b *MapBuilder) OptInt(name string, n int64) {
	if n != 0 {
		b.Key(name, Int(n))
	}
}

// OptTrue is Key for a boolean that is left out if it is false.
func (b *MapBuilder) OptTrue(name string, is bool) {
	if is {
		b.Key(name, Bool(true))
	}
}

// Map returns a map of the entries added so far; the builder can be used
// further. It panics with a *ValueError if the map would nest deeper than
// MaxDepth.
func (b *MapBuilder) Map() Value {
	if b.more != nil {
		b.more = b.more[:lastWins(b.more)]
		return mapSorted(b.more)
	}
	b.n = lastWins(b.room[:b.n])
	return mapSorted(b.room[:b.n])
}

func mapSorted(list []Entry) Value {
	n := newNode(2 * len(list))
	copy(entries(n.elems), list)
	return sequenceSorted(n)
}

// lastWins sorts entries, keeps the last of those with equal keys, and returns
// how many remain at the front.
func lastWins(list []Entry) int {
	if sortEntries(list) {
		return len(list)
	}
	n := 0
	for i := range list {
		if n > 0 && equal(&list[n-1].Key, &list[i].Key) {
			n--
		}
		list[n] = list[i]
		n++
	}
	return n
}

// sequenceSorted wraps sorted and distinct entries.
func sequenceSorted(n *node) Value {
	depth := depthAbove(n.elems)
	if depth > MaxDepth {
		panic(depthError(KindMap))
	}
	return collection(KindMap, n, depth)
}

// The tags with a meaning in this package.
const (
	tagInst   = "inst"
	tagUUID   = "uuid"
	tagSecret = "ferment/secret"
	tagValue  = "ferment/value"
)

// Tagged returns a tagged literal. The tags inst and uuid give an instant and a
// UUID; of the namespace ferment only the reserved tags with their own form of
// value are accepted. A bad tag or value or a nesting deeper than MaxDepth
// gives a *ValueError.
func Tagged(tag string, v Value) (Value, error) {
	_, problem := checkName(tag)
	if problem == "" {
		switch {
		case tag == "/" || isReservedWord(tag):
			problem = "it is not a tag symbol"
		case strings.IndexByte("!=?_", tag[0]) >= 0:
			problem = "behind # its first character means something else"
		}
	}
	if problem != "" {
		return Value{}, &ValueError{Kind: KindTagged, Code: "invalid-tag", Message: nameMessage("tag", tag, problem)}
	}
	out, code, message := applyTag(tag, v)
	if code != "" {
		return Value{}, &ValueError{Kind: KindTagged, Code: code, Message: message}
	}
	if out.Depth() > MaxDepth {
		return Value{}, depthError(KindTagged)
	}
	return out, nil
}

// applyTag returns the value of a tag with a valid name.
func applyTag(tag string, v Value) (out Value, code, message string) {
	switch tag {
	case tagInst:
		if v.kind == KindString {
			if inst, ok := parseInst(v.text()); ok {
				return inst, "", ""
			}
		}
		return Value{}, "invalid-inst", "#inst takes an RFC 3339 string with seconds and offset"
	case tagUUID:
		if v.kind == KindString {
			if u, ok := parseUUID(v.text()); ok {
				return UUID(u), "", ""
			}
		}
		return Value{}, "invalid-uuid", "#uuid takes a string of 8-4-4-4-12 hex digits"
	case tagSecret:
		if v.kind != KindString && v.kind != KindKeyword {
			return Value{}, "reserved-tag", "#ferment/secret takes a string or a keyword"
		}
	case tagValue:
		if v.kind != KindString || !isHash(v.text()) {
			return Value{}, "reserved-tag", `#ferment/value takes a string "b3:" with 64 lower-case hex digits`
		}
	default:
		if strings.HasPrefix(tag, "ferment/") {
			return Value{}, "reserved-tag", "the tag namespace ferment is reserved"
		}
	}
	return taggedValue(tag, v), "", ""
}

// brief returns the text of v for a message: short, and with secrets masked.
func (v *Value) brief() string {
	if v.holdsSecret() {
		return "#ferment/secret \"***\""
	}
	text := v.spelledAtMost(160)
	return clip(escapeControls(text), 40)
}

func (v *Value) holdsSecret() bool {
	if v.kind == KindTagged {
		t := v.tagged()
		return t.tag == tagSecret || t.val.holdsSecret()
	}
	if !v.kind.isCollection() {
		return false
	}
	elems := v.elems()
	for i := range elems {
		if elems[i].holdsSecret() {
			return true
		}
	}
	return false
}

// spelledAtMost returns the first n bytes or a little more of the canonical text.
func (v *Value) spelledAtMost(n int) string {
	c := cursor{root: v}
	var out []byte
	for len(out) < n {
		chunk := c.next()
		if len(chunk) == 0 {
			break
		}
		out = append(out, chunk...)
	}
	return string(out)
}
