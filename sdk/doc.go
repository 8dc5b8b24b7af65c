// Package sdk turns a Go function into a Ferment plugin.
//
// A plugin is a program whose main calls [Serve] with a [Plugin]: a name, a
// version and the capabilities that it provides. [Func] makes a capability of
// a function from one Go type to another; its schemas are derived from the
// types. [StreamFunc] also sends pieces of the answer while it works,
// [PlanFunc] answers with a plan instead of a value, and [Raw] works on the
// envelopes themselves. See the examples for whole plugins.
//
// # What a function gets
//
// The context of a call ends when the caller goes away or the deadline passes;
// a function that works long must watch it. It also carries what belongs to
// the call: [CallFrom] (where the call stands, what it may spend), [Logger],
// [HostFrom] (ask the host for another intent or for a capability that the call
// was given a [Handle] of, keep small state), [ConfigFrom]
// (the decoded configuration) and [Root] (a directory of the plugin's own).
// The same accessors work in the hooks of [Plugin] and [Config], as far as
// they make sense there.
//
// # What a function answers
//
// A value, or an error. An error that is or wraps a *[contract.Error] reaches
// the host as it is; make one with [contract.Errorf] where the type matters,
// because the type decides whether the host tries again, goes to another
// capability, or stops. Any other error becomes :runtime/invoke-failed. A
// panic becomes :runtime/invoke-failed too, with the stack as a detail, and
// the plugin lives on.
//
// # Concurrency
//
// Calls run in goroutines of their own, so functions must be safe for
// concurrent use; limit how many run at once with [MaxInFlight] or
// Plugin.MaxInFlight. Configuration happens once, before the first call.
//
// # The process
//
// Serve owns the process: it speaks the handshake, writes structured logs to
// standard error, raises the garbage collector's target within a memory limit
// (GOGC and GOMEMLIMIT in the environment win), ignores interrupts (the host
// decides), and ends the process when the host closes standard input. Printing
// to standard output is harmless but ends up in the log as a stray line, and
// "ferment conform" counts it as a failure.
//
// # What the process may do
//
// By itself a plugin may do everything; under a host the kernel refuses what was
// not declared: running programs, reading files, using the network. Plugin.Needs
// declares what the process does to compute its answers, [Effects] what a call
// reads or changes in the user's world, and the operator grants both. "ferment
// conform" starts the plugin without these limits; "ferment act" is the test of
// them.
//
// # The contract
//
// What a plugin has to do is a table of requirements in package conformance,
// and each has checks. The command
//
//	ferment conform -- ./my-plugin
//
// takes them on any program; sdktest.Conform takes them in a test.
package sdk
