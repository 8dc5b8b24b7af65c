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

// sequence owns n from here on.
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

// setOf owns n from here on.
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
// no keyword name.
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

// mapOf owns n, which alternates keys and values, from here on.
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

// insertionLimit is the size up to which insertion sort beats the general one.
const insertionLimit = 12

// sortMembers puts members into canonical order, keeping equal ones in the order
// they came in, and reports whether all are distinct. Sorted input costs one
// pass.
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
// wins. The zero MapBuilder is empty and ready. It is for one goroutine.
type MapBuilder struct {
	n    int          // entries in room, until there are too many
	room [usual]Entry // of most maps: it need not be on the heap
	more []Entry      // all entries, once there are more
}

// usual is the number of entries that most maps have at most.
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
// panics if name is no keyword name: it is meant for literals.
func (b *MapBuilder) Key(name string, val Value) { b.Set(K(name), val) }

// Map returns a map of what was added so far; the builder can be used further.
// It panics with a *ValueError if the map would nest deeper than MaxDepth.
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

// lastWins sorts entries, of which later ones replace earlier ones with an equal
// key, and tells how many are left at the front.
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

// The tags that this package gives a meaning.
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
			problem = "it is no symbol of a tag"
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

// applyTag gives a tag with a valid name its meaning.
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

// brief spells v for a message: short, and with secrets masked.
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
