package derive

import (
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Caller identifies the agent, the principal and the attempt on whose behalf a
// request is made.
type Caller struct {
	Agent     string // id of the agent that the frames get
	Principal string // stated by the host only; actor of the transactions
	// Effect is the effect key of the host, which is equal for every attempt at the
	// request; it may be empty. A repeated attempt with force finds the frames of the
	// earlier attempt by it.
	Effect string
}

// SynthesizeRequest is a request to make the frame of one directory.
type SynthesizeRequest struct {
	Caller Caller
	Path   string
	// Type is the type of the child frames and of the result. "*" takes every
	// type and stores under Into.
	Type string
	Into string // empty means "all"
	// Policy is the policy in EDN, nil for concatenate.
	Policy edn.Value
	// Select, Children, OnStale and Binds are those of store.Selection; empty
	// fields have the defaults.
	Select   store.Word
	Children store.Word
	OnStale  store.Word
	Binds    store.Word
	Order    store.Word // node (the default) or name: order of the text
	Truncate bool       // cut a text that is too large at a frame boundary
	Force    bool
}

// Synthesized is the result of a synthesis.
type Synthesized struct {
	Seq         uint64       `edn:"-"`
	Frame       *store.Frame `edn:"-"`
	Existing    bool         `edn:"frame/existing?"` // the frame was stored before
	Inputs      int          `edn:"inputs"`          // child frames
	StaleInputs int          `edn:"stale-inputs"`
	Built       int          `edn:"built"`  // frames of directories below that were made
	Reused      int          `edn:"reused"` // frames of directories below that were fresh or stored before
}

// RegenerateRequest is a request to renew the frames whose inputs changed.
//
// Force also renews fresh frames at Path and below it. Deltas, if set, receives the provisional
// text of calls to models; calls run concurrently, and so does Deltas. Progress, if set, is called
// after each step, never concurrently.
type RegenerateRequest struct {
	Caller    Caller
	Path      string
	Frame     id.ID // if set, it replaces Path and Types by those of this frame
	Recursive bool
	Types     []string // empty means every type
	// Up is the number of ancestors in scope, UpRoot for all of them. If UpToSet
	// is set, UpTo is the highest directory in scope instead.
	Up      int
	UpTo    string
	UpToSet bool
	// StopAt are directories that are not rebuilt, besides the boundaries of the
	// settings.
	StopAt []string
	Force  bool
	// CreateMissing makes first frames for directories that have none of a type
	// that an entry of them has.
	CreateMissing bool
	// Policy is the policy of these first frames; nil for that of the nearest directory
	// above that has the type, else concatenate.
	Policy edn.Value
	// SkipGenerated does not renew stale frames that a model made.
	SkipGenerated bool
	Concurrency   int // of calls of models; 0 means that of the settings
	Deltas        func(Delta)
	Progress      func(Progress)
}

// UpRoot extends the scope of a request to the root.
const UpRoot = 1 << 20

// Regenerated is the result of a regeneration.
type Regenerated struct {
	Seq    uint64 // of the last transaction, or the current one
	Counts Counts
	Items  []Item
	// AuthoredStale are the stale heads in scope that a person or agent wrote;
	// only the author can renew them.
	AuthoredStale []PathType
	// StaleInputs counts stale frames that were used.
	StaleInputs int
}

// Add adds the result of a later regeneration.
func (r *Regenerated) Add(later *Regenerated) {
	r.Seq = later.Seq
	r.Counts = r.Counts.Plus(later.Counts)
	r.Items = append(r.Items, later.Items...)
	r.AuthoredStale = append(r.AuthoredStale, later.AuthoredStale...)
	r.StaleInputs += later.StaleInputs
}

// PathType identifies a head.
type PathType struct{ Path, Type string }

// Counts are the totals of a report.
type Counts struct {
	File, Directory         int // new frames
	Reused, Skipped, Failed int
}

// Plus returns the totals of two reports.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.File + d.File, c.Directory + d.Directory, c.Reused + d.Reused, c.Skipped + d.Skipped, c.Failed + d.Failed}
}

// Reason states why a frame was made.
type Reason string

// The reasons.
const (
	NodeChanged   Reason = "node-changed"
	ChildChanged  Reason = "child-changed"
	RecipeChanged Reason = "recipe-changed" // a policy, prompt or extractor
	Invalidated   Reason = "invalidated"
	Forced        Reason = "forced"
	Missing       Reason = "missing" // there was none
)

// Outcome is the outcome of an item.
type Outcome string

// The outcomes.
const (
	Made    Outcome = "made"    // a new frame was appended
	Reused  Outcome = "reused"  // the frame existed; at most its head moved
	Skipped Outcome = "skipped" // nothing was done, Why says why
	Failed  Outcome = "failed"  // Err says why
)

// Item is the result for one path and type.
type Item struct {
	Path     string
	Type     string
	Old, New id.ID
	Reason   Reason
	Outcome  Outcome
	Why      string // of an item that was skipped
	Err      *contract.Error
	Nanos    int64 // duration
	// Attribution holds the data about the model, nil if no model was used.
	Attribution edn.Value
	// StaleInputs counts stale frames that were used.
	StaleInputs int
}

// Priority orders the calls of a request.
type Priority string

// The priorities, the first ones first. Empty means normal.
const (
	Urgent Priority = "urgent"
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// OnFailure determines how a request continues after a failed call.
type OnFailure string

// The ways to continue. Empty means StopLevel.
const (
	Continue  OnFailure = "continue"
	StopLevel OnFailure = "stop-level" // finish the level, begin no other
	Stop      OnFailure = "stop"       // begin no other call
)

// Target is one path of a generate request.
type Target struct {
	Path     string
	Priority Priority
}

// GenerateRequest is a request to make frames of files and directories.
//
// Force makes frames again although their inputs have not changed. IfModelChanged does so only if
// another model answered before. AcceptTruncated stores an answer that was cut at the limit of
// tokens. Deltas and Progress are called as for a RegenerateRequest.
type GenerateRequest struct {
	Caller    Caller
	Targets   []Target
	Recursive bool // and everything below each target
	// Type is the frame type; empty means context-<agent>.
	Type string
	// Producer is extract/text, extract/facts, extract/go-outline, synthesize or
	// generate; if it is empty, the producer is chosen as the package comment
	// describes.
	Producer string
	// From is the type of the child frames from which a directory is described;
	// empty means Type, "*" means every type.
	From   string
	Intent string // empty means context/summarize
	Model  string // id of a model capability, such as ollama/voice
	Prompt string // replaces the prompt of the agent
	// Params are additional keys of the input of the intent; they are part of the
	// basis.
	Params edn.Value
	// Call are the options of the calls of a plan: :done :dispatch :constraints :budget.
	Call            edn.Value
	Force           bool
	IfModelChanged  bool
	AcceptTruncated bool
	Concurrency     int // 0 means that of the options
	OnFailure       OnFailure
	Deltas          func(Delta)    // provisional text; may be nil
	Progress        func(Progress) // may be nil
}

// Delta is provisional text of one call.
type Delta struct {
	Path, Type, Text string
}

// Progress is the progress of a request.
type Progress struct {
	Phase       string // "extract", "synthesize", "generate"
	Done, Total int
}

// GenerateResult is the result of a generate request.
type GenerateResult struct {
	Seq    uint64
	Counts Counts
	Items  []Item
}

// Ticket is a prepared call of plan mode. It has everything that the commit
// needs, so no state is kept between the two.
type Ticket struct {
	Path   string    `edn:"-"` // it is not always text
	Type   string    `edn:"frame/type"`
	Agent  string    `edn:"agent/id"`
	Basis  id.ID     `edn:"basis/id"`
	Sample uint64    `edn:"sample"`
	Recipe edn.Value `edn:"recipe"`
	// Prompt is the prompt of a request that replaced that of the agent.
	Prompt string `edn:"prompt,omitempty"`
}

// Prepared is the result of preparing a call.
type Prepared struct {
	Ticket   Ticket
	Input    edn.Value    // of the intent
	Existing *store.Frame // set if the frame already exists; no call is needed
}

// CommitRequest appends the answer to a prepared call.
type CommitRequest struct {
	Caller Caller
	Ticket Ticket
	Text   string
	// Attribution holds the caller's data about the model, nil if unknown.
	Attribution     edn.Value
	AcceptTruncated bool
}
