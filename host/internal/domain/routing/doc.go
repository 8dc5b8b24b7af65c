// Package routing holds the rules by which a router, a capability that serves
// route/decide, may influence an act before its plan runs.
//
// Main types: Settings holds the router configuration; Choose applies a profile and the
// request to it and returns whether a router is called. Decision is an answer that chooses
// a capability. Bounds holds the permissions of an act; it rejects a decision or a plan
// that would permit more (RTE-006).
//
// All functions are pure and safe for concurrent use. An invalid decision or plan is an
// error of type route/decide-failed with the detail :reason, an invalid :routing of a
// request one of type invalid-request.
package routing
