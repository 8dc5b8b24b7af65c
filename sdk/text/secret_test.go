package text

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// encodings are the supported encodings.
var encodings = map[string]func(string) string{
	"plain":      func(s string) string { return s },
	"go":         strconv.Quote,
	"json":       func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"query":      url.QueryEscape,
	"path":       url.PathEscape,
	"base64":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 url": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"hex":        func(s string) string { return hex.EncodeToString([]byte(s)) },
	"html":       html.EscapeString,
	"numbers":    func(s string) string { return fmt.Sprint([]byte(s)) },
	"HEX":        func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
}

// ISO-005: a secret is removed in any two nested encodings, at any position of
// the text around it.
func TestSecretsInEveryEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letter := rapid.SampledFrom([]rune("aZ09 \"\\/%+&<>=:;'\n\t\u2028\u0001é漢😀-_"))
		secret := "k3Y" + rapid.StringOfN(letter, 12, 40, -1).Draw(t, "secret") + "e9"
		names := make([]string, 0, len(encodings))
		for name := range encodings {
			names = append(names, name)
		}
		around := rapid.StringMatching(`[a-z =:]{0,5}`)
		wrap := func(s, what string) string { return around.Draw(t, "before "+what) + s + around.Draw(t, "after "+what) }
		inner, outer := rapid.SampledFrom(names).Draw(t, "inner"), rapid.SampledFrom(names).Draw(t, "outer")
		once := encodings[inner](wrap(secret, "inner"))
		text := wrap(encodings[outer](wrap(once, "outer")), "text")
		secrets := NewSecrets(map[string]string{secret: "[gone]"})
		out := secrets.Replace(text)
		if !strings.Contains(out, "[gone]") {
			t.Fatalf("%s in %s: %q stayed in %q", inner, outer, secret, text)
		}
		// The expected text around the secret. A block encoding mixes the bits
		// at the ends of the secret with those of its neighbours.
		for _, written := range []string{secret, encodings[inner](secret), encodings[outer](secret), encodings[outer](encodings[inner](secret))} {
			middle := written[len(written)/4 : 3*len(written)/4]
			if strings.Contains(out, middle) {
				t.Fatalf("%s in %s: %q is in %q", inner, outer, middle, out)
			}
		}
		if again := secrets.Replace(out); again != out {
			t.Fatalf("%q is not clean: %q", out, again)
		}
	})
}

// ISO-005: separators of a secret, its lines, and the position of a cut.
func TestSecretsThatAreFoldedOrCut(t *testing.T) {
	s := NewSecrets(map[string]string{"first-line\u2028second-line\nthird-line": "[a]", "0123456789abcdef": "[b]", "abc": "[c]"})
	for text, want := range map[string]string{
		"x first-line\u2028second-line\nthird-line y": "x [a] y",
		"x first-line second-line third-line y":       "x [a] y",
		`"first-line\u2028second-line\nthird-line"`:   `"[a]"`,
		"no second-line here":                         "no [a] here",
		"abc":                                         "abc",
		"see 0123456789AbcDEF":                        "see [b]",
		"[48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 97, 98, 99, 100, 101, 102]": "[[b]]",
		`{\"key\":\"0123456789abcdef\"}`:                                      `{\"key\":\"[b]\"}`,
		`\u0030123456789\\u0061bcdef`:                                         `[b]`,
		`\u003012345678\u0039abcdef`:                                          `[b]`,
		`%2530123456789abcdef`:                                                `[b]`,
		"0123456789abcde":                                                     "0123456789abcde",
		"":                                                                    "",
	} {
		assert.Equal(t, want, s.Replace(text), text)
	}
	assert.Equal(t, "see [b]", s.Head("see 0123456789abcdef", 9), "a text is cut after the secret is out")
	assert.Equal(t, "see ", s.Head("see 0123456789abcdef", 4))
	assert.Equal(t, "abc", (*Secrets)(nil).Head("abcdef", 3))
}

func BenchmarkSecretsReplace(b *testing.B) {
	s := NewSecrets(map[string]string{"sk-0123456789abcdef": "[a]", strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n", 24): "[b]"})
	line := `{"@level":"info","@message":"` + strings.Repeat("a call took 12 ms, ", 20) + `","path":"C:\\x"}`
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		s.Replace(line)
	}
}
