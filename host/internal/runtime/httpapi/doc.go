// Package httpapi is the surface of the daemon: what it answers over HTTP, on
// loopback listeners and on the admin socket.
//
// # One table
//
// routes is the one list of what is there. It yields the way of a request to
// its handler, GET /routes, the OpenAPI document, the operations that access
// rules name, and the documentation. actions is the same for POST /v1/admin:
// name, schema and effect of each. What is not in a table does not exist.
//
// # Main types
//
// A Backend is what the surface works on; package daemon implements it. New
// makes an API of one, which is the http.Handler of every listener. A Server
// binds the listeners, counts their connections, and ends them.
//
// # The way of a request
//
// A request is bounded (headers, connections), held against the names of the
// listener and the origin of its page, matched with a route, identified, held
// against the rate of its caller, read within its size and time, decoded, and
// served. Each of these steps may refuse it; all refusals are errors of the one
// catalogue, which also decides the status, in the form (JSON or EDN) that the
// caller accepts.
//
// An act whose caller accepts text/event-stream is answered with the events of
// its run, each a record that was written; the last has the whole response. A
// caller that goes away ends the run, one that reads slowly holds plugins back
// and is cut off in the end.
//
// # Concurrency and failure
//
// Everything here is used by many goroutines at once. A handler that panics
// answers runtime/internal with an id; the stack goes to the log under that id
// and nowhere else.
package httpapi
