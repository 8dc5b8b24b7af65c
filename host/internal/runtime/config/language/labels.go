package language

import (
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

var (
	identLabel     = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)
	qualifiedLabel = regexp.MustCompile(`^[a-z][a-z0-9.-]*/[a-z0-9*][a-z0-9.+*?!_-]*$`)
)

// IsIdentLabel reports whether a text is a name in the grammar of LabelIdent.
func IsIdentLabel(s string) bool { return identLabel.MatchString(s) }

// IsQualifiedLabel reports whether a text is a name in the grammar of LabelQualified.
func IsQualifiedLabel(s string) bool { return qualifiedLabel.MatchString(s) && len(s) <= 128 }

// LabelLike returns the valid label nearest to an invalid one; empty if there is none.
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

// Home returns the hint with the nested block that has the name; empty if there is none.
func (b *Block) Home(name string) string {
	for _, inner := range b.Blocks {
		if _, ok := inner.Attr(name); ok {
			return "put it into " + inner.Name + " { ... }"
		}
	}
	return ""
}

// Elsewhere returns the hint with the top-level blocks that have the name; empty if there are none or too many.
func Elsewhere(name string) string {
	const most = 3
	var homes []string
	for i := range Specification().Blocks {
		b := &Specification().Blocks[i]
		_, isAttr := b.Attr(name)
		_, isBlock := b.Block(name)
		if isAttr || isBlock {
			homes = append(homes, b.Shape())
		}
	}
	if len(homes) == 0 || len(homes) > most {
		return ""
	}
	return diag.Quote(name) + " belongs in " + strings.Join(homes, " or ")
}

// Settings returns the hint for settings that a plugin defines; empty if the block has no such place.
func (b *Block) Settings(kind string) string {
	for _, inner := range b.Blocks {
		if inner.Foreign && kind == "attribute" {
			return "settings of the plugin belong in " + inner.Name + " { ... }"
		}
	}
	return ""
}
