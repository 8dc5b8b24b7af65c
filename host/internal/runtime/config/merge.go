package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// merge combines two trees of the same block, b over a (HCL-014). Neither is
// modified. Attributes keep the ones that they override, and conflicts are
// resolved only after the last merge, so the operation is associative.
func merge(a, b *node) *node {
	out := *a
	out.damaged = a.damaged || b.damaged
	out.also = append(append(slices.Clone(a.also), spot{b.header, b.source}), b.also...)
	out.layers = append(slices.Clone(a.layers), b.layers...)
	out.twins = nil
	out.attrs = make(map[string]*attribute, len(a.attrs)+len(b.attrs))
	maps.Copy(out.attrs, a.attrs)
	for name, later := range b.attrs {
		if earlier, ok := a.attrs[name]; ok {
			later = later.over(earlier)
		}
		out.attrs[name] = later
	}
	out.blocks = slices.Clone(a.blocks)
	where := make(map[string]int, len(a.blocks))
	for i, block := range a.blocks {
		where[block.identity()] = i
	}
	for _, block := range b.blocks {
		if i, ok := where[block.identity()]; ok {
			out.blocks[i] = merge(out.blocks[i], block)
		} else {
			out.blocks = append(out.blocks, block)
		}
	}
	return &out
}

// over returns the attribute with an earlier one of that name below it.
func (a *attribute) over(earlier *attribute) *attribute {
	out := *a
	out.under = append(earlier.stack(), a.under...)
	return &out
}

// stack returns the attribute and those that it overrides, weakest first.
func (a *attribute) stack() []*attribute {
	bare := *a
	bare.under = nil
	return append(slices.Clone(a.under), &bare)
}

// overwritten is a value that a stronger file replaced.
type overwritten struct {
	at   *Range
	text string // source text
}

// places returns the overridden values of the attribute.
func (a *attribute) places() []overwritten {
	var out []overwritten
	for _, b := range a.under {
		out = append(out, overwritten{b.at(), sourceText(b.source, b.expr)})
	}
	return out
}

// directory returns the printed directory of the file.
func (s *Source) directory() string { return filepath.ToSlash(filepath.Dir(s.Name)) }

// rivals warns about different values in files of one directory, where no layer
// order shows which one is meant. Objects of a map attribute merge; only equal
// keys conflict.
func (d *decoder) rivals(a *attribute, at []string) {
	all := a.stack()
	for i := 1; i < len(all); i++ {
		earlier, later := all[i-1], all[i]
		if earlier.source == later.source || earlier.source.directory() != later.source.directory() {
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
