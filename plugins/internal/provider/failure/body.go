package failure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxBody bounds the part of an error body that is read.
const MaxBody = 64 << 10

// Report is the parsed body of an error.
type Report struct {
	Code    string // the most precise word, in lower case
	Words   string // all codes, joined by blanks, in lower case
	Message string
	Param   string // the rejected request field, if named
	// Category is the reason why content was refused, if named.
	Category string
	// Output is the text of the model that its server cannot use.
	Output string
	page   bool // an HTML page
	// Prompt and Window are the tokens of the request and the context window, 0
	// if not stated.
	Prompt, Window int64
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// ReadBody parses an error body in any form that providers send: an object or a
// text under "error", either of them in a list, an HTML page, or empty.
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
		return Report{Message: short(string(m[1])), page: true}
	}
	if body[0] == '<' {
		return Report{page: true}
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
	var r Report
	for _, raw := range []json.RawMessage{
		inner["message"], inner["detail"], outer["message"], outer["detail"], outer["text"],
	} {
		r.Message = first(r.Message, word(raw))
	}
	var words []string
	for _, key := range []string{"code", "type", "status", "error_type", "error_code"} {
		if w := strings.ToLower(word(inner[key])); w != "" && w != "error" {
			words = append(words, w)
		}
	}
	if len(words) > 0 {
		r.Code = words[0]
	}
	words = append(words, r.details(inner)...)
	r.Words = strings.TrimSpace(strings.Join(words, " "))
	r.Param, r.Output = word(inner["param"]), word(inner["failed_generation"])
	_ = json.Unmarshal(inner["n_prompt_tokens"], &r.Prompt) // 0 if absent
	_ = json.Unmarshal(inner["n_ctx"], &r.Window)
	for _, raw := range []json.RawMessage{outer["detail"], inner["detail"], inner["message"]} {
		if fault, ok := firstFault(raw); ok {
			r.Message, r.Param = fault.String(), first(r.Param, fault.field())
			break
		}
	}
	r.Message = short(r.Message)
	return r, true
}

// details returns the codes below an error: the reasons of Google's details, and those of
// OpenRouter's metadata (OpenRouter, docs/api/reference/errors-and-debugging, 2026-11-28). It sets
// the category of refused content.
func (r *Report) details(inner map[string]json.RawMessage) (words []string) {
	var details []struct {
		Reason string `json:"reason"`
	}
	var metadata struct {
		Type    string          `json:"error_type"`
		Reasons []string        `json:"reasons"`
		Flagged json.RawMessage `json:"flagged_input"`
	}
	_ = json.Unmarshal(inner["details"], &details) // other forms have no words
	_ = json.Unmarshal(inner["metadata"], &metadata)
	for _, d := range details {
		words = append(words, strings.ToLower(d.Reason))
	}
	if len(metadata.Reasons) > 0 || len(metadata.Flagged) > 0 && string(metadata.Flagged) != "null" {
		words = append(words, moderated)
		r.Category = strings.Join(metadata.Reasons, ", ")
	}
	return append(words, strings.ToLower(metadata.Type))
}

// fieldFault is an error in one request field, as FastAPI servers list it under
// "detail" with status 422 (FastAPI, handling errors; Mistral, API reference,
// HTTPValidationError; 2026-11-25).
type fieldFault struct {
	Where []any  `json:"loc"`
	What  string `json:"msg"`
}

// firstFault returns the first fault of a list, which may also be under
// "detail" or in a text: Mistral has had all of these forms
// (mistralai/platform-docs-public, issue 7; editor-code-assistant/eca, issue
// 231; Gitlawb/openclaude, issue 739).
func firstFault(raw json.RawMessage) (fieldFault, bool) {
	var list []fieldFault
	var in struct {
		Detail []fieldFault `json:"detail"`
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &in) == nil {
		list = in.Detail
	}
	if len(list) == 0 {
		return fieldFault{}, false
	}
	return list[0], true
}

// field returns the path of the field without the name of the request part.
func (f fieldFault) field() string {
	var names []string
	for i, part := range f.Where {
		if name := fmt.Sprint(part); i > 0 || name != "body" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

func (f fieldFault) String() string {
	if at := f.field(); at != "" {
		return at + ": " + f.What
	}
	return f.What
}

// word returns a text, or the digits of a number.
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

// short returns a message as one line of limited length.
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
