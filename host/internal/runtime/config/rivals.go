package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// rivals warns about different values in files of one directory, where no layer
// order shows which one is meant. Objects of a map attribute merge; only equal
// keys conflict.
func (d *decoder) rivals(a *attribute, at []string) {
	all := a.stack()
	for i := 1; i < len(all); i++ {
		earlier, later := all[i-1], all[i]
		if earlier.source == later.source || directory(earlier.source) != directory(later.source) {
			continue
		}
		shared := ""
		if a.spec != nil && a.spec.Type.Kind == KindMap {
			x, y := exprIn{earlier.expr, earlier.source}, exprIn{later.expr, later.source}
			if x.asObject() && y.asObject() {
				keys := sharedKeys(x, y)
				if len(keys) == 0 {
					continue
				}
				shared = fmt.Sprintf(" (%s)", strings.Join(keys, ", "))
			}
		}
		d.report.add(Diagnostic{
			Type:     "config/overridden",
			Severity: SeverityWarning,
			Message:  fmt.Sprintf("%s%s is set twice in one directory; this file takes effect", subject(at), shared),
			Range:    later.source.hclRange(later.rng),
			Path:     at,
			Related:  []Related{{Range: earlier.source.hclRange(earlier.rng), Message: "is overridden"}},
			Hint:     "keep one of the two, or move the stronger one into a later directory",
		})
	}
}

// rivalLocals is rivals for locals.
func (d *decoder) rivalLocals(tree *node) {
	for _, b := range tree.blocks {
		if !b.spec.Open {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(b.attrs)) {
			d.rivals(b.attrs[name], []string{"locals", name})
		}
	}
}

// sharedKeys returns the literal keys that two objects have in common.
func sharedKeys(x, y exprIn) []string {
	known := map[string]bool{}
	for _, key := range writtenKeys(x) {
		known[key] = true
	}
	var out []string
	for _, key := range writtenKeys(y) {
		if known[key] {
			out = append(out, key)
		}
	}
	return out
}

// directory returns the printed directory of the file.
func directory(s *Source) string { return filepath.ToSlash(filepath.Dir(s.Name)) }
