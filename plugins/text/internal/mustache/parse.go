package mustache

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Bounds of templates and output, in bytes, levels and nodes.
const (
	MaxTemplate = 1 << 20
	MaxOutput   = 1 << 20
	MaxPartials = 8 // partials inside each other
	MaxSections = 64
)

// SyntaxError is a mistake in a template, with its line from 1.
type SyntaxError struct {
	Template string // name of the partial, empty for the template itself
	Line     int
	Message  string
}

// Error returns one line with the position.
func (e *SyntaxError) Error() string { return at(e.Template, e.Line) + e.Message }

func at(template string, line int) string {
	if template == "" {
		return fmt.Sprintf("template line %d: ", line)
	}
	return fmt.Sprintf("partial %s line %d: ", template, line)
}

type nodeKind int

const (
	textNode nodeKind = iota
	variable
	section
	inverted
	partial
	lineStart // a template line that begins with a tag: where to indent
)

type node struct {
	kind   nodeKind
	text   string // text, or the name of a partial
	path   []step // of a variable or section; empty is the item itself
	raw    bool   // not escaped
	fresh  bool   // of a text: it begins a template line
	line   int
	indent string // of a standalone partial
	inner  []node
}

// step is one part of a dotted name, in the forms that a map key may have.
type step struct {
	name    string
	keyword edn.Value // nil if the name cannot be a keyword
	text    edn.Value
}

// Template is a parsed template. It is immutable.
type Template struct {
	name  string
	nodes []node
}

// Parse parses a template. name is the name of a partial, "" for the template itself. The error is
// a *SyntaxError.
func Parse(name, source string) (*Template, error) {
	if len(source) > MaxTemplate {
		return nil, &SyntaxError{name, 1, fmt.Sprintf("%d bytes, at most %d", len(source), MaxTemplate)}
	}
	p := &parser{name: name, rest: source, line: 1}
	nodes, err := p.nodes("", 0, 1)
	if err != nil {
		return nil, err
	}
	return &Template{name: name, nodes: nodes}, nil
}

type parser struct {
	name string
	rest string
	line int
	last string // text since the last line break, if only blanks
	mid  bool   // other text precedes on this line
}

func (p *parser) fault(line int, format string, args ...any) error {
	return &SyntaxError{p.name, line, fmt.Sprintf(format, args...)}
}

// nodes parses up to the end of the section with the given name, or to the end
// of the template for "".
func (p *parser) nodes(open string, depth, openLine int) ([]node, error) {
	if depth > MaxSections {
		return nil, p.fault(p.line, "sections are nested deeper than %d", MaxSections)
	}
	var out []node
	if depth == 0 {
		out = make([]node, 0, min(2*strings.Count(p.rest, "{{")+1, 256)) // fits most templates
	}
	for {
		begin := strings.Index(p.rest, "{{")
		if begin < 0 {
			if open != "" {
				return nil, p.fault(openLine, "section {{#%s}} is not closed", open)
			}
			out = p.text(out, p.rest)
			p.rest = ""
			return out, nil
		}
		out = p.text(out, p.rest[:begin])
		p.rest = p.rest[begin:]
		t, err := p.tag()
		if err != nil {
			return nil, err
		}
		fresh := p.lineBegins()
		indent, alone := p.standalone(t)
		switch {
		case alone:
			out = trimIndent(out, indent)
		case fresh:
			out = append(out, node{kind: lineStart, line: t.line})
		}
		switch t.sigil {
		case '!':
		case '/':
			if t.content != open {
				if open == "" {
					return nil, p.fault(t.line, "{{/%s}} closes no section", t.content)
				}
				return nil, p.fault(t.line, "{{/%s}} closes section {{#%s}} of line %d", t.content, open, openLine)
			}
			return out, nil
		case '#', '^':
			path, err := p.path(t)
			if err != nil {
				return nil, err
			}
			inner, err := p.nodes(t.content, depth+1, t.line)
			if err != nil {
				return nil, err
			}
			kind := section
			if t.sigil == '^' {
				kind = inverted
			}
			out = append(out, node{kind: kind, path: path, line: t.line, inner: inner})
		case '>':
			n := node{kind: partial, text: t.content, line: t.line}
			if alone {
				n.indent = indent
			}
			out = append(out, n)
		default:
			path, err := p.path(t)
			if err != nil {
				return nil, err
			}
			out = append(out, node{kind: variable, path: path, raw: t.sigil != 0, line: t.line})
		}
	}
}

// text adds a text node and tracks the current line.
func (p *parser) text(out []node, s string) []node {
	if s == "" {
		return out
	}
	n := node{kind: textNode, text: s, fresh: p.lineBegins(), line: p.line}
	p.line += strings.Count(s, "\n")
	if at := strings.LastIndexByte(s, '\n'); at >= 0 {
		p.last, p.mid = s[at+1:], false
	} else if !p.mid {
		p.last += s
	}
	if !p.mid && strings.TrimLeft(p.last, " \t") != "" {
		p.mid = true
	}
	return append(out, n)
}

// lineBegins reports whether the parser is at the beginning of a line.
func (p *parser) lineBegins() bool { return !p.mid && p.last == "" }

type tag struct {
	sigil   byte // ! / # ^ > & or { for raw, 0 for a plain variable
	content string
	line    int
}

func (p *parser) tag() (tag, error) {
	t := tag{line: p.line}
	body, closing := p.rest[2:], "}}"
	if strings.HasPrefix(body, "{") {
		closing = "}}}"
	}
	end := strings.Index(body, closing)
	if end < 0 {
		return t, p.fault(p.line, "tag is not closed with %s", closing)
	}
	content := body[:end]
	p.rest = body[end+len(closing):]
	p.line += strings.Count(content, "\n")
	if content != "" && strings.IndexByte("!/#^>&{=", content[0]) >= 0 {
		t.sigil, content = content[0], content[1:]
	}
	t.content = strings.TrimSpace(content)
	switch {
	case t.sigil == '=':
		return t, p.fault(t.line, "other delimiters are not supported")
	case t.sigil != '!' && t.content == "":
		return t, p.fault(t.line, "tag without a name")
	}
	return t, nil
}

// standalone reports whether the tag is alone on its line, which is then
// removed with its line break, and returns the blanks before the tag.
func (p *parser) standalone(t tag) (string, bool) {
	if t.sigil == 0 || t.sigil == '&' || t.sigil == '{' || p.mid {
		p.mid = true
		return "", false
	}
	line, _, found := strings.Cut(p.rest, "\n")
	if strings.TrimRight(line, " \t\r") != "" {
		p.mid = true
		return "", false
	}
	indent := p.last
	p.last = ""
	if !found {
		p.rest = ""
		return indent, true
	}
	p.rest = p.rest[len(line)+1:]
	p.line++
	return indent, true
}

// trimIndent returns the nodes without the blanks before a standalone tag.
func trimIndent(out []node, indent string) []node {
	if indent == "" || len(out) == 0 {
		return out
	}
	last := &out[len(out)-1]
	if last.kind == textNode {
		last.text = strings.TrimSuffix(last.text, indent)
	}
	return out
}

// path returns the parts of a dotted name.
func (p *parser) path(t tag) ([]step, error) {
	if t.content == "." {
		return nil, nil
	}
	var path []step
	for name := range strings.SplitSeq(t.content, ".") {
		if name == "" || strings.ContainsAny(name, " \t\n\r{}") {
			return nil, p.fault(t.line, "%q is not a name", t.content)
		}
		s := step{name: name, text: edn.Text(name)}
		if keyword, err := edn.Keyword(name); err == nil {
			s.keyword = keyword
		}
		path = append(path, s)
	}
	return path, nil
}
