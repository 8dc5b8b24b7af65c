package chat

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// marks shows attributes as readable marks.
var marks = strings.NewReplacer("\x1b[m", "}", "\x1b[1m", "B{", "\x1b[2m", "D{", "\x1b[3m", "I{", "\x1b[4m", "U{", "\x1b[9m", "S{", "\x1b[36m", "C{",
	"\x1b[1;3m", "BI{", "\x1b[1;36m", "BC{")

func TestMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"paragraph":         {"one two three four five", "one two three four\nfive"},
		"heading":           {"## A *title* ##", "B{A} BI{title}"},
		"emphasis":          {"**bold** *it* _it_ ~~no~~", "B{bold} I{it} I{it} S{no}"},
		"nested":            {"**a `b` c**", "B{a} BC{b} B{c}"},
		"not emphasis":      {"2 * 3 * 4, a_b_c", "2 * 3 * 4, a_b_c"},
		"open":              {"**still arriving", "**still arriving"},
		"escaped":           {`\*x\*`, "*x*"},
		"code span":         {"run `a **b**` now", "run C{a} C{**b**} now"},
		"link":              {"[docs](https://x.y)", "U{docs} U{(https://x.y)}"},
		"link to itself":    {"[a/b](a/b)", "U{a/b}"},
		"list":              {"- one two three four five\n  1. six", "C{•} one two three four\n  five\n  C{1.} six"},
		"quote":             {"> said", "D{│} I{said}"},
		"rule":              {"---", "D{────────────────────}"},
		"code":              {"```go\nif  x {\n\ty()\n}\n```\nafter", "  D{go}\n  C{if  x \\{}\n  C{    y()}\n  C{\\}}\nafter"},
		"code in a line":    {"```x y```", "C{x} C{y}"},
		"code not closed":   {"```\n**x**", "  C{**x**}"},
		"table":             {"| a | b |\n|---|---|", "| a | b |\n|---|---|"},
		"wide characters":   {"日本語の長い文章です。続き", "日本語の長い文章です\n。続き"},
		"blank lines":       {"a\n\n\nb\n", "a\n\n\nb"},
		"word of two lines": {"abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrst\nuvwxyz"},
	} {
		lines := render(c.in, 20, style{color: true})
		got := marks.Replace(strings.ReplaceAll(strings.ReplaceAll(strings.Join(lines, "\n"), "{", "\\{"), "}", "\\}"))
		assert.Equal(t, c.want, got, name)
	}
}

// Without color the text stays as it was written.
func TestMarkdownWithoutColor(t *testing.T) {
	in := "# T\n**b** `c`\n- one two three four five\n```\nx\n```"
	assert.Equal(t, "# T\n**b** `c`\n- one two three\n  four five\n```\nx\n```", strings.Join(render(in, 18, style{}), "\n"))
}

// Blank lines at the end of a text take no place of those that are shown.
func TestTailOfBlankLines(t *testing.T) {
	assert.Equal(t, []string{"alpha"}, render(tail("alpha\n\n\n\n", 2), 20, style{color: true}))
}

// No word is lost or moved, whatever the width; the end of a text looks the same alone.
func TestRenderKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"alpha", "beta", "語", " ", "\n", "- ", "> ", "```\n", "**", "_", "`", "# "})
		in := strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "in"), "")
		width := rapid.IntRange(2, 40).Draw(t, "width")
		letters := func(s string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune("alphbet語", r) {
					return r
				}
				return -1
			}, s)
		}
		for _, st := range []style{{}, {color: true}} {
			all := render(in, width, st)
			if got := letters(ansi.Strip(strings.Join(all, ""))); got != letters(in) {
				t.Fatalf("%q became %q", in, all)
			}
			end := render(tail(in, 3), width, st)
			n := min(len(end), len(all), 2)
			if st.color && strings.Join(end[len(end)-n:], "\n") != strings.Join(all[len(all)-n:], "\n") {
				t.Fatalf("the end of %q is %q, and %q alone", in, all, end)
			}
		}
	})
}
