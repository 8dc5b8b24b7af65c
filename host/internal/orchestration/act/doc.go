// Package act takes a request from its value to its response: it checks the
// request, makes a plan of it, has the plan evaluated, and tells the outcome.
//
// Main types: Service runs the acts of one configuration. Start accepts an Act
// and gives a Run, which can be followed, canceled and waited for; Do is Start
// and Wait in one. Every act is a plan: one that names only an intent becomes a
// plan of one node, so gates, retries and fallbacks apply to every answer.
//
// Watch reads a run while it goes on, text of its answer included. Within answers
// what a plugin asks while it works on a call: it is no run of its own but stands
// in that of the call, and ends with it.
//
// An act goes through four stages in fixed order: prepare, route, execute,
// finalize. The steps of each are named and compiled once per configuration.
// Finalize always runs once a run was accepted, whatever happened before.
//
// Concurrency: a Service may run any number of acts at once. Each Run has one
// goroutine of its own, which has ended when Wait returns.
//
// Failure: a request that is refused before it was accepted makes no run; its
// error is returned. Everything later is in the response, also a panic, which
// becomes runtime/internal.
package act
