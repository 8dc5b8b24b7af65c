// Package session keeps sessions and their variables.
//
// A [Session] belongs to one principal. It is hot while it is open and warm while
// it is frozen. Its variables are EDN values under qualified names, which can
// expire; its turns are what was said in it. [Rules] limit variables: their names,
// number, size and lifetime, and the namespaces that an operation or an intent may
// read, write and delete.
//
// [Service] executes the operations of callers on a [Store]. Each operation that
// writes is one call of [Store.Update]: the decision is a pure function of what is
// stored, so that the updates of one session are serial whatever the store is.
// [Memory] is the store without durability.
//
// Concurrency: a Service and a Store are safe for concurrent use.
//
// Errors: those of callers have types of session and session.vars. A session of
// another principal is reported as session/not-found. A failure of the store is
// session/store-unavailable.
package session
