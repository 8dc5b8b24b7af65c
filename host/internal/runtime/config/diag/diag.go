package diag

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Severity of a diagnostic. A configuration with an error cannot be used.
type Severity int

// Values of Severity, most severe first.
const (
	SeverityError Severity = iota
	SeverityWarning
	SeverityInfo
)

// String returns "error", "warning" or "info".
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

// Related is another position that concerns a diagnostic.
type Related struct {
	Range   *Range // nil: not in a file
	Message string // predicate for the position, such as "is the first one"
}

// Diagnostic is one finding about a configuration. It is not modified after the
// load.
type Diagnostic struct {
	Type     string // error type, such as "config/unknown-name"
	Severity Severity
	Message  string   // one sentence without a period and without secrets
	Range    *Range   // nil: not in a file
	Path     []string // block types, labels and attribute
	Expected edn.Value
	Found    edn.Value
	Nearest  string
	Related  []Related
	Hint     string // next step
	More     int    // number of further positions with the same cause

	source  *Source
	quoted  string // excerpt that replaces the lines of the source
	Context bool   // the excerpt includes the line before
}

// Diagnostics are the diagnostics of a load, in the order of the files and of the positions in
// them.
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

// MaxKept is the maximum number of errors that one load keeps, and also the maximum number of other
// diagnostics. Further errors are only counted, further warnings are discarded.
const MaxKept = 1000

// Collector collects the diagnostics of one load. It is not safe for concurrent use.
type Collector struct {
	files  Sources
	list   []Diagnostic
	folded map[string]int // index in list by cause
	// kept is the number of members of list, by whether they are errors; said has the errors so
	// far.
	kept map[bool]int
	said map[errorKey]bool
	// Dropped is the number of errors that were not added to list because of MaxKept.
	Dropped int
	// broken holds the invalid blocks, by type and label; see Poison.
	broken map[string]map[string]bool
}

// errorKey identifies an error: errors with the same key are reported once.
type errorKey struct {
	file         string
	byte         int
	typ, message string
}

// AnyName is the block type or label for [Collector.Poison] if the invalid part may declare any name.
const AnyName = "*"

// EnvFile is the block type for [Collector.Poison] if a line of an .env file defines no variable.
const EnvFile = ".env"

// NewCollector returns an empty collector. Excerpts are taken from files.
func NewCollector(files Sources) *Collector {
	return &Collector{
		files:  files,
		folded: map[string]int{},
		kept:   map[bool]int{},
		said:   map[errorKey]bool{},
		broken: map[string]map[string]bool{},
	}
}

// Poison records that the block with a type and label is invalid. References to it are then not
// reported, because they are consequences of the same mistake. An unknown label or type is AnyName.
func (c *Collector) Poison(block, label string) {
	if c.broken[block] == nil {
		c.broken[block] = map[string]bool{}
	}
	c.broken[block][label] = true
}

// Doubts reports whether an invalid part may declare a block with that type and label.
func (c *Collector) Doubts(block, label string) bool {
	names := c.broken[block]
	return names[label] || names[AnyName] || c.broken[AnyName][label] || c.broken[AnyName][AnyName]
}

// Doubtful reports whether any block of that type is invalid.
func (c *Collector) Doubtful(block string) bool {
	return len(c.broken[block]) > 0 || len(c.broken[AnyName]) > 0
}

// PoisonedLabels returns the labels of the invalid blocks of a type, in any order.
func (c *Collector) PoisonedLabels(block string) []string {
	return slices.Collect(maps.Keys(c.broken[block]))
}

// Empty reports whether no diagnostic was added.
func (c *Collector) Empty() bool { return len(c.list) == 0 }

// Poisoned calls Poison for the block of d if d is an error.
func (c *Collector) Poisoned(d Diagnostic) {
	switch {
	case d.Severity != SeverityError || len(d.Path) == 0:
	case len(d.Path) == 1:
		c.Poison(d.Path[0], "")
	default:
		c.Poison(d.Path[0], d.Path[1])
		if d.Type == "config/unknown-name" && d.Nearest != "" && len(d.Path) == 2 {
			c.Poison(d.Path[0], d.Nearest)
		}
	}
}

// Add adds a diagnostic. An error with the same place, type and message as an earlier one is
// ignored.
func (c *Collector) Add(d Diagnostic) {
	c.Poisoned(d)
	isError := d.Severity == SeverityError
	if isError {
		key := errorKey{byte: d.byte(), typ: d.Type, message: d.Message}
		if d.Range != nil {
			key.file = d.Range.File
		}
		if c.said[key] {
			return
		}
		c.said[key] = true
	}
	if c.kept[isError] >= MaxKept {
		if isError {
			c.Dropped++
		}
		return
	}
	c.kept[isError]++
	if d.Range != nil && d.source == nil {
		d.source = c.files[d.Range.File]
	}
	if found, ok := d.Found.AsString(); ok {
		d.Found = edn.Text(withoutPasswords(found))
	}
	if d.Expected.Kind() == edn.KindVector && d.Expected.Len() == 0 {
		d.Expected = edn.Text("nothing: there is no such name to choose from")
	}
	d.Hint = cmp.Or(d.Hint, DidYouMean(d.Nearest))
	c.list = append(c.list, d)
}

// DidYouMean returns the hint for the nearest name; empty if there is none.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return "did you mean " + Quote(near) + "?"
}

// Fold adds a diagnostic for the first occurrence of a cause, and counts further occurrences in its
// More.
func (c *Collector) Fold(cause string, d Diagnostic) {
	if i, ok := c.folded[cause]; ok {
		c.list[i].More++
		return
	}
	at := len(c.list)
	if c.Add(d); len(c.list) > at {
		c.folded[cause] = at
	}
}

// maxGathered is the maximum number of further positions that Gather keeps.
const maxGathered = 8

// Gather adds a diagnostic for the first occurrence of a cause, and adds the positions of further
// occurrences to its Related. The blocks of all positions are recorded as invalid.
func (c *Collector) Gather(cause string, d Diagnostic, place Related) {
	i, ok := c.folded[cause]
	switch {
	case !ok:
		c.Fold(cause, d)
		return
	case len(c.list[i].Related) < maxGathered:
		c.list[i].Related = append(c.list[i].Related, place)
	default:
		c.list[i].More++
	}
	c.Poisoned(d)
}

// Result returns the diagnostics sorted by position, without duplicates. If there are errors, it
// omits warnings about unused parts, because they are reliable only for a valid configuration.
func (c *Collector) Result() Diagnostics {
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
	return d.source.Order
}

func (d *Diagnostic) byte() int {
	if d.Range == nil {
		return -1
	}
	return d.Range.Start.Byte
}
