package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Severity of a diagnostic. Only errors keep a configuration from being used.
type Severity int

// The severities, the gravest first.
const (
	SeverityError Severity = iota
	SeverityWarning
	SeverityInfo
)

// String is the word that is printed.
func (s Severity) String() string {
	switch s {
	case SeverityError:
		return "error"
	case SeverityWarning:
		return "warning"
	default:
		return "info"
	}
}

// Related is another place that belongs to a diagnostic.
type Related struct {
	Range   *Range // nil if the place is in no file
	Message string // continues "FILE:LINE:COLUMN "
}

// Diagnostic is one finding about a configuration. It is a value: nothing
// changes it after the load that made it.
type Diagnostic struct {
	Type     string // of the error catalogue, without colon: "config/unknown-name"
	Severity Severity
	Message  string   // one sentence, no period, no secret
	Range    *Range   // nil if it belongs to no file
	Path     []string // block types, labels and attribute
	Expected edn.Value
	Found    edn.Value
	Nearest  string
	Related  []Related
	Hint     string // what to do next
	More     int    // further places with the same cause, folded into this one

	source  *Source
	quoted  string // lines to show instead of those of source
	context bool   // the excerpt shows the line before
}

// Diagnostics is what a load found, in the order of the files.
type Diagnostics []Diagnostic

// HasErrors tells whether the configuration may not be used.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// Count returns how many diagnostics have that severity.
func (ds Diagnostics) Count(s Severity) int {
	n := 0
	for _, d := range ds {
		if d.Severity == s {
			n++
		}
	}
	return n
}

// MaxKept bounds the diagnostics of one load; what is over it is counted only.
const MaxKept = 1000

// collector gathers the diagnostics of one load. It is used by one goroutine.
type collector struct {
	files   sources
	list    []Diagnostic
	folded  map[string]int // key of a cause -> index in list
	dropped int
	// broken are the blocks that an error was reported in, by type and label; see poison.
	broken map[string]map[string]bool
}

// anyName stands for the names that a broken part of the configuration may declare.
const anyName = "*"

func newCollector(files sources) *collector {
	return &collector{files: files, folded: map[string]int{}, broken: map[string]map[string]bool{}}
}

// poison notes that the block of a type and label was not understood. What refers to it is not reported: that
// would be the same mistake again. The label is anyName if it is not known either, and so is the type.
func (c *collector) poison(block, label string) {
	if c.broken[block] == nil {
		c.broken[block] = map[string]bool{}
	}
	c.broken[block][label] = true
}

// doubts reports whether a block of that type and label may be declared by a part that was not understood.
func (c *collector) doubts(block, label string) bool {
	names := c.broken[block]
	return names[label] || names[anyName] || c.broken[anyName][label] || c.broken[anyName][anyName]
}

// doubtful reports whether any block of that type was not understood.
func (c *collector) doubtful(block string) bool {
	return len(c.broken[block]) > 0 || len(c.broken[anyName]) > 0
}

// poisoned marks the block that an error is in.
func (c *collector) poisoned(d Diagnostic) {
	switch {
	case d.Severity != SeverityError || len(d.Path) == 0:
	case len(d.Path) == 1:
		c.poison(d.Path[0], "")
	default:
		c.poison(d.Path[0], d.Path[1])
		if d.Type == "config/unknown-name" && d.Nearest != "" && len(d.Path) == 2 {
			c.poison(d.Path[0], d.Nearest)
		}
	}
}

func (c *collector) add(d Diagnostic) {
	c.poisoned(d)
	if len(c.list) >= MaxKept {
		c.dropped++
		return
	}
	if d.Range != nil && d.source == nil {
		d.source = c.files[d.Range.File]
	}
	if found, ok := d.Found.AsString(); ok {
		d.Found = edn.Text(withoutPasswords(found))
	}
	if d.Expected.Kind() == edn.KindVector && d.Expected.Len() == 0 {
		d.Expected = edn.Text("nothing: there is no such name to choose from")
	}
	d.Hint = cmp.Or(d.Hint, meant(d.Nearest))
	c.list = append(c.list, d)
}

// meant is the hint for the nearest name; empty without one.
func meant(near string) string {
	if near == "" {
		return ""
	}
	return "did you mean " + quote(near) + "?"
}

// fold adds a diagnostic once per cause and counts the other places.
func (c *collector) fold(cause string, d Diagnostic) {
	if i, ok := c.folded[cause]; ok {
		c.list[i].More++
		return
	}
	if len(c.list) < MaxKept {
		c.folded[cause] = len(c.list)
	}
	c.add(d)
}

func (c *collector) bound(s *Source, b *bound) {
	c.poison(anyName, anyName) // the file is not read further
	d := Diagnostic{Type: b.typ, Message: b.message, Range: s.span(b.from, b.to), Hint: b.hint}
	if b.expected != "" {
		d.Expected = edn.Text(b.expected)
		d.Found = edn.Text(short(string(s.text[b.from:b.to])))
	}
	c.add(d)
}

// result sorts what was found by place and drops repetitions. Whether something is unused can be said only of a
// configuration that was understood as a whole, so errors silence these warnings.
func (c *collector) result() Diagnostics {
	out := slices.Clone(c.list)
	if Diagnostics(out).HasErrors() {
		out = slices.DeleteFunc(out, func(d Diagnostic) bool {
			return d.Severity == SeverityWarning && d.Type == "config/unused"
		})
	}
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.order(), b.order()),
			cmp.Compare(a.byte(), b.byte()),
			strings.Compare(a.Type, b.Type),
			strings.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(out, func(a, b Diagnostic) bool {
		return a.order() == b.order() && a.byte() == b.byte() && a.Type == b.Type && a.Message == b.Message
	})
}

func (d *Diagnostic) order() int {
	if d.source == nil {
		return 1 << 30 // what belongs to no file comes last
	}
	return d.source.order
}

func (d *Diagnostic) byte() int {
	if d.Range == nil {
		return -1
	}
	return d.Range.Start.Byte
}
