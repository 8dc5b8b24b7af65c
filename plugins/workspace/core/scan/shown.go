package scan

import (
	"strconv"
	"unicode/utf8"
)

// shown returns a path for an error message: quoted if it is not plain text,
// and a dot for the root.
func shown(path string) string {
	if path == "" {
		return "."
	}
	if !utf8.ValidString(path) {
		return strconv.QuoteToASCII(path)
	}
	for _, r := range path {
		if !strconv.IsPrint(r) {
			return strconv.Quote(path)
		}
	}
	return path
}
