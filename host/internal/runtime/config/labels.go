package config

import (
	"regexp"
	"strings"
)

var (
	identLabel     = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)
	qualifiedLabel = regexp.MustCompile(`^[a-z][a-z0-9.-]*/[a-z0-9*][a-z0-9.+*?!_-]*$`)
)

// isIdentLabel reports whether a text is a name in the grammar of LabelIdent.
func isIdentLabel(s string) bool { return identLabel.MatchString(s) }

// isQualifiedLabel reports whether a text is a name in the grammar of LabelQualified.
func isQualifiedLabel(s string) bool { return qualifiedLabel.MatchString(s) && len(s) <= 128 }

// labelLike returns the valid label nearest to an invalid one; empty if there is none.
func (b *Block) labelLike(label string) string {
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

// shape returns the syntax of a block of that type.
func (b *Block) shape() string {
	if b.Label == LabelNone {
		return b.Name + " { ... }"
	}
	return b.Name + ` "NAME" { ... }`
}

// home returns the hint with the nested block that has the name; empty if there is none.
func (b *Block) home(name string) string {
	for _, inner := range b.Blocks {
		if _, ok := inner.Attr(name); ok {
			return "put it into " + inner.Name + " { ... }"
		}
	}
	return ""
}

// elsewhere returns the hint with the top-level blocks that have the name; empty if there are none or too many.
func elsewhere(name string) string {
	const most = 3
	var homes []string
	for i := range Specification().Blocks {
		b := &Specification().Blocks[i]
		_, isAttr := b.Attr(name)
		_, isBlock := b.Block(name)
		if isAttr || isBlock {
			homes = append(homes, b.shape())
		}
	}
	if len(homes) == 0 || len(homes) > most {
		return ""
	}
	return quote(name) + " belongs in " + strings.Join(homes, " or ")
}

// settings returns the hint for settings that a plugin defines; empty if the block has no such place.
func (b *Block) settings(kind string) string {
	for _, inner := range b.Blocks {
		if inner.Foreign && kind == "attribute" {
			return "settings of the plugin belong in " + inner.Name + " { ... }"
		}
	}
	return ""
}
