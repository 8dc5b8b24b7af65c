package turns

import (
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Limits of a conversation.
const (
	MaxText  = 1 << 20 // bytes of text in a message
	MaxParts = 256     // of a message
	MaxTurns = 10_000  // on a path
	MaxSpans = 64      // alternatives of a turn
)

// Check returns an error for messages that cannot be part of a conversation:
// conversation/too-large for more than MaxTurns messages, conversation/invalid-message for
// none, and that of CheckMessage for each of them.
func Check(messages []conversation.Message) *contract.Error { return check(messages, CheckMessage) }

// CheckSize is Check without the contents that no model can be sent.
func CheckSize(messages []conversation.Message) *contract.Error {
	return check(messages, func(m conversation.Message, at ...edn.Value) *contract.Error { return fits(m, at) })
}

func check(messages []conversation.Message, one func(conversation.Message, ...edn.Value) *contract.Error) *contract.Error {
	if len(messages) == 0 {
		return contract.Errorf("conversation/invalid-message", "messages is empty, expected at least one message").
			WithDetail("path", edn.Vector(edn.K("messages")))
	}
	if len(messages) > MaxTurns {
		return tooLarge("messages", len(messages), MaxTurns, "append fewer messages at once")
	}
	for i, m := range messages {
		if err := one(m, edn.K("messages"), edn.Int(int64(i))); err != nil {
			return err.WithDetail("message", edn.Int(int64(i)))
		}
	}
	return nil
}

// fits returns conversation/too-large for a message beyond a limit, and
// conversation/invalid-message, with the path at, for an empty one.
func fits(m conversation.Message, at []edn.Value) *contract.Error {
	if m.Role() == "" || m.Empty() {
		return invalid(at, "the message is empty")
	}
	parts, text := 0, 0
	for p := range m.Parts() {
		parts++
		text += textBytes(p)
	}
	if parts > MaxParts {
		return tooLarge("parts of a message", parts, MaxParts, shorten)
	}
	if text > MaxText {
		return tooLarge("bytes of text in a message", text, MaxText, shorten)
	}
	return nil
}

// CheckMessage returns an error for a message that cannot be part of a conversation:
// that of fits, and conversation/invalid-message, with the path at, for one with content that no
// model could be sent. Stored, such a message would make every later request of its conversation
// fail.
func CheckMessage(m conversation.Message, at ...edn.Value) *contract.Error {
	if err := fits(m, at); err != nil {
		return err
	}
	for p := range m.Parts() {
		if why := unsendable(p); why != "" {
			return invalid(at, why)
		}
	}
	request := edn.MustMap(edn.K("messages"), edn.Vector(contract.MessageValue(m.WithAttribution(conversation.Attribution{}))))
	findings := chat().Validate(request)
	if len(findings) == 0 {
		return nil
	}
	f := findings[0]
	if f.Path = f.Path[min(2, len(f.Path)):]; len(at) == 2 {
		at = slices.Concat(at, f.Path)
	}
	return invalid(at, "no model can be sent the message: "+f.String())
}

// chat is the schema of the requests that models get.
var chat = sync.OnceValue(func() *schema.Schema { return schema.MustCompile(schema.Builtin()["req/chat"]) })

// unsendable returns why a part cannot be sent to any model, "" if it can.
func unsendable(p conversation.Part) string {
	const nul = "the text has a NUL character, which models do not accept"
	switch p := p.(type) {
	case conversation.Text:
		if strings.ContainsRune(p.Text, 0) {
			return nul
		}
	case conversation.Reasoning:
		if strings.ContainsRune(p.Text, 0) {
			return nul
		}
	case conversation.Image:
		return unsendableImage(p)
	case conversation.Reference:
		return fmt.Sprintf("a part of type :reference (%.80q): the host does not load it, expected the content itself", p.Hash)
	case conversation.Call:
		args, err := edn.Read([]byte(p.Args))
		if err == nil {
			_, err = edn.WriteJSON(args)
		}
		if err != nil {
			return fmt.Sprintf("the arguments of the call %.80q cannot be written as JSON: %s", p.ID, err)
		}
	}
	return ""
}

// imageTypes are the media types of images that models take.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func unsendableImage(p conversation.Image) string {
	if p.MediaType != "" && !slices.Contains(imageTypes, p.MediaType) {
		return fmt.Sprintf("the media type %.80q of the image: expected one of %s", p.MediaType, strings.Join(imageTypes, ", "))
	}
	if p.URL != "" {
		if u, err := url.Parse(p.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return fmt.Sprintf("the URL %.80q of the image: expected one with http or https", p.URL)
		}
		return ""
	}
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(p.Data)))
	if err != nil || n == 0 || strings.ContainsAny(p.Data, "\r\n") {
		return "the data of the image: expected base64 without line breaks"
	}
	return ""
}

// textBytes returns the size of the text and data of a part, in bytes.
func textBytes(p conversation.Part) int {
	switch p := p.(type) {
	case conversation.Text:
		return len(p.Text)
	case conversation.Reasoning:
		return len(p.Text) + len(p.Data) + len(p.Signature)
	case conversation.Call:
		return len(p.Tool) + len(p.Args)
	case conversation.Image:
		return len(p.Data) + len(p.URL)
	}
	return 0
}

// Results returns a conversation/invalid-message error if a message is the result of a tool
// call that no message before it makes, else nil.
func Results(messages iter.Seq[conversation.Message]) *contract.Error {
	called, i := map[string]bool{}, 0
	for m := range messages {
		if r, ok := m.Result(); ok && !called[r.CallID] {
			return invalid([]edn.Value{edn.K("messages"), edn.Int(int64(i))}, "the message is the result of the call "+edn.Text(r.CallID).String()+", which no message before it makes").
				WithHint("add the result after the message with its call, or cut the turns after the changed one: `:tail :cut`")
		}
		for c := range m.Calls() {
			called[c.ID] = true
		}
		i++
	}
	return nil
}

// Needed returns the ids of the tool calls that messages answer, but that no message before
// the answer makes.
func Needed(messages []conversation.Message) (ids []string) {
	called := map[string]bool{}
	for _, m := range messages {
		if r, ok := m.Result(); ok && !called[r.CallID] {
			ids = append(ids, r.CallID)
		}
		for c := range m.Calls() {
			called[c.ID] = true
		}
	}
	return ids
}

// Fits returns a conversation/too-large error if the change makes a path too long or adds
// too many alternatives to a turn. spans is the largest number of alternatives that a turn
// which gets a new one already has.
func (c Change) Fits(spans int) *contract.Error {
	if n := c.Keep + len(c.Steps); n > MaxTurns {
		return tooLarge("turns", n, MaxTurns, "truncate the conversation, or fork it at an earlier turn")
	}
	if len(c.Spans) > 0 && c.Spans[0].Turn != 0 && spans+1 > MaxSpans {
		return tooLarge("alternatives of a turn", spans+1, MaxSpans,
			"select one of them; for another one, truncate at the message of the user and send it again")
	}
	return nil
}

func invalid(at []edn.Value, why string) *contract.Error {
	path := edn.Vector(at...)
	return contract.Errorf("conversation/invalid-message", "%s: %s", path, why).WithDetail("path", path)
}

const shorten = "shorten the message, or divide it"

func tooLarge(what string, found, limit int, hint string) *contract.Error {
	return contract.Errorf("conversation/too-large", "%d %s, the limit is %d", found, what, limit).
		WithDetail("limit", edn.Int(int64(limit))).WithDetail("found", edn.Int(int64(found))).WithHint(hint)
}
