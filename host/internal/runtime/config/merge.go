package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// merge combines two trees of one place of the configuration, the second over
// the first (HCL-014). Neither is changed. Attributes keep what they were
// written over, so that nothing is decided before all files are there; this
// makes the operation associative.
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

// over is the attribute written over an earlier one of that name.
func (a *attribute) over(earlier *attribute) *attribute {
	out := *a
	out.under = append(earlier.stack(), a.under...)
	return &out
}

// stack lists what is written for the attribute, the weakest first.
func (a *attribute) stack() []*attribute {
	bare := *a
	bare.under = nil
	return append(slices.Clone(a.under), &bare)
}

// overwritten is what a stronger file replaced.
type overwritten struct {
	at   *Range
	text string // as it is written
}

// places are where the attribute was written before it was written over.
func (a *attribute) places() []overwritten {
	var out []overwritten
	for _, b := range a.under {
		out = append(out, overwritten{b.at(), sourceText(b.source, b.expr)})
	}
	return out
}

// directory is that of the file, as it is printed.
func (s *Source) directory() string { return filepath.ToSlash(filepath.Dir(s.Name)) }

// rivals warns of values that compete inside one directory, where no order of
// layers shows which is meant. Objects of an attribute whose type is a map
// complete each other; their keys may compete.
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
		d.report.add(Diagnostic{Type: "config/overridden", Severity: SeverityWarning, Message: fmt.Sprintf("%s%s is written twice in one directory, and this file counts", subject(at), shared),
			Range: later.source.hclRange(later.rng), Path: at, Related: []Related{{Range: earlier.source.hclRange(earlier.rng), Message: "is written over"}},
			Hint: "keep one of the two, or move the stronger one into a later directory"})
	}
}

// rivalLocals does the same for names of expressions.
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

// sharedKeys lists the keys that two objects both have, as far as they are
// written out.
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
