package edn

import "strconv"

// MapText returns v with f applied to every text in it: strings, the names of
// keywords, symbols and tags, keys of maps, and the text of all other scalars.
// A value whose text f changes becomes a string, and so does a tagged value
// whose tag changes; keys that become equal are numbered. f must not panic.
// Values nested deeper than MaxDepth also become strings.
func (v Value) MapText(f func(string) string) Value {
	return mapText(v, f, 0)
}

func mapText(v Value, f func(string) string, depth int) Value {
	if depth > MaxDepth {
		return Text("[not shown: nested too deeply]")
	}
	switch v.Kind() {
	case KindNil, KindBool:
		return v
	case KindString:
		s, _ := v.AsString()
		if clean := f(s); clean != s {
			return Text(clean)
		}
		return v
	case KindTagged:
		tag, inner, _ := v.AsTagged()
		if clean := f(tag); clean != tag {
			return Text(clean)
		}
		mapped := mapText(inner, f, depth+1)
		if same(&mapped, &inner) {
			return v
		}
		if out, err := Tagged(tag, mapped); err == nil {
			return out
		}
		return mapped // the tag requires another value
	case KindList, KindVector, KindSet:
		return mapElems(v, f, depth)
	case KindMap:
		return mapEntries(v, f, depth)
	}
	written := v.String()
	if clean := f(written); clean != written {
		return Text(clean)
	}
	return v
}

func mapElems(v Value, f func(string) string, depth int) Value {
	elems, changed := make([]Value, 0, v.Len()), false
	for e := range v.Elems() {
		mapped := mapText(e, f, depth+1)
		changed = changed || !same(&mapped, &e)
		elems = append(elems, mapped)
	}
	switch {
	case !changed:
		return v
	case v.Kind() == KindList:
		return List(elems...)
	case v.Kind() == KindVector:
		return Vector(elems...)
	}
	entries := make([]Entry, len(elems))
	for i, e := range elems {
		entries[i] = Entry{Key: e}
	}
	entries = apart(entries)
	for i := range entries {
		elems[i] = entries[i].Key
	}
	return must(Set(elems))
}

func mapEntries(v Value, f func(string) string, depth int) Value {
	entries, changed := make([]Entry, 0, v.Len()), false
	for k, e := range v.Entries() {
		key, val := mapText(k, f, depth+1), mapText(e, f, depth+1)
		changed = changed || !same(&key, &k) || !same(&val, &e)
		entries = append(entries, Entry{Key: key, Val: val})
	}
	if !changed {
		return v
	}
	return must(Map(apart(entries)))
}

// apart numbers equal keys.
func apart(entries []Entry) []Entry {
	taken := make(map[string]bool, len(entries))
	for i, e := range entries {
		written := e.Key.String()
		for n := 2; taken[e.Key.String()]; n++ {
			e.Key = Text(written + " " + strconv.Itoa(n))
		}
		taken[e.Key.String()] = true
		entries[i] = e
	}
	return entries
}
