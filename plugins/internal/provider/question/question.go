package question

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/shape"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Limits of one request. A request above them is not sent.
const (
	maxMessages = 4096
	maxTools    = 128
	MaxArgs     = 256 << 10 // of one call, as text
	maxImages   = 100
	maxImage    = 8 << 20 // of one image, in base64
	maxTexts    = 2048    // of which vectors are made
	maxBudget   = 1 << 20 // tokens of reasoning
)

// Question is the parsed request of a call.
type Question struct {
	Intent   string
	Messages []chat.Message
	Tools    []chat.Tool
	Choice   chat.Choice
	Names    *dialect.Names
	Args     map[string]*schema.Schema // by id of the tool
	Shape    *shape.Shape              // nil: free text
	TextKey  string                    // key of the text in the answer
	Options  chat.Options
	Agent    edn.Value
	Hash     string
	Whole    bool // answer requested in one piece
	images   int
}

// New returns a question without messages.
func New(intent string, options chat.Options) *Question {
	return &Question{
		Intent: intent, TextKey: "text", Names: dialect.NewNames(nil), Args: map[string]*schema.Schema{}, Options: options,
	}
}

// Read parses the question of a request envelope. options are the defaults for
// options that the request does not set. The error is :input/invalid or
// :provider/request-invalid.
func Read(intent string, request edn.Value, options chat.Options) (*Question, *contract.Error) {
	q := New(intent, options)
	input, context := request.Key("input"), request.Key("context")
	prompt := context.Key("prompt")
	if !prompt.IsMap() { // the map of the host; a caller's own :prompt is text
		prompt = edn.Nil()
	}
	output := prompt.Key("output")
	if intent == Chat { // the sender of messages sets the form of the answer
		output = input.Key("output")
	}
	for _, read := range []func() *contract.Error{
		func() *contract.Error { return q.readTools(input.Key("tools")) },
		func() *contract.Error { return q.readChoice(input.Key("tool-choice")) },
		func() *contract.Error { return q.readMessages(request, input, prompt) },
		func() *contract.Error { return q.readShape(intent, output) },
		func() *contract.Error { return q.readReasoning(input.Key("reasoning")) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if seed, ok := input.Key("seed").AsInt(); ok && intent == Chat {
		q.Options.Seed = &seed
	}
	budget := request.Key("budget")
	if n, ok := budget.Key("max-tokens").AsInt(); ok && n < 1 {
		where := edn.Vector(edn.K("budget"), edn.K("max-tokens"))
		return nil, contract.Errorf("input/invalid", "%s: should be at least 1, got %d", where, n).WithDetail("path", where).
			WithHint("allow the answer at least one token, or leave the limit out")
	} else if ok && (q.Options.MaxTokens == 0 || n < q.Options.MaxTokens) {
		q.Options.MaxTokens = n
	}
	if t := jsonNumber(budget.Key("temperature")); t != "" {
		q.Options.Temperature = json.Number(t)
	}
	q.Agent = context.Key("agent/id")
	if q.Hash, _ = prompt.Key("hash").AsString(); q.Hash == "" {
		q.Hash = q.promptHash()
	}
	if !composed(prompt) {
		q.repair(context.Key("repair"))
	}
	return q, nil
}

// composed reports whether the host composed the whole conversation, including
// repair messages (LM-009). Nothing is added to it. Otherwise, as from another
// kind of host or a test, the request is converted here.
func composed(prompt edn.Value) bool { return prompt.HasKey("messages") }

func invalid(path []edn.Value, format string, args ...any) *contract.Error {
	where := append([]edn.Value{edn.K("input")}, path...)
	return contract.Errorf("input/invalid", "%s: "+format, append([]any{edn.Vector(where...)}, args...)...).
		WithDetail("path", edn.Vector(where...))
}

// Beyond returns the error for a request that exceeds a limit.
func Beyond(format string, args ...any) *contract.Error {
	return contract.Errorf("provider/request-invalid", format, args...).WithSource(contract.SourceRequest).
		WithHint("send less in one request").
		WithDetail("family", edn.K("provider/error")).WithDetail("sent?", edn.Bool(false))
}

// texts are the keys of an input that may hold its text; the first present one
// is used.
var texts = [...]string{"prompt", "text", "content", "problem", "question", "task", "spec", "code", "summary"}

func (q *Question) readMessages(request, input, prompt edn.Value) *contract.Error {
	list, at := prompt.Key("messages"), []edn.Value{edn.K("messages")}
	said := first(prompt.Key("system"), request.Key("system"), input.Key("system"))
	if composed(prompt) {
		said = value{prompt.Key("system")}
	} else {
		list = input.Key("messages")
	}
	if system, _ := said.AsString(); system != "" {
		q.Messages = append(q.Messages, chat.Message{Role: chat.System, Content: system})
	}
	if list.IsNil() {
		content := ""
		for _, key := range texts {
			if s, ok := input.Key(key).AsString(); ok && strings.TrimSpace(s) != "" {
				content = s
				break
			}
		}
		if content == "" && input.Len() > 0 {
			content = string(edn.WritePretty(input, edn.PrettyOptions{}))
		}
		if content == "" {
			return invalid(nil, "expected a text or :messages, found neither")
		}
		q.Messages = append(q.Messages, chat.Message{Role: chat.User, Content: content})
		return nulFree(q.Messages)
	}
	if !list.IsVector() && !list.IsList() || list.Len() == 0 {
		return invalid(at, "should be a vector of at least one message, got %.80s", list)
	}
	if list.Len() > maxMessages {
		return Beyond("the request has %d messages, the limit is %d", list.Len(), maxMessages)
	}
	calls := map[string]string{} // id of each earlier call to the wire name of its tool
	i := 0
	for v := range list.Elems() {
		m, err := q.message(v, append(at, edn.Int(int64(i))), calls)
		if err != nil {
			return err
		}
		q.Messages = append(q.Messages, m)
		i++
	}
	return nulFree(q.Messages)
}

func nulFree(messages []chat.Message) *contract.Error {
	for i, m := range messages {
		if slices.ContainsFunc(m.Each(), func(p chat.Part) bool { return strings.ContainsRune(p.Text, 0) }) {
			at := []edn.Value{edn.K("messages"), edn.Int(int64(i)), edn.K("content")}
			return invalid(at, "contains a NUL character, which providers reject")
		}
	}
	return nil
}

func (q *Question) readTools(list edn.Value) *contract.Error {
	if list.IsNil() {
		return nil
	}
	at := []edn.Value{edn.K("tools")}
	if !list.IsVector() && !list.IsList() {
		return invalid(at, "should be a list of tools, got %.80s", list)
	}
	if list.Len() > maxTools {
		return Beyond("the request has %d tools, the limit is %d", list.Len(), maxTools)
	}
	i := -1
	for v := range list.Elems() {
		i++
		here := append(at, edn.Int(int64(i)))
		id := Word(v.Key("tool/id"))
		if id == "" {
			return invalid(append(here, edn.K("tool/id")), "should be the name of the tool, got %.80s",
				v.Key("tool/id"))
		}
		if q.Args[id] != nil {
			return invalid(append(here, edn.K("tool/id")), "the tool %s is listed twice", id)
		}
		form := v.Key("in-schema")
		if form.IsNil() {
			form = edn.MustRead(`[:map {:closed true}]`)
		}
		form, err := schema.ReadForm(form)
		if err != nil {
			return invalid(append(here, edn.K("in-schema")), "is not a schema: %w", err)
		}
		compiled, err := schema.Compile(form)
		if err != nil {
			return invalid(append(here, edn.K("in-schema")), "is not a schema: %w", err)
		}
		text, err := edn.WriteJSON(compiled.JSONSchema())
		if err != nil {
			return invalid(append(here, edn.K("in-schema")), "has no JSON Schema: %w", err)
		}
		description, _ := v.Key("description").AsString()
		q.Args[id] = compiled
		q.Tools = append(q.Tools, chat.Tool{Name: q.Names.Wire(id), Description: description, Schema: text})
	}
	return nil
}

// readChoice parses the tool choice. The mode words take precedence over a tool
// with that name.
func (q *Question) readChoice(v edn.Value) *contract.Error {
	if v.IsNil() {
		return nil
	}
	at := []edn.Value{edn.K("tool-choice")}
	id := Word(v)
	switch mode := chat.ChoiceMode(id); {
	case mode == chat.AnyTool || mode == chat.NoTool:
		q.Choice.Mode = mode
	case mode == chat.MustCall && len(q.Tools) > 0:
		q.Choice.Mode = mode
	case mode == chat.MustCall:
		return invalid(at, "requires a tool call, but :tools is empty")
	case q.Args[id] != nil:
		q.Choice = chat.Choice{Mode: chat.OneTool, Tool: q.Names.Wire(id)}
	default:
		return invalid(at, "should be :auto, :none, :required or the id of one of the :tools, got %s", v)
	}
	return nil
}

// efforts are the words for the reasoning effort.
var efforts = [...]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// readReasoning parses the reasoning effort: a word, or a number of tokens. It
// replaces the configured one.
func (q *Question) readReasoning(v edn.Value) *contract.Error {
	if v.IsNil() || q.Intent != Chat {
		return nil
	}
	if n, ok := v.Key("budget-tokens").AsInt(); ok && n > 0 && n <= maxBudget && v.Len() == 1 {
		q.Options.Effort, q.Options.Budget = "", n
		return nil
	}
	if effort := Word(v); slices.Contains(efforts[:], effort) {
		q.Options.Effort = effort
		return nil
	}
	return invalid([]edn.Value{edn.K("reasoning")}, "should be one of :%s, or {:budget-tokens N}, got %s",
		strings.Join(efforts[:], ", :"), v)
}

// readShape determines the required form of the answer: that of the host or of
// the sender of messages, else the built-in schema of the intent if plain text
// does not suffice.
func (q *Question) readShape(intent string, output edn.Value) *contract.Error {
	name, form := Word(output.Key("name")), output.Key("schema")
	asked := !form.IsNil()
	if intent == Chat && !asked {
		return nil
	}
	if !asked {
		if name = OutSchema(intent); name == "" {
			return nil
		}
		form = schema.Builtin()[name]
	} else if name == "" {
		name = "answer"
	}
	s, err := shape.New(name, form, output.Key("json-schema"))
	if err != nil {
		return contract.Errorf("input/invalid", "the schema %s of the answer cannot be used: %w", name, err)
	}
	switch {
	case s.TextKey() != "" && intent != Chat: // a sender of messages gets the form that it stated
		q.TextKey = s.TextKey()
	case !asked && s.Takes(edn.MustMap(edn.K("text"), edn.Text("x"))):
	default:
		q.Shape = s
	}
	return nil
}

// promptHash returns a hash of the request that does not depend on the model.
func (q *Question) promptHash() string {
	var messages []edn.Value
	for _, m := range q.Messages {
		var calls []edn.Value
		for _, c := range m.Calls {
			calls = append(calls, edn.Vector(edn.Text(c.ID), edn.Text(c.Name), edn.Text(string(c.Args))))
		}
		content := edn.Text(m.Content)
		if m.Parts != nil {
			content = partsHash(m.Parts)
		}
		answers := edn.Text(m.CallID)
		if m.Failed {
			answers = edn.Vector(answers, edn.Bool(false))
		}
		messages = append(messages, edn.Vector(edn.Text(string(m.Role)), content, answers, edn.Vector(calls...)))
	}
	form := ""
	if q.Shape != nil {
		form = q.Shape.Instruction()
	}
	o := q.Options
	seed := edn.Nil()
	if o.Seed != nil {
		seed = edn.Int(*o.Seed)
	}
	var stop []edn.Value
	for _, s := range o.Stop {
		stop = append(stop, edn.Text(s))
	}
	options := edn.Vector(edn.Text(string(o.Temperature)), edn.Text(string(o.TopP)),
		edn.Text(string(o.PresencePenalty)), edn.Text(string(o.FrequencyPenalty)),
		edn.Int(o.MaxTokens), seed, edn.Vector(stop...))
	if o.Effort != "" {
		options = edn.Vector(options, edn.Text(o.Effort))
	}
	if o.Budget > 0 {
		options = edn.Vector(options, edn.Int(o.Budget))
	}
	if q.Choice.Mode != "" {
		options = edn.Vector(options, edn.K(string(q.Choice.Mode)), edn.Text(q.Choice.Tool))
	}
	return edn.Hash(edn.Vector(edn.Vector(messages...), edn.Text(form), options))
}

// repair adds the findings on the previous answer. Earlier ones are not
// repeated, so the request does not grow from attempt to attempt.
func (q *Question) repair(told edn.Value) {
	if !told.IsMap() {
		return
	}
	if text := q.previous(told.Key("previous")); text != "" {
		q.Messages = append(q.Messages, chat.Message{Role: chat.Assistant, Content: text})
	}
	var b strings.Builder
	b.WriteString("This answer was not accepted:\n")
	for f := range told.Key("findings").Elems() {
		b.WriteString("- ")
		if path := f.Key("path"); path.Len() > 0 {
			b.WriteString("at " + path.String() + ": ")
		}
		b.WriteString(first(f.Key("message"), f).text() + "\n")
	}
	if message, ok := told.Key("error").Key("message").AsString(); ok {
		b.WriteString("- " + message + "\n")
	}
	b.WriteString("Answer again, completely.")
	q.Messages = append(q.Messages, chat.Message{Role: chat.User, Content: b.String()})
}

func (q *Question) previous(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	if s, ok := v.Key(q.TextKey).AsString(); ok {
		return s
	}
	if v.IsNil() {
		return ""
	}
	if text, err := edn.WriteJSON(v); err == nil {
		return string(text)
	}
	return v.String()
}

// value adds a text conversion to an edn.Value.
type value struct{ edn.Value }

func (v value) text() string {
	if s, ok := v.AsString(); ok {
		return s
	}
	return v.String()
}

// first returns the first value that is not nil.
func first(all ...edn.Value) value {
	for _, v := range all {
		if !v.IsNil() {
			return value{v}
		}
	}
	return value{}
}

// Word returns the name of a keyword, or a string without its leading colon,
// because callers without EDN write names as strings. For other values it
// returns "".
func Word(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return strings.TrimPrefix(s, ":")
}

// jsonNumber formats a number for a request body, "" for none.
func jsonNumber(v edn.Value) string {
	if n, ok := v.AsInt(); ok {
		return strconv.FormatInt(n, 10)
	}
	if f, ok := v.AsFloat(); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	if r, ok := v.AsNumber(); ok {
		f, _ := r.Float64()
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return ""
}
