package effects

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	slashpath "path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Problem is one problem of a scope. Path starts at the scope.
type Problem struct {
	Path    []edn.Value
	Message string // predicate of the field, such as "is not an absolute path"
	Nearest string // the nearest known key, if the key is unknown
}

// String returns path and message in one line.
func (p Problem) String() string {
	return edn.Vector(p.Path...).String() + " " + p.Message
}

// maxScopeMembers bounds every list of a scope.
const maxScopeMembers = 1024

// ParseScope reads the scope of one effect. Lists may be vectors, lists or
// sets; names may be keywords. It reports every problem; the scope is valid
// only if there is none.
func ParseScope(effect string, v edn.Value) (Scope, []Problem) {
	p := scopeParser{}
	fields := Fields(effect)
	if fields == nil {
		p.add(nil, fmt.Sprintf("has no scope; effects with one are %s", strings.Join(Scoped(), ", ")))
		return Scope{}, p.problems
	}
	if v.Kind() != edn.KindMap {
		p.add(nil, "is not a map")
		return Scope{}, p.problems
	}
	var s Scope
	for key, val := range v.Entries() {
		name := scopeWord(key)
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == name })
		if i < 0 {
			known := make([]string, len(fields))
			for k := range fields {
				known[k] = fields[k].Key
			}
			p.problems = append(p.problems, Problem{
				Path:    []edn.Value{key},
				Message: "is not part of a scope of :" + effect,
				Nearest: schema.Nearest(name, known),
			})
			continue
		}
		p.at = []edn.Value{key}
		p.field(&fields[i], &s, val)
	}
	return s, p.problems
}

type scopeParser struct {
	problems []Problem
	at       []edn.Value
}

func (p *scopeParser) add(at []edn.Value, message string) {
	p.problems = append(p.problems, Problem{Path: slices.Concat(p.at, at), Message: message})
}

func scopeWord(v edn.Value) string {
	if name, ok := v.AsKeyword(); ok {
		return name
	}
	name, _ := v.AsString()
	return name
}

func (p *scopeParser) field(f *Field, s *Scope, v edn.Value) {
	switch {
	case f.flag != nil:
		b, ok := v.AsBool()
		if !ok {
			p.add(nil, "is not a boolean")
		}
		*f.flag(s) = Flag{V: b, Set: true}
	case f.limit != nil:
		n, ok := v.AsInt()
		if !ok || n < 0 {
			p.add(nil, "is not a whole number of 0 or more")
		}
		*f.limit(s) = Bound{N: n, Set: true}
	case f.names != nil:
		*f.names(s) = List[string]{V: p.names(f, v), Set: true}
	case f.ports != nil:
		*f.ports(s) = List[int]{V: p.ports(v), Set: true}
	case f.rules != nil:
		*f.rules(s) = List[ArgumentRule]{V: p.rules(v), Set: true}
	case f.word != nil:
		t, ok := v.AsString()
		if !ok {
			p.add(nil, "is not a string")
		}
		*f.word(s) = Word{V: t, Set: true}
	}
}

// members iterates over a list, vector or set.
func (p *scopeParser) members(v edn.Value, each func(i int64, m edn.Value)) {
	switch v.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
	default:
		p.add(nil, "is not a list")
		return
	}
	if v.Len() > maxScopeMembers {
		p.add(nil, fmt.Sprintf("has %d members, the limit is %d", v.Len(), maxScopeMembers))
		return
	}
	i := int64(0)
	for m := range v.Elems() {
		each(i, m)
		i++
	}
}

func (p *scopeParser) names(f *Field, v edn.Value) []string {
	out := []string{}
	p.members(v, func(i int64, m edn.Value) {
		name := scopeWord(m)
		if f.change != nil {
			name = f.change(name)
		}
		name, problem := cleanMember(f.Kind, name)
		if problem != "" {
			p.add([]edn.Value{edn.Int(i)}, problem)
			return
		}
		out = append(out, name)
	})
	return Tidy(f.Kind, out)
}

// cleanMember normalizes a member of a list or returns the problem with it.
func cleanMember(kind Kind, name string) (clean, problem string) {
	if name == "" && kind != KindPrefixes {
		return "", "is not a text"
	}
	if strings.ContainsRune(name, 0) {
		return "", "holds a NUL character"
	}
	switch kind {
	case KindFiles, KindDirs:
		if !slashpath.IsAbs(name) {
			return "", "is not an absolute path"
		}
		return slashpath.Clean(name), ""
	case KindPrefixes:
		if slashpath.IsAbs(name) {
			return "", "is not a relative path: it is a prefix below a root"
		}
		if slices.Contains(strings.Split(name, "/"), "..") {
			return "", "leaves its root with \"..\""
		}
		return slashpath.Clean(name), ""
	case KindHosts:
		return cleanHost(name)
	}
	return name, ""
}

// cleanHost converts a host pattern to lower case without a trailing dot.
func cleanHost(name string) (clean, problem string) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if a, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return a.Unmap().String(), ""
	}
	plain := strings.TrimPrefix(name, "*.")
	if !hostName(plain) {
		return "", "is not a host: write a name, an address, or *.suffix"
	}
	return name, ""
}

func hostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				return false
			}
		}
	}
	return true
}

func (p *scopeParser) ports(v edn.Value) []int {
	out := []int{}
	p.members(v, func(i int64, m edn.Value) {
		n, ok := m.AsInt()
		if !ok || n < 1 || n > 65535 {
			p.add([]edn.Value{edn.Int(i)}, "is not a port 1..65535")
			return
		}
		out = append(out, int(n))
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// rules reads argument rules. A command has one list of patterns, or several
// that all apply.
func (p *scopeParser) rules(v edn.Value) []ArgumentRule {
	out := []ArgumentRule{}
	if v.Kind() != edn.KindMap {
		p.add(nil, "is not a map from command to patterns")
		return out
	}
	for key, val := range v.Entries() {
		command, problem := cleanMember(KindFiles, scopeWord(key))
		if problem != "" {
			p.add([]edn.Value{key}, problem)
			continue
		}
		r := ArgumentRule{Command: command}
		first, _ := val.Nth(0)
		if first.IsString() || val.Len() == 0 {
			val = edn.Vector(val)
		}
		for alternatives := range val.Elems() {
			r.Patterns = append(r.Patterns, p.patterns(key, alternatives))
		}
		out = append(out, tidyRule(r))
	}
	slices.SortFunc(out, func(a, b ArgumentRule) int { return cmp.Compare(a.Command, b.Command) })
	return out
}

func (p *scopeParser) patterns(key, v edn.Value) []string {
	out := []string{}
	p.members(v, func(i int64, m edn.Value) {
		text, ok := m.AsString()
		if !ok {
			p.add([]edn.Value{key, edn.Int(i)}, "is not a pattern")
			return
		}
		if _, err := compileArgument(text); err != nil {
			p.add([]edn.Value{key, edn.Int(i)}, err.Error())
			return
		}
		out = append(out, text)
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// compileArgument compiles a pattern that must match a whole argument. The
// error text continues the name of the pattern.
func compileArgument(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(`^(?s:` + pattern + `)$`)
	var fault *syntax.Error
	if errors.As(err, &fault) { // without its Expr, which contains the anchors
		return nil, fmt.Errorf("is not a regular expression: %s", fault.Code)
	}
	return re, err
}

// tidyRule sorts the lists of a rule.
func tidyRule(r ArgumentRule) ArgumentRule {
	slices.SortFunc(r.Patterns, slices.Compare)
	r.Patterns = slices.CompactFunc(r.Patterns, slices.Equal)
	return r
}

// Tidy returns list sorted, without members that another member covers. It may
// modify list.
func Tidy(kind Kind, list []string) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	switch kind {
	case KindDirs, KindPrefixes, KindHosts:
	default:
		return list
	}
	out := list[:0:0]
	for i, name := range list {
		covered := false
		for k, other := range list {
			covered = covered || k != i && Covers(kind, other, name)
		}
		if !covered {
			out = append(out, name)
		}
	}
	if out == nil {
		out = []string{}
	}
	return out
}

// Covers reports whether member wide of a list permits everything that member
// narrow permits.
func Covers(kind Kind, wide, narrow string) bool {
	if wide == narrow {
		return true
	}
	switch kind {
	case KindDirs:
		return wide == "/" || strings.HasPrefix(narrow, wide+"/")
	case KindPrefixes:
		return wide == "." || strings.HasPrefix(narrow, wide+"/")
	case KindHosts:
		suffix, wild := strings.CutPrefix(wide, "*")
		return wild && strings.HasSuffix(strings.TrimPrefix(narrow, "*"), suffix) && (narrow[0] == '*' || !isAddress(narrow))
	}
	return false
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
