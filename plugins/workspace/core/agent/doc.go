// Package agent says who may do what in a workspace.
//
// An [Agent] has a role, which grants capabilities; its own list can only take
// some of them away. A [Set] is the agents that are in force, built in or
// declared. [New] validates all of them and returns every problem. [Set.Allow]
// decides about one request, in a fixed order, so that equal requests have equal
// errors.
//
// A Set is immutable and safe for concurrent use; a reload makes a new one.
// Errors are of type *contract.Error: agent/required, agent/unknown,
// agent/impersonation, agent/role-denied, agent/invalid, agent/prompt-missing.
package agent
