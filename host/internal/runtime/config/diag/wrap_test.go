package diag_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// words returns text of at least n columns.
func words(n int) string { return strings.Repeat("some words ", n/11+1) + "end" }

// HCL-002, CLI-004: sentences are wrapped below their beginning; commands and what is quoted stay on one line.
func TestWrap(t *testing.T) {
	command := "ferment conform --samples a.edn -- python3 " + strings.Repeat("x", 90)
	for _, tt := range []struct {
		name, text string
		whole      []string // stays on one line
		wide       bool     // a line is longer than diag.Columns
	}{
		{name: "short", text: "a b"},
		{name: "words", text: words(250)},
		{name: "command in backquotes", text: words(85) + " `ferment plugin list --all` shows it", whole: []string{"`ferment plugin list --all`"}},
		{name: "command in quotes", text: words(85) + " (\"ferment plugin list\") shows it", whole: []string{"(\"ferment plugin list\")"}},
		{name: "command behind a colon", text: words(80) + " run: ferment judge calibrate x --anchors FILE.edn, then more",
			whole: []string{"ferment judge calibrate x --anchors FILE.edn,"}},
		{name: "command of more than a line", text: words(30) + " `" + command + "` shows it", whole: []string{command}, wide: true},
		{name: "quoted value", text: words(85) + ` found "one two three" here`, whole: []string{`"one two three"`}},
		{name: "quoted value of more than a line", text: `found "` + words(200) + `" here`},
		{name: "open quote", text: words(90) + ` 3" of ` + words(90)},
		{name: "name of the program in a sentence", text: words(90) + " when ferment is " + words(90)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := diag.WrapLabeled("  next: ", tt.text)
			assert.Equal(t, "  next: "+tt.text, strings.ReplaceAll(got, "\n        ", " "), "wrapping changes spaces only")
			for line := range strings.Lines(got) {
				if !tt.wide {
					assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), diag.Columns, line)
				}
			}
			for _, whole := range tt.whole {
				assert.Contains(t, got, whole)
			}
		})
	}
}

// HCL-002: every sentence of a diagnostic is wrapped; its excerpt, which has the columns of the source, is not.
func TestReportIsWrapped(t *testing.T) {
	line := "x = " + words(130)
	s := place("ferment.hcl", 0, 3, line)
	c := diag.NewCollector(diag.Sources{s.Name: s})
	at := s.Span(2, 3)
	c.Add(diag.Diagnostic{
		Type:     "config/type",
		Message:  words(150),
		Range:    at,
		Expected: edn.Text(words(150)),
		Found:    edn.Text(words(150)),
		Hint:     words(150),
		Related:  []diag.Related{{Range: at, Message: words(150)}},
	})
	text := diag.NewReport(c.Result(), 0, 1, 0).Text(false)
	assert.Contains(t, text, "| "+line+"\n")
	for got := range strings.Lines(text) {
		if !strings.Contains(got, "| x =") {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(got, "\n")), diag.Columns, got)
		}
	}
}

// CLI-004: of a rendered error the sentences and the details are wrapped, not the excerpt.
func TestWrapError(t *testing.T) {
	excerpt, details := "   3 | "+words(120), "  details :a ["+words(120)+"]"
	finding := "    [:input :a] " + words(120)
	text := strings.Join([]string{"p.edn:3:1: error: " + words(120), excerpt, details, finding, "  hint    " + words(120), "  observed: " + words(120)}, "\n")
	got := diag.WrapError(text)
	assert.Equal(t, strings.Fields(text), strings.Fields(got))
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		if line != excerpt {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), diag.Columns, line)
		}
	}
	assert.Contains(t, got, excerpt+"\n")
}
