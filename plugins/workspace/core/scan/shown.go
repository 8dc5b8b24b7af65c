package scan

import (
	"strconv"
	"strings"
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

// maxBrief is the largest number of bytes of a path in a message that says more.
const maxBrief = 200

// brief returns a shown path, or its beginning and end if it is long.
func brief(path string) string {
	if len(path) <= maxBrief {
		return path
	}
	head, tail := path[:maxBrief/2], path[len(path)-maxBrief/2:]
	return strings.ToValidUTF8(head, "") + "…" + strings.ToValidUTF8(tail, "")
}
