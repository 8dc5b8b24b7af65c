package config

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// syntax takes over what the parser of the library found. The body, if given,
// is used to show the first of two attributes of one name.
func (c *collector) syntax(s *Source, body *hclsyntax.Body, diags hcl.Diagnostics) {
	for _, d := range diags {
		out := Diagnostic{Type: "config/syntax", Message: sentence(d)}
		if d.Severity == hcl.DiagWarning {
			out.Severity = SeverityWarning
		}
		if d.Subject != nil {
			out.Range = s.hclRange(*d.Subject)
			s.broken = append(s.broken, d.Subject.Start.Byte)
		}
		switch d.Summary {
		case "Attribute redefined":
			out = redefined(s, body, d, out)
		case "Invalid single-argument block definition":
			out.Hint = "write one attribute per line: a {, x = 1, y = 2 and } on lines of their own"
		}
		c.add(out)
	}
}

func redefined(s *Source, body *hclsyntax.Body, d *hcl.Diagnostic, out Diagnostic) Diagnostic {
	out.Type = "config/duplicate"
	if d.Subject == nil || !d.Subject.CanSliceBytes(s.text) {
		return out
	}
	name := string(d.Subject.SliceBytes(s.text))
	out.Message = "attribute " + quote(name) + " is written twice"
	out.Path = []string{name}
	if first := attributeIn(body, name, d.Subject.Start.Byte); first != nil {
		out.Related = []Related{{Range: s.hclRange(first.NameRange), Message: "is the first one"}}
	}
	out.Hint = "keep one of the two"
	return out
}

// brokenIn tells whether a syntax error lies inside a range: what was parsed
// there is not what was meant.
func (s *Source) brokenIn(r hcl.Range) bool {
	return slices.ContainsFunc(s.broken, func(at int) bool { return r.Start.Byte <= at && at <= r.End.Byte })
}

// attributeIn finds the attribute that the innermost body around an offset
// has under that name.
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

// sentence makes one of ours of a diagnostic of the library: lower case,
// without a final period, the summary before the detail.
func sentence(d *hcl.Diagnostic) string {
	detail := strings.TrimSuffix(strings.Join(strings.Fields(d.Detail), " "), ".")
	if detail == "" {
		return lower(d.Summary)
	}
	return lower(d.Summary) + ": " + lower(detail)
}

func lower(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	next, _ := utf8.DecodeRuneInString(s[size:])
	if unicode.IsUpper(r) && !unicode.IsUpper(next) {
		return string(unicode.ToLower(r)) + s[size:]
	}
	return s
}

// short cuts a text that is quoted in a diagnostic.
func short(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}

// functionError is an error that a function of the language gives with a type
// of its own.
type functionError struct {
	typ     string
	message string
	hint    string
}

func (e *functionError) Error() string { return e.message }

func asFunctionError(d *hcl.Diagnostic) (*functionError, bool) {
	extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d)
	if !ok {
		return nil, false
	}
	var fe *functionError
	if err := extra.FunctionCallError(); err != nil && errors.As(err, &fe) {
		return fe, true
	}
	return nil, false
}
