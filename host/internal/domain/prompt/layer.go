package prompt

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// MaxLayer bounds the text of one layer, in bytes (HCL-042).
const MaxLayer = 16 << 10

// Variables returns the names of the variables of a layer.
func Variables() []string { return []string{"language", "style", "max_chars", "schema"} }

// Layer is one text of the operator with its variables parsed. It is immutable.
type Layer struct {
	// Name identifies the layer, such as prompts.roles.voice.
	Name string
	// Where is the place in the configuration, as "file:line:column".
	Where string
	// Hash is the hash of the text as written, including variables.
	Hash string

	fragments []fragment
}

// fragment is a text with variables. It is omitted as a whole if any of its
// variables has no value.
type fragment []piece

// piece is a text, or a variable if name is not empty.
type piece struct{ text, name string }

// Problem is a mistake in a layer.
type Problem struct {
	// Fragment is the index of the invalid text, -1 for the whole layer.
	Fragment int
	Message  string
	// Found and Nearest name an unknown variable and the most similar known
	// one.
	Found, Nearest string
}

// NewLayer parses the fragments of a layer. If it returns problems, the layer
// must not be used.
func NewLayer(name, where string, texts []string) (*Layer, []Problem) {
	l := &Layer{Name: name, Where: where}
	var problems []Problem
	size := 0
	values := make([]edn.Value, 0, len(texts))
	for i, text := range texts {
		text = strings.TrimSpace(text)
		size += len(text) + 1
		values = append(values, edn.Text(text))
		f, unknown := parse(text)
		for _, name := range unknown {
			problems = append(problems, Problem{
				Fragment: i,
				Message:  "names the unknown variable {" + name + "}",
				Found:    name,
				Nearest:  contract.Nearest(name, Variables()),
			})
		}
		if len(f) > 0 {
			l.fragments = append(l.fragments, f)
		}
	}
	if size-1 > MaxLayer {
		problems = append(problems, Problem{Fragment: -1, Message: "is longer than 16 KiB"})
	}
	l.Hash = edn.Hash(edn.Vector(values...))
	return l, problems
}

// parse splits a text at its variables. A name in double braces becomes the
// name in single braces; braces around anything but a name are text.
func parse(text string) (f fragment, unknown []string) {
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			f = append(f, piece{text: plain.String()})
			plain.Reset()
		}
	}
	for text != "" {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			plain.WriteString(text)
			break
		}
		plain.WriteString(text[:open])
		text = text[open:]
		if name, ok := named(strings.TrimPrefix(text, "{")); ok && strings.HasPrefix(text, "{{") && strings.HasPrefix(text[len(name)+3:], "}") {
			plain.WriteString("{" + name + "}")
			text = text[len(name)+4:]
			continue
		}
		name, ok := named(text)
		if !ok {
			plain.WriteByte('{')
			text = text[1:]
			continue
		}
		text = text[len(name)+2:]
		if !slices.Contains(Variables(), name) {
			unknown = append(unknown, name)
			continue
		}
		flush()
		f = append(f, piece{name: name})
	}
	flush()
	return f, unknown
}

// named returns the name in braces that a text begins with.
func named(text string) (string, bool) {
	if !strings.HasPrefix(text, "{") {
		return "", false
	}
	end := strings.IndexFunc(text[1:], func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	if end <= 0 || text[1+end] != '}' {
		return "", false
	}
	return text[1 : 1+end], true
}

// fill returns the text of the layer with these values of variables.
func (l *Layer) fill(values map[string]string) string {
	var b strings.Builder
	for _, f := range l.fragments {
		if !f.filled(values) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		for _, p := range f {
			if p.name != "" {
				b.WriteString(values[p.name])
				continue
			}
			b.WriteString(p.text)
		}
	}
	return b.String()
}

func (f fragment) filled(values map[string]string) bool {
	for _, p := range f {
		if p.name != "" && values[p.name] == "" {
			return false
		}
	}
	return true
}

// value returns the name and hash of the layer, without its text.
func (l *Layer) value() edn.Value {
	var b edn.MapBuilder
	b.Key("name", edn.Text(l.Name))
	b.OptText("where", l.Where)
	b.Key("hash", edn.Text(l.Hash))
	return b.Map()
}

// Source returns the text of the layer with its variables, for display.
func (l *Layer) Source() string {
	parts := make([]string, 0, len(l.fragments))
	for _, f := range l.fragments {
		var b strings.Builder
		for _, p := range f {
			if p.name != "" {
				b.WriteString("{" + p.name + "}")
			} else {
				b.WriteString(p.text)
			}
		}
		parts = append(parts, b.String())
	}
	return strings.Join(parts, " ")
}
