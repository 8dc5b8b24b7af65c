// Package watch keeps the tree of a workspace up to date while its directory changes, and reports
// the changes.
//
// A [Watcher] belongs to one workspace. It runs while it has subscriptions, and all of them share
// its scans and the watches of the system. A [Subscription] is one consumer: [Subscription.Next]
// returns its events one by one.
//
// # Events are hints
//
// The disk is the source of truth. An event of the system only marks its directory dirty. When no
// event has come for Debounce, and Batch later, the dirty directories are scanned and committed as
// one transaction. Duplicate, reordered or missing events change when something is found, not what.
// A directory is watched before it is listed, so nothing falls between the two. Every Reconcile the
// whole tree is compared with the disk. Ignored directories are not watched.
//
// If the system or the queue of the watcher loses events, consumers get Overflow, all is scanned,
// and Rescan has the changes. Directories that the system cannot watch, because a limit is reached,
// are scanned every Poll.
//
// # Changes come from the log
//
// A subscription reads what was committed after the transaction that it reported last, by any
// writer. So a subscription that continues after an earlier transaction misses nothing and repeats
// nothing, and a slow consumer costs no memory: one that is more than 10,000 changes behind gets
// them summarized in one event.
//
// # Concurrency and failure
//
// A Watcher is safe for concurrent use. A Subscription is used by one goroutine; its hooks run in
// Next. A scan that fails is reported as Error and tried again. If the root is removed, replaced or
// unmounted, the last event is RootLost, and Next then returns watch/root-lost. Other errors are
// those of packages scan and store, that of ctx, and canceled after Close. The workspace must stay
// open until Close has returned.
package watch
