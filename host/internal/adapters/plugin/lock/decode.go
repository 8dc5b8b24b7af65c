package lock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Problem is one error in the text of a lock file.
type Problem struct {
	Type     string // error type, such as "config/unknown-name"
	Message  string
	Expected string
	Found    string
	Nearest  string
	Hint     string
	From, To int // byte offsets in the text
	Line     int // from 1
	Column   int // from 1, in bytes
}

// rewrite is the hint for a file that cannot be read. "ferment plugin lock" reads it too, so it
// must be removed first.
const rewrite = "restore the file, or remove it and run \"ferment plugin lock\", which approves the programs as they are now"

// DecodeError is the error for a text that is not a valid lock file.
type DecodeError struct {
	Name     string
	Problems []Problem // at least one, in the order of their positions
}

// Error returns the first problem and the number of the others.
func (e *DecodeError) Error() string {
	p := e.Problems[0]
	text := fmt.Sprintf("%s:%d:%d: %s", e.Name, p.Line, p.Column, p.Message)
	if p.Expected != "" {
		text += ": expected " + p.Expected
	}
	if p.Found != "" {
		text += ", found " + p.Found
	}
	if n := len(e.Problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Typed returns the error as a *contract.Error with the type and hint of the first problem.
func (e *DecodeError) Typed() *contract.Error {
	out := contract.Errorf(e.Problems[0].Type, "%s", e.Error())
	if hint := e.Problems[0].Hint; hint != "" {
		out = out.WithHint(hint)
	}
	return out
}

// maxProblems is the number of problems after which decoding stops.
const maxProblems = 50

// shape lists the attributes and blocks that a block may have.
type shape struct {
	label  string // description of the label; empty: no label
	attrs  []string
	blocks map[string]*shape
}

var pluginShape = &shape{label: "the name of a plugin", attrs: []string{"needs", "ports", "protocol", "version"},
	blocks: map[string]*shape{
		"binary":     {label: "a platform such as linux/amd64", attrs: []string{"hash"}},
		"file":       {label: "a path", attrs: []string{"hash"}},
		"capability": {label: "the id of a capability", attrs: []string{"effects", "intents"}},
	}}

var fileShape = &shape{blocks: map[string]*shape{"lock": {attrs: []string{"format"}}, "plugin": pluginShape}}

// Decode parses the text of a lock file; name is the name of the file in errors. The error is a
// [*DecodeError] with every problem, up to maxProblems.
func Decode(name string, text []byte) (File, error) {
	d := &decoding{name: name, text: text}
	root := d.parse()
	var f File
	if len(d.problems) == 0 {
		f = d.file(root)
	}
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, func(a, b Problem) int { return a.From - b.From })
		return File{}, &DecodeError{Name: name, Problems: d.problems}
	}
	return f, nil
}

// file converts a parsed tree.
func (d *decoding) file(root *block) File {
	heads := root.of("lock")
	if len(heads) == 0 { // not a lock file
		d.add(Problem{
			Type:     "config/missing",
			Message:  "the lock block is missing",
			Expected: "lock { format = 1 }",
			Hint:     rewrite,
		}, 0, 0)
		return File{}
	}
	d.names(root, fileShape)
	if d.newer(heads[0]) {
		return File{} // the other blocks may have another format
	}
	blocks := root.of("plugin")
	d.atMost(blocks, MaxPlugins, "plugins")
	var plugins []Plugin
	capabilities := 0
	for _, b := range blocks {
		p := d.plugin(b)
		plugins = append(plugins, p)
		if capabilities += len(p.Capabilities); capabilities > MaxCapabilities {
			d.add(Problem{Type: "config/limit",
				Message: fmt.Sprintf("more than %d capabilities", MaxCapabilities)}, b.from, b.to)
			break
		}
	}
	return NewFile(plugins...)
}

// newer checks the format version and reports whether it is newer than this package supports.
func (d *decoding) newer(b *block) bool {
	a, ok := b.attr("format")
	if !ok {
		d.missing(b, "format")
		return false
	}
	switch {
	case a.kind != number || a.number < 1:
		d.add(Problem{
			Type:     "config/type",
			Message:  "format is not a version of the file format",
			Expected: fmt.Sprint(Format),
			Found:    a.shown(),
		}, a.from, a.to)
	case a.number > Format:
		d.problems = nil // names that are unknown here may be valid in the newer format
		d.add(Problem{Type: "config/lock", Message: "the file was written by a newer ferment",
			Expected: fmt.Sprintf("format %d", Format), Found: fmt.Sprintf("format %d", a.number),
			Hint: "use that version of ferment, or write the file anew with \"ferment plugin lock\" after removing it"}, a.from, a.to)
		return true
	}
	return false
}

func (d *decoding) plugin(b *block) Plugin {
	p := Plugin{
		Name:     b.label,
		Version:  d.textOf(b, "version"),
		Protocol: d.textOf(b, "protocol"),
		Needs:    d.words(b, "needs", contract.Needs()),
	}
	if b.labelled && !nameForm.MatchString(b.label) {
		d.form(b.labelAt, "the label of a plugin", "a name of lower case letters, digits and . _ + -", b.label)
	}
	p.Ports = d.ports(b)
	binaries, files, capabilities := b.of("binary"), b.of("file"), b.of("capability")
	d.atMost(binaries, MaxPlatforms, "platforms of one plugin")
	d.atMost(files, MaxFiles, "files of one plugin")
	d.atMost(capabilities, MaxCapabilities, "capabilities")
	for _, x := range binaries {
		if x.labelled && !platformForm.MatchString(x.label) {
			d.form(x.labelAt, "the label of a binary", "a platform such as linux/amd64", x.label)
		}
		p.Binaries = append(p.Binaries, Binary{x.label, d.hash(x)})
	}
	for _, x := range files {
		if x.labelled && x.label == "" {
			d.form(x.labelAt, "the label of a file", "a path", x.label)
		}
		p.Files = append(p.Files, Hashed{x.label, d.hash(x)})
	}
	for _, x := range capabilities {
		if x.labelled && !wordForm.MatchString(x.label) {
			d.form(x.labelAt, "the label of a capability", "an id such as chess/engine", x.label)
		}
		p.Capabilities = append(p.Capabilities,
			Capability{ID: x.label, Effects: d.words(x, "effects", contract.Effects()), Intents: d.words(x, "intents", nil)})
	}
	return p
}

func (d *decoding) hash(b *block) string {
	h := d.textOf(b, "hash")
	if a, ok := b.attr("hash"); ok && a.kind == text && !hashForm.MatchString(h) {
		d.form(span{a.from, a.to}, "hash", "b3: and 64 hexadecimal digits", h)
	}
	return h
}

func (d *decoding) textOf(b *block, name string) string {
	a, ok := b.attr(name)
	switch {
	case !ok:
		d.missing(b, name)
	case a.kind != text:
		d.add(Problem{
			Type:     "config/type",
			Message:  name + " is not a text",
			Expected: "a text in quotes",
			Found:    a.shown(),
		}, a.from, a.to)
	default:
		return a.texts[0]
	}
	return ""
}

// words returns a list of qualified names. If known is not nil, other names are rejected.
func (d *decoding) words(b *block, name string, known []string) []string {
	a, ok := b.attr(name)
	if !ok {
		d.missing(b, name)
		return nil
	}
	if a.kind != list {
		d.add(Problem{
			Type:     "config/type",
			Message:  name + " is not a list",
			Expected: "a list of texts",
			Found:    a.shown(),
		}, a.from, a.to)
		return nil
	}
	for i, w := range a.texts {
		switch {
		case slices.Contains(a.texts[:i], w):
			d.add(Problem{Type: "config/duplicate", Message: fmt.Sprintf("%q is listed twice in %s", w, name), Hint: "remove one"},
				a.from, a.to)
		case known != nil && !slices.Contains(known, w):
			d.add(Problem{
				Type:     "config/unknown-name",
				Message:  fmt.Sprintf("%s has the unknown word %q", name, clip(w)),
				Expected: strings.Join(known, ", "),
				Found:    clip(w),
				Nearest:  contract.Nearest(w, known),
			}, a.from, a.to)
		case known == nil && !wordForm.MatchString(w):
			d.form(span{a.from, a.to}, "a member of "+name, "a name such as chess/best-move", w)
		}
	}
	return a.texts
}

// ports returns the ports of the network needs. The attribute is optional.
func (d *decoding) ports(b *block) []uint16 {
	a, ok := b.attr("ports")
	if !ok {
		return nil
	}
	if a.kind != list {
		d.add(Problem{
			Type:     "config/type",
			Message:  "ports is not a list",
			Expected: "a list of texts",
			Found:    a.shown(),
		}, a.from, a.to)
		return nil
	}
	var out []uint16
	for i, text := range a.texts {
		n, err := strconv.ParseUint(text, 10, 16)
		switch {
		case err != nil || n == 0 || strconv.FormatUint(n, 10) != text:
			d.form(span{a.from, a.to}, "a member of ports", "a port from 1 to 65535, in quotes", text)
		case slices.Contains(a.texts[:i], text):
			d.add(Problem{Type: "config/duplicate", Message: fmt.Sprintf("%q is listed twice in ports", text), Hint: "remove one"},
				a.from, a.to)
		default:
			out = append(out, uint16(n))
		}
	}
	return out
}

// names rejects unknown and duplicate attributes and blocks.
func (d *decoding) names(b *block, s *shape) {
	seen := map[string]bool{}
	for _, a := range b.attrs {
		switch {
		case !slices.Contains(s.attrs, a.name):
			d.unknown(a.name, "attribute", b, s, a.nameAt)
		case seen[a.name]:
			d.add(Problem{Type: "config/duplicate", Message: fmt.Sprintf("attribute %q is written twice", a.name),
				Hint: "keep one of the two"}, a.nameAt.from, a.nameAt.to)
		}
		seen[a.name] = true
	}
	for _, x := range b.blocks {
		inner, ok := s.blocks[x.typ]
		if !ok {
			d.unknown(x.typ, "block", b, s, span{x.from, x.to})
			continue
		}
		if want := inner.label != ""; want != x.labelled {
			expected := "no label"
			if want {
				expected = inner.label + " as its label"
			}
			d.add(Problem{Type: "config/syntax", Message: fmt.Sprintf("the block %s has a wrong label", x.typ),
				Expected: expected}, x.from, x.to)
		}
		key := x.typ + "\x00" + x.label
		if seen[key] {
			d.add(Problem{Type: "config/duplicate", Message: fmt.Sprintf("block %s %q is written twice", x.typ, clip(x.label)),
				Hint: "keep one of the two"}, x.from, x.to)
		}
		seen[key] = true
		d.names(x, inner)
	}
}

func (d *decoding) unknown(name, what string, in *block, s *shape, at span) {
	known := slices.Clone(s.attrs)
	for b := range s.blocks {
		known = append(known, b)
	}
	slices.Sort(known)
	place := "the lock file"
	if in.typ != "" {
		place = in.typ
	}
	p := Problem{
		Type:     "config/unknown-name",
		Message:  fmt.Sprintf("unknown %s %q in %s", what, clip(name), place),
		Expected: strings.Join(known, ", "),
		Found:    clip(name),
		Nearest:  contract.Nearest(name, known),
	}
	if p.Nearest == "" {
		p.Hint = rewrite
	}
	d.add(p, at.from, at.to)
}

// missing reports a missing attribute, unless an unknown attribute has a similar name.
func (d *decoding) missing(b *block, name string) {
	if slices.ContainsFunc(b.attrs, func(a attr) bool { return contract.Nearest(a.name, []string{name}) != "" }) {
		return
	}
	d.add(Problem{Type: "config/missing", Message: fmt.Sprintf("%s has no %s", b.title(), name),
		Hint: rewrite}, b.from, b.to)
}

func (d *decoding) form(at span, what, expected, found string) {
	d.add(Problem{
		Type:     "config/type",
		Message:  what + " has a wrong form",
		Expected: expected,
		Found:    fmt.Sprintf("%q", clip(found)),
	}, at.from, at.to)
}

func (d *decoding) atMost(blocks []*block, most int, what string) {
	if len(blocks) > most {
		d.add(Problem{Type: "config/limit", Message: fmt.Sprintf("more than %d %s", most, what)}, blocks[most].from,
			blocks[most].to)
	}
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
