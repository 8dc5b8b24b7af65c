package language

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

var (
	identLabel     = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)
	qualifiedLabel = regexp.MustCompile(`^[a-z][a-z0-9.-]*/[a-z0-9*][a-z0-9.+*?!_-]*$`)
)

// IsIdentLabel reports whether a text matches the grammar of LabelIdent.
func IsIdentLabel(s string) bool { return identLabel.MatchString(s) }

// IsQualifiedLabel reports whether a text matches the grammar of LabelQualified, with at most 128
// bytes.
func IsQualifiedLabel(s string) bool { return qualifiedLabel.MatchString(s) && len(s) <= 128 }

// LabelLike returns the valid label most similar to an invalid one; empty if there is none.
func (b *Block) LabelLike(label string) string {
	label = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(label)), ":")
	form := identLabel
	if b.Label == LabelQualified {
		form = qualifiedLabel
		if !strings.Contains(label, "/") {
			label = strings.Replace(label, " ", "/", 1)
		}
	}
	if label = strings.ReplaceAll(label, " ", "-"); form.MatchString(label) {
		return label
	}
	return ""
}

// Shape returns the syntax of a block of that type.
func (b *Block) Shape() string {
	if b.Label == LabelNone {
		return b.Name + " { ... }"
	}
	return b.Name + ` "NAME" { ... }`
}

// Home returns a hint that names the first nested block of b that accepts an attribute or block
// name; empty if none does, or if b is the root.
func (b *Block) Home(name string) string {
	if b == Specification() {
		return "" // several blocks may accept it
	}
	for i := range b.Blocks {
		if inner := &b.Blocks[i]; inner.accepts(name) {
			return "put it into `" + inner.Shape() + "`"
		}
	}
	return ""
}

// Elsewhere returns a hint that names the blocks, at any depth, that accept an attribute or block
// name; empty if there are none or too many.
func Elsewhere(name string) string {
	return belongs(name, func(b *Block) bool { return b.accepts(name) })
}

// BlockElsewhere works like Elsewhere for the name of a block.
func BlockElsewhere(name string) string {
	return belongs(name, func(b *Block) bool { _, ok := b.Block(name); return ok })
}

func (b *Block) accepts(name string) bool {
	_, isAttr := b.Attr(name)
	_, isBlock := b.Block(name)
	return isAttr || isBlock
}

func belongs(name string, in func(*Block) bool) string {
	const most = 5
	homes := accepting(Specification(), in, func(inner string) string { return inner })
	if len(homes) == 0 || len(homes) > most {
		return ""
	}
	return diag.Quote(name) + " belongs in " + strings.Join(homes, " or ")
}

// accepting returns the syntax of b and of the blocks in it for which in is true. outer adds the
// blocks around b.
func accepting(b *Block, in func(*Block) bool, outer func(inner string) string) []string {
	var homes []string
	if in(b) {
		home := "`" + outer("...") + "`"
		if b == Specification() {
			home = "the file, outside of other blocks"
		}
		homes = append(homes, home)
	}
	for i := range b.Variants {
		homes = append(homes, accepting(&b.Variants[i], in, outer)...)
	}
	for i := range b.Blocks {
		inner := &b.Blocks[i]
		homes = append(homes, accepting(inner, in, func(more string) string {
			return outer(strings.Replace(inner.Shape(), "...", more, 1))
		})...)
	}
	return slices.Compact(homes)
}

// Settings returns a hint about the block for attributes that a plugin defines; empty if b has no
// such nested block or kind is not "attribute".
func (b *Block) Settings(kind string) string {
	for _, inner := range b.Blocks {
		if inner.Foreign && kind == "attribute" {
			return "settings of the plugin belong in " + inner.Name + " { ... }"
		}
	}
	return ""
}
