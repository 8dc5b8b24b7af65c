// Package learned keeps what learned dispatch has learned: the groups of package
// bandit over a store that outlives the host.
//
// A [Book] returns the group of an intent and bucket and adds outcomes to it. Each
// outcome is a transaction of the store that reads the stored counts, adds to them and
// writes them: hosts that share a store lose nothing of each other. Between its own
// outcomes a host decides by the counts that it has seen last.
//
// A group that is missing or cannot be read starts again from the priors, which is
// reported as the event dispatch/priors-reset. A host that is killed can lose the
// outcomes that were not yet durable, never counts.
//
// A Book is safe for concurrent use; the groups it returns are not changed afterwards.
package learned
