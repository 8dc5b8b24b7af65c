// Package budget keeps what calls may spend within what they were given.
//
// Amounts are exact sums per Dimension. A Scope is something that has a budget:
// a tenant, a user, a session, a run, a plan, a node; a call spends from all
// that enclose it, and the tightest decides. A Ledger reserves before an
// attempt, all scopes or none, and settles after it with what was really
// spent, which may be more. Memory is the Ledger of a host without a store.
//
// A limit is never checked and spent in two steps: of any number of callers
// that arrive together at a budget for one, one gets it. A reservation that
// cannot be written fails closed.
//
// Ledgers are safe for concurrent use; everything else is a value.
package budget
