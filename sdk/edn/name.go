package edn

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxNamePart is the longest namespace or name in bytes.
const maxNamePart = 255

// Classes of ASCII bytes inside and at the start of tokens. A byte may be in
// several classes.
const (
	clsSpace uint8 = 1 << iota // space, tab, LF, CR, comma
	clsEnd                     // ends a token: whitespace ; " and brackets
	clsDigit
	clsStart // may start a name
	clsInner // may follow inside a name or number token
	clsBlank // whitespace and the start of a comment
)

var class = makeClasses()

func makeClasses() (t [256]uint8) {
	mark := func(chars string, c uint8) {
		for i := range len(chars) {
			t[chars[i]] |= c
		}
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	mark(" \t\n\r,", clsSpace|clsBlank|clsEnd)
	mark(";", clsBlank)
	mark(";\"()[]{}", clsEnd)
	mark("0123456789", clsDigit|clsInner)
	mark(letters+".*+!-_?$%&=<>", clsStart|clsInner)
	mark("#:'/", clsInner)
	return t
}

func isNameRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.N)
}

func isReservedWord(s string) bool { return s == "nil" || s == "true" || s == "false" }

// checkName returns the position of the slash in the symbol name s (0: none),
// or the problem of s as a phrase for a message.
func checkName(s string) (slash int, problem string) {
	if slash, ok := usualName(s); ok {
		return slash, ""
	}
	if s == "" {
		return 0, "it is empty"
	}
	if s == "/" {
		return 0, ""
	}
	for i := range len(s) {
		if s[i] != '/' {
			continue
		}
		if slash > 0 {
			return 0, "it has more than one slash"
		}
		if i == 0 || i == len(s)-1 {
			return 0, "a slash must stand between two names"
		}
		slash = i
	}
	if slash == 0 {
		return 0, checkNamePart(s)
	}
	if problem = checkNamePart(s[:slash]); problem == "" {
		problem = checkNamePart(s[slash+1:])
	}
	return slash, problem
}

// usualName recognises common names in one pass: ASCII letters, digits and
// signs, at most one slash, and no part that starts like a number. It decides
// nothing about other names.
func usualName(s string) (slash int, ok bool) {
	if len(s) > maxNamePart {
		return 0, false
	}
	first := true // at the first character of a part
	for i := range len(s) {
		c := s[i]
		if c == '/' && !first && slash == 0 {
			slash, first = i, true
			continue
		}
		kind := class[c] // bytes above ASCII have none
		if kind&(clsStart|clsDigit) == 0 || first && (kind&clsStart == 0 || c == '+' || c == '-' || c == '.') {
			return 0, false
		}
		first = false
	}
	return slash, !first
}

func checkNamePart(s string) string {
	if len(s) > maxNamePart {
		return "a part is longer than " + strconv.Itoa(maxNamePart) + " bytes"
	}
	switch c := s[0]; {
	case c >= utf8.RuneSelf: // checked below
	case class[c]&clsDigit != 0:
		return "it starts with a digit"
	case class[c]&clsStart == 0:
		return "it starts with " + quoteRune(rune(c))
	case (c == '-' || c == '+' || c == '.') && len(s) > 1 && class[s[1]]&clsDigit != 0:
		return "it looks like a number"
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				return "it is not valid UTF-8"
			}
			if !isNameRune(r) {
				return quoteRune(r) + " is not allowed in it"
			}
			i += size
			continue
		}
		if class[c]&clsInner == 0 || c == '/' {
			return quoteRune(rune(c)) + " is not allowed in it"
		}
		if c == ':' && i+1 < len(s) && s[i+1] == ':' {
			return "it has two colons in a row"
		}
		i++
	}
	if s[len(s)-1] == ':' {
		return "it ends in a colon"
	}
	return ""
}

func nameMessage(what, name, problem string) string {
	return "invalid " + what + " name " + strconv.Quote(clip(name, 60)) + ": " + problem
}

// quoteRune describes a code point for a message: the character if it is
// printable, and always its number.
func quoteRune(r rune) string {
	code := "U+" + leftPad(strconv.FormatInt(int64(r), 16), 4)
	if unicode.IsGraphic(r) && !unicode.IsSpace(r) {
		return string(r) + " (" + code + ")"
	}
	return code
}

func leftPad(hex string, width int) string {
	b := make([]byte, 0, 8)
	for i := len(hex); i < width; i++ {
		b = append(b, '0')
	}
	for i := range len(hex) {
		c := hex[i]
		if c >= 'a' {
			c -= 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// clip shortens s to n code points, with an ellipsis if it was longer.
func clip(s string, n int) string {
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return s
}
