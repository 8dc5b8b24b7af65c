// Package routing holds the rules by which a router, a capability that serves
// route/decide, may influence an act before its plan runs.
//
// Main types: Settings are those of the configuration; Choose applies a profile
// and the request to them and returns whether a router is asked. Decision is an
// answer that chooses a capability. Bounds is what the act may do without a
// decision: it refuses a decision or a plan that would permit more (RTE-006).
//
// All functions are pure and safe for concurrent use. Their errors are of type
// route/decide-failed and have the detail :reason.
package routing
