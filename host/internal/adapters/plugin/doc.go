// Package plugin keeps plugin processes alive and reachable: it is the adapter
// behind the executor that dispatch asks.
//
// # Main types
//
// A [Supervisor] owns the plugins of a configuration ([Settings]). Per process
// slot one instance runs a state machine over the [State] values; every change
// is a [Transition] with a cause and goes to the [Sink]. A [Client] routes
// capabilities to plugins and makes the calls. A [Describer] asks programs what
// they are and remembers the answers. [HostCalls] is what the host must
// implement to answer plugins that call back.
//
// # What restarts a plugin, and what does not
//
// Three signals are kept apart. Alive: the process exists. Responsive: it
// answers a probe within a deadline. Ready: it says that it may be called. An
// exit and missed probes lead to a restart, with growing waits, and to
// quarantine when they come too often or cannot get better by waiting. A plugin
// that is not ready is only left out until it is. A call that fails says
// nothing about the process.
//
// # Concurrency
//
// All exported methods may be called from many goroutines. One goroutine owns
// one instance and decides; starts, probes, stops and streams run beside it and
// report to it. Every process has its own objects, made for its start and
// thrown away with it, so nothing of a dead process can be mistaken for the
// living one.
//
// # Failure
//
// Errors of calls are *[contract.Error]. All calls that the end of a process
// cuts get one error, which counts them; the transition beside it carries the
// last lines of the process. No call into go-plugin is waited for without a
// limit: its own start, ping and kill can block for ever or panic.
package plugin
