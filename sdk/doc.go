// Package sdk turns a Go function into a Ferment plugin.
//
// A plugin is a program that a Ferment host starts as a child process and calls
// over gRPC. Its main function calls [Serve] with a [Plugin]: a name, a version
// and at least one capability. This is a complete plugin:
//
//	package main
//
//	import (
//		"context"
//
//		"github.com/fermenthq/ferment/sdk"
//	)
//
//	type question struct {
//		Name string `edn:"name"`
//	}
//
//	func greet(_ context.Context, q question) (string, error) {
//		return "Hello, " + q.Name, nil
//	}
//
//	func main() {
//		greeter := sdk.Func("demo/greeter", sdk.Intents("text/respond"), greet)
//		sdk.Serve(sdk.Plugin{Name: "greeter", Version: "1.0.0", Capabilities: []sdk.Capability{greeter}})
//	}
//
// [Func] makes a capability from a function and derives the input and output
// schemas from its types. [StreamFunc] also sends parts of the answer while the
// function runs, [PlanFunc] returns a plan instead of a value, and [Raw] reads
// and writes whole envelopes. The examples show complete plugins.
//
// # The life of a plugin
//
//  1. Start. The host starts the program. Serve validates the Plugin, listens
//     on a private unix socket and prints the handshake line to standard
//     output.
//  2. Describe. The host requests name, version, configuration schema and
//     capabilities, any number of times, with or without a configuration. With
//     a configuration, Config.Offer runs; secrets are empty. Some processes
//     are only described and then stopped.
//  3. Configure. The configuration, now with its secrets, is validated and
//     decoded. Then Config.Offer, Config.Check and Config.Start run, in this
//     order. A problem is reported to the host and the plugin stays
//     unconfigured. A successful Configure happens once per process.
//  4. Health. Plugin.Health starts and reports each change of state until the
//     plugin ends. Without this hook the plugin is ready at once.
//  5. Calls. Each call runs in its own goroutine, concurrently with others. Its
//     context is canceled when the caller cancels or the deadline passes.
//     Plugin.EndRun runs when the host reports the end of a run.
//  6. Drain. New calls are rejected with :runtime/not-ready. Calls in flight
//     can finish until the deadline that the host sets; then their contexts are
//     canceled.
//  7. End. When the host closes standard input, calls Shutdown or sends
//     SIGTERM, the remaining contexts are canceled, Plugin.Close runs and the
//     process exits. This step has one second in total.
//
// # Context
//
// The context of a call carries its data: [CallFrom] (run, node, budget,
// deadline, effects), [Logger], [HostFrom] (call other capabilities through the
// host, store small state), [ConfigFrom] (the decoded configuration) and [Root]
// (a private directory). The same accessors work in the hooks of [Plugin] and
// [Config]; what is not available there is the zero value. A function that runs
// for long must watch ctx.Done.
//
// # Errors
//
// A function returns a value or an error. An error that is or wraps a
// *[contract.Error] reaches the host unchanged; create one with
// [contract.Errorf] where the type matters, because the type decides whether
// the host retries, switches to another capability or stops. Any other error
// becomes :runtime/invoke-failed. A panic also becomes :runtime/invoke-failed,
// with the stack as a detail, and the process continues.
//
// # Concurrency
//
// Functions must be safe for concurrent use. [MaxInFlight] limits the
// concurrent calls of one capability, Plugin.MaxInFlight those of the plugin;
// calls above a limit are rejected with :runtime/overloaded.
//
// # The process
//
// Serve owns the process. It writes structured logs to standard error, raises
// the target of the garbage collector within a memory limit (GOGC and
// GOMEMLIMIT take precedence) and ignores SIGINT, because the host decides when
// the plugin stops. Text printed to standard output is logged as a stray line,
// and "ferment conform" counts it as a failure.
//
// # Conversations
//
// Package conversation is a library for agents: messages, what an agent reads and
// returns, tools, transactions, and sessions over a store. It needs nothing of a
// plugin or a host; package contract maps its messages to the form that models
// read and answer. [Model] is a language model behind the host, and [AgentFunc]
// makes a capability from an agent.
//
// # Permissions
//
// A plugin that runs without a host has the permissions of its user. Under a
// host the kernel denies what was not declared and granted: running programs,
// reading files, using the network. Plugin.Needs declares what the process does
// to compute answers, [Effects] what a call reads or changes in the user's
// world, and the operator grants both. "ferment conform" starts the plugin
// without these restrictions; "ferment act" runs it with them.
//
// # Conformance
//
// Package conformance lists the requirements on a plugin and checks them. The
// command
//
//	ferment conform -- ./my-plugin
//
// checks any program; sdktest.Conform does the same in a test.
package sdk
