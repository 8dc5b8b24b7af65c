package ignore

// Rules are the lists that apply to a whole workspace.
type Rules struct {
	// Above take precedence over the files of directories: the patterns of a
	// request, then those of the workspace.
	Above []*List
	// Below apply if nothing else decides: info/exclude, then core.excludesFile.
	Below []*List
}

// Dir is a directory with the lists that are in force in it.
type Dir struct {
	rules *Rules
	up    *Dir // the nearest directory above that has lists
	lists []*List
	path  string // empty, or with a slash at its end
}

// Root returns the root directory. lists are its own, in order of precedence.
func (r *Rules) Root(lists ...*List) *Dir {
	return &Dir{rules: r, lists: filled(lists)}
}

// Enter returns a directory inside d.
func (d *Dir) Enter(name string, lists ...*List) *Dir {
	in := &Dir{rules: d.rules, up: d, lists: filled(lists), path: d.path + name + "/"}
	if len(d.lists) == 0 {
		in.up = d.up
	}
	return in
}

// Add returns d with lists as its own lists. Callers use it if they enter a
// directory before they have read its lists.
func (d *Dir) Add(lists ...*List) *Dir {
	if lists = filled(lists); len(lists) == 0 {
		return d
	}
	c := *d
	c.lists = lists
	return &c
}

// Bare returns d without its own lists.
func (d *Dir) Bare() *Dir {
	c := *d
	c.lists = nil
	return &c
}

func filled(lists []*List) []*List {
	var some []*List
	for _, l := range lists {
		if l.Len() > 0 {
			some = append(some, l)
		}
	}
	return some
}

// Match returns the pattern that decides about an entry of d, nil if none
// matches. The entry is ignored if the pattern is not negative.
func (d *Dir) Match(name string, dir bool) *Pattern {
	path := name
	if d.path != "" {
		path = d.path + name
	}
	if p := first(d.rules.Above, path, name, dir); p != nil {
		return p
	}
	for at := d; at != nil; at = at.up {
		if p := first(at.lists, path, name, dir); p != nil {
			return p
		}
	}
	return first(d.rules.Below, path, name, dir)
}

func first(lists []*List, path, name string, dir bool) *Pattern {
	for _, l := range lists {
		if p := l.match(path, name, dir); p != nil {
			return p
		}
	}
	return nil
}
