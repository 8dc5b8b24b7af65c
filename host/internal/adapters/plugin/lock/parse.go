package lock

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// kind is the type of a value.
type kind byte

const (
	text kind = iota + 1
	number
	list
)

type span struct{ from, to int } // bytes

type attr struct {
	span   // of the value
	name   string
	nameAt span
	kind   kind
	number int
	texts  []string
}

func (a attr) shown() string {
	switch a.kind {
	case number:
		return strconv.Itoa(a.number)
	case list:
		return "a list"
	}
	return strconv.Quote(clip(a.texts[0]))
}

// block is a parsed block before its names are checked.
type block struct {
	span     // position of the header
	typ      string
	label    string
	labelAt  span
	labelled bool
	attrs    []attr
	blocks   []*block
}

func (b *block) of(typ string) []*block {
	var out []*block
	for _, x := range b.blocks {
		if x.typ == typ {
			out = append(out, x)
		}
	}
	return out
}

func (b *block) attr(name string) (attr, bool) {
	for _, a := range b.attrs {
		if a.name == name {
			return a, true
		}
	}
	return attr{}, false
}

func (b *block) title() string {
	if b.label != "" {
		return fmt.Sprintf("%s %q", b.typ, clip(b.label))
	}
	return b.typ
}

// decoding is the state of one Decode.
type decoding struct {
	name     string
	text     []byte
	tokens   hclsyntax.Tokens
	at       int
	problems []Problem
}

func (d *decoding) add(p Problem, from, to int) {
	if len(d.problems) >= maxProblems {
		return
	}
	before := d.text[:min(from, len(d.text))]
	p.From, p.To = from, to
	p.Line = bytes.Count(before, []byte("\n")) + 1
	p.Column = len(before) - bytes.LastIndexByte(before, '\n')
	d.problems = append(d.problems, p)
}

// parse parses the text into blocks. It stops at the first syntax error.
func (d *decoding) parse() *block {
	root := &block{}
	if len(d.text) > MaxBytes {
		d.add(Problem{Type: "config/limit",
			Message: fmt.Sprintf("the file has %d bytes, over the limit of %d", len(d.text), MaxBytes)}, 0, 0)
		return root
	}
	if i := bytes.IndexByte(d.text, 0); i >= 0 || !utf8.Valid(d.text) {
		d.add(Problem{Type: "config/syntax", Message: "the file is not UTF-8 text"}, max(i, 0), max(i, 0))
		return root
	}
	// An error of the lexer is a token that is rejected below.
	tokens, _ := hclsyntax.LexConfig(d.text, d.name, hcl.InitialPos)
	if len(tokens) > MaxTokens {
		d.add(Problem{Type: "config/limit", Message: fmt.Sprintf("more than %d tokens", MaxTokens)}, 0, 0)
		return root
	}
	for _, t := range tokens {
		switch {
		case t.Type == hclsyntax.TokenComment && bytes.HasSuffix(t.Bytes, []byte("\n")):
			t.Type = hclsyntax.TokenNewline
		case t.Type == hclsyntax.TokenComment:
			continue
		}
		d.tokens = append(d.tokens, t)
	}
	open := []*block{root}
	for len(d.problems) == 0 {
		t := d.next()
		switch t.Type {
		case hclsyntax.TokenNewline:
		case hclsyntax.TokenEOF:
			if len(open) > 1 {
				d.unexpected(t, "}")
			}
			return root
		case hclsyntax.TokenCBrace:
			if len(open) == 1 {
				d.unexpected(t, "a block")
				return root
			}
			open = open[:len(open)-1]
			d.endOfLine()
		case hclsyntax.TokenIdent:
			top := open[len(open)-1]
			if d.peek().Type == hclsyntax.TokenEqual {
				d.attribute(top, t)
				break
			}
			if b, ok := d.header(t); ok {
				top.blocks = append(top.blocks, b)
				if open = append(open, b); len(open) > 3 {
					d.add(Problem{Type: "config/syntax", Message: "blocks are nested deeper than a lock file has them"}, b.from, b.to)
				}
			}
		default:
			d.unexpected(t, "the name of an attribute or a block")
		}
	}
	return root
}

func (d *decoding) peek() hclsyntax.Token {
	if d.at < len(d.tokens) {
		return d.tokens[d.at]
	}
	return hclsyntax.Token{Type: hclsyntax.TokenEOF,
		Range: hcl.Range{Start: hcl.Pos{Byte: len(d.text)}, End: hcl.Pos{Byte: len(d.text)}}}
}

func (d *decoding) next() hclsyntax.Token {
	t := d.peek()
	if d.at < len(d.tokens) {
		d.at++
	}
	return t
}

func spanOf(t hclsyntax.Token) span { return span{t.Range.Start.Byte, t.Range.End.Byte} }

func (d *decoding) unexpected(t hclsyntax.Token, expected string) {
	found := strconv.Quote(clip(string(t.Bytes)))
	switch t.Type {
	case hclsyntax.TokenEOF:
		found = "the end of the file"
	case hclsyntax.TokenNewline:
		found = "the end of the line"
	}
	d.add(Problem{
		Type:     "config/syntax",
		Message:  "a lock file may only contain data",
		Expected: expected,
		Found:    found,
		Hint:     rewrite,
	}, t.Range.Start.Byte, t.Range.End.Byte)
}

// want consumes the next token, and reports a problem if it has another type.
func (d *decoding) want(typ hclsyntax.TokenType, expected string) (hclsyntax.Token, bool) {
	t := d.next()
	if t.Type != typ {
		d.unexpected(t, expected)
		return t, false
	}
	return t, true
}

func (d *decoding) endOfLine() {
	if t := d.peek(); t.Type != hclsyntax.TokenNewline && t.Type != hclsyntax.TokenEOF {
		d.unexpected(t, "the end of the line")
	}
}

// header parses the type and label of a block up to its opening brace.
func (d *decoding) header(name hclsyntax.Token) (*block, bool) {
	b := &block{span: spanOf(name), typ: string(name.Bytes)}
	if t := d.peek(); t.Type == hclsyntax.TokenOQuote {
		d.next()
		s, at, ok := d.quoted(t)
		if !ok {
			return nil, false
		}
		b.label, b.labelAt, b.labelled = s, at, true
		b.to = at.to
	}
	if _, ok := d.want(hclsyntax.TokenOBrace, "{ or ="); !ok {
		return nil, false
	}
	if t := d.peek(); t.Type != hclsyntax.TokenNewline && t.Type != hclsyntax.TokenCBrace {
		d.unexpected(t, "the end of the line")
		return nil, false
	}
	return b, true
}

func (d *decoding) attribute(in *block, name hclsyntax.Token) {
	d.next() // the equal sign
	a := attr{name: string(name.Bytes), nameAt: spanOf(name)}
	t := d.next()
	a.span = spanOf(t)
	switch t.Type {
	case hclsyntax.TokenOQuote:
		s, at, ok := d.quoted(t)
		if !ok {
			return
		}
		a.kind, a.texts, a.span = text, []string{s}, at
	case hclsyntax.TokenNumberLit:
		n, err := strconv.Atoi(string(t.Bytes))
		if err != nil {
			d.unexpected(t, "a whole number")
			return
		}
		a.kind, a.number = number, n
	case hclsyntax.TokenOBrack:
		if !d.list(&a) {
			return
		}
	default:
		d.unexpected(t, "a text, a whole number or a list of texts")
		return
	}
	d.endOfLine()
	in.attrs = append(in.attrs, a)
}

// list parses the members of a list after its bracket.
func (d *decoding) list(a *attr) bool {
	a.kind = list
	for {
		d.skipLines()
		t := d.next()
		switch t.Type {
		case hclsyntax.TokenCBrack:
			a.to = t.Range.End.Byte
			return true
		case hclsyntax.TokenOQuote:
			s, _, ok := d.quoted(t)
			if !ok {
				return false
			}
			if a.texts = append(a.texts, s); len(a.texts) > MaxMembers {
				d.add(Problem{Type: "config/limit", Message: fmt.Sprintf("%s has more than %d members", a.name, MaxMembers)},
					a.from, t.Range.End.Byte)
				return false
			}
		default:
			d.unexpected(t, "a text in quotes or ]")
			return false
		}
		d.skipLines()
		switch t := d.peek(); t.Type {
		case hclsyntax.TokenComma:
			d.next()
		case hclsyntax.TokenCBrack:
		default:
			d.unexpected(t, ", or ]")
			return false
		}
	}
}

func (d *decoding) skipLines() {
	for d.peek().Type == hclsyntax.TokenNewline {
		d.next()
	}
}

// quoted parses a text after its opening quote. The library may split a long text into several
// tokens.
func (d *decoding) quoted(open hclsyntax.Token) (string, span, bool) {
	at := spanOf(open)
	for {
		t := d.next()
		switch t.Type {
		case hclsyntax.TokenQuotedLit:
		case hclsyntax.TokenCQuote:
			at.to = t.Range.End.Byte
			s, err := unquote(string(d.text[open.Range.End.Byte:t.Range.Start.Byte]))
			switch {
			case err != nil:
				d.add(Problem{Type: "config/syntax", Message: err.Error(), Expected: `\n, \r, \t, \", \\, \uNNNN or \UNNNNNNNN`},
					at.from, at.to)
				return "", at, false
			case len(s) > MaxText:
				d.add(Problem{Type: "config/limit",
					Message: fmt.Sprintf("a text of %d bytes, over the limit of %d", len(s), MaxText)}, at.from, at.to)
				return "", at, false
			}
			return s, at, true
		default:
			d.unexpected(t, "the end of the text")
			return "", at, false
		}
	}
}
