package scan

import "strings"

// scope is a directory on the way to the paths of a partial scan. The nil scope
// and one that is whole contain everything below.
type scope struct {
	whole bool
	// listed means that all entries are examined, but known directories among
	// them are read only as far as names says.
	listed bool
	names  map[string]*scope
}

// newScope returns the scope of paths with all below them, and of the entries of
// directories. Without any, it is nil.
func newScope(paths, dirs []string) (*scope, error) {
	if len(paths)+len(dirs) == 0 {
		return nil, nil
	}
	root := &scope{}
	for _, p := range paths {
		at, err := root.at(p)
		if err != nil {
			return nil, err
		}
		at.whole = true
	}
	for _, p := range dirs {
		at, err := root.at(p)
		if err != nil {
			return nil, err
		}
		at.listed = true
	}
	return root, nil
}

// at returns the scope of a path below s.
func (s *scope) at(path string) (*scope, error) {
	if err := CheckPath(path); err != nil || path == "" {
		return s, err
	}
	for part := range strings.SplitSeq(path, "/") {
		if s.names == nil {
			s.names = map[string]*scope{}
		}
		if s.names[part] == nil {
			s.names[part] = &scope{}
		}
		s = s.names[part]
	}
	return s, nil
}

func (s *scope) partial() bool { return s != nil && !s.whole }

func (s *scope) child(name string) *scope {
	if !s.partial() {
		return nil
	}
	return s.names[name]
}

// keeps reports whether a known directory of this name is kept without reading
// it.
func (s *scope) keeps(name string) bool {
	return s.partial() && s.listed && s.names[name] == nil
}

// name returns the scope of an entry that a partial scan names.
func (s *scope) name(name string) (*scope, bool) {
	if !s.partial() {
		return nil, false
	}
	in, ok := s.names[name]
	return in, ok
}
