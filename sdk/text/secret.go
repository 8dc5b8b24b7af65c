package text

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minPart keeps parts and encoded forms of a secret from being so short that
// they stand in texts that have nothing to do with it.
const minPart = 8

// SecretReplacer takes secrets out of texts in all their forms. The keys are the
// secrets, the values what stands in their place.
func SecretReplacer(secrets map[string]string) *strings.Replacer {
	instead := map[string]string{}
	for _, secret := range slices.Sorted(maps.Keys(secrets)) {
		for _, form := range SecretForms(secret) {
			instead[form] = secrets[secret]
		}
	}
	// Of two that begin at one place the longer one is taken out.
	forms := slices.SortedFunc(maps.Keys(instead), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, instead[form])
	}
	return strings.NewReplacer(pairs...)
}

// SecretForms are the texts in which a secret shows itself: as it is, each of its
// lines (a key of many lines is printed line by line), and these as they stand
// in JSON, EDN, a quoted text of Go, a URL, base64 and hexadecimal digits. The
// secret comes first; the rest is in no order and may hold a text twice.
func SecretForms(secret string) []string {
	texts := []string{secret}
	for line := range strings.Lines(secret) {
		// The frame of a key is in all keys.
		if line = strings.TrimSpace(line); len(line) >= minPart && line != secret && !strings.HasPrefix(line, "-----") {
			texts = append(texts, line)
		}
	}
	out := texts
	for _, s := range texts {
		for _, quoted := range []string{strconv.Quote(s), jsonText(s, true), jsonText(s, false)} {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`))
		}
		out = append(out, url.QueryEscape(s), url.PathEscape(s))
		digits := hex.EncodeToString([]byte(s))
		for _, form := range append(inBase64(s), digits, strings.ToUpper(digits)) {
			if len(form) >= minPart {
				out = append(out, form)
			}
		}
	}
	return out
}

func jsonText(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(s) // of a text into memory
	return strings.TrimSuffix(b.String(), "\n")
}

// inBase64 are the characters that a text has in base64 whatever stands before
// and after it, such as a user and a colon: one for each place that its first
// byte can have in a group of three; and with its end, if nothing stands behind.
func inBase64(s string) []string {
	var out []string
	for before := range 3 {
		padded := append(make([]byte, before), s...)
		first, end := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			if text := alphabet.EncodeToString(padded); first < end {
				out = append(out, text[first:end], text[first:], strings.TrimRight(text[first:], "="))
			}
		}
	}
	return out
}
