package diag

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Quote returns a name in quotes.
func Quote(s string) string { return strconv.Quote(s) }

// Article returns a word with "a" or "an" before it. The word must not be empty.
func Article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// Words returns names as a vector of texts.
func Words(names []string) edn.Value {
	out := make([]edn.Value, len(names))
	for i, n := range names {
		out[i] = edn.Text(n)
	}
	return edn.Vector(out...)
}

// Nearest returns the known name that is most similar to name; empty if none is similar. It
// prefers, in this order, a name that differs only in case or word order, the only name with the
// prefix name, a name with a small edit distance, and the longest name with the same first letters.
func Nearest(name string, known []string) string {
	const least = 3 // bytes in common
	if same := sameWords(name, known); same != "" {
		return same
	}
	if longer := begunBy(name, known); len(name) >= least && len(name) < 5 && len(longer) == 1 {
		return longer[0]
	}
	best := contract.Nearest(name, known)
	if best != "" {
		return best
	}
	for _, k := range known {
		short := min(len(k), len(name))
		if short >= least && k[:short] == name[:short] && (len(k) > len(best) || len(k) == len(best) && k < best) {
			best = k
		}
	}
	return best
}

// sameWords returns the known name that differs from name only in case, separators, word order or a colon; empty if
// there is none.
func sameWords(name string, known []string) string {
	want := wordsOf(name)
	for _, k := range known {
		if wordsOf(k) == want {
			return k
		}
	}
	return ""
}

func wordsOf(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune(" :_-", r) })
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// begunBy returns the known names with the prefix name.
func begunBy(name string, known []string) []string {
	var out []string
	for _, k := range known {
		if strings.HasPrefix(k, name) {
			out = append(out, k)
		}
	}
	return out
}

// Short returns a text cut to 80 code points.
func Short(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}

// Sentence returns the text of an error on one line, cut to 600 code points, which leaves room for
// what was expected and found.
func Sentence(text string) string {
	const most = 600
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}

// Lower returns a sentence with its first letter in lower case, unless it begins with an acronym.
func Lower(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	next, _ := utf8.DecodeRuneInString(s[size:])
	if unicode.IsUpper(r) && !unicode.IsUpper(next) {
		return string(unicode.ToLower(r)) + s[size:]
	}
	return s
}
