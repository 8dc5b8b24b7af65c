// Package budget keeps what calls may spend within what they were given.
//
// A Scope is something that has a budget: a tenant, a user, a session, a run, a
// plan, a node. A call spends from the Chain of all that enclose it, and the
// tightest decides. A Ledger reserves before an attempt, all scopes or none, and
// settles after it with what was really spent, which may be more. Memory is the
// Ledger of a host without a store. An Account is what one run does with a
// ledger: it knows what is reserved at the moment, so that the end of the run
// settles what a lost goroutine did not.
//
// A limit is never checked and spent in two steps: of any number of callers
// that arrive together at a budget for one, one gets it. A reservation that
// cannot be written fails closed.
//
// Ledgers are safe for concurrent use; everything else is a value.
package budget
