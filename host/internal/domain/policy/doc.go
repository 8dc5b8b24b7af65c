// Package policy merges the layers of settings for a call and selects the
// capabilities that may serve it.
//
// A Layer holds the values written in one place (the default dispatch block, an
// intent, a request, a plan node), each with its Origin. Merge combines a
// weaker and a stronger layer; it is pure and associative, and the zero Layer
// is its identity, so layers can be folded in any grouping and partial results
// kept. Resolve turns the folded layer into a Policy: the same values with
// defaults filled in. Explain lists the origin of each value.
//
// Binding turns a Policy into the ordered list of capabilities to try, with a
// reason for every rejected one. The availability of capabilities is passed in
// as a function, so that binding again before each attempt uses the current
// state.
//
// Effects holds the effect configuration: Rules decide which roles may have an
// effect, Scopes bound it. Meet narrows one scope by another. A Grant decides
// for the roles of a caller whether a call may be made and under which scopes.
//
// All values are immutable after construction and safe for concurrent use.
// Contradictions between layers are returned as data (Policy.Conflicts), never
// resolved silently.
package policy
