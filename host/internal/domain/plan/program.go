package plan

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Env is what surrounds a plan when it is checked and linked. A copy is taken
// by Check and Link; the parts are only read.
type Env struct {
	// Registry says what exists; it must not be nil.
	Registry *registry.Registry
	// Policies are the layers below the request; nil means none.
	Policies *policy.Book
	// Request is the layer that nodes inherit from the request. Its zero value
	// restricts nothing.
	Request policy.Layer
	// Grant is what roles and configuration permit to the caller; nil: that is
	// not asked.
	Grant *policy.Grant
	// Outer tells whether a binding or the parent's environment gives the
	// name; nil means that nothing does. See Frame.Names.
	Outer func(name string) bool
	// Budgets are what the configuration allows around a run; nil means
	// everything.
	Budgets *policy.Budgets
	// Prompts are the layers of the prompts; nil: the roles of nodes are not
	// checked.
	Prompts *prompt.Book
	// Routing returns the candidates that routing gives an intent; nil means none.
	Routing func(intent string) []string

	// bases caches the merged layers below the nodes of one intent.
	bases map[string]*policy.Layer
	// traits caches what is known of the nodes of each plan.
	traits map[*Plan][]traits
	// scratch holds the merged layer that is looked at.
	scratch *policy.Layer
}

// Program is a plan made ready to run. It is immutable and may be run by many
// frames at once.
type Program struct {
	Plan  *Plan
	Graph *Graph
	// Subs holds the program of the body of each plan and map node, by node
	// index; it is nil if the plan has none.
	Subs []*Program
	// Text holds the text positions of the :input of each node, by node
	// index; an entry is nil if there are none.
	Text []TextMask
	// Effectful tells by node index which nodes keep program order.
	Effectful []bool
	// Answer is the node whose answer is all that the plan emits.
	Answer Answer
}

// Answer names a call or inline plan that answers for its plan.
type Answer struct {
	// Node is its index, -1 if no node does.
	Node int
	// Key is the one under which its answer has the text that is emitted; empty
	// if all of the answer is.
	Key string
}
