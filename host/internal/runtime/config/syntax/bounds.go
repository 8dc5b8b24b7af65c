package syntax

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits of the input. They are checked before a file is parsed, because the parser of the library
// recurses without a limit, and Go cannot recover from a stack overflow.
const (
	MaxFileBytes    = 512 << 10
	MaxTotalBytes   = 2 << 20
	MaxFiles        = 1000
	MaxTokens       = 200_000
	MaxNesting      = 64
	MaxUnaryRun     = 15
	MaxConditionals = 63
	MaxOperators    = 1023
	MaxNumberDigits = 40
	MaxExponent     = 308
)

// bound is the first place in a text that exceeds a limit.
type bound struct {
	Type     string
	From, To int // byte offsets in the text
	Message  string
	expected string
	Hint     string
}

// ScanText returns the first byte or mark that is not valid UTF-8 text; nil if the text is valid.
func ScanText(text []byte) *bound {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		if bytes.HasPrefix(text, []byte{0xFF, 0xFE}) || bytes.HasPrefix(text, []byte{0xFE, 0xFF}) {
			return &bound{Type: "config/syntax", Message: "the file is in UTF-16", Hint: "save the file as UTF-8"}
		}
		return &bound{
			Type:    "config/syntax",
			From:    i,
			To:      i + 1,
			Message: "NUL byte in the file",
			Hint:    "remove the byte; is this a text file?",
		}
	}
	if utf8.Valid(text) {
		return nil
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return &bound{
				Type:    "config/syntax",
				From:    i,
				To:      i + 1,
				Message: fmt.Sprintf("byte 0x%02X is not UTF-8", text[i]),
				Hint:    "save the file as UTF-8",
			}
		}
		i += size
	}
	return nil
}

// frame is an open bracket, brace, parenthesis or template, or the file itself. Operators are
// counted per frame, because each element of a list is a separate expression.
type frame struct {
	kind         hclsyntax.TokenType
	items        bool // commas and line ends separate expressions
	block        bool
	operators    int
	conditionals int
}

type scanner struct {
	stack      []frame
	directives []int // open %{ if } and %{ for } of each template, innermost last
	depth      int
	unary      int
	prev       hclsyntax.TokenType
	control    bool // the last token opened a template directive
}

// scanTokens returns the first token that exceeds a limit on tokens, nesting, operators or numbers;
// nil if there is none.
func scanTokens(tokens hclsyntax.Tokens) *bound {
	if len(tokens) > MaxTokens {
		t := tokens[MaxTokens]
		return over(t, fmt.Sprintf("more than %d tokens", MaxTokens), "split the file")
	}
	s := scanner{stack: []frame{{kind: hclsyntax.TokenEOF, block: true, items: true}}}
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenComment {
			continue
		}
		if b := s.token(t); b != nil {
			return b
		}
		if t.Type != hclsyntax.TokenNewline {
			s.prev = t.Type
		}
	}
	return nil
}

func over(t hclsyntax.Token, message, hint string) *bound {
	return &bound{Type: "config/limit", From: t.Range.Start.Byte, To: t.Range.End.Byte, Message: message, Hint: hint}
}

func (s *scanner) token(t hclsyntax.Token) *bound {
	control := s.control
	s.control = false
	switch t.Type {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
		hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
		return s.open(t)
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
		hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
		s.close(t)
	case hclsyntax.TokenBang, hclsyntax.TokenMinus:
		return s.sign(t)
	case hclsyntax.TokenNewline:
		if s.top().items {
			s.restart()
		}
		return nil // a line end inside parentheses does not end a run of signs
	case hclsyntax.TokenComma:
		s.restart()
	case hclsyntax.TokenQuestion:
		s.top().conditionals++
		if s.top().conditionals > MaxConditionals {
			return over(t, fmt.Sprintf("more than %d conditionals in one expression", MaxConditionals),
				"use a map and lookup, or a local per step")
		}
	case hclsyntax.TokenNumberLit:
		s.unary = 0
		return number(t)
	case hclsyntax.TokenIdent:
		if control {
			return s.directive(t)
		}
	default:
		if binary(t.Type) {
			s.unary = 0
			return s.operator(t)
		}
	}
	s.unary = 0
	return nil
}

func (s *scanner) top() *frame { return &s.stack[len(s.stack)-1] }

func (s *scanner) restart() { s.top().operators, s.top().conditionals = 0, 0 }

func (s *scanner) open(t hclsyntax.Token) *bound {
	s.unary = 0
	f := frame{kind: t.Type}
	switch t.Type {
	case hclsyntax.TokenOBrace:
		f.items = true
		f.block = s.top().block && s.prev != hclsyntax.TokenEqual
	case hclsyntax.TokenOBrack:
		switch s.prev { // an index counts as a step of the expression it follows
		case hclsyntax.TokenIdent, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCBrace, hclsyntax.TokenStar, hclsyntax.TokenNumberLit:
			if b := s.operator(t); b != nil {
				return b
			}
		}
	case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
		// Quotes do not count as nesting; brackets inside them do.
		s.stack = append(s.stack, f)
		s.directives = append(s.directives, 0)
		return nil
	case hclsyntax.TokenTemplateControl:
		s.control = true
	}
	s.stack = append(s.stack, f)
	return s.deeper(t, 1)
}

func (s *scanner) deeper(t hclsyntax.Token, by int) *bound {
	s.depth += by
	if s.depth > MaxNesting {
		return over(t,
			fmt.Sprintf("brackets, braces, parentheses and templates are nested more than %d deep", MaxNesting),
			"move the inner part into a local")
	}
	return nil
}

var opener = map[hclsyntax.TokenType][]hclsyntax.TokenType{
	hclsyntax.TokenCBrace:         {hclsyntax.TokenOBrace},
	hclsyntax.TokenCBrack:         {hclsyntax.TokenOBrack},
	hclsyntax.TokenCParen:         {hclsyntax.TokenOParen},
	hclsyntax.TokenTemplateSeqEnd: {hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl},
	hclsyntax.TokenCQuote:         {hclsyntax.TokenOQuote},
	hclsyntax.TokenCHeredoc:       {hclsyntax.TokenOHeredoc},
}

// close removes the innermost frame if the closing token matches it. The parser reports closing
// tokens without a match.
func (s *scanner) close(t hclsyntax.Token) {
	kind := s.top().kind
	fits := false
	for _, k := range opener[t.Type] {
		fits = fits || k == kind
	}
	if !fits {
		return
	}
	s.stack = s.stack[:len(s.stack)-1]
	switch t.Type {
	case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
		s.depth -= s.directives[len(s.directives)-1]
		s.directives = s.directives[:len(s.directives)-1]
	default:
		s.depth--
	}
}

// directive counts %{ if } and %{ for }, which nest inside one template without an open bracket.
func (s *scanner) directive(t hclsyntax.Token) *bound {
	if len(s.directives) == 0 {
		return nil
	}
	open := &s.directives[len(s.directives)-1]
	switch string(t.Bytes) {
	case "if", "for":
		*open++
		return s.deeper(t, 1)
	case "endif", "endfor":
		if *open > 0 {
			*open--
			s.depth--
		}
	}
	return nil
}

func (s *scanner) sign(t hclsyntax.Token) *bound {
	s.unary++
	if s.unary > MaxUnaryRun {
		return over(t, fmt.Sprintf("more than %d unary operators in a row", MaxUnaryRun), "remove them")
	}
	if t.Type == hclsyntax.TokenMinus {
		return s.operator(t)
	}
	return nil
}

func (s *scanner) operator(t hclsyntax.Token) *bound {
	s.top().operators++
	if s.top().operators > MaxOperators {
		return over(t, fmt.Sprintf("more than %d operators or index steps in one expression", MaxOperators),
			"move parts into locals")
	}
	return nil
}

func binary(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr,
		hclsyntax.TokenDot:
		return true
	}
	return false
}

// number rejects numbers that the library would round or expand.
func number(t hclsyntax.Token) *bound {
	digits, exponent := 0, ""
	for i, c := range t.Bytes {
		if c == 'e' || c == 'E' {
			exponent = string(t.Bytes[i+1:])
			break
		}
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	b := &bound{Type: "config/range", From: t.Range.Start.Byte, To: t.Range.End.Byte,
		expected: fmt.Sprintf("at most %d digits, exponent within +-%d", MaxNumberDigits, MaxExponent)}
	if digits > MaxNumberDigits {
		b.Message = fmt.Sprintf("number with %d digits", digits)
		return b
	}
	if exponent == "" {
		return nil
	}
	if e, err := strconv.Atoi(exponent); err == nil && e >= -MaxExponent && e <= MaxExponent {
		return nil
	}
	b.Message = "the exponent of the number is out of range"
	return b
}

// firstLook is the length in bytes of the prefix that is tokenized first. Hostile input usually
// exceeds a limit early, and tokenizing a large file needs time and memory.
const firstLook = 64 << 10

// Parse parses a file in native syntax within the limits. The body is never nil; after syntax
// errors it has the part that was parsed.
func Parse(s *diag.Source, report *diag.Collector) *hclsyntax.Body {
	if !harmless(s.Text) || ScanText(s.Text) != nil {
		body, _ := ParseTokens(s, report)
		return body
	}
	return parseBody(s, report)
}

// ParseTokens works like Parse and also returns the tokens of the file; nil if the file exceeds a
// limit.
func ParseTokens(s *diag.Source, report *diag.Collector) (*hclsyntax.Body, hclsyntax.Tokens) {
	if b := ScanText(s.Text); b != nil {
		reportBound(report, s, b)
		return emptyBody(s), nil
	}
	var tokens hclsyntax.Tokens
	for _, text := range [][]byte{s.Text[:min(len(s.Text), firstLook)], s.Text} {
		tokens, _ = hclsyntax.LexConfig(text, s.Name, hcl.InitialPos)
		if b := scanTokens(tokens); b != nil && (b.To < len(text) || len(text) == len(s.Text)) {
			reportBound(report, s, b)
			return emptyBody(s), nil
		}
		if len(text) == len(s.Text) {
			break
		}
	}
	return parseBody(s, report), tokens
}

func parseBody(s *diag.Source, report *diag.Collector) *hclsyntax.Body {
	body, diags := parsePart(s, 0, len(s.Text))
	if misread(diags) != nil && unmerged(s, report) {
		return emptyBody(s)
	}
	if misread(diags) != nil {
		return recoverBlocks(s, report)
	}
	reportSyntax(report, s, body, diags)
	return body
}

func emptyBody(s *diag.Source) *hclsyntax.Body {
	return &hclsyntax.Body{SrcRange: hcl.Range{Filename: s.Name}, EndRange: hcl.Range{Filename: s.Name}}
}

// reportBound reports a text that exceeds a limit.
func reportBound(report *diag.Collector, s *diag.Source, b *bound) {
	report.Poison(diag.AnyName, diag.AnyName) // the rest of the file is not read
	d := diag.Diagnostic{Type: b.Type, Message: b.Message, Range: s.Span(b.From, b.To), Hint: b.Hint}
	if b.expected != "" {
		d.Expected = edn.Text(b.expected)
		d.Found = edn.Text(diag.Short(string(s.Text[b.From:b.To])))
	}
	report.Add(d)
}
