package syntax

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reportSyntax reports the diagnostics of the library. body, if not nil, is used to find the first
// of two attributes with the same name.
func reportSyntax(c *diag.Collector, s *diag.Source, body *hclsyntax.Body, diags hcl.Diagnostics) {
	for _, d := range diags {
		out := diag.Diagnostic{Type: "config/syntax", Message: Sentence(d)}
		if d.Severity == hcl.DiagWarning {
			out.Severity = diag.SeverityWarning
		}
		if d.Subject != nil {
			out.Range = culprit(s, d)
		}
		if g, ok := grammar[d.Summary]; ok {
			out.Message, out.Expected, out.Hint = cmp.Or(g.message, out.Message), edn.Text(g.expected), g.hint
		}
		if d.Summary == redefinition {
			out = redefined(s, body, d, out)
		}
		if d.Subject != nil {
			out = slipped(s, d, out)
		}
		if d.Summary == noObject {
			c.Fold(noObject+" "+s.Name, out)
			continue
		}
		c.Add(out)
	}
}

// Diagnostic summaries of the library that are handled specially.
const (
	redefinition  = "Attribute redefined"
	needsBlock    = "Argument or block definition required"
	unclosedBlock = "Unclosed configuration block"
	unclosedText  = "Unterminated template string"
	brokenText    = "Invalid multi-line string"
	noObject      = "Incorrect JSON value type"
	noLabel       = "Missing block label"
)

// culprit returns the place of a mistake. The parser reports a missing separator or bracket at the
// end of a line on the next line, and an open string at the end of the file.
func culprit(s *diag.Source, d *hcl.Diagnostic) *diag.Range {
	from, to := d.Subject.Start.Byte, d.Subject.End.Byte
	if d.Summary == unclosedText && d.Context != nil {
		from = d.Context.Start.Byte
		to = from + bytes.IndexByte(append(s.Text[from:len(s.Text):len(s.Text)], '\n'), '\n')
		return s.Span(from, to)
	}
	if before := bytes.TrimRight(s.Text[:from], " \t\n"); strings.HasSuffix(d.Summary, " separator") &&
		bytes.IndexByte(s.Text[len(before):from], '\n') >= 0 {
		return s.Span(len(before)-1, len(before))
	}
	return s.Span(from, to)
}

// slip is a common syntax mistake. It is recognized by the text at which the parser failed.
type slip struct {
	begins        *regexp.Regexp
	expected      string // what the parser expected; empty: anything
	message, hint string // empty: those of grammar
}

// slips is initialized at the first syntax error.
var slips = sync.OnceValue(func() []slip {
	return []slip{
		{regexp.MustCompile(`^[“”„‘’]`), "", "curly quotes do not enclose a text", `enclose it in "`},
		{regexp.MustCompile(`^'`), "", "single quotes do not enclose a text", `enclose it in "`},
		{
			begins:   regexp.MustCompile(`^}`),
			expected: anItem,
			message:  "this } closes nothing: each block before it is closed",
			hint:     "remove it, or write the { that it belongs to",
		},
		{
			begins:   regexp.MustCompile(`^/\*`),
			expected: anItem,
			message:  "this comment is not closed before the file ends",
			hint:     "write */ at its end",
		},
		{regexp.MustCompile(`^(/|--|%|<!--)`), anItem, "", "a comment begins with #"},
		{
			begins:   regexp.MustCompile(`^[\w-]+[ \t]*(:|\+=|==)`),
			expected: anItem,
			message:  "a = alone belongs between the name of an attribute and its value",
			hint:     "write NAME = VALUE",
		},
		{
			begins:   regexp.MustCompile(`^={7}`),
			expected: anItem,
			message:  mergeMarks,
			hint:     keepOneSide,
		},
		{regexp.MustCompile(`^[\w-]+([ \t]+"[^"\n]*")*[ \t]*\n\s*{`), anItem, "", "write the { on the line of the name"},
		{regexp.MustCompile(`^{`), anItem, "", "the name of a file of JSON ends in .hcl.json"},
		{regexp.MustCompile(`^\[`), anItem, "", `write a block, such as plugin "NAME" { ... }`},
		{regexp.MustCompile(`^\$`), aValue, "${ } is allowed only inside a text", `env("NAME") reads a variable of the environment`},
		{regexp.MustCompile(`^;`), aValue, "unexpected ; after a value", "remove it"},
		{regexp.MustCompile(`^_\d`), newLine, "", "write a number without _"},
		{regexp.MustCompile(`^x[0-9a-fA-F]+\b`), newLine, "", "write a number with decimal digits"},
		{regexp.MustCompile(`^and\b`), newLine, "", "write && for and"},
		{regexp.MustCompile(`^or\b`), newLine, "", "write || for or"},
		{regexp.MustCompile(`^(is\b|eq\b|=)`), newLine, "", "write == to compare two values"},
		{regexp.MustCompile(`^[;,]`), newLine, "", "remove it"},
		{regexp.MustCompile(`^(ms|[smhdw]|[KMG]i?B?)\b`), newLine, "", `a number with a unit is a text: enclose it in "`},
		{regexp.MustCompile(`^:\w`), newLine, "", "a text needs quotes"},
	}
})

const (
	mergeMarks  = "the file contains merge conflict markers"
	keepOneSide = "keep one of the two sides and remove the lines of marks"
)

var mergeMark = regexp.MustCompile(`(?m)^(<{7}|>{7}) .*$`)

// unmerged reports a file with merge conflict markers, which cause all other errors in it.
func unmerged(s *diag.Source, report *diag.Collector) bool {
	at := mergeMark.FindIndex(s.Text)
	if at == nil {
		return false
	}
	report.Poison(diag.AnyName, diag.AnyName)
	report.Add(diag.Diagnostic{
		Type:    "config/syntax",
		Message: mergeMarks,
		Range:   s.Span(at[0], at[1]),
		Hint:    keepOneSide,
	})
	return true
}

// slipped improves the diagnostic of an error that matches a slip.
func slipped(s *diag.Source, d *hcl.Diagnostic, out diag.Diagnostic) diag.Diagnostic {
	rest := s.Text[d.Subject.Start.Byte:]
	expected, _ := out.Expected.AsString()
	for _, x := range slips() {
		if x.begins.Match(rest) && (x.expected == "" || x.expected == expected) {
			out.Message, out.Hint = cmp.Or(x.message, out.Message), x.hint
			return out
		}
	}
	if r, _ := utf8.DecodeRune(rest); r > unicode.MaxASCII && d.Summary == "Invalid character" {
		out.Message, out.Hint = fmt.Sprintf("the character %U is not used within the language", r), "remove it"
		if unicode.IsSpace(r) {
			out.Hint = "write a space"
		}
		return out
	}
	line := s.Text[bytes.LastIndexByte(s.Text[:d.Subject.Start.Byte], '\n')+1 : d.Subject.Start.Byte]
	if open := bytes.LastIndex(line, []byte("${")); open >= 0 && !bytes.ContainsRune(line[open:], '}') &&
		d.Summary == brokenText {
		out.Message, out.Expected = "a ${ in this text is not closed on its line", edn.Text("a closing } for every ${")
	}
	return out
}

const (
	anItem   = "NAME = VALUE, or NAME { ... }"
	aValue   = "a value: \"text\", a number, true, false, [...], {...}, a name or a function call"
	newLine  = "a new line after the value"
	aClosing = "a closing } for every {"

	jsonBlock = `"BLOCK": {"NAME": {...}} for a block with a label, "BLOCK": {...} for another`
)

// production is the input that the parser expected, with the message for an error there.
type production struct {
	expected string
	message  string // empty: that of the library
	hint     string
}

// grammar maps diagnostic summaries of the parser to the expected input.
var grammar = map[string]production{
	needsBlock:                 {expected: anItem, message: "neither an attribute nor a block begins here"},
	"Invalid argument name":    {expected: "NAME = VALUE, with a name without quotes"},
	"Invalid block definition": {expected: "NAME { ... } with the brace on the line of the name, or NAME = VALUE"},
	"Invalid single-argument block definition": {
		expected: "one attribute on the line of the braces",
		message:  "more than one attribute on the line of the braces",
		hint:     "write one attribute per line: a {, x = 1, y = 2 and } on lines of their own",
	},
	"Invalid character":           {expected: aValue},
	"Invalid expression":          {expected: aValue},
	"Missing expression":          {expected: aValue},
	"Missing item separator":      {expected: "a comma between two members, or the closing ]"},
	"Missing attribute separator": {expected: "a comma or a new line between two attributes, or the closing }"},
	"Missing attribute value":     {expected: "NAME = VALUE"},
	"Missing newline after argument": {
		expected: newLine,
		message:  "unexpected text after a complete value",
	},
	"Missing newline after block definition": {expected: "a new line after the closing brace"},
	"Unexpected comma after argument":        {expected: newLine, message: "unexpected comma after a value"},
	unclosedBlock: {
		expected: aClosing,
		message:  "this block is not closed before the next one begins or the file ends",
	},
	"Unbalanced parentheses": {expected: "a closing ) for every ("},
	brokenText:               {expected: `a closing " on the same line`, message: "this text does not end on its line"},
	unclosedText: {
		expected: `a closing " on the same line, or the marker of the heredoc on a line of its own`,
	},
	"Unexpected end of template": {
		expected: "a closing %{ endif } for every %{ if }, and %{ endfor } for every %{ for }",
		message:  "a directive of this text is not closed",
	},
	"Invalid template control keyword": {
		expected: "one of if, else, endif, for, endfor",
		hint:     "%{ begins a directive: write %%{ for the characters themselves",
	},
	"Invalid string literal": {
		expected: `a literal label, such as "chess"`,
		hint:     "write the label without ${ }",
	},
	"Unclosed template interpolation sequence":        {expected: "a closing } for every ${"},
	"Invalid template interpolation expression":       {expected: aValue},
	"Extra characters after interpolation expression": {expected: "the closing } of ${"},
	"Unterminated function call":                      {expected: "a closing ) for every ("},
	"Missing argument separator":                      {expected: "a comma between two arguments, or the closing )"},
	"Unterminated tuple constructor expression":       {expected: "a closing ] for every ["},
	"Unterminated object constructor expression":      {expected: aClosing},
	noObject:                  {expected: jsonBlock, message: "a block is not an object"},
	noLabel:                   {expected: jsonBlock, message: "a block has no label"},
	"Invalid escape sequence": {expected: `one of \n \t \" \\ \uXXXX`},
}

// parsePart parses a part of a file. Ranges are those of the whole file.
func parsePart(s *diag.Source, from, to int) (*hclsyntax.Body, hcl.Diagnostics) {
	at := s.Position(from)
	start := hcl.Pos{Line: at.Line, Column: at.Column, Byte: from}
	file, diags := hclsyntax.ParseConfig(s.Text[from:to], s.Name, start)
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		return body, diags
	}
	return emptyBody(s), diags
}

// misread returns the first diagnostic after which the parsed tree is unreliable; nil if there is
// none.
func misread(diags hcl.Diagnostics) *hcl.Diagnostic {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Summary != redefinition {
			return d
		}
	}
	return nil
}

// recoverBlocks parses a file with syntax errors block by block. A line that begins with a block
// type starts a piece, and each invalid piece is one error and poisons its block; otherwise a block
// with a missing brace would include everything after it. A heredoc without an end includes
// everything after it.
func recoverBlocks(s *diag.Source, report *diag.Collector) *hclsyntax.Body {
	out := emptyBody(s)
	out.SrcRange.End.Byte = len(s.Text)
	out.Attributes = hclsyntax.Attributes{}
	cuts, end := cuts(s), len(s.Text)
	if open := openHeredoc(s); open != nil {
		cuts = slices.DeleteFunc(cuts, func(at int) bool { return at > open.Start.Byte })
		end = cuts[len(cuts)-1]
		cuts = cuts[:len(cuts)-1]
		reportHeredoc(s, report, open)
	}
	for i, from := range cuts {
		to := end
		if i+1 < len(cuts) {
			to = cuts[i+1]
		}
		body, diags := parsePart(s, from, to)
		if d := misread(diags); d != nil {
			reportSyntax(report, s, nil, hcl.Diagnostics{d})
			report.Poison(opens(s, from))
			continue
		}
		reportSyntax(report, s, body, diags)
		out.Blocks = append(out.Blocks, body.Blocks...)
		for name, a := range body.Attributes {
			out.Attributes[name] = a
		}
	}
	return out
}

// openHeredoc returns the place of the << of a heredoc that has no end; nil if there is none. A
// heredoc with an open ${ has a different error.
func openHeredoc(s *diag.Source) *hcl.Range {
	tokens, _ := hclsyntax.LexConfig(s.Text, s.Name, hcl.InitialPos)
	var open []hclsyntax.Token
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOHeredoc, hclsyntax.TokenOQuote, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			open = append(open, t)
		case hclsyntax.TokenCHeredoc, hclsyntax.TokenCQuote, hclsyntax.TokenTemplateSeqEnd:
			open = open[:max(len(open)-1, 0)]
		}
	}
	if len(open) == 0 || open[len(open)-1].Type != hclsyntax.TokenOHeredoc {
		return nil
	}
	return &open[len(open)-1].Range
}

// reportHeredoc reports a heredoc without an end. The rest of the file is its text, so any block
// may be in it.
func reportHeredoc(s *diag.Source, report *diag.Collector, at *hcl.Range) {
	opening := bytes.TrimRight(at.SliceBytes(s.Text), "\r\n")
	marker := string(bytes.TrimSpace(bytes.TrimLeft(opening, "<-")))
	report.Poison(diag.AnyName, diag.AnyName)
	report.Add(diag.Diagnostic{
		Type:     "config/syntax",
		Message:  "the heredoc that begins here does not end before the file does",
		Range:    s.Span(at.Start.Byte, at.Start.Byte+len(opening)),
		Expected: edn.Text(fmt.Sprintf("the marker %s on a line of its own", marker)),
		Hint:     fmt.Sprintf("write a line that is only %s after the text", marker),
	})
}

// Opening matches the beginning of a block at the beginning of a line.
var Opening = regexp.MustCompile(`(?m)^([A-Za-z_]+)(?:[ \t]+"([^"\n]*)"?)?`)

// cuts returns the offset 0 and those of the lines that begin a block.
func cuts(s *diag.Source) []int {
	out := []int{0}
	for _, at := range Opening.FindAllSubmatchIndex(s.Text, -1) {
		if at[0] > 0 && topLevel(string(s.Text[at[2]:at[3]])) != "" {
			out = append(out, at[0])
		}
	}
	return out
}

// topLevel returns the block type that a word at the beginning of a line names, even if misspelled;
// empty if there is none.
func topLevel(word string) string {
	names := language.Specification().Names("")
	if slices.Contains(names, word) {
		return word
	}
	return diag.Nearest(word, names)
}

// opens returns the type and label of the block at the beginning of a piece.
func opens(s *diag.Source, from int) (block, label string) {
	rest := s.Text[from:]
	if m := Opening.FindSubmatchIndex(rest); m != nil {
		if block = topLevel(string(rest[m[2]:m[3]])); block != "" && m[4] >= 0 {
			return block, strings.TrimRight(string(rest[m[4]:m[5]]), " \t{") // its closing quote may be missing
		} else if block != "" {
			return block, diag.AnyName
		}
	}
	return diag.AnyName, diag.AnyName
}

func redefined(s *diag.Source, body *hclsyntax.Body, d *hcl.Diagnostic, out diag.Diagnostic) diag.Diagnostic {
	out.Type = "config/duplicate"
	if d.Subject == nil || !d.Subject.CanSliceBytes(s.Text) {
		return out
	}
	name := string(d.Subject.SliceBytes(s.Text))
	out.Message = "attribute " + diag.Quote(name) + " is written twice"
	out.Path = []string{name}
	if first := attributeIn(body, name, d.Subject.Start.Byte); first != nil {
		out.Related = []diag.Related{{Range: s.Range(first.NameRange), Message: "is the first one"}}
	}
	out.Hint = "keep one of the two"
	return out
}

// attributeIn returns the attribute with a name in the innermost body around an offset; nil if
// there is none.
func attributeIn(body *hclsyntax.Body, name string, offset int) *hclsyntax.Attribute {
	for body != nil {
		inner := (*hclsyntax.Body)(nil)
		for _, b := range body.Blocks {
			if b.OpenBraceRange.Start.Byte < offset && offset < b.CloseBraceRange.End.Byte {
				inner = b.Body
			}
		}
		if inner == nil {
			return body.Attributes[name]
		}
		body = inner
	}
	return nil
}

// Sentence returns a diagnostic of the library in the form of this program: summary and detail, in
// lower case, without a final period.
func Sentence(d *hcl.Diagnostic) string {
	detail := strings.TrimSuffix(strings.Join(strings.Fields(d.Detail), " "), ".")
	if detail == "" {
		return diag.Lower(d.Summary)
	}
	return diag.Lower(d.Summary) + ": " + diag.Lower(detail)
}
