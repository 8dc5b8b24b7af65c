package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// ToolCall is a tool call that a model wrote into its text.
type ToolCall struct {
	ID   string // as given by the model, or empty
	Name string
	Args json.RawMessage // an object
}

// maxTried limits the positions of a text that are read as the beginning of an
// object, and so the time for a hostile text.
const maxTried = 16

const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

// toolCalls finds tool calls in a text, outside of code: the content of
// <tool_call>, and objects with a key tool_call or tool_calls. rest is the text
// without them. broken reports that one of them could not be read, or that text
// follows it: a model that calls a tool waits for the result, and one that writes
// on has quoted the call.
func toolCalls(s string) (calls []ToolCall, rest string, broken bool) {
	if !strings.Contains(s, callOpen) && !strings.Contains(s, `"tool_call`) {
		return nil, s, false
	}
	code, _ := Code(s)
	var kept strings.Builder
	tried := 0
	from := 0
	for at := 0; at < len(s); {
		for len(code) > 0 && code[0].End <= at {
			code = code[1:]
		}
		if len(code) > 0 && code[0].Start <= at {
			at = code[0].End
			continue
		}
		end := 0
		var found []ToolCall
		ok := true
		switch {
		case s[at] == '<' && strings.HasPrefix(s[at:], callOpen):
			end, found, ok = enclosed(s, at)
		case s[at] == '{' && beginsObject(s[at:]) && tried < maxTried:
			tried++
			var plain bool
			if end, found, ok, plain = objectAt(s, at); plain {
				at = end
				continue
			}
		}
		if end == 0 {
			at++
			continue
		}
		broken = broken || !ok || len(calls) > 0 && strings.TrimSpace(s[from:at]) != ""
		kept.WriteString(s[from:at])
		calls = append(calls, found...)
		at, from = end, end
	}
	kept.WriteString(s[from:])
	return calls, kept.String(), broken || len(calls) > 0 && strings.TrimSpace(s[from:]) != ""
}

// enclosed reads the content of a pair of tags; the closing tag may be missing.
func enclosed(s string, at int) (end int, calls []ToolCall, ok bool) {
	body, _, found := strings.Cut(s[at+len(callOpen):], callClose)
	end = at + len(callOpen) + len(body)
	if found {
		end += len(callClose)
	}
	body = strings.TrimSpace(body)
	body = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(body, "```json"), "```"), "```"))
	calls, ok = readCalls([]byte(body))
	return end, calls, ok
}

// beginsObject reports whether an object with a key may begin here.
func beginsObject(s string) bool {
	return strings.HasPrefix(strings.TrimLeft(s[1:min(len(s), 64)], " \t\r\n"), `"`)
}

// objectAt reads an object; end is 0 if there is none. plain means that it
// contains no call. An object that is cut off by the end of the text contains
// no readable call.
func objectAt(s string, at int) (end int, calls []ToolCall, ok, plain bool) {
	d := json.NewDecoder(strings.NewReader(s[at:]))
	var fields map[string]json.RawMessage
	switch err := d.Decode(&fields); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		// A call in a cut-off object is incomplete.
		return len(s), nil, false, !strings.Contains(s[at:], `"tool_call`)
	case err != nil:
		return 0, nil, true, false
	}
	end = at + int(d.InputOffset())
	for _, key := range [...]string{"tool_calls", "tool_call"} {
		if v, has := fields[key]; has && !hollow(v) {
			calls, ok = readCalls(v)
			return end, calls, ok, false
		}
	}
	return end, nil, true, true
}

// hollow reports whether a list of calls is empty.
func hollow(v json.RawMessage) bool {
	switch strings.Join(strings.Fields(string(v)), "") {
	case "null", "[]", "{}", `""`, "false":
		return true
	}
	return false
}

// readCalls reads one call, a list of calls, or several in sequence.
func readCalls(b []byte) (calls []ToolCall, ok bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	for d.More() {
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil, false
		}
		list := []json.RawMessage{v}
		if v[0] == '[' && json.Unmarshal(v, &list) != nil {
			return nil, false
		}
		for _, one := range list {
			c, ok := readCall(one)
			if !ok {
				return nil, false
			}
			calls = append(calls, c)
		}
	}
	return calls, len(calls) > 0
}

func readCall(b json.RawMessage) (ToolCall, bool) {
	type form struct {
		ID         string          `json:"id"`
		Name       string          `json:"name"`
		Tool       string          `json:"tool"`
		Arguments  json.RawMessage `json:"arguments"`
		Args       json.RawMessage `json:"args"`
		Parameters json.RawMessage `json:"parameters"`
	}
	var c struct {
		form
		Function *form `json:"function"`
	}
	if json.Unmarshal(b, &c) != nil {
		return ToolCall{}, false
	}
	f := c.form
	if c.Function != nil {
		f = *c.Function
	}
	out := ToolCall{ID: c.ID, Name: f.Name}
	if out.Name == "" {
		out.Name = f.Tool
	}
	for _, v := range []json.RawMessage{f.Arguments, f.Args, f.Parameters} {
		if len(v) > 0 {
			out.Args = v
			break
		}
	}
	var quoted string // some servers send the object as a string
	if json.Unmarshal(out.Args, &quoted) == nil && quoted != "" {
		out.Args = json.RawMessage(quoted)
	}
	if len(out.Args) == 0 || string(out.Args) == "null" {
		out.Args = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	return out, out.Name != "" && json.Unmarshal(out.Args, &object) == nil
}
