package plan

import (
	"context"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Env is the context in which a plan is checked and linked. Check and Link copy the struct
// and only read what its fields refer to.
type Env struct {
	// Registry holds everything that a plan can name; it must not be nil.
	Registry *registry.Registry
	// Policies are the configured layers, which are weaker than Request; nil means none.
	Policies *policy.Book
	// Request is the layer that nodes inherit from the request. Its zero value
	// restricts nothing.
	Request policy.Layer
	// Grant holds the permissions of the caller by roles and configuration;
	// nil: grants are not checked.
	Grant *policy.Grant
	// Outer reports whether a binding or the parent's environment provides the
	// name; nil means that there are none. See Frame.Names.
	Outer func(name string) bool
	// Budgets are the configured budgets of a run; nil means no limit.
	Budgets *policy.Budgets
	// Prompts are the layers of the prompts; nil: the roles of nodes are not
	// checked.
	Prompts *prompt.Book
	// Unchecked drops the findings of CHECK-020. It is set for a plan that was checked when
	// it was accepted and whose secrets were removed since, so that its values may no
	// longer fit.
	Unchecked bool
	// Done reports whether the end of the node at a path is recorded, so that the node is
	// not checked. The path has the index of the node in each plan around it; within a map
	// no node is done before the map is. nil: no node is done.
	Done func(path []edn.Value) bool
	// Routing returns the candidates that the routing configuration lists for an intent;
	// nil means none.
	Routing func(intent string) []string
	// Ctx ends the checks of values against schemas, which then report a finding or nothing;
	// nil: they run to their end.
	Ctx context.Context

	// bases caches the merged layers below the nodes of one intent.
	bases map[string]*policy.Layer
	// traits caches the traits of the nodes of each plan.
	traits map[*Plan][]traits
	// scratch is reused for merged layers.
	scratch *policy.Layer
}

// Program is a linked plan, ready to run. It is immutable; any number of frames
// may run it concurrently.
type Program struct {
	Plan  *Plan
	Graph *Graph
	// Subs holds the program of the body of each plan and map node, by node
	// index; it is nil if the plan has none.
	Subs []*Program
	// Text holds the text positions of the :input of each node, by node
	// index; an entry is nil if there are none.
	Text []TextMask
	// Effectful reports, by node index, whether a node keeps program order with other
	// effectful nodes.
	Effectful []bool
	// Answer is the node whose answer is the whole result of the plan.
	Answer Answer
}

// Answer names the call or inline plan whose answer is the result of its plan.
type Answer struct {
	// Node is its index, -1 if there is no such node.
	Node int
	// Key is the key of the text in the node's answer that the plan emits;
	// empty if it emits the whole answer.
	Key string
}
