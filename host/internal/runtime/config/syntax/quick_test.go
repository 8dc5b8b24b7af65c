package syntax

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
)

// certain fails if a text that harmless accepts exceeds a limit.
func certain(t testing.TB, text string) bool {
	t.Helper()
	if !harmless([]byte(text)) || ScanText([]byte(text)) != nil {
		return false
	}
	tokens, _ := hclsyntax.LexConfig([]byte(text), "x", hcl.InitialPos)
	if b := scanTokens(tokens); b != nil {
		t.Fatalf("%q is called harmless: %s", text, b.Message)
	}
	return true
}

// HCL-043: harmless accepts typical files, and no file that exceeds a limit.
func TestHarmless(t *testing.T) {
	t.Parallel()
	assert.True(t, certain(t, strings.Repeat("intent \"bench/i\" {\n  in       = \"req/any\"\n  deadline = \"20s\"\n\n  done {\n    must      = [\"schema-valid\", \"short\"]\n    score_min = 0.5\n  }\n}\n", 400)), "a large file")

	repeat := strings.Repeat
	for _, row := range []struct {
		text string
		want bool
	}{
		{"", true},
		{"a = 1 # }}}\n// ]]]\n", true},
		{"a = \"}\\\"}\"\n", true},
		{"a = [1, -2, x.y[0]]\nb {\n  c = \"d\"\n}\n", true},
		{"a = b <= 2 ? \"5%\" : \"$ 3\"\n", false}, // left to the library
		{"a = b <= 2 ? \"5 % of\" : \"$3\"\n", true},
		{"a = \"${b}\"\n", false}, {"a = \"%{if b}x%{endif}\"\n", false}, {"a = <<E\n}\nE\n", false}, {"/* } */\n", false},
		{"a = \"\n}\"\n", false}, {"a = (]\n", false}, {"a = (\n", false}, {"}\n", false}, {"é = 1\n", false}, {"a = 1e5\n", false},
		{"a = " + repeat("[", 64) + repeat("]", 64), true}, {"a = " + repeat("[", 65) + repeat("]", 65), false},
		{"a = " + repeat("-", 15) + "1", true}, {"a = " + repeat("-", 16) + "1", false}, {"a = (" + repeat("-\n", 16) + "1)", false},
		{"a = 1" + repeat("?1:1", 63), true}, {"a = 1" + repeat("?1:1", 64), false},
		{"a = 1" + repeat("+1", 1000), true}, {"a = 1" + repeat("+1", 1024), false}, {"a = 1" + repeat("+ # x\n1", 1024), false}, {"a = [" + repeat("x\n+", 1024) + "x]", false},
		{"a = {" + repeat("}.b + {", 1024) + "}", false}, {"a = x" + repeat("[0]", 1024), false}, {"a = x" + repeat(".y", 1022), true}, {"a = x" + repeat(".y", 1024), false}, {"a = 1" + repeat(".5", 50), false},
		{"a = " + repeat("1", 40), true}, {"a = " + repeat("1", 41), false}, {"a = " + repeat("1", 30) + "." + repeat("1", 11), false},
		{repeat("a = 1\n", MaxTokens/6), true}, {repeat("a = 1\n", MaxTokens/6+1), false},
	} {
		name := row.text[:min(len(row.text), 40)]
		assert.Equal(t, row.want, harmless([]byte(row.text)), name)
		certain(t, row.text)
	}

	// Random texts of typical pieces, some of them repeated many times.
	pieces := []string{
		"{", "}", "[", "]", "(", ")", "\n", " ", ",", "=", "==", "!", "-", "+", "*", "/", "<", ">", ".", "...", "?", ":", "&&", "||", "%", "\"", "\\", "\\\"", "$", "${", "%{",
		"%{if x}", "#", "//", "/*", "*/", "<<E\n", "\nE\n", "a", "b-c", "_", "é", "1", "0.5", "1e9", "\t", "\r\n", "\"x\"", "\"$\"", "\"%\"", "\"\\\\\"", "~", "'", ";",
	}
	dice := rand.New(rand.NewPCG(1, 2))
	sure := 0
	for range 30_000 {
		var b strings.Builder
		few := pieces
		if dice.IntN(2) == 0 { // few pieces reach the limits
			few = []string{pieces[dice.IntN(len(pieces))], pieces[dice.IntN(len(pieces))], pieces[dice.IntN(len(pieces))]}
		}
		for range 1 + dice.IntN(12) {
			times := 1
			if dice.IntN(10) == 0 {
				times = 1 + dice.IntN(90)
			}
			b.WriteString(repeat(few[dice.IntN(len(few))], times))
		}
		if certain(t, b.String()) {
			sure++
		}
	}
	assert.Greater(t, sure, 3000)
}
