package config

import (
	"maps"
	"slices"
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
