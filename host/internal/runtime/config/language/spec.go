package language

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// Reload is the effect of an attribute change when a host reloads its configuration.
type Reload byte

// The effects of a reload.
const (
	ReloadNothing Reload = 'N' // no effect on what runs
	ReloadUse     Reload = 'U' // effective from the next request, call or transition on
	ReloadPlugin  Reload = 'P' // a new process of the plugin replaces the running one
	ReloadHost    Reload = 'H' // effective after a restart of the host
)

// Attr is the specification of one attribute.
type Attr struct {
	Name     string
	Type     Type
	Required bool
	Default  string // as an HCL expression; empty: none
	// Profiles maps a profile to its default if that differs from Default, which is the default of
	// prod. An empty text means no default.
	Profiles map[string]string
	// AsStrict has values other than the default of prod that are not weaker.
	AsStrict []string
	Reload   Reload
	Serves   string // requirement ids
	Doc      string
}

// LabelKind is the grammar of a label.
type LabelKind string

// The grammars of labels (HCL-027). A pattern names files (HCL-016). The namespace of an implied
// label is the name of its block and may be omitted.
const (
	LabelNone      LabelKind = ""
	LabelIdent     LabelKind = "name"
	LabelQualified LabelKind = "qualified name"
	LabelImplied   LabelKind = "name in the namespace of its block"
	LabelPattern   LabelKind = "pattern"
)

// Block is the specification of a block. A block without a label occurs at most once in its parent.
type Block struct {
	Name   string
	Label  LabelKind
	Doc    string
	Attrs  []Attr
	Blocks []Block
	// Limits is set if each attribute is a maximum that protects the host: a value above the default
	// is weaker, whatever the profile.
	Limits bool
	// Refers is set if the label is the name of something that no block declares.
	Refers bool
	// An Open block accepts attributes of any name (locals). A Foreign block is decoded with the
	// schema of a plugin.
	Open    bool
	Foreign bool
	// Variants replace the block for one label each, the label in Only. If there are variants,
	// other labels are rejected.
	Variants []Block
	Only     string
}

// Variant returns the block specification for a label; false: the label is invalid.
func (b *Block) Variant(label string) (*Block, bool) {
	i := slices.IndexFunc(b.Variants, func(v Block) bool { return v.Only == label })
	if i < 0 {
		return b, len(b.Variants) == 0
	}
	return &b.Variants[i], true
}

// Attr returns the attribute of b with a name; false if there is none.
func (b *Block) Attr(name string) (*Attr, bool) {
	i := slices.IndexFunc(b.Attrs, func(a Attr) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return &b.Attrs[i], true
}

// Block returns the nested block of b with a name; false if there is none.
func (b *Block) Block(name string) (*Block, bool) {
	i := slices.IndexFunc(b.Blocks, func(x Block) bool { return x.Name == name })
	if i < 0 {
		return nil, false
	}
	return &b.Blocks[i], true
}

// Names returns the sorted names of the attributes and blocks that this build accepts in the block
// at a path.
func (b *Block) Names(path string) []string {
	var out []string
	for _, a := range b.Attrs {
		if r, ok := ReservedAt(Join(path, a.Name)); !ok || r.Partly() {
			out = append(out, a.Name)
		}
	}
	for _, n := range b.Blocks {
		if r, ok := ReservedAt(Join(path, n.Name)); !ok || r.Partly() {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Join returns the path of a name below a path, with dots.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Kind is the shape of an attribute's value (HCL-019).
type Kind string

// The kinds of value.
const (
	KindBool     Kind = "bool"
	KindInt      Kind = "int"
	KindNum      Kind = "num"
	KindStr      Kind = "string"
	KindDur      Kind = "duration"
	KindBytes    Kind = "bytes"
	KindDec      Kind = "decimal"
	KindRate     Kind = "rate"
	KindEnum     Kind = "word"
	KindRef      Kind = "reference"
	KindPath     Kind = "path"
	KindProgram  Kind = "program"    // a path, or the name of an installed plugin
	KindRun      Kind = "executable" // a path, or a name to look up in PATH
	KindVersion  Kind = "version constraint"
	KindSwitch   Kind = "failure"
	KindVariable Kind = "variable name"
	KindListen   Kind = "host:port"
	KindHostName Kind = "host name"
	KindNetwork  Kind = "network" // addresses with a common prefix
	KindOrigin   Kind = "origin"  // of a web page
	KindCond     Kind = "condition"
	KindTemplate Kind = "template"
	KindEDN      Kind = "edn"
	KindSecret   Kind = "secret"
	KindLayer    Kind = "layer"
	KindList     Kind = "list"
	KindSet      Kind = "set"
	KindMap      Kind = "map"
)

// Type is the type and range of an attribute.
type Type struct {
	Kind  Kind
	Key   *Type    // key type of a map; nil: any key
	Elem  *Type    // element type of a list, set or map; nil: a map of any values
	First *Type    // type of the first element of a list, if it differs from Elem
	Enum  []string // words of KindEnum, in the order of the reference
	// Means maps words of other programs to the member of Enum that is suggested.
	Means map[string]string
	Ref   string   // block type of KindRef
	Min   *float64 // number, milliseconds of a duration, bytes, or length of a collection
	Max   *float64
	Zero  bool // 0 is valid and means no limit, even if it is below Min
	Read  bool // for KindPath: the content of the file is part of the configuration
	OrMap bool // for KindList: a map of such lists is also valid
}

// Mapped returns the type of the map that is valid for a list with OrMap.
func (t Type) Mapped() Type {
	t.OrMap = false
	return Type{Kind: KindMap, Elem: &t}
}

func (t Type) between(low, high float64) Type {
	t.Min, t.Max = &low, &high
	return t
}

// orZero returns the type with 0 as a valid value.
func (t Type) orZero() Type {
	t.Zero = true
	return t
}

// Member returns the type of element i of a list.
func (t Type) Member(i int) Type {
	if i == 0 && t.First != nil {
		return *t.First
	}
	return *t.Elem
}

func (t Type) atMost(high float64) Type {
	t.Max = &high
	return t
}

func (t Type) atLeast(low float64) Type {
	t.Min = &low
	return t
}

var (
	boolean   = Type{Kind: KindBool}
	text      = Type{Kind: KindStr}
	path      = Type{Kind: KindPath}
	readFiles = Type{Kind: KindPath, Read: true}
	programs  = Type{Kind: KindProgram}
	runs      = Type{Kind: KindRun}
	cond      = Type{Kind: KindCond}
	edntext   = Type{Kind: KindEDN}
	layered   = Type{Kind: KindLayer}
	version   = Type{Kind: KindVersion}
	switches  = Type{Kind: KindSwitch}
	variable  = Type{Kind: KindVariable}
	prior     = Type{Kind: KindList, Elem: ptr(number(0.01, 10_000)), OrMap: true}.between(2, 2)
)

func integer(low, high float64) Type { return Type{Kind: KindInt}.between(low, high) }
func number(low, high float64) Type  { return Type{Kind: KindNum}.between(low, high) }
func number01() Type                 { return number(0, 1) }
func enum(words ...string) Type      { return Type{Kind: KindEnum, Enum: words} }
func ref(block string) Type          { return Type{Kind: KindRef, Ref: block} }
func list(of Type) Type              { return Type{Kind: KindList, Elem: &of} }
func set(of Type) Type               { return Type{Kind: KindSet, Elem: &of} }
func dur(low, high time.Duration) Type {
	return Type{Kind: KindDur}.between(float64(low.Milliseconds()), float64(high.Milliseconds()))
}
func size(low, high float64) Type { return Type{Kind: KindBytes}.between(low, high) }

const (
	day     = 24 * time.Hour
	longest = 3650 * day
	most    = 1_000_000_000 // upper bound of counts without a specified maximum
	kib     = 1 << 10
	mib     = 1 << 20
	tib     = 1 << 40
)

// String returns the type with its range in the form of diagnostics and the reference.
func (t Type) String() string {
	switch t.Kind {
	case KindEnum:
		if len(t.Enum) == 1 {
			return strconv.Quote(t.Enum[0])
		}
		return "one of " + strings.Join(t.Enum, ", ")
	case KindRef:
		return "name of " + diag.Article(t.Ref)
	case KindLayer:
		return "text, or list of texts, { file = PATH } and { fragment = NAME }"
	case KindSwitch:
		return "type of the catalogue, ns/*, class/retry, class/switch or class/repair"
	case KindList, KindSet, KindMap:
		s := string(t.Kind)
		if t.Elem != nil {
			s += " of " + t.Elem.String()
		}
		if t.Max != nil && t.Kind != KindMap {
			s = fmt.Sprintf("%s, %s..%s members", s, t.bound(t.Min, 0), t.bound(t.Max, 0))
		}
		if t.OrMap {
			s += ", or map of these"
		}
		return s
	}
	if t.Min == nil && t.Max == nil {
		return string(t.Kind)
	}
	if t.Max == nil {
		return fmt.Sprintf("%s of at least %s", t.Kind, t.bound(t.Min, 0))
	}
	zero := ""
	if t.Zero {
		zero = "0 or "
	}
	return fmt.Sprintf("%s %s%s..%s", t.Kind, zero, t.bound(t.Min, 0), t.bound(t.Max, 0))
}

func (t Type) bound(b *float64, none float64) string {
	v := none
	if b != nil {
		v = *b
	}
	switch t.Kind {
	case KindDur:
		return FormatDuration(int64(v))
	case KindBytes:
		return FormatBytes(int64(v))
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// FormatDuration returns milliseconds exactly, with as few units as possible.
func FormatDuration(ms int64) string {
	if ms == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if n := ms / u.ms; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			ms -= n * u.ms
		}
	}
	return b.String()
}

// FormatBytes returns a size in bytes exactly, in the largest possible binary unit.
func FormatBytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
