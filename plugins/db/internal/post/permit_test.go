package post

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
)

// Each row is a statement with the words that the scanner finds outside of
// comments, strings and numbers.
func TestScanner(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT a.b, 'x''y' FROM t -- c": "select a . b , from t",
		"/* a /* b */ c */ Delete":       "delete",
		"/* never ends DELETE":           "",
		`E'a\'b' x E'\\' y`:              "x y",
		`'a\' x 'b' y`:                   "x y",
		`"A ""b""" c`:                    `A "b" c`,
		"$$ a $$ b $x$ c $$ d $x$ e":     "b e",
		"$1 + a$1$b$1$":                  "$ + a$1$b$1$",
		"n'x' b'1' X'f' ne'x'":           "ne",
		`u&"x"`:                          `u & x`,
		"1.5e3 a1":                       "e3 a1",
		"ü漢 = ∂":                         "ü漢 = ∂",
	} {
		s, words := scanner{text: text}, []string{}
		for tok := s.next(); tok.kind != tokenEnd; tok = s.next() {
			words = append(words, tok.text)
		}
		assert.Equal(t, want, strings.Join(words, " "), text)
	}
}

// FuzzPermit: the scanner ends, and a comment, a string or white space before a
// statement does not change what is decided about it.
func FuzzPermit(f *testing.F) {
	for _, s := range []string{"SELECT 1", "DELETE FROM t", "SELECT set_config('a', 'b', true)", `SELECT U&"a"`, "SELECT $a$ b $a$", "(SELECT 1)", "WITH x AS (SELECT 1) SELECT", "/*", "'", `"`, "$a$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range []rights{{}, {write: true}, {write: true, ddl: true}} {
			kind := func(text string) result.Kind {
				if fault := permit(text, r); fault != nil {
					return fault.Kind
				}
				return -1
			}
			want := kind(text)
			for _, before := range []string{" \n\t", "/* DELETE ' \" $$ /* x */ */", "-- DELETE '\n"} {
				assert.Equal(t, want, kind(before+text), "%q", before+text)
			}
			if want == -1 {
				assert.NotEqual(t, result.Kind(-1), kind("SELECT set_config ('a', 'b', false) -- "+text))
			}
		}
	})
}
