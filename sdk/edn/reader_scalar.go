package edn

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// scalar reads the token that starts at offset at with byte c.
func (r *reader) scalar(at int, c byte) (Value, bool) {
	switch c {
	case ':':
		return r.keyword(at)
	case '"':
		return r.str(at)
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return r.number(at, at)
	case '-', '+', '.':
		if at+1 < len(r.s) && class[r.s[at+1]]&clsDigit != 0 {
			if c == '.' {
				return r.badToken("invalid-number", at, "number", "write a digit before the point")
			}
			return r.number(at, at+1)
		}
		return r.symbol(at)
	case '/':
		return r.symbol(at)
	case '\\':
		return r.char(at)
	}
	if class[c]&clsStart != 0 {
		return r.symbol(at)
	}
	if c >= utf8.RuneSelf {
		if ru, size := utf8.DecodeRuneInString(r.s[at:]); size > 1 && isNameRune(ru) {
			return r.symbol(at)
		}
	}
	if sentence := unsupportedLead(c); sentence != "" {
		r.failAt("unsupported-syntax", at, sentence, "")
		return Value{}, false
	}
	return r.unexpected(at)
}

// startsForm reports whether the code point at offset at may begin a form,
// including unsupported ones.
func (r *reader) startsForm(at int) bool {
	c := r.s[at]
	if c >= utf8.RuneSelf {
		ru, size := utf8.DecodeRuneInString(r.s[at:])
		return size > 1 && isNameRune(ru)
	}
	return class[c]&(clsStart|clsDigit) != 0 || strings.IndexByte(`:"\\/#([{`, c) >= 0 || unsupportedLead(c) != ""
}

func unsupportedLead(c byte) string {
	switch c {
	case '^':
		return "metadata (^) is not supported: values carry none"
	case '\'':
		return "quote (') is not supported: EDN is data and is never evaluated; write a text in double quotes"
	case '`':
		return "syntax quote (`) is not supported: plans have slots instead of templates"
	case '~':
		return "unquote (~) is not supported: plans have slots instead of templates"
	case '@':
		return "deref (@) is not supported: there are no references"
	}
	return ""
}

// unexpected rejects the code point at offset at.
func (r *reader) unexpected(at int) (Value, bool) {
	ru, size := utf8.DecodeRuneInString(r.s[at:])
	if ru == utf8.RuneError && size == 1 {
		r.failAt("invalid-utf8", at, "text is not valid UTF-8", "")
		return Value{}, false
	}
	r.failAt("unexpected-character", at, "unexpected character "+quoteRune(ru), "")
	return Value{}, false
}

// tokenEnd returns the end of a token that reaches at least to offset i. A code
// point that no token may contain is a fault.
func (r *reader) tokenEnd(i int) (int, bool) {
	for i < len(r.s) {
		c := r.s[i]
		switch {
		case class[c]&clsInner != 0:
			i++
		case class[c]&clsEnd != 0:
			return i, true
		default:
			ru, size := utf8.DecodeRuneInString(r.s[i:])
			if c < utf8.RuneSelf || size == 1 || !isNameRune(ru) {
				r.unexpected(i)
				return i, false
			}
			i += size
		}
	}
	return i, true
}

// badToken rejects the whole token at offset at and quotes it.
func (r *reader) badToken(code string, at int, what, hint string) (Value, bool) {
	if end, ok := r.tokenEnd(at + 1); ok {
		r.failAt(code, at, "invalid "+what+" "+r.quoted(at, end), hint)
	}
	return Value{}, false
}

// quoted returns text for a message, masked if it is a secret.
func (r *reader) quoted(start, end int) string {
	for i := range r.frames {
		if r.frames[i].tag == tagSecret {
			return "behind #" + tagSecret
		}
	}
	return clip(escapeControls(r.s[start:min(end, start+200)]), 40)
}

// number reads the number at offset at whose digits start at offset digits.
func (r *reader) number(at, digits int) (Value, bool) {
	s, i := r.s, digits
	n := int64(0)
	for i < len(s) && i < digits+18 && s[i]-'0' <= 9 {
		n = n*10 + int64(s[i]-'0')
		i++
	}
	if (i == len(s) || class[s[i]]&clsEnd != 0) && (s[digits] != '0' || i == digits+1) {
		r.i = i
		if s[at] == '-' {
			n = -n
		}
		return Int(n), true
	}
	return r.longNumber(at)
}

func (r *reader) longNumber(at int) (Value, bool) {
	end, ok := r.tokenEnd(at + 1)
	if !ok {
		return Value{}, false
	}
	n, code := parseNumber(r.s[at:end])
	switch code {
	case "":
	case "limit-digits":
		return r.tooManyDigits(at)
	case "unsupported-syntax":
		r.failAt(code, at, "ratio "+r.quoted(at, end)+" is not supported: write a decimal", "")
		return Value{}, false
	default:
		return r.badToken(code, at, "number", "")
	}
	r.i = end
	switch {
	case n.suffix == 'M':
		v, ok := n.decimal()
		if !ok {
			r.i = at
			r.failAt("limit-digits", at, "decimal has more than 1000 digits or an exponent beyond 1000", "")
		}
		return v, ok
	case n.isInteger():
		return n.integer(), true
	}
	v, ok := n.float()
	if !ok {
		r.i = at
		r.failAt("number-range", at, "float "+r.quoted(at, end)+" is outside 64 bits", "write a decimal with suffix M")
	}
	return v, ok
}

// tooManyDigits reports the first digit beyond the limit.
func (r *reader) tooManyDigits(at int) (Value, bool) {
	i, digits := at, 0
	for ; i < len(r.s) && digits <= MaxDigits; i++ {
		switch c := r.s[i]; {
		case class[c]&clsDigit != 0:
			digits++
		case c == 'e' || c == 'E':
			digits = 0
		}
	}
	r.failAt("limit-digits", i-1, "number has more than 1000 digits", "")
	return Value{}, false
}

// name returns the end of the name at offset start and its slash. Plain ASCII
// names are checked here in one pass, all others by checkName.
func (r *reader) name(start int) (end, slash int, problem string, ok bool) {
	s, i := r.s, start
	for i < len(s) {
		c := s[i]
		if class[c]&(clsStart|clsDigit) != 0 {
			i++
			continue
		}
		if c == '/' && slash == 0 && i > start {
			slash = i - start
			i++
			continue
		}
		break
	}
	if (i == len(s) || class[s[i]]&clsEnd != 0) && plainName(s[start:i], slash) {
		return i, slash, "", true
	}
	if end, ok = r.tokenEnd(i); !ok {
		return 0, 0, "", false
	}
	slash, problem = checkName(s[start:end])
	return end, slash, problem, true
}

// plainName is checkName for text that consists of name characters and at most
// one inner slash; it may return false for a valid name.
func plainName(s string, slash int) bool {
	if slash > 0 {
		return plainPart(s[:slash]) && plainPart(s[slash+1:])
	}
	return plainPart(s)
}

func plainPart(s string) bool {
	if len(s) == 0 || len(s) > maxNamePart || class[s[0]]&clsStart == 0 {
		return false
	}
	c := s[0]
	return len(s) == 1 || class[s[1]]&clsDigit == 0 || c != '-' && c != '+' && c != '.'
}

func (r *reader) keyword(at int) (Value, bool) {
	end, slash, problem, ok := r.name(at + 1)
	if !ok {
		return Value{}, false
	}
	name := r.s[at+1 : end]
	if name == "/" {
		problem = "a keyword cannot be a slash alone"
	}
	if problem != "" {
		r.failAt("invalid-name", at, "invalid keyword "+r.quoted(at, end)+": "+problem, "")
		return Value{}, false
	}
	r.i = end
	return nameValue(KindKeyword, name, slash), true
}

func (r *reader) symbol(at int) (Value, bool) {
	end, slash, problem, ok := r.name(at)
	if !ok {
		return Value{}, false
	}
	name := r.s[at:end]
	if problem != "" {
		r.failAt("invalid-name", at, "invalid symbol "+r.quoted(at, end)+": "+problem, "")
		return Value{}, false
	}
	r.i = end
	switch name {
	case "nil":
		return Value{}, true
	case "true":
		return Bool(true), true
	case "false":
		return Bool(false), true
	}
	return nameValue(KindSymbol, name, slash), true
}

// char reads a character: a backslash and one code point, or a backslash and a
// token that is a name such as newline, or uXXXX.
func (r *reader) char(at int) (Value, bool) {
	ru, size := utf8.DecodeRuneInString(r.s[at+1:])
	switch {
	case size == 0:
		r.failAt("unexpected-end", len(r.s), "text ends behind a backslash", "")
		return Value{}, false
	case ru == utf8.RuneError && size == 1:
		return r.unexpected(at + 1)
	case ru < utf8.RuneSelf && class[byte(ru)]&clsSpace != 0 || unicode.IsControl(ru):
		r.failAt("invalid-character", at, "backslash before "+quoteRune(ru), `write a name such as \space or \u002c`)
		return Value{}, false
	}
	end := at + 1 + size
	if end < len(r.s) && class[r.s[end]]&clsEnd == 0 {
		return r.charName(at, end)
	}
	r.i = end
	return Value{kind: KindChar, num: uint64(ru)}, true
}

func (r *reader) charName(at, end int) (Value, bool) {
	for end < len(r.s) && class[r.s[end]]&clsEnd == 0 {
		end++
	}
	name := r.s[at+1 : end]
	for i := range charNames {
		if charNames[i].name == name {
			r.i = end
			return Value{kind: KindChar, num: uint64(charNames[i].r)}, true
		}
	}
	if len(name) == 5 && name[0] == 'u' {
		if c, ok := hex4(name[1:]); ok && !isSurrogate(c) {
			r.i = end
			return Value{kind: KindChar, num: uint64(c)}, true
		}
	}
	r.failAt("invalid-character", at, "invalid character "+r.quoted(at, end),
		`write one code point, \uXXXX, or newline return space tab backspace formfeed`)
	return Value{}, false
}

func isSurrogate(c rune) bool { return c >= 0xd800 && c <= 0xdfff }

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n := 0
	for i := range 4 {
		d := hexValue(s[i])
		if d < 0 {
			return 0, false
		}
		n = n<<4 | d
	}
	return rune(n), true
}

// str reads a string. Without escapes it is a substring of the text.
func (r *reader) str(at int) (Value, bool) {
	start := at + 1
	end := start + plainRun(r.s[start:])
	if end-start > r.lim.String {
		return r.stringTooLong(start + r.lim.String)
	}
	if end < len(r.s) && r.s[end] == '"' {
		r.i = end + 1
		v := textValue(KindString, r.s[start:end])
		v.flag = flagPlain
		return v, true
	}
	return r.longString(at, end)
}

// longString reads a string with an escape, a line break, a tab or a fault at
// offset i.
func (r *reader) longString(at, i int) (Value, bool) {
	s := r.s
	escaped := false
	length := i - at - 1 // of the value, in bytes
	for {
		i0 := i
		i += plainRun(s[i:])
		length += i - i0
		if length > r.lim.String {
			return r.stringTooLong(i - (length - r.lim.String))
		}
		if i >= len(s) {
			p := positionAt(s, at)
			r.failAt("unexpected-end", len(s),
				"string opened at "+strconv.Itoa(p.Line)+":"+strconv.Itoa(p.Column)+" has no end", "")
			return Value{}, false
		}
		switch c := s[i]; c {
		case '"':
			r.i = i + 1
			if !escaped {
				return textValue(KindString, s[at+1:i]), true
			}
			return stringValue(r.unescape(s[at+1:i], length, true)), true
		case '\\':
			ru, size := escapeAt(s[i:], true)
			if size == 0 {
				return r.badEscape(i, `the escapes are \t \n \r \b \f \\ \" \uXXXX, surrogates in pairs`)
			}
			escaped = true
			if length += utf8.RuneLen(ru); length > r.lim.String {
				return r.stringTooLong(i)
			}
			i += size
		case '\n', '\r', '\t':
			if length++; length > r.lim.String {
				return r.stringTooLong(i)
			}
			i++
		default:
			r.failAt("invalid-string", i, "control character "+quoteRune(rune(c))+" in a string", "write it as an escape")
			return Value{}, false
		}
	}
}

func (r *reader) stringTooLong(at int) (Value, bool) {
	for at < len(r.s) && !utf8.RuneStart(r.s[at]) {
		at--
	}
	r.failAt("limit-string", at, "string is longer than "+strconv.Itoa(r.lim.String)+" bytes", "")
	return Value{}, false
}

func (r *reader) badEscape(i int, hint string) (Value, bool) {
	end := min(len(r.s), i+2)
	if i+1 < len(r.s) && r.s[i+1] == 'u' {
		end = min(len(r.s), i+6)
	}
	for end < len(r.s) && !utf8.RuneStart(r.s[end]) {
		end++
	}
	if end == len(r.s) && !strings.Contains(r.s[i+1:], `"`) && end-i < 6 {
		r.failAt("unexpected-end", len(r.s), "text ends inside an escape", "")
		return Value{}, false
	}
	r.failAt("invalid-escape", i, "invalid escape "+r.quoted(i, end), hint)
	return Value{}, false
}

// unescape resolves the valid escapes of raw into size bytes.
func (r *reader) unescape(raw string, size int, strictEDN bool) string {
	out := r.mem.bytes(size, len(r.s)-r.i+size)
	for {
		i := strings.IndexByte(raw, '\\')
		if i < 0 {
			out = append(out, raw...)
			return unsafe.String(unsafe.SliceData(out), len(out))
		}
		out = append(out, raw[:i]...)
		ru, n := escapeAt(raw[i:], strictEDN)
		out = utf8.AppendRune(out, ru)
		raw = raw[i+n:]
	}
}

// escapeAt reads the escape at the start of s and returns its size, 0 if it is
// invalid. Surrogates must be paired.
func escapeAt(s string, strictEDN bool) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\':
		return rune(s[1]), 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case '/':
		if !strictEDN {
			return '/', 2
		}
	case 'u':
		hi, ok := hex4(s[2:])
		if !ok {
			return 0, 0
		}
		if !isSurrogate(hi) {
			return hi, 6
		}
		if hi < 0xdc00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if lo, ok := hex4(s[8:]); ok && lo >= 0xdc00 && lo <= 0xdfff {
				return (hi-0xd800)<<10 | (lo - 0xdc00) + 0x10000, 12
			}
		}
	}
	return 0, 0
}
