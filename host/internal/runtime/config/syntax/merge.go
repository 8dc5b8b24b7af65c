package syntax

import (
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// Merge combines two trees of the same block; b overrides a (HCL-014). Neither is modified.
// Attributes keep the ones that they override, and conflicts are resolved only after the last
// merge, so the operation is associative.
func Merge(a, b *Node) *Node {
	out := *a
	out.Damaged = a.Damaged || b.Damaged
	out.Also = append(append(slices.Clone(a.Also), spot{b.Header, b.Source}), b.Also...)
	out.Layers = append(slices.Clone(a.Layers), b.Layers...)
	out.twins = nil
	out.Attrs = make(map[string]*Attribute, len(a.Attrs)+len(b.Attrs))
	maps.Copy(out.Attrs, a.Attrs)
	for name, later := range b.Attrs {
		if earlier, ok := a.Attrs[name]; ok {
			later = later.over(earlier)
		}
		out.Attrs[name] = later
	}
	out.Blocks = slices.Clone(a.Blocks)
	where := make(map[string]int, len(a.Blocks))
	for i, block := range a.Blocks {
		where[block.Identity()] = i
	}
	for _, block := range b.Blocks {
		if i, ok := where[block.Identity()]; ok {
			out.Blocks[i] = Merge(out.Blocks[i], block)
		} else {
			out.Blocks = append(out.Blocks, block)
		}
	}
	return &out
}

// over returns the attribute, which overrides an earlier one of the same name.
func (a *Attribute) over(earlier *Attribute) *Attribute {
	out := *a
	out.Under = append(earlier.Stack(), a.Under...)
	return &out
}

// Stack returns the attribute, without its Under, after those that it overrides; the weakest is the
// first one.
func (a *Attribute) Stack() []*Attribute {
	bare := *a
	bare.Under = nil
	return append(slices.Clone(a.Under), &bare)
}

// Overwritten is a value that a later file overrides.
type Overwritten struct {
	At   *diag.Range
	Text string // source text
}

// Places returns the overridden values of the attribute.
func (a *Attribute) Places() []Overwritten {
	var out []Overwritten
	for _, b := range a.Under {
		out = append(out, Overwritten{b.At(), SourceText(b.Source, b.Expr)})
	}
	return out
}
