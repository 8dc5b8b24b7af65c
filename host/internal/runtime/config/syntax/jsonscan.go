package syntax

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// jsonState determines which tokens the scanner accepts next.
type jsonState int

const (
	jsonRoot   jsonState = iota // the value of the file
	jsonFirst                   // in an object: its first key, or its end
	jsonKey                     // in an object: a key after a comma
	jsonColon                   // in an object: the colon after a key
	jsonValue                   // in an object: the value after a colon
	jsonNext                    // in an object: a comma, or its end
	jsonItem                    // in an array: its first member, or its end
	jsonMember                  // in an array: a member after a comma
	jsonMore                    // in an array: a comma, or its end
	jsonEnd                     // end of the file
)

// jsonExpected describes the tokens that a state accepts.
var jsonExpected = map[jsonState]string{
	jsonRoot:   `one object: {"NAME": VALUE}`,
	jsonFirst:  `"NAME": VALUE, or the closing }`,
	jsonKey:    `"NAME": VALUE`,
	jsonColon:  "a colon between a name and its value",
	jsonValue:  jsonAnyValue,
	jsonNext:   "a comma between two names with their values, or the closing }",
	jsonItem:   jsonAnyValue,
	jsonMember: jsonAnyValue,
	jsonMore:   "a comma between two members, or the closing ]",
	jsonEnd:    "nothing behind the closing } of the file",
}

const jsonAnyValue = `a value: "text", a number, true, false, null, [...] or {...}`

// jsonFrame is an open array or object.
type jsonFrame struct {
	open  int // byte offset of its bracket
	array bool
	keys  map[string]bool
}

// jsonScanner finds the first error in a JSON text. It can be used once.
type jsonScanner struct {
	text     []byte
	from, to int // of the current token
	before   int // end of the previous token
	state    jsonState
	stack    []jsonFrame
}

// scanJSON returns the first place where a text is not a JSON object, repeats a key, or exceeds a
// limit; nil if there is none. The parser of the library continues after an error and would also
// report its consequences.
func scanJSON(text []byte) *bound {
	s := &jsonScanner{text: text}
	for n := 0; ; n++ {
		s.next()
		switch {
		case s.from == len(text):
			return s.end()
		case n >= MaxTokens:
			return s.bound("config/limit", fmt.Sprintf("more than %d tokens", MaxTokens), "split the file")
		}
		if b := s.token(); b != nil {
			return b
		}
	}
}

var jsonWord = regexp.MustCompile(`^[\w.+-]+`)

// next finds the end of the next token.
func (s *jsonScanner) next() {
	s.before, s.from = s.to, s.to
	for s.from < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.from]) >= 0 {
		s.from++
	}
	rest := s.text[s.from:]
	switch word := jsonWord.Find(rest); {
	case len(rest) == 0:
		s.to = s.from
	case rest[0] == '"':
		s.to = s.from + 1
		for s.to < len(s.text) && s.text[s.to] >= ' ' && s.text[s.to] != '"' {
			if s.text[s.to] == '\\' {
				s.to++
			}
			s.to++
		}
		s.to = min(s.to+1, len(s.text))
	default:
		_, size := utf8.DecodeRune(rest)
		s.to = s.from + max(size, len(word))
	}
}

func (s *jsonScanner) bound(typ, message, hint string) *bound {
	return &bound{Type: typ, From: s.from, To: s.to, Message: message, Hint: hint}
}

// end returns the error of a text that ends here; nil if it is complete.
func (s *jsonScanner) end() *bound {
	switch {
	case s.state == jsonEnd:
		return nil
	case len(s.stack) == 0:
		b := s.bound("config/syntax", "the file is empty", "write {} for no settings, or remove the file")
		b.expected = jsonExpected[jsonRoot]
		return b
	}
	top := s.stack[len(s.stack)-1]
	open, closing := "{", "}"
	if top.array {
		open, closing = "[", "]"
	}
	return &bound{
		Type:     "config/syntax",
		From:     top.open,
		To:       top.open + 1,
		Message:  fmt.Sprintf("this %s is not closed before the file ends", open),
		expected: fmt.Sprintf("a closing %s for every %s", closing, open),
		Hint:     "write " + closing + " behind its last member",
	}
}

// token processes the current token.
func (s *jsonScanner) token() *bound {
	c := s.text[s.from]
	switch s.state {
	case jsonRoot:
		if c == '{' || c == '[' {
			return s.open(c == '[')
		}
	case jsonFirst, jsonKey:
		if c == '"' {
			return s.key()
		}
		if c == '}' && s.state == jsonFirst {
			return s.close()
		}
	case jsonColon:
		if c == ':' {
			s.state = jsonValue
			return nil
		}
	case jsonNext:
		return s.behind(c, jsonKey, '}')
	case jsonMore:
		return s.behind(c, jsonMember, ']')
	case jsonValue, jsonItem, jsonMember:
		if c == ']' && s.state == jsonItem {
			return s.close()
		}
		return s.value(c)
	}
	return s.wrong()
}

// behind processes the token after a value: a comma, after which the state is next, or the closing
// bracket.
func (s *jsonScanner) behind(c byte, next jsonState, closing byte) *bound {
	switch c {
	case ',':
		s.state = next
		return nil
	case closing:
		return s.close()
	}
	return s.wrong()
}

func (s *jsonScanner) value(c byte) *bound {
	switch word := string(s.text[s.from:s.to]); {
	case c == '{' || c == '[':
		return s.open(c == '[')
	case c == '"':
		s.inside()
		return s.quoted()
	case slices.Contains([]string{"true", "false", "null"}, word):
		s.inside()
		return nil
	case jsonNumber.MatchString(word):
		s.inside()
		at := hcl.Range{Start: hcl.Pos{Byte: s.from}, End: hcl.Pos{Byte: s.to}}
		return number(hclsyntax.Token{Bytes: s.text[s.from:s.to], Range: at})
	}
	return s.wrong()
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (s *jsonScanner) open(array bool) *bound {
	if len(s.stack) >= MaxNesting {
		return s.bound("config/limit", fmt.Sprintf("objects and arrays are nested more than %d deep", MaxNesting),
			"move the inner part into a local")
	}
	s.stack = append(s.stack, jsonFrame{open: s.from, array: array, keys: map[string]bool{}})
	s.state = jsonFirst
	if array {
		s.state = jsonItem
	}
	return nil
}

func (s *jsonScanner) close() *bound {
	s.stack = s.stack[:len(s.stack)-1]
	s.inside()
	return nil
}

// inside sets the state after a complete value.
func (s *jsonScanner) inside() {
	switch n := len(s.stack); {
	case n == 0:
		s.state = jsonEnd
	case s.stack[n-1].array:
		s.state = jsonMore
	default:
		s.state = jsonNext
	}
}

func (s *jsonScanner) key() *bound {
	if b := s.quoted(); b != nil {
		return b
	}
	var key string
	_ = json.Unmarshal(s.text[s.from:s.to], &key) // checked by quoted
	keys := s.stack[len(s.stack)-1].keys
	if keys[key] {
		return s.bound("config/syntax", "key "+diag.Quote(diag.Short(key))+" is written twice in one object",
			"keep one of the two")
	}
	keys[key] = true
	s.state = jsonColon
	return nil
}

// quoted returns the error in the current string; nil if it is valid.
func (s *jsonScanner) quoted() *bound {
	text := s.text[s.from:s.to]
	end := text[len(text)-1]
	switch {
	case json.Valid(text):
		return nil
	case len(text) > 1 && end < ' ' && end != '\n' && end != '\r':
		s.from = s.to - 1
		b := s.bound("config/syntax", fmt.Sprintf("unexpected character %U in a text", end), `write \t for a tab`)
		b.expected = fmt.Sprintf(`an escape such as \u%04x`, end)
		return b
	case len(text) == 1 || end != '"':
		s.to = s.from + len(strings.TrimRight(string(text), "\r\n"))
		b := s.bound("config/syntax", "this text does not end on its line",
			`write the closing ", and \n for a line end inside it`)
		b.expected = `a closing " on the same line`
		return b
	}
	at := jsonEscape.FindIndex(text)
	if at == nil {
		at = []int{0, len(text)}
	}
	s.from, s.to = s.from+at[0], s.from+at[1]
	b := s.bound("config/syntax", "no such escape is known", `write \\ for a \ itself`)
	b.expected = `one of \" \\ \/ \b \f \n \r \t \uXXXX`
	return b
}

// jsonEscape matches an invalid escape.
var jsonEscape = regexp.MustCompile(`\\(u[0-9a-fA-F]{0,3}([^0-9a-fA-F]|$)|[^"\\/bfnrtu])`)

// wrong returns the error for a token that the state does not accept.
func (s *jsonScanner) wrong() *bound {
	word, rest := string(s.text[s.from:s.to]), s.text[s.from:]
	b := s.bound("config/syntax", "", "")
	b.expected = jsonExpected[s.state]
	switch {
	case s.state == jsonRoot:
		b.Message = "the root of a JSON file is not an object"
	case s.state == jsonEnd:
		b.Message, b.Hint = "unexpected text after the closing } of the file", "remove it"
	case s.state == jsonColon:
		b.Message, b.Hint = "a colon is missing", "write a colon behind the name"
	default:
		b.Message = "unexpected token"
	}
	closes := word == "}" || word == "]"
	switch {
	case word == "#" || bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*")):
		b.Message, b.Hint = "JSON has no comments", `remove it, or write "//": "..." as an attribute`
	case s.state == jsonRoot && hclsyntax.ValidIdentifier(word) && !json.Valid([]byte(word)):
		b.Hint = "the name of a file of native syntax ends in .hcl alone"
	case word == "'" || word == "“" || word == "”":
		b.Message, b.Hint = "a text must be enclosed in double quotes", `enclose it in "`
	case (s.state == jsonKey || s.state == jsonMember) && closes:
		b.From, b.To = s.before-1, s.before
		b.Message, b.Hint = "unexpected comma before the closing "+word, "remove the comma"
	case closes && len(s.stack) > 0:
		b.Message = "this " + word + " does not close the bracket before it"
		b.Hint = "write the other closing bracket first"
	case s.state == jsonColon && word == "=":
		b.Message, b.Hint = "unexpected = between a name and its value", "write a colon"
	case (s.state == jsonFirst || s.state == jsonKey) && jsonWord.MatchString(word):
		b.Message, b.Hint = "a name has no quotes", "write "+diag.Quote(word)
	case word == ";":
		b.Message, b.Hint = "unexpected ; after a value", "write a comma, or nothing before a closing bracket"
	case s.state == jsonNext || s.state == jsonMore:
		b.Message, b.Hint = "a comma is missing", "write a comma behind this"
		b.From, b.To = s.before-1, s.before
	case s.state != jsonRoot && s.state != jsonEnd && jsonWord.MatchString(word):
		b.Message, b.Hint = diag.Quote(word)+" is not a value", jsonMeant(word)
	}
	return b
}

// jsonMeant returns the hint for a word that is not a value.
func jsonMeant(word string) string {
	switch strings.ToLower(word) {
	case "true", "yes", "on":
		return "write true"
	case "false", "no", "off":
		return "write false"
	case "none", "nil", "undefined", "nan":
		return "write null for no value"
	}
	if strings.Trim(word, "+-.0123456789") == "" {
		return "write a number without + and without a 0 or a . before its digits"
	}
	return "a text needs quotes: " + diag.Quote(word)
}
