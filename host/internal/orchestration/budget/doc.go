// Package budget enforces the limits on what calls spend.
//
// A Scope has a budget: a tenant, a user, a session, a run, a plan or a node. A call
// spends from the Chain of all scopes that enclose it, and the tightest decides. A
// Ledger reserves before an attempt, in all scopes or in none, and settles after it with
// the actual cost, which may be higher. Memory is the Ledger of a single host; with a
// Keeper the counters of tenants and users are durable. Shared is the Ledger for several
// hosts: its keeper decides on reservations of tenants and users. An Account tracks the
// open reservations of one run, so that the end of the run settles those of lost
// goroutines.
//
// Check and reservation are one step: of any number of concurrent callers with
// a budget for one call, one gets it. A reservation that cannot be written
// fails closed.
//
// Ledgers and accounts are safe for concurrent use; all other types are
// values.
package budget
