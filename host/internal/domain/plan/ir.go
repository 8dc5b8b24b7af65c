package plan

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Op is the operation of a node.
type Op uint8

// The ops of IR-001. OpInvalid marks a node whose op is unknown; such a plan
// has an error finding and never runs.
const (
	OpInvalid Op = iota
	OpLet
	OpCall
	OpTool
	OpEmit
	OpPlan
	OpMap
)

var opNames = [...]string{"invalid", "let", "call", "tool", "emit", "plan", "map"}

// String returns the op as plans write it, without colon.
func (o Op) String() string { return opNames[o] }

// Mode is the scheduling mode of a plan.
type Mode uint8

// The modes of SCHED-001.
const (
	Hybrid Mode = iota
	Strict
	Lazy
)

var modeNames = [...]string{"hybrid", "strict", "lazy"}

// String returns the mode as plans write it, without colon.
func (m Mode) String() string { return modeNames[m] }

// Plan is a parsed plan.
type Plan struct {
	ID          string
	Mode        Mode
	MaxParallel int
	Nodes       []Node
	// Bindings are the plan's own constants.
	Bindings edn.Value
	// Outer are the names that nodes read and no earlier node writes: bindings
	// or names of the parent's environment. Outer name k is frame slot
	// len(Nodes)+k.
	Outer []string
	// Source is the plan as written.
	Source edn.Value

	// reads are all places that read a name, in program order.
	reads []read
	// writers maps a name to the first node that writes it.
	writers map[string]int
	// duplicates are names that more than one node writes.
	duplicates map[string]bool
	findings   []Finding
	at         *locator
	// nodesPath is the path of the nodes in the text.
	nodesPath []edn.Value
	// fn is set if the plan is the call made from the :fn of a map.
	fn    *fnPlace
	depth int
	// truncated is true if there were too many nodes to parse.
	truncated bool
}

// Hash returns the identity of the plan (IR-007).
func (p *Plan) Hash() string { return edn.Hash(p.Source) }

// Node is one step of a plan. Fields that an op does not use are zero.
type Node struct {
	Index int
	// ID is the written id, else "n<index>".
	ID string
	Op Op
	// As is the slot that the node writes, "" if none.
	As string
	// When is nil for a node that always runs; WhenSource is the condition as
	// written.
	When       *Cond
	WhenSource edn.Value
	// Needs are the indices of the nodes that must be done before this one.
	Needs []int

	// Intent and CapID belong to a call, ToolID to a tool.
	Intent, CapID, ToolID string

	// Input belongs to call, tool and emit, Value to let, Over to map. All are
	// nil if not written.
	Input, Value, Over           *Template
	Context, Constraints, System *Template
	// Candidates is set if the list holds slots and must be filled first;
	// without slots the list is in Layer.
	Candidates *Template

	// Fn marks the call made from the :fn of a map: an item that is not a map
	// becomes its input under :value.
	Fn bool

	// Layer holds the policy values of the node, nil if it has none.
	Layer *policy.Layer
	// AllowFailure stores a failure as the value of the slot.
	AllowFailure bool

	// Sub is the body of a plan or map node. Capture has one entry for each of
	// its outer names.
	Sub     *Plan
	Capture []Capture
	// SubBindings are the constant bindings of a plan node.
	SubBindings edn.Value

	// Item names the slot of the current element of a map.
	Item string
	// KeepItemErrors is true for `:on-item-error :keep`.
	KeepItemErrors bool
	// MaxParallel bounds the number of items of a map that run at once.
	MaxParallel int

	// respelt maps the known keys that misspelt ones were replaced with to the keys as
	// written.
	respelt map[string]edn.Value
}

// asWritten returns the key of the text that a known key was read from.
func (n *Node) asWritten(key edn.Value) edn.Value {
	if len(n.respelt) == 0 {
		return key
	}
	if written, ok := n.respelt[key.String()]; ok {
		return written
	}
	return key
}

// CaptureFrom is the source of an outer name of a nested plan.
type CaptureFrom uint8

// The sources of a captured name.
const (
	FromSlot CaptureFrom = iota
	FromBinding
	FromItem
	FromIndex
)

// Capture is one outer name of a nested plan, as seen from the surrounding
// node.
type Capture struct {
	From CaptureFrom
	// Slot is the frame slot of the surrounding plan, for FromSlot.
	Slot int
	// Value is the constant, for FromBinding.
	Value edn.Value
}

// readKind is the kind of a read.
type readKind uint8

const (
	readSlot readKind = iota
	readWhen
	readOver
	readEmit
	readCapture
)

// read is one place of a node that reads a name.
type read struct {
	node     int
	slot     int
	name     string
	kind     readKind
	optional bool
	// where is the path inside the node.
	where []edn.Value
	// ref is the template slot, nil for a condition or a capture.
	ref *slotRef
	// input is true for a slot inside the :input of the node.
	input bool
	// final is true for a keyword under :final, which is data if nothing fills
	// it.
	final bool
}
