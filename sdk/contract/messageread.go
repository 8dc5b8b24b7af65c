package contract

import (
	"errors"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// proseKeys are the keys under which schemas of answers such as :res/text and
// :res/problem have the text.
var proseKeys = [...]string{"text", "content", "answer", "summary", "explanation"}

// MessageFromAnswer returns the message of an answer in the form of :res/chat, or
// of another answer in prose, such as :res/text. Its attribution holds only the
// reason why the model stopped (:finish). The error is that of [MessageFromValue].
func MessageFromAnswer(answer edn.Value) (conversation.Message, *Error) {
	content := answer.Key("parts")
	for _, key := range proseKeys {
		if content.IsNil() {
			content = answer.Key(key)
		}
	}
	m, err := MessageFromValue(edn.MustMap(kRole, edn.K(string(conversation.RoleAssistant)),
		kContent, content, kCalls, answer.Key("tool/calls")))
	if err != nil {
		return m, err
	}
	return m.WithAttribution(conversation.Attribution{Finish: name(answer.Key("finish"))}), nil
}

// MessageFromValue reads a message from data and ignores unknown keys. The
// error is conversation/invalid-message; its detail :path leads to the invalid
// value.
func MessageFromValue(v edn.Value) (conversation.Message, *Error) {
	r := messageReader{at: map[int][]edn.Value{}, open: map[string]conversation.Call{}}
	m, err := r.message(v)
	if err != nil {
		return conversation.Message{}, err
	}
	return m, nil
}

// messageReader reads one message.
type messageReader struct {
	parts []conversation.Part
	at    map[int][]edn.Value // path of each part
	order []string            // ids of the calls
	open  map[string]conversation.Call
	where map[string][]edn.Value
}

func (r *messageReader) message(v edn.Value) (m conversation.Message, err *Error) {
	if !v.IsMap() {
		return m, invalidMessage(nil, "a message is a map").Expecting(kMap, v).Err()
	}
	if name(v.Key("role")) == string(conversation.RoleTool) {
		failed, err := flag(v.Key("tool/failed?"), path(edn.K("tool/failed?")))
		if err != nil {
			return m, err
		}
		r.add(conversation.Result{CallID: identifier(v.Key("tool/id")), Failed: failed}, path(kToolID))
	}
	if err = r.readCalls(v.Key("tool/calls")); err != nil {
		return m, err
	}
	if err = r.readContent(v.Key("content")); err != nil {
		return m, err
	}
	for _, id := range r.order {
		if c, ok := r.open[id]; ok {
			r.add(c, r.where[id])
		}
	}
	mark, err := flag(v.Key("cache?"), path(kCache))
	if err != nil {
		return m, err
	}
	if mark {
		r.mark()
	}
	m, bad := conversation.New(conversation.Role(name(v.Key("role"))), r.parts...)
	if bad != nil {
		return m, r.rejected(bad)
	}
	return m.WithAttribution(attribution(v.Key("attribution"))), nil
}

func (r *messageReader) add(p conversation.Part, at []edn.Value) {
	r.at[len(r.parts)] = at
	r.parts = append(r.parts, p)
}

// rejected is the error of a message that New rejects.
func (r *messageReader) rejected(err error) *Error {
	var invalid *conversation.InvalidError
	if !errors.As(err, &invalid) {
		return AsError(err)
	}
	return invalidMessage(r.at[invalid.Part], invalid.Reason).Err()
}

// mark sets the cache mark of the last part that can have one.
func (r *messageReader) mark() {
	for i := len(r.parts) - 1; i >= 0; i-- {
		switch p := r.parts[i].(type) {
		case conversation.Text:
			p.Cache = true
			r.parts[i] = p
			return
		case conversation.Image:
			p.Cache = true
			r.parts[i] = p
			return
		case conversation.Call:
			p.Cache = i == len(r.parts)-1
			r.parts[i] = p
			return
		}
	}
}

func (r *messageReader) readCalls(list edn.Value) *Error {
	r.where = map[string][]edn.Value{}
	if list.IsNil() {
		return nil
	}
	if !list.IsVector() && !list.IsList() {
		return invalidMessage(path(kCalls), "the calls of a message are a vector").Expecting(edn.K("vector"), list).Err()
	}
	i := int64(0)
	for v := range list.Elems() {
		at := path(kCalls, edn.Int(i))
		c := conversation.Call{ID: identifier(v.Key("id")), Tool: name(v.Key("tool/id")), Args: "{}"}
		if args := v.Key("args"); args.IsMap() {
			c.Args = string(args.Canonical())
		} else if !args.IsNil() {
			return invalidMessage(append(at, kArgs), "the arguments of a call are a map").Expecting(kMap, args).Err()
		}
		if _, twice := r.open[c.ID]; twice {
			return invalidMessage(append(at, kID), "two calls of the message have the id "+strconv.Quote(c.ID)).Err()
		}
		r.order, r.open[c.ID], r.where[c.ID] = append(r.order, c.ID), c, at
		i++
	}
	return nil
}

func (r *messageReader) readContent(v edn.Value) *Error {
	if text, ok := v.AsString(); ok {
		r.add(conversation.Text{Text: text}, path(kContent))
		return nil
	}
	if v.IsNil() {
		return nil
	}
	if !v.IsVector() && !v.IsList() {
		return invalidMessage(path(kContent), "the content of a message is a text or a vector of parts").
			Expecting(kString, v).Err()
	}
	i := int64(0)
	for part := range v.Elems() {
		at := path(kContent, edn.Int(i))
		p, err := r.part(part, at)
		if err != nil {
			return err
		}
		r.add(p, at)
		i++
	}
	return nil
}

func (r *messageReader) part(v edn.Value, at []edn.Value) (conversation.Part, *Error) {
	text := map[string]string{}
	for _, key := range []string{"text", "field", "media-type", "data", "url", "hash", "signature", "model", "id"} {
		value := v.Key(key)
		s, ok := value.AsString()
		if value.IsKeyword() && (key == "media-type" || key == "id") {
			s, ok = identifier(value), true
		}
		if !ok && !value.IsNil() {
			return nil, invalidMessage(append(at, edn.K(key)), "the key of a part has a value of the wrong kind").
				Expecting(kString, value).Err()
		}
		text[key] = s
	}
	mark, err := flag(v.Key("cache?"), append(at, kCache))
	if err != nil {
		return nil, err
	}
	switch kind := name(v.Key("type")); kind {
	case "text":
		if !v.HasKey("text") {
			return nil, invalidMessage(append(at, kText), "a part of type :text needs a text").Err()
		}
		return conversation.Text{Text: text["text"], Field: text["field"], Cache: mark}, nil
	case "image":
		return conversation.Image{MediaType: text["media-type"], Data: text["data"], URL: text["url"], Cache: mark}, nil
	case "reference":
		return conversation.Reference{Hash: text["hash"], MediaType: text["media-type"]}, nil
	case "thinking":
		return conversation.Reasoning{
			Text: text["text"], Signature: text["signature"], Field: text["field"], Model: text["model"],
		}, nil
	case "redacted-thinking":
		if text["data"] == "" {
			return nil, invalidMessage(at, "a part of type :redacted-thinking needs its data").Err()
		}
		return conversation.Reasoning{Data: text["data"], Model: text["model"]}, nil
	case "tool-call":
		c, known := r.open[text["id"]]
		if !known {
			return nil, invalidMessage(append(at, kID),
				"the content places the call "+strconv.Quote(text["id"])+", which the message lacks or has placed before").Err()
		}
		delete(r.open, text["id"])
		return c, nil
	}
	known := []string{"image", "redacted-thinking", "reference", "text", "thinking", "tool-call"}
	return nil, invalidMessage(append(at, kType), "unknown type of a part").Expecting(enumOf(known), v.Key("type")).Err()
}

// flag reads a value that is true, false or absent.
func flag(v edn.Value, at []edn.Value) (bool, *Error) {
	is, ok := v.AsBool()
	if !ok && !v.IsNil() {
		return false, invalidMessage(at, "a mark is true or false").Expecting(kBoolean, v).Err()
	}
	return is, nil
}

func attribution(v edn.Value) conversation.Attribution {
	text := func(key string) string {
		s, _ := v.Key(key).AsString()
		return s
	}
	return conversation.Attribution{
		Agent: text("agent/id"), Model: text("model"), Run: text("run"),
		Capability: name(v.Key("cap/id")), Finish: name(v.Key("finish")),
	}
}

func invalidMessage(at []edn.Value, message string) Fault {
	return Fault{Type: "conversation/invalid-message", Reason: "message/invalid", Message: message, Path: at}
}

// name reads what nameValue writes. Callers without keywords write names as
// strings, with a colon or without.
func name(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return strings.TrimLeft(s, ":")
}

// identifier reads the id of a call.
func identifier(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return s
}
