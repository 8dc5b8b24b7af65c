// Package httpapi is the HTTP interface of the daemon, on loopback listeners
// and on the admin socket.
//
// # One table
//
// routes lists every route. It determines the dispatch of requests, GET
// /routes, the OpenAPI document, the operations that access rules name, and
// the documentation. actions does the same for POST /v1/admin: name, schema
// and effect of each action, and sessions for POST /v1/session.
//
// # Main types
//
// A Backend is the daemon as this package uses it; package daemon implements
// it. New creates the API of a Backend, which is the http.Handler of every
// listener. A Server binds the listeners, counts their connections, and closes
// them.
//
// # Steps of a request
//
// A request passes these steps: limits on headers and connections, host name
// and origin, route, identity, rate limit, ids in the path and query, body within
// its size and time limits, decoding, handler. Each step may reject it. Every rejection is an
// error of the catalogue, which determines the status, in the format (JSON or
// EDN) that the caller accepts.
//
// With Accept: text/event-stream an act is answered with the events of its
// run, one per record; the last event holds the whole response. A caller that
// closes its connection cancels the run. A slow reader exerts back pressure on
// the plugins and is disconnected at a limit.
//
// GET /v1/runs/{id}/events has the same events, also those of a run that is
// finished or was begun by an earlier daemon. Its readers do not affect the run. The
// id of an event is a cursor, from which another request continues.
//
// # Concurrency and errors
//
// All types are safe for concurrent use. A handler that panics answers
// runtime/internal with an id; the log has the stack under that id.
package httpapi
