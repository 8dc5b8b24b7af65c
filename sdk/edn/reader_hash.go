package edn

import (
	"strings"
	"unicode/utf8"
)

// dispatch reads a form that begins with a hash sign.
func (r *reader) dispatch(at int) {
	next := byte(0)
	if at+1 < len(r.s) {
		next = r.s[at+1]
	}
	switch next {
	case '{':
		r.open(KindSet, at, 2)
		return
	case '_':
		// Counted here, not with its form, so that a chain of discards is
		// limited too.
		if r.count(at) {
			r.frames[len(r.frames)-1].pend++
			r.i = at + 2
		}
		return
	}
	if !r.begin(at) {
		return
	}
	if next == '#' {
		r.badToken("invalid-number", at, "number", "NaN and infinities are not values")
		return
	}
	if sentence := unsupportedHash(next); sentence != "" {
		r.failAt("unsupported-syntax", at, sentence, "")
		return
	}
	r.openTag(at)
}

func unsupportedHash(c byte) string {
	switch c {
	case '"':
		return `regular expressions (#") are not supported: write a string`
	case '(':
		return "function literals (#() are not supported: EDN is data and is never evaluated"
	case '\'':
		return "var quotes (#') are not supported: there are no vars"
	case '=':
		return "read-time evaluation (#=) is not supported: reading never runs code"
	case '?':
		return "reader conditionals (#?) are not supported: there is one platform"
	case ':':
		return "namespaced maps (#:) are not supported: write each key in full"
	case '!':
		return "a shebang line (#!) is not supported: begin with the form"
	}
	return ""
}

func (r *reader) openTag(at int) {
	start := at + 1
	if start < len(r.s) {
		c := r.s[start]
		ru, size := utf8.DecodeRuneInString(r.s[start:])
		if c < utf8.RuneSelf && class[c]&clsStart == 0 || c >= utf8.RuneSelf && size > 1 && !isNameRune(ru) {
			r.failAt("invalid-tag", at, "a tag needs a name directly behind #", "")
			return
		}
	}
	end, _, problem, ok := r.name(start)
	if !ok {
		return
	}
	tag := r.s[start:end]
	if problem == "" && isReservedWord(tag) {
		problem = "it is a literal"
	}
	if problem != "" {
		r.failAt("invalid-tag", at, "invalid tag "+r.quoted(at, end)+": "+problem, "")
		return
	}
	top := &r.frames[len(r.frames)-1]
	muted := top.mute || top.pend > 0
	if !muted && strings.HasPrefix(tag, "ferment/") && tag != tagSecret && tag != tagValue {
		r.failAt("reserved-tag", at, "tag #"+tag+" is reserved: the namespace ferment belongs to the host", "")
		return
	}
	if r.push(KindTagged, at) {
		r.frames[len(r.frames)-1].tag = tag
		r.i = end
	}
}
