// Package agent decides which agents may perform which operations in a workspace.
//
// An [Agent] has a role, which grants capabilities; its own list of capabilities can only restrict
// them. A [Set] holds the agents of one configuration, built in or declared. [New] validates all of
// them and returns every problem. [Set.Allow] decides about one request. It checks in a fixed
// order, so that equal requests return equal errors.
//
// A Set is immutable and safe for concurrent use; a reload makes a new one. Errors are of type
// *contract.Error: agent/required, agent/unknown, agent/impersonation, agent/role-denied,
// agent/invalid, agent/prompt-missing.
package agent
