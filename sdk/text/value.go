package text

// value follows a text byte by byte as far as it begins with a value of JSON or EDN that has
// strings: an object, an array or a string. A text that only resembles one, such as "[1] says",
// ends with the bracket.
type value struct {
	state valueState
	object
}

type valueState uint8

const (
	valueAhead valueState = iota // only blanks so far
	valueBegun                   // after the first bracket
	valueOpen
	noValue // it ended, or the text begins with something else
)

// inString processes one byte and reports whether it belongs to a string of the value. A "<"
// before the value may begin a tag, which is not part of the text.
func (v *value) inString(c byte) bool {
	space := blank(c) || c == '\n'
	switch v.state {
	case valueAhead:
		switch {
		case space || c == '<':
			return false
		case c == '{' || c == '[':
			v.state, v.object = valueBegun, object{depth: 1}
			return false
		case c != '"':
			v.state = noValue
			return false
		}
	case valueBegun:
		if space || c == ',' {
			return false
		}
		if !beginsElement(c) {
			v.state = noValue
			return false
		}
	case noValue:
		return false
	}
	quoted := v.quoted
	v.state = valueOpen
	if v.ends(c) && !v.quoted || c == '\n' && v.depth == 0 {
		v.state = noValue
	}
	return quoted || v.quoted
}

// beginsElement reports whether c may follow the first bracket of a value.
func beginsElement(c byte) bool {
	switch c {
	case '"', ':', '{', '[', '}', ']', '-', 't', 'f', 'n':
		return true
	}
	return c >= '0' && c <= '9'
}

// object tracks the brackets of a value and its strings.
type object struct {
	depth   int
	quoted  bool
	escaped bool
}

// ends processes one byte and reports whether no bracket is open after it.
func (o *object) ends(c byte) bool {
	switch {
	case o.escaped:
		o.escaped = false
	case o.quoted && c == '\\':
		o.escaped = true
	case c == '"':
		o.quoted = !o.quoted
	case o.quoted:
	case c == '{' || c == '[' || c == '(':
		o.depth++
	case c == '}' || c == ']' || c == ')':
		o.depth--
	}
	return o.depth <= 0
}
