// Package policy merges the layers that say how a call is to be served and
// decides who may serve it.
//
// A Layer holds what one place wrote (the default dispatch block, an intent, a
// request, a plan node), every value with its Origin. Merge combines a weaker
// and a stronger layer; it is pure and associative, and the zero Layer is its
// identity, so layers can be folded in any grouping and partial results kept.
// Resolve turns the folded layer into a Policy: the same values with defaults
// filled in, and Explain lists where each came from.
//
// Binding turns a Policy into the ordered list of capabilities to try, with a
// reason for every one that is left out. Availability of capabilities comes in
// as a function, so binding again before each attempt sees the present.
//
// Effects hold what a configuration says about effects: Rules say which roles
// may have one, Scopes bound it. Meet narrows one scope by another, and a Grant
// decides for the roles of a caller whether a call may be made and under which
// scopes.
//
// All values are immutable after construction and safe for concurrent use.
// Contradictions between layers are returned as data (Policy.Conflicts), never
// resolved silently.
package policy
