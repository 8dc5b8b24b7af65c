package prompt

import (
	"regexp"
	"strconv"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Patterns of the words that variables may take from the constraints. The words
// come from the caller, so they must look like a language tag or the name of a
// style, which leaves no room for instructions.
var (
	languageTag = regexp.MustCompile(`^[a-z]{2,3}(-[a-z0-9]{2,8}){0,2}$`)
	styleName   = regexp.MustCompile(`^[a-z]{1,16}(-[a-z]{1,16})?$`)
)

// maxChars is the upper bound of :max-chars.
const maxChars = 12_000

// languages returns the languages with known names; nil are the built-in ones.
func (b *Book) languages() *text.Packs {
	if b == nil {
		return nil
	}
	return b.Languages
}

// variables returns the values of the variables that have one.
func (b *Book) variables(s Setting) map[string]string {
	values := map[string]string{}
	if tag, ok := s.Constraints.Key("language").AsKeyword(); ok && languageTag.MatchString(tag) {
		values["language"] = b.languages().Name(tag)
	}
	if style, ok := s.Constraints.Key("style").AsKeyword(); ok && styleName.MatchString(style) {
		values["style"] = style
	}
	if n, ok := s.Constraints.Key("max-chars").AsInt(); ok && n >= 1 && n <= maxChars {
		values["max_chars"] = strconv.FormatInt(n, 10)
	}
	if s.Schema != nil {
		if text, err := edn.WriteJSON(wanted(s.Schema).JSONSchema()); err == nil {
			values["schema"] = string(text)
		}
	}
	return values
}
