// Package session keeps sessions and their variables.
//
// A [Session] belongs to one principal. It is hot while it is open and warm while it is
// frozen. Its variables are EDN values under qualified names, which can expire; its
// turns are the messages of its conversation. [Rules] limit variables: their names,
// number, size and lifetime, and the namespaces that an operation or an intent may read,
// write and delete.
//
// [Service] executes the operations of callers on a [Store]. Each operation that writes
// is one call of [Store.Update] with a function of the stored state, so that the updates
// of a session are serial in every store. [Memory] is a store without durability.
//
// Concurrency: a Service and a Store are safe for concurrent use.
//
// Errors: errors that the caller causes have types in the namespaces session and
// session.vars. A session of another principal is reported as session/not-found. A
// failure of the store is session/store-unavailable.
package session
