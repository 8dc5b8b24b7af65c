package prompt

import (
	"iter"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Intents whose input the model reads unchanged: ChatIntent takes the
// conversation itself, EmbedIntent the texts to embed.
const (
	ChatIntent  = registry.IntentChat
	EmbedIntent = "model/embed"
)

// editIntent is the operation that replaces the text of a turn of any role.
const editIntent = "conversation/edit"

// Composes reports whether prompts are composed for an intent (LM-009).
func Composes(intent string) bool { return intent != ChatIntent && intent != EmbedIntent }

// Setting holds the values of a prompt that all calls of one kind share.
type Setting struct {
	Intent, Role string
	Constraints  edn.Value // nil or a map
	Context      edn.Value // nil or a map
	// Schema is the schema of the answer, nil if there is none. Lookup finds
	// the schemas that it refers to; nil: only the built-in ones are known.
	Schema     *schema.Schema
	SchemaName string
	Lookup     func(name string) (*schema.Schema, bool)
	// Options are model options such as :temperature and :max-tokens; nil or a
	// map. They are part of the hash.
	Options edn.Value
}

// Prepared is the part of a prompt that calls of one kind share.
type Prepared struct {
	// System is the joined layers, empty if there are none.
	System string

	layers  edn.Value
	output  edn.Value // nil without a schema
	options edn.Value
	context []edn.Value // at most one message
	basis   string      // hash of the fields above except context
}

// Call holds the values of one call.
type Call struct {
	// System replaces the layers if it is not empty. The caller must have checked the
	// permission for it.
	System string
	Input  edn.Value
	// Repair is :context :repair, nil unless the call is a repair.
	Repair edn.Value
}

// Composed is a whole prompt.
type Composed struct {
	// Value is {:system :messages :hash :layers :output}.
	Value edn.Value
	// System is the value under :system.
	System string
	// Hash identifies the request: messages, schema and options, but neither
	// the model nor earlier answers.
	Hash string
}

// Prepare joins the layers of an intent and a role, for any number of calls with this
// setting. A nil Book has no layers.
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

// Hash returns the hash of the shared part: the layers, the form of the answer and the
// options, but not the context.
func (p *Prepared) Hash() string { return p.basis }

func (p *Prepared) basisOf(system string) string {
	form := edn.Vector(p.output.Key("name"), p.output.Key("schema"))
	return edn.Hash(edn.Vector(edn.Text(system), form, p.options))
}

var callerLayer = edn.Vector(edn.MustMap(edn.K("name"), edn.Text("call")))

// Compose returns the prompt of one call.
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
	b.OptText("system", system)
	b.Key("messages", asked)
	b.Key("hash", edn.Text(hash))
	b.Key("layers", layers)
	b.Opt("output", p.output)
	return Composed{Value: b.Map(), System: system, Hash: hash}
}

// System returns the system prompt that the caller wrote: that of the call, else that of
// the input, "" if both are blank.
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

// Overrides reports whether a call of an intent contains a text that replaces the
// configured system prompt; where is the key of that text. Such a call needs the operation
// prompt/override (PRM-003).
func Overrides(intent, call string, input edn.Value) (where string, ok bool) {
	switch {
	case strings.TrimSpace(call) != "":
		return ":system", true
	case System("", input) != "":
		return ":input :system", true
	case intent == ChatIntent, Converses(intent):
		return "", false // its messages are the conversation; no prompt is replaced
	}
	for range systemMessages(input) {
		return ":input :messages", true
	}
	return "", false
}

// Converses reports whether an intent is an operation on a conversation that the host
// stores. The host passes the :system of its input to the model.
func Converses(intent string) bool { return strings.HasPrefix(intent, "conversation/") }

// LeadsToModel reports whether the system messages in an input of an intent reach a language model
// through a capability: it is a model or an agent, or the intent is an operation on a conversation.
func LeadsToModel(intent string, c *registry.Capability) bool {
	return c.Kind == registry.ModelKind || c.Kind == registry.AgentKind || Converses(intent)
}

// SystemPlaces returns the paths of the parts of an input that a language model
// reads in its system prompt: :system, the text of each message with that role
// and, in a conversation, the form of the answer, which is sent in the system
// prompt to providers without schema support. The text of an edit is one too:
// the input does not tell the role of the turn that it replaces.
func SystemPlaces(intent string, input edn.Value) [][]edn.Value {
	if intent == editIntent && !input.Key("text").IsNil() {
		return [][]edn.Value{{keyText}}
	}
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

// name returns a keyword or a string as a name: callers without EDN write names
// as strings, with or without a colon.
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
	keyText     = edn.K("text")
	keySystem   = edn.K("system")
	keyMessages = edn.K("messages")
	keyOutput   = edn.K("output")
)
