package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Severity of a diagnostic. A configuration with an error cannot be used.
type Severity int

// The severities, most severe first.
const (
	SeverityError Severity = iota
	SeverityWarning
	SeverityInfo
)

// String returns the printed word.
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

// Related is another place that concerns a diagnostic.
type Related struct {
	Range   *Range // nil: the place is not in a file
	Message string // continues "FILE:LINE:COLUMN "
}

// Diagnostic is one finding about a configuration. It is not modified after the
// load.
type Diagnostic struct {
	Type     string // of the error catalogue, without colon: "config/unknown-name"
	Severity Severity
	Message  string   // one sentence, no period, no secret
	Range    *Range   // nil: not in a file
	Path     []string // block types, labels and attribute
	Expected edn.Value
	Found    edn.Value
	Nearest  string
	Related  []Related
	Hint     string // next step
	More     int    // further places with the same cause, folded into this one

	source  *Source
	quoted  string // shown instead of lines of the source
	context bool   // the excerpt shows the line before
}

// Diagnostics are the findings of a load, in the order of the files.
type Diagnostics []Diagnostic

// HasErrors reports whether there is an error.
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

// MaxKept is the maximum number of diagnostics of one load; further ones are only counted.
const MaxKept = 1000

// collector collects the diagnostics of one load. It is not safe for concurrent use.
type collector struct {
	files   sources
	list    []Diagnostic
	folded  map[string]int // key of a cause -> index in list
	dropped int
	// broken holds the blocks with a reported error, by type and label; see poison.
	broken map[string]map[string]bool
}

// anyName stands for the unknown names that an invalid part of the configuration may declare.
const anyName = "*"

func newCollector(files sources) *collector {
	return &collector{files: files, folded: map[string]int{}, broken: map[string]map[string]bool{}}
}

// poison records that the block of a type and label is invalid. References to it are then not reported, because they
// are consequences of the same mistake. An unknown label or type is anyName.
func (c *collector) poison(block, label string) {
	if c.broken[block] == nil {
		c.broken[block] = map[string]bool{}
	}
	c.broken[block][label] = true
}

// doubts reports whether an invalid part may declare a block of that type and label.
func (c *collector) doubts(block, label string) bool {
	names := c.broken[block]
	return names[label] || names[anyName] || c.broken[anyName][label] || c.broken[anyName][anyName]
}

// doubtful reports whether any block of that type is invalid.
func (c *collector) doubtful(block string) bool {
	return len(c.broken[block]) > 0 || len(c.broken[anyName]) > 0
}

// poisonedLabels returns the labels of the invalid blocks of a type, in any order.
func (c *collector) poisonedLabels(block string) []string {
	return slices.Collect(maps.Keys(c.broken[block]))
}

// empty reports whether nothing was reported.
func (c *collector) empty() bool { return len(c.list) == 0 }

// poisoned records the block of an error as invalid.
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

// meant returns the hint for the nearest name; empty if there is none.
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

// result returns the diagnostics sorted by place, without duplicates. Errors suppress the warnings about unused parts,
// which require a valid configuration.
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
		return 1 << 30 // diagnostics without a file come last
	}
	return d.source.order
}

func (d *Diagnostic) byte() int {
	if d.Range == nil {
		return -1
	}
	return d.Range.Start.Byte
}
