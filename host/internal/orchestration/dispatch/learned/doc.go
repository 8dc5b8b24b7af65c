// Package learned keeps the outcome counts of learned dispatch: the groups of package
// bandit over a store that outlives the host.
//
// A [Book] returns the group of an intent and bucket and adds outcomes to it. Each
// outcome is a transaction of the store that reads the stored counts, adds to them and
// writes them, so hosts that share a store do not overwrite the outcomes of each other.
// A host decides by the counts of its last own transaction or, before that, of its first
// read.
//
// A group that is missing or cannot be read starts again from the priors, which is
// reported as the event dispatch/priors-reset. A host that is killed can lose outcomes
// that were not yet durable, but no stored counts.
//
// A Book is safe for concurrent use; the groups it returns are not changed afterwards.
package learned
