package syntax

// harmless reports whether a text is certainly within all limits of scanTokens. It reads the bytes
// once, which is much faster than tokenizing. It returns false for what it cannot decide (templates
// with expressions, heredocs, block comments, strings that do not end on their line) and may count
// too many operators; the caller then checks the tokens.
func harmless(text []byte) bool {
	if len(text) > MaxTokens { // each token but the last has at least one byte
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

// quickReader scans a text of words, brackets, operators and strings without expressions.
type quickReader struct {
	text   []byte
	at     int
	signs  int // consecutive unary operators
	depth  int // index of the innermost frame
	frames [MaxNesting + 1]quickFrame
}

// quickFrame is an open bracket with the counts of its current expression.
type quickFrame struct {
	open                    byte
	operators, conditionals int
}

// step scans a token or white space; false if the result is undecided.
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
		p.comment() // includes the line end, which does not end an expression
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
		f.operators++ // an index counts as an operator
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

// doubtful reports whether c may begin a heredoc or a block comment.
func (p *quickReader) doubtful(c byte) bool {
	return c == '<' && p.next() == '<' || c == '/' && p.next() == '*'
}

func (p *quickReader) comment() {
	for p.at < len(p.text) && p.text[p.at] != '\n' {
		p.at++
	}
	p.at = min(p.at+1, len(p.text))
}

// quoted scans a string without expressions that ends on its line; false if it is not one.
func (p *quickReader) quoted() bool {
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '"':
			p.at++
			return true
		case '\n', '\r':
			return false
		case '$', '%': // an expression, or undecided
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

// word scans a name, or a number without an exponent; false if it is neither.
func (p *quickReader) word(c byte) bool {
	if digit(c) {
		digits := p.digits()
		if p.at < len(p.text) && p.text[p.at] == '.' && digit(p.next()) {
			p.at++
			digits += p.digits()
		}
		// The next character may continue the number.
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

// openerOf returns the opening bracket of a closing one.
func openerOf(c byte) byte {
	switch c {
	case '}':
		return '{'
	case ']':
		return '['
	}
	return '('
}
