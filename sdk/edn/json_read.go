package edn

import (
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// ReadJSON reads one JSON document as a value: null, booleans and strings
// unchanged, a number without point and exponent as integer, others as float,
// arrays as vectors, objects as maps. A member name that is a valid keyword
// name becomes a keyword key, any other a string key; an object with exactly
// the members "#tag" and "#value" becomes a tagged literal. No other types are
// inferred. Limits and errors are those of Read; duplicate names are rejected.
func ReadJSON(b []byte, opts ...Option) (Value, error) {
	set := newSettings(opts)
	if len(b) > set.limits.Bytes {
		return Value{}, tooLong(unsafe.String(unsafe.SliceData(b), len(b)), &set)
	}
	return readText(string(b), &set, true)
}

// The two members of an object that represents a tagged literal.
const (
	jsonTag   = "#tag"
	jsonValue = "#value"
)

// jsonState is the set of tokens that may come next in a JSON text.
type jsonState uint8

const (
	jsonWantValue jsonState = iota
	jsonWantFirstValue
	jsonWantKey
	jsonWantFirstKey
	jsonWantColon
	jsonWantNext
	jsonWantEnd
)

var jsonExpected = [...]string{
	jsonWantValue:      "a value",
	jsonWantFirstValue: "a value or ]",
	jsonWantKey:        "a name in double quotes",
	jsonWantFirstKey:   "a name in double quotes or }",
	jsonWantColon:      "a colon",
	jsonWantNext:       "a comma or the end of the array or object",
	jsonWantEnd:        "the end of the text",
}

// runJSON is run for JSON text. It shares stacks, limits and duplicate
// detection with the EDN reader.
func (r *reader) runJSON() {
	r.frames = append(r.frames, frame{})
	if strings.HasPrefix(r.s, byteOrderMark) {
		r.i = len(byteOrderMark)
	}
	state := jsonWantValue
	for r.fail == nil {
		for r.i < len(r.s) && isJSONSpace(r.s[r.i]) {
			r.i++
		}
		if r.i >= len(r.s) {
			r.atEnd()
			return
		}
		at, c := r.i, r.s[r.i]
		switch state {
		case jsonWantFirstKey, jsonWantKey:
			state = r.jsonKey(at, c, state)
		case jsonWantColon:
			if c != ':' {
				r.jsonUnexpected(at, state)
				return
			}
			r.i++
			state = jsonWantValue
		case jsonWantNext:
			state = r.jsonNext(at, c)
		case jsonWantEnd:
			r.jsonTrailing(at, c)
		default:
			state = r.jsonForm(at, c, state)
		}
	}
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (r *reader) jsonUnexpected(at int, state jsonState) {
	ru, size := utf8.DecodeRuneInString(r.s[at:])
	if ru == utf8.RuneError && size == 1 {
		r.failAt("invalid-utf8", at, "text is not valid UTF-8", "")
		return
	}
	hint := "expected " + jsonExpected[state]
	if ru == ':' && state != jsonWantColon {
		hint += "; a keyword such as :a is EDN, this text is read as JSON"
	}
	r.failAt("unexpected-character", at, "unexpected character "+quoteRune(ru), hint)
}

// jsonForm reads a value, or opens an array or object.
func (r *reader) jsonForm(at int, c byte, state jsonState) jsonState {
	if c == ']' && state == jsonWantFirstValue {
		return r.jsonClose(at, c)
	}
	if !r.begin(at) {
		return state
	}
	switch c {
	case '[':
		if r.push(KindVector, at) {
			r.i = at + 1
		}
		return jsonWantFirstValue
	case '{':
		if r.push(KindMap, at) {
			r.i = at + 1
		}
		return jsonWantFirstKey
	}
	if v, ok := r.jsonScalar(at, c, state); ok {
		r.complete(v, at)
	}
	return r.jsonAfter()
}

// jsonTrailing rejects text after the document.
func (r *reader) jsonTrailing(at int, c byte) {
	switch {
	case c == ']' || c == '}':
		r.closeFrame(at, c)
	case strings.IndexByte(`{["-0123456789tfn`, c) >= 0:
		r.failAt("trailing-form", at, "a second document follows the first", "give one document")
	default:
		r.jsonUnexpected(at, jsonWantEnd)
	}
}

// jsonAfter returns the state after a complete value.
func (r *reader) jsonAfter() jsonState {
	if len(r.frames) == 1 {
		return jsonWantEnd
	}
	return jsonWantNext
}

func (r *reader) jsonNext(at int, c byte) jsonState {
	switch {
	case c == ']' || c == '}':
		return r.jsonClose(at, c)
	case c != ',':
		r.jsonUnexpected(at, jsonWantNext)
		return jsonWantNext
	}
	r.i++
	if r.frames[len(r.frames)-1].kind == KindMap {
		return jsonWantKey
	}
	return jsonWantValue
}

func (r *reader) jsonClose(at int, c byte) jsonState {
	top := &r.frames[len(r.frames)-1]
	if top.kind != KindMap || c != '}' || !r.isTaggedObject(top) {
		r.closeFrame(at, c)
		return r.jsonAfter()
	}
	elems := r.takeElems(top)
	if !r.finishMap(top, at, elems) {
		return jsonWantNext
	}
	tag, val := elems[1], elems[3]
	start := top.at
	r.frames = r.frames[:len(r.frames)-1]
	v, err := taggedFromJSON(tag, val)
	if err != nil {
		r.failAt(err.Code, start, err.Message, "")
		return jsonWantNext
	}
	r.i = at + 1
	if r.tree != nil {
		r.tree.closeTagged(v.kind == KindTagged)
	}
	r.complete(v, start)
	return r.jsonAfter()
}

// isTaggedObject reports whether the open object has exactly the two members of
// a tagged literal.
func (r *reader) isTaggedObject(top *frame) bool {
	elems := r.stack[top.base:]
	if len(elems) != 4 || len(top.spill) > 0 || elems[0].kind != KindString || elems[2].kind != KindString {
		return false
	}
	a, b := elems[0].text(), elems[2].text()
	return a == jsonTag && b == jsonValue || a == jsonValue && b == jsonTag
}

func taggedFromJSON(tag, val Value) (Value, *ValueError) {
	name, ok := tag.AsString()
	if !ok {
		return Value{}, &ValueError{Kind: KindTagged, Code: "invalid-tag", Message: `member "#tag" must be a string`}
	}
	v, err := Tagged(name, val)
	if err != nil {
		return Value{}, err.(*ValueError)
	}
	return v, nil
}

// jsonKey reads a member name, or the end of an empty object.
func (r *reader) jsonKey(at int, c byte, state jsonState) jsonState {
	if c == '}' && state == jsonWantFirstKey {
		return r.jsonClose(at, c)
	}
	if !r.begin(at) {
		return state
	}
	if c != '"' {
		r.jsonUnexpected(at, state)
		return state
	}
	v, ok := r.jsonString(at)
	if ok {
		name := v.text()
		if slash, problem := checkName(name); problem == "" && name != "/" {
			v = nameValue(KindKeyword, name, slash)
		}
		r.complete(v, at)
	}
	return jsonWantColon
}

func (r *reader) jsonScalar(at int, c byte, state jsonState) (Value, bool) {
	switch {
	case c == '"':
		return r.jsonString(at)
	case c == '-' || class[c]&clsDigit != 0:
		return r.jsonNumber(at)
	}
	for _, w := range [...]struct {
		word string
		v    Value
	}{{"null", Value{}}, {"true", Bool(true)}, {"false", Bool(false)}} {
		if strings.HasPrefix(r.s[at:], w.word) && jsonEnds(r.s, at+len(w.word)) {
			r.i = at + len(w.word)
			return w.v, true
		}
	}
	r.jsonUnexpected(at, state)
	return Value{}, false
}

func jsonEnds(s string, i int) bool {
	return i >= len(s) || isJSONSpace(s[i]) || s[i] == ',' || s[i] == ']' || s[i] == '}' || s[i] == ':'
}

func (r *reader) jsonNumber(at int) (Value, bool) {
	end := at + 1
	for !jsonEnds(r.s, end) {
		end++
	}
	n, code := parseNumber(r.s[at:end])
	switch {
	case code == "limit-digits":
		return r.tooManyDigits(at)
	case code != "" || n.suffix != 0:
		r.failAt("invalid-number", at, "invalid number "+r.quoted(at, end), "")
		return Value{}, false
	}
	r.i = end
	if n.isInteger() {
		return n.integer(), true
	}
	v, ok := n.float()
	if !ok {
		r.i = at
		r.failAt("number-range", at, "number "+r.quoted(at, end)+" is outside 64 bits", "write it as a string")
	}
	return v, ok
}

// jsonString reads a string; without escapes it is a part of the text.
func (r *reader) jsonString(at int) (Value, bool) {
	s, i := r.s, at+1
	escaped, length := false, 0
	for {
		n := plainRun(s[i:])
		i += n
		length += n
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
				return stringValue(s[at+1 : i]), true
			}
			return stringValue(r.unescape(s[at+1:i], length, false)), true
		case '\\':
			ru, size := escapeAt(s[i:], false)
			if size == 0 {
				return r.badEscape(i, `the escapes are \" \\ \/ \b \f \n \r \t \uXXXX, surrogates in pairs`)
			}
			escaped = true
			if length += utf8.RuneLen(ru); length > r.lim.String {
				return r.stringTooLong(i)
			}
			i += size
		case 0x7f:
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
