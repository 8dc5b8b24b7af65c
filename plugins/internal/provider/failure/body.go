package failure

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxBody is how much of an error body is read.
const MaxBody = 64 << 10

// Report is what the body of an error says.
type Report struct {
	Code    string // the most precise word, in lower case
	Words   string // all words together, in lower case
	Message string
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// ReadBody reads an error body of any shape that providers send: an object or a
// text under "error", either of them in a list, a page, or nothing.
func ReadBody(body []byte) Report {
	body = bytes.TrimSpace(body[:min(len(body), MaxBody)])
	if len(body) == 0 {
		return Report{}
	}
	if body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 {
			body = list[0]
		}
	}
	if body[0] == '{' {
		if r, ok := readObject(body); ok {
			return r
		}
	}
	if m := title.FindSubmatch(body); m != nil {
		return plain(string(m[1]))
	}
	if body[0] == '<' {
		return Report{}
	}
	return plain(string(body))
}

func readObject(body []byte) (Report, bool) {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return Report{}, false
	}
	inner := outer
	if raw := bytes.TrimSpace(outer["error"]); len(raw) > 0 {
		if raw[0] == '"' {
			return plain(word(raw)), true
		}
		var nested map[string]json.RawMessage
		if json.Unmarshal(raw, &nested) == nil {
			inner = nested
		}
	}
	r := Report{Message: first(word(inner["message"]), word(inner["detail"]), word(outer["message"]), word(outer["detail"]), word(outer["text"]))}
	var words []string
	for _, key := range []string{"code", "type", "status", "error_type", "error_code"} {
		if w := strings.ToLower(word(inner[key])); w != "" && w != "error" {
			words = append(words, w)
		}
	}
	if len(words) > 0 {
		r.Code = words[0]
	}
	r.Words = strings.Join(words, " ")
	r.Message = short(r.Message)
	return r, true
}

// word is a text, or the digits of a number.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] == 'n' {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if raw[0] >= '0' && raw[0] <= '9' {
		return string(raw)
	}
	return ""
}

func plain(message string) Report { return Report{Message: short(message)} }

// short is a message in one line that fits into an error.
func short(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	const most = 300
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most]) + "..."
	}
	return s
}

func first(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}
