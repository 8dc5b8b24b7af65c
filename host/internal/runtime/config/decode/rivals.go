package decode

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// rivals warns about different values of an attribute in files of one directory, because their
// order does not show which one is intended. Objects of a map attribute are merged, so only equal
// keys conflict.
func (d *Decoder) rivals(a *syntax.Attribute, at []string) {
	all := a.Stack()
	for i := 1; i < len(all); i++ {
		earlier, later := all[i-1], all[i]
		if earlier.Source == later.Source || directory(earlier.Source) != directory(later.Source) {
			continue
		}
		shared := ""
		if a.Spec != nil && a.Spec.Type.Kind == language.KindMap {
			x := syntax.ExprIn{Expr: earlier.Expr, Source: earlier.Source}
			y := syntax.ExprIn{Expr: later.Expr, Source: later.Source}
			if x.AsObject() && y.AsObject() {
				keys := sharedKeys(x, y)
				if len(keys) == 0 {
					continue
				}
				shared = fmt.Sprintf(" (%s)", strings.Join(keys, ", "))
			}
		}
		d.Report.Add(diag.Diagnostic{
			Type:     "config/overridden",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("%s%s is set twice in one directory; this file takes effect", language.Subject(at), shared),
			Range:    later.Source.Range(later.NameRange),
			Path:     at,
			Related:  []diag.Related{{Range: earlier.Source.Range(earlier.NameRange), Message: "is overridden"}},
			Hint:     "keep one of the two, or move the stronger one into a later directory",
		})
	}
}

// rivalLocals is rivals for locals.
func (d *Decoder) rivalLocals(tree *syntax.Node) {
	for _, b := range tree.Blocks {
		if !b.Spec.Open {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(b.Attrs)) {
			d.rivals(b.Attrs[name], []string{"locals", name})
		}
	}
}

// sharedKeys returns the literal keys that two objects have in common.
func sharedKeys(x, y syntax.ExprIn) []string {
	known := map[string]bool{}
	for _, key := range syntax.WrittenKeys(x) {
		known[key] = true
	}
	var out []string
	for _, key := range syntax.WrittenKeys(y) {
		if known[key] {
			out = append(out, key)
		}
	}
	return out
}

// directory returns the printed directory of the file.
func directory(s *diag.Source) string { return filepath.ToSlash(filepath.Dir(s.Name)) }
