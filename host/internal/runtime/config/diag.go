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
	context bool // the excerpt shows the line before
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
}

func newCollector(files sources) *collector {
	return &collector{files: files, folded: map[string]int{}}
}

func (c *collector) add(d Diagnostic) {
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
	if d.Hint == "" && d.Nearest != "" {
		d.Hint = "did you mean " + quote(d.Nearest) + "?"
	}
	c.list = append(c.list, d)
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
	d := Diagnostic{Type: b.typ, Message: b.message, Range: s.span(b.from, b.to), Hint: b.hint}
	if b.expected != "" {
		d.Expected = edn.Text(b.expected)
		d.Found = edn.Text(short(string(s.text[b.from:b.to])))
	}
	c.add(d)
}

// failures lists the labelled blocks, as "type label", in which something was
// an error.
func (c *collector) failures() map[string]bool {
	out := map[string]bool{}
	for _, d := range c.list {
		if d.Severity == SeverityError && len(d.Path) >= 2 {
			out[d.Path[0]+" "+d.Path[1]] = true
		}
	}
	return out
}

// result sorts what was found by place and drops repetitions.
func (c *collector) result() Diagnostics {
	out := slices.Clone(c.list)
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
