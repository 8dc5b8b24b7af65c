package mustache

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Rules specific to EDN data; the rules of Mustache are in spec_test.go.
func TestRenderData(t *testing.T) {
	for _, c := range []struct{ name, template, data, want string }{
		{"keyword key", "{{name}}", `{:name "Ada"}`, "Ada"},
		{"string key", "{{name}}", `{"name" "Ada"}`, "Ada"},
		{"keyword before string", "{{name}}", `{"name" "string" :name "keyword"}`, "keyword"},
		{"qualified key", "{{a/b}}", `{:a/b 1}`, "1"},
		{"key with hyphen and mark", "{{max-chars}}{{ok?}}", `{:max-chars 7 :ok? true}`, "7true"},
		{"big integer", "{{n}}", `{:n 12345678901234567890}`, "12345678901234567890"},
		{"decimal without its mark", "{{n}}", `{:n 1.50M}`, "1.5"},
		{"keyword without colon", "{{k}}", `{:k :a/b}`, "a/b"},
		{"symbol", "{{s}}", `{:s a/b}`, "a/b"},
		{"character", "{{c}}", `{:c \ż}`, "ż"},
		{"anything else as EDN", "{{m}} {{v}}", `{:m {:a 1} :v ["x" :y]}`, `{:a 1} ["x" :y]`},
		{"not escaped unless asked", "{{a}}", `{:a "<b> & \"c\""}`, `<b> & "c"`},
		{"false is text", "{{a}}", `{:a false}`, "false"},
		{"zero is true", "{{#a}}yes{{/a}}", `{:a 0}`, "yes"},
		{"empty text is true", "{{#a}}yes{{/a}}", `{:a ""}`, "yes"},
		{"empty map is true", "{{#a}}yes{{/a}}", `{:a {}}`, "yes"},
		{"set in order", "{{#xs}}{{.}}{{/xs}}", `{:xs #{3 1 2}}`, "123"},
		{"list", "{{#xs}}{{.}}{{/xs}}{{^ys}}none{{/ys}}", `{:xs (1 2) :ys ()}`, "12none"},
		{"nil items are items", "{{#xs}}.{{/xs}}", `{:xs [nil false]}`, ".."},
	} {
		got, err := Render(c.template, edn.MustRead(c.data), Options{})
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, got, c.name)
	}
}

// EMB-005: invalid templates and missing values are typed errors with their
// place; rendering always ends.
func TestRenderRefuses(t *testing.T) {
	partials := map[string]string{"self": "x{{>self}}", "named": "a\n\n{{x}}"}
	for i := range 9 {
		partials[fmt.Sprintf("p%d", i+1)] = fmt.Sprintf("{{>p%d}}", i+2)
	}
	for _, c := range []struct{ name, template, data, says string }{
		{"missing", "a\n{{b.c}}", `{:b {}}`, "template line 2: no value for b.c"},
		{"nil is missing", "{{a}}", `{:a nil}`, "no value for a"},
		{"missing partial", "{{>p}}", "{}", "no value for partial p"},
		{"open tag", "a {{b", "{}", "line 1: tag is not closed with }}"},
		{"open raw tag", "{{{b}}", "{}", "not closed with }}}"},
		{"open section", "\n{{#a}}", "{}", "line 2: section {{#a}} is not closed"},
		{"stray close", "{{/a}}", "{}", "closes no section"},
		{"crossed", "{{#a}}\n{{#b}}{{/a}}", "{}", "line 2: {{/a}} closes section {{#b}} of line 2"},
		{"delimiters", "{{=<% %>=}}", "{}", "delimiters"},
		{"empty name", "{{ }}", "{}", "without a name"},
		{"two words", "{{a b}}", "{}", "is not a name"},
		{"empty part", "{{a..b}}", "{}", "is not a name"},
		{"recursion", "{{>self}}", "{}", "contains itself"},
		{"deep sections", strings.Repeat("{{#a}}", 100), "{}", "nested deeper"},
		{"output", "{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{s}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}", `{:xs [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20] :s "0123456789"}`, "output exceeds"},
		{"steps without content", "{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}", `{:xs [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20]}`, "output exceeds"},
		{"nine partials deep", "{{>p1}}", "{}", "nested deeper than 8"},
		{"missing in a partial", "\n{{>named}}", "{}", "partial named line 3: no value for x"},
		{"steps without output", "{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{#xs}}{{! }}{{#f}}{{/f}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}{{/xs}}", `{:xs [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20] :f false}`, "output exceeds"},
	} {
		_, err := Render(c.template, edn.MustRead(c.data), Options{Partials: partials})
		require.ErrorContains(t, err, c.says, c.name)
	}
	_, err := Render(strings.Repeat("x", MaxTemplate+1), edn.MustMap(), Options{})
	require.ErrorContains(t, err, "at most")
}

// Indentation multiplies: a deep indent before each of many lines is rejected
// before it is written.
func TestRenderBoundsIndentation(t *testing.T) {
	_, err := Render(strings.Repeat(" ", 1<<19)+"{{>p}}\n", edn.MustMap(), Options{Partials: map[string]string{"p": strings.Repeat("x\n", 1<<18)}})
	var large *TooLargeError
	require.ErrorAs(t, err, &large)
	assert.Equal(t, "p", large.Template)
}

// A megabyte on one line is parsed in one pass: the time grows linearly with
// its length.
func TestParseIsLinear(t *testing.T) {
	started := proof.Spent()
	for _, piece := range []string{"a {{! }}", " {{! }}", "{{#a}}{{/a}}", " {{a}}", "{{^a}} x {{/a}}"} {
		_, err := Parse("", strings.Repeat(piece, MaxTemplate/len(piece)))
		require.NoError(t, err, piece)
	}
	assert.Less(t, proof.Spent()-started, 10*time.Second)
}

// EMB-008: 4 KiB of template with sections, partials and values.
func BenchmarkRender4KiB(b *testing.B) {
	data := edn.MustRead(`{:title "Report" :rows [{:name "one" :n 1} {:name "two" :n 2} {:name "three" :n 3}] :note {:text "all <well>"}}`)
	piece := "# {{title}}\n{{#rows}}\n- {{name}}: {{n}}\n{{/rows}}\n{{^none}}\n  {{>note}}\n{{/none}}\nSome words that are only copied.\n"
	template := strings.Repeat(piece, 4096/len(piece))
	options := Options{HTML: true, Partials: map[string]string{"note": "> {{note.text}}\n"}}
	b.SetBytes(int64(len(template)))
	for b.Loop() {
		if _, err := Render(template, data, options); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, seed := range []string{"{{a}}", "{{#a}}x{{/a}}", "{{^a}}\n {{>p}}\n{{/a}}", "{{{a}}}", "{{!", "{{#a}}{{>p}}{{/b}}"} {
		f.Add(seed, "x {{a}}\n")
	}
	data := edn.MustRead(`{:a [1 {:b 2}] :b "<x>" :c {:d nil}}`)
	f.Fuzz(func(t *testing.T, template, partial string) {
		out, err := Render(template, data, Options{HTML: true, AllowMissing: true, Partials: map[string]string{"p": partial}})
		var syntax *SyntaxError
		var large *TooLargeError
		if err != nil && !errors.As(err, &syntax) && !errors.As(err, &large) {
			t.Fatalf("untyped error %v", err)
		}
		if len(out) > MaxOutput {
			t.Fatalf("output of %d bytes", len(out))
		}
	})
}
