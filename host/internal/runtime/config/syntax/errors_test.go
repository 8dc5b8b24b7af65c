package syntax_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// HCL-029: a syntax error for a construct of another language suggests the HCL form.
func TestSlips(t *testing.T) {
	const equals = "a = alone belongs between the name of an attribute and its value"
	block := func(line string) string { return "ferment {\n  " + line + "\n}\n" }
	for _, tt := range []struct{ text, message, hint string }{
		{block("profile = “dev”"), "curly quotes do not enclose a text", `enclose it in "`},
		{block("profile = 'dev'"), "single quotes do not enclose a text", `enclose it in "`},
		{block(`profile: "dev"`), equals, "write NAME = VALUE"},
		{block(`profile := "dev"`), equals, "write NAME = VALUE"},
		{block(`profile += "dev"`), equals, "write NAME = VALUE"},
		{block("auto_reload = true and false"), "unexpected text after a complete value", "write && for and"},
		{block("auto_reload = true or false"), "unexpected text after a complete value", "write || for or"},
		{block("auto_reload = true = false"), "unexpected text after a complete value", "write == to compare two values"},
		{block("auto_reload = true is false"), "unexpected text after a complete value", "write == to compare two values"},
		{block("max_nodes = 5,"), "unexpected comma after a value", "remove it"},
		{block(`profile = "${local.a"`), "a ${ in this text is not closed on its line", ""},
		{block(`profile = "dev`), "this text does not end on its line", ""},
		{"/ a comment\n", "neither an attribute nor a block begins here", "a comment begins with #"},
		{"-- a comment\n", "neither an attribute nor a block begins here", "a comment begins with #"},
		{"<!-- a comment -->\n", "neither an attribute nor a block begins here", "a comment begins with #"},
		{"}\n", "this } closes nothing: each block before it is closed", "remove it, or write the { that it belongs to"},
		{"/* a comment\n", "this comment is not closed before the file ends", "write */ at its end"},
		{"\xff\xfef\x00", "the file is in UTF-16", "save the file as UTF-8"},
		{"\xfe\xff\x00f", "the file is in UTF-16", "save the file as UTF-8"},
		{"a\x00", "NUL byte in the file", "remove the byte; is this a text file?"},
	} {
		_, ds := configtest.Load(t, tt.text)
		require.NotEmpty(t, ds, tt.text)
		assert.Equal(t, tt.message, ds[0].Message, tt.text)
		assert.Equal(t, tt.hint, ds[0].Hint, tt.text)
	}
}

// HCL-010: a heredoc that does not end is one error, at its <<; the blocks before it are still read.
func TestHeredocWithoutEnd(t *testing.T) {
	for text, line := range map[string]int{
		"check \"a\" {\n  message = <<EOT\nfoo\n}\n":                                         2,
		"check \"a\" {\n  message = <<-EOT\n  foo\n  E0T\n}\n\nplugin \"b\" {\n  x = 1\n}\n": 2,
		"local = <<EOT\n": 1,
	} {
		_, ds := configtest.Load(t, text)
		require.Len(t, ds, 1, text)
		assert.Equal(t, "config/syntax", ds[0].Type)
		assert.Equal(t, line, ds[0].Range.Start.Line, text)
		assert.Contains(t, ds[0].Hint, "EOT")
	}
	_, ds := configtest.Load(t, "ferment {\n  profil = \"dev\"\n}\n\ncheck \"a\" {\n  message = <<EOT\nfoo\n}\n")
	require.Len(t, ds, 2)
	assert.Equal(t, 2, ds[0].Range.Start.Line)
	// An open ${ takes in the marker, so it is the mistake.
	_, ds = configtest.Load(t, "check \"a\" {\n  message = <<EOT\n${foo\nEOT\n")
	require.NotEmpty(t, ds)
	assert.NotContains(t, ds[0].Message, "does not end before the file")
}
