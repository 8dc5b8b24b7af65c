package ignore

import "strings"

// Explainer decides about paths relative to the root. It caches the directories
// of the last path, so many paths in the order of a tree are cheap. It must be
// used by one goroutine.
type Explainer struct {
	rules   *Rules
	listsOf func(dir string) []*List
	steps   []step // the root, and the directories on the way to the last path
}

// step is a directory, and what decides about it.
type step struct {
	dir     *Dir
	pattern *Pattern
	ignored bool
}

// NewExplainer returns an explainer. listsOf returns the lists of a directory in
// order of precedence.
func NewExplainer(rules *Rules, listsOf func(dir string) []*List) *Explainer {
	return &Explainer{rules: rules, listsOf: listsOf}
}

// Explain returns the pattern p that decides about a path (nil if none matches), the path that p
// matches, and whether the path is ignored. A path below an ignored directory has the result of
// that directory.
func (e *Explainer) Explain(path string, dir bool) (p *Pattern, at string, ignored bool) {
	if len(e.steps) == 0 {
		e.steps = append(e.steps, step{dir: e.rules.Root(e.listsOf("")...)})
	}
	end := strings.LastIndexByte(path, '/')
	last := e.enter(path[:max(end, 0)])
	if last.ignored {
		return last.pattern, strings.TrimSuffix(last.dir.path, "/"), true
	}
	p = last.dir.Match(path[end+1:], dir)
	return p, path, p != nil && !p.negative
}

// enter returns the step of a directory, or that of the ignored one above it.
func (e *Explainer) enter(dir string) *step {
	for len(e.steps) > 1 {
		top := e.steps[len(e.steps)-1].dir.path // with a slash at its end
		if len(dir) >= len(top)-1 && strings.HasPrefix(dir, top[:len(top)-1]) && (len(dir) == len(top)-1 || dir[len(top)-1] == '/') {
			break
		}
		e.steps = e.steps[:len(e.steps)-1]
	}
	for {
		top := &e.steps[len(e.steps)-1]
		if top.ignored || len(dir) < len(top.dir.path) {
			return top
		}
		name, _, _ := strings.Cut(dir[len(top.dir.path):], "/")
		if name == "" {
			return top
		}
		in := step{pattern: top.dir.Match(name, true)}
		if in.ignored = in.pattern != nil && !in.pattern.negative; in.ignored {
			in.dir = top.dir.Enter(name)
		} else {
			in.dir = top.dir.Enter(name, e.listsOf(top.dir.path+name)...)
		}
		e.steps = append(e.steps, in)
	}
}
