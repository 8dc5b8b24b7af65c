package main

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/sdk/edn"
)

// opening determines how an intent opens its workspace.
type opening int

const (
	existing opening = iota // the store must exist
	creating                // a store is created if there is none
	unopened                // the intent needs no open store
)

// intent is a row of the table of section 1 of the specification.
type intent struct {
	name, says string
	// needs is the capability that the agent must have; admin intents need a principal that may
	// administer instead (WS-061).
	needs agent.Capability
	admin bool
	free  bool // every caller may use it
	// alsoNeeds returns further capabilities that an input needs; nil: none.
	alsoNeeds func(in edn.Value) []agent.Capability
	effects   []string
	writes    bool // writes intents are idempotent too
	streams   bool
	plans     bool
	opens     opening
	run       func(context.Context, *request) (edn.Value, error)
	// absent answers a dry run if there is no store; nil: no store is an error.
	absent func(context.Context, *request) (edn.Value, error)
	// write prepares what run writes, for an atomic batch; nil if it cannot be
	// part of one.
	write func(context.Context, *request) (*writing, error)
}

// The effects of intents are those on the store of the plugin. Reading the directory is not among
// them: it is a need of the process, not an effect on behalf of a caller. A scope of fs/read may
// not include the data of the host, and a workspace often does.
var (
	read   = []string{"db/read"}
	write  = []string{"db/write"}
	either = []string{"db/read", "db/write"}
)

// latency is the typical duration of a call. The host orders candidates by it.
func (i *intent) latency() time.Duration {
	if i.streams {
		return time.Second
	}
	return 10 * time.Millisecond
}

// intents returns every intent that is served.
func intents() []intent {
	var all []intent
	for _, family := range [][]intent{treeIntents(), frameIntents(), readingIntents(), derivingIntents(), upkeepIntents(), comparingIntents(), validatingIntents(), ignoreIntents(), movingIntents(), repairingIntents(), watchIntents(), agentIntents(), batchIntents()} {
		all = append(all, family...)
	}
	return all
}
