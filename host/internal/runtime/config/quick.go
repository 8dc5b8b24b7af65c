package config

// harmless tells whether a text is certainly within all limits of scanTokens. It
// reads the bytes once, where cutting the text into tokens makes one for each
// word and finds the column of each. What it cannot be sure about (templates
// with expressions, heredocs, block comments, strings that do not end on their
// line) it says no to, and it counts more operators than there are; then the
// tokens decide.
func harmless(text []byte) bool {
	if len(text) > MaxTokens { // no more tokens than bytes, and one at the end
		return false
	}
	p := quickReader{text: text}
	p.frames[0].open = '{' // the file itself
	for p.at < len(text) {
		if !p.step() {
			return false
		}
	}
	return p.depth == 0
}

// quickReader reads a text that is nothing but words, brackets, operators and
// strings without expressions.
type quickReader struct {
	text   []byte
	at     int
	signs  int // in a row
	depth  int // the innermost of frames
	frames [MaxNesting + 1]quickFrame
}

// quickFrame is an open bracket, with what was counted directly in it since the
// last thing that ends an expression there.
type quickFrame struct {
	open                    byte
	operators, conditionals int
}

// step reads a token or a piece of white space; false: it cannot tell.
func (p *quickReader) step() bool {
	c := p.text[p.at]
	f := &p.frames[p.depth]
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		p.at++
		return true
	case c == '\n':
		if f.open == '{' {
			f.operators, f.conditionals = 0, 0
		}
		p.at++
		return true
	case c == '#' || c == '/' && p.next() == '/':
		p.comment() // with its line end, which ends no expression
		return true
	case c == '!' || c == '-':
		p.at++
		p.signs++
		f.operators++
		return p.signs <= MaxUnaryRun && f.operators <= MaxOperators
	}
	p.signs = 0
	switch c {
	case '"':
		return p.quoted()
	case '{', '[', '(':
		f.operators++ // an index is a step of an expression
		if f.operators > MaxOperators || p.depth == MaxNesting {
			return false
		}
		p.depth++
		p.frames[p.depth] = quickFrame{open: c}
	case '}', ']', ')':
		if p.depth == 0 || f.open != openerOf(c) {
			return false
		}
		p.depth--
	case ',':
		f.operators, f.conditionals = 0, 0
	case '?':
		f.conditionals++
		if f.conditionals > MaxConditionals {
			return false
		}
	case '=', '+', '*', '/', '<', '>', '.', '&', '|':
		f.operators++
		if f.operators > MaxOperators || p.doubtful(c) {
			return false
		}
	case ':':
	default:
		return p.word(c)
	}
	p.at++
	return true
}

func (p *quickReader) next() byte {
	if p.at+1 < len(p.text) {
		return p.text[p.at+1]
	}
	return 0
}

// doubtful tells what may begin a heredoc or a comment of several lines.
func (p *quickReader) doubtful(c byte) bool {
	return c == '<' && p.next() == '<' || c == '/' && p.next() == '*'
}

func (p *quickReader) comment() {
	for p.at < len(p.text) && p.text[p.at] != '\n' {
		p.at++
	}
	p.at = min(p.at+1, len(p.text))
}

// quoted reads a string that ends on its line and holds no expression.
func (p *quickReader) quoted() bool {
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '"':
			p.at++
			return true
		case '\n', '\r':
			return false
		case '$', '%': // of an expression, or so that the library has to tell
			if c := p.next(); c != ' ' && !letter(c) && !digit(c) {
				return false
			}
		case '\\':
			if c := p.next(); c != '"' && c != '\\' && !letter(c) {
				return false
			}
			p.at++
		}
	}
	return false
}

// word reads a name, or a number without an exponent.
func (p *quickReader) word(c byte) bool {
	if digit(c) {
		digits := p.digits()
		if p.at < len(p.text) && p.text[p.at] == '.' && digit(p.next()) {
			p.at++
			digits += p.digits()
		}
		// What stands directly behind it may be more of it.
		return digits <= MaxNumberDigits && (p.at == len(p.text) || p.text[p.at] != '.' && !letter(p.text[p.at]))
	}
	if !letter(c) {
		return false
	}
	for p.at < len(p.text) && (letter(p.text[p.at]) || digit(p.text[p.at]) || p.text[p.at] == '-') {
		p.at++
	}
	return true
}

func (p *quickReader) digits() int {
	from := p.at
	for p.at < len(p.text) && digit(p.text[p.at]) {
		p.at++
	}
	return p.at - from
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// openerOf is the bracket that a closing one belongs to.
func openerOf(c byte) byte {
	switch c {
	case '}':
		return '{'
	case ']':
		return '['
	}
	return '('
}
