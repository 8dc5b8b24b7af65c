package ignore

// Glob is one pattern that is compared with whole paths.
type Glob struct{ list *List }

// ParseGlob parses a pattern with the rules of ignore files: without a slash it
// is compared with the last component of a path, otherwise with the whole path.
// Invalid text gives a Glob that matches nothing; see Valid.
func ParseGlob(text string) *Glob {
	l := Parse("", "", []byte(text))
	if l.Len() != 1 || l.patterns[0].negative {
		return &Glob{}
	}
	return &Glob{list: l}
}

// Valid reports whether the text was a pattern.
func (g *Glob) Valid() bool { return g.list != nil }

// Match reports whether a path or a directory above it matches.
func (g *Glob) Match(path string) bool {
	return g.list.Ignores(path, false) != nil
}
