package prompt

import (
	"iter"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// The intents whose input the model reads as it is: ChatIntent takes the
// conversation itself, EmbedIntent the texts to make vectors of.
const (
	ChatIntent  = registry.IntentChat
	EmbedIntent = "model/embed"
)

// Composes reports whether prompts are composed for an intent (LM-009).
func Composes(intent string) bool { return intent != ChatIntent && intent != EmbedIntent }

// Setting is what all calls of one kind have in common.
type Setting struct {
	Intent, Role string
	Constraints  edn.Value // nil or a map
	Context      edn.Value // nil or a map
	// Schema is that of the answer, nil if there is none. Lookup finds the
	// schemas that it refers to; nil: only the built-in ones are known.
	Schema     *schema.Schema
	SchemaName string
	Lookup     func(name string) (*schema.Schema, bool)
	// Options are what the model is asked for beside the text, such as
	// :temperature and :max-tokens; nil or a map. They count in the hash.
	Options edn.Value
}

// Prepared is the part of a prompt that calls of one kind share.
type Prepared struct {
	// System is the joined layers, empty if there are none.
	System string

	layers  edn.Value
	output  edn.Value // nil without a schema
	options edn.Value
	context []edn.Value // a message, or none
	basis   string      // hash of what is above, without the context
}

// Call is what one call brings.
type Call struct {
	// System replaces the layers, if it is not empty. Whether the caller may do
	// that was decided before.
	System string
	Input  edn.Value
	// Repair is :context :repair, nil unless the call is one.
	Repair edn.Value
}

// Composed is a whole prompt.
type Composed struct {
	// Value is {:system :messages :hash :layers :output}.
	Value edn.Value
	// System is what it holds under :system.
	System string
	// Hash names what is asked: messages, schema and options, not who is asked
	// nor what was answered before.
	Hash string
}

// Prepare joins the layers of an intent and a role.
func (b *Book) Prepare(s Setting) *Prepared {
	p := &Prepared{options: s.Options}
	var values map[string]string
	var texts []string
	var named []edn.Value
	for _, l := range b.Layers(s.Intent, s.Role) {
		if values == nil {
			values = b.variables(s)
		}
		if text := l.fill(values); text != "" {
			texts, named = append(texts, text), append(named, l.value())
		}
	}
	p.System, p.layers = strings.Join(texts, "\n\n"), edn.Vector(named...)
	p.output = output(s)
	if text := contextText(s.Context); text != "" {
		p.context = []edn.Value{message("user", text)}
	}
	p.basis = p.basisOf(p.System)
	return p
}

// Hash names what all prompts of this kind share: the layers, the form of the answer
// and the options.
func (p *Prepared) Hash() string { return p.basis }

func (p *Prepared) basisOf(system string) string {
	form := edn.Vector(p.output.Key("name"), p.output.Key("schema"))
	return edn.Hash(edn.Vector(edn.Text(system), form, p.options))
}

var callerLayer = edn.Vector(edn.MustMap(edn.K("name"), edn.Text("call")))

// Compose makes the prompt of one call.
func (p *Prepared) Compose(c Call) Composed {
	system, layers, basis := p.System, p.layers, p.basis
	if c.System != "" {
		system, layers, basis = c.System, callerLayer, p.basisOf(c.System)
	}
	messages := append(p.context[:len(p.context):len(p.context)], inputMessages(c.Input)...)
	asked := edn.Vector(messages...)
	hash := edn.Hash(edn.Vector(edn.Text(basis), asked))
	if c.Repair.IsMap() {
		asked = edn.Vector(append(messages, repairMessages(c.Repair)...)...)
	}
	var b edn.MapBuilder
	if system != "" {
		b.Key("system", edn.Text(system))
	}
	b.Key("messages", asked)
	b.Key("hash", edn.Text(hash))
	b.Key("layers", layers)
	if !p.output.IsNil() {
		b.Key("output", p.output)
	}
	return Composed{Value: b.Map(), System: system, Hash: hash}
}

// System is what the caller wants as the system prompt: the call's own before
// that of the input.
func System(call string, input edn.Value) string {
	if strings.TrimSpace(call) != "" {
		return call
	}
	s, _ := input.Key("system").AsString()
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return s
}

// Overrides reports whether a call of an intent brings text that replaces the
// system prompt of the configuration, and where: that needs the operation
// prompt/override (PRM-003).
func Overrides(intent, call string, input edn.Value) (where string, ok bool) {
	switch {
	case strings.TrimSpace(call) != "":
		return ":system", true
	case intent == ChatIntent:
		return "", false // its messages are the conversation, there is no prompt to replace
	case System("", input) != "":
		return ":input :system", true
	}
	for range systemMessages(input) {
		return ":input :messages", true
	}
	return "", false
}

// SystemPlaces returns the paths of the parts of an input that a language model
// reads in its system prompt: the :system, the text of each message of that role
// and, in a conversation, the form of the answer, which providers without
// schemas of their own are told there.
func SystemPlaces(intent string, input edn.Value) [][]edn.Value {
	if !input.Has(keySystem) && !input.Has(keyMessages) && !input.Has(keyOutput) {
		return nil // most inputs
	}
	var places [][]edn.Value
	if !input.Key("system").IsNil() {
		places = append(places, []edn.Value{keySystem})
	}
	for i := range systemMessages(input) {
		places = append(places, []edn.Value{keyMessages, edn.Int(int64(i)), keyContent})
	}
	if intent == ChatIntent && !input.Key("output").IsNil() {
		places = append(places, []edn.Value{keyOutput})
	}
	return places
}

// systemMessages yields the indices of the messages of an input that have the
// role system.
func systemMessages(input edn.Value) iter.Seq[int] {
	return func(yield func(int) bool) {
		messages := input.Key("messages")
		if !messages.IsVector() && !messages.IsList() {
			return
		}
		i := 0
		for m := range messages.Elems() {
			if m.IsMap() && name(m.Key("role")) == "system" && !yield(i) {
				return
			}
			i++
		}
	}
}

// name is a keyword or a text as a name: callers without EDN write names as
// texts, with or without a colon.
func name(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return strings.TrimPrefix(s, ":")
}

func message(role, content string) edn.Value {
	return edn.MustMap(keyRole, edn.K(role), keyContent, edn.Text(content))
}

var (
	keyRole     = edn.K("role")
	keyContent  = edn.K("content")
	keySystem   = edn.K("system")
	keyMessages = edn.K("messages")
	keyOutput   = edn.K("output")
)
