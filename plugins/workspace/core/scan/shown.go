package scan

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
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

// pathValue returns a path for a list: one that is not plain text is in base64url (WS-002).
func pathValue(path string) edn.Value {
	if text := shown(path); path == "" || text == path {
		return edn.Text(text)
	}
	return edn.MustMap(edn.K("path/b64"), edn.Text(base64.RawURLEncoding.EncodeToString([]byte(path))))
}

// entries formats a number of directory entries.
func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprint(n, " entries")
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
