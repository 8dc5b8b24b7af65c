// Package plugin keeps plugin processes alive and reachable: it is the adapter
// behind the executor that dispatch asks.
//
// # Main types
//
// A [Supervisor] owns the plugins of a configuration ([Settings]). A plugin has
// one current edition, which is a program with a configuration and its
// processes ([Instances]): those that take calls and those that stand by. Per
// process slot one instance runs a state machine over the [State] values; every
// change is a [Transition] with a cause and goes to the [Sink]. A [Client] routes
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
// # What changes without a call noticing
//
// A [Change] is made in two phases: [Supervisor.Prepare] starts what is new
// beside what runs, [Prepared.Commit] lets it take over by one pointer per
// plugin, [Prepared.Rollback] takes it back. [Supervisor.Swap] does so for one
// plugin whose program is another. Calls in flight end where they are, calls
// that wait move to the new edition. With [SwapShadow] or [SwapCanary] the new
// edition is tried first, judged by the gates of the calls, which the client is
// told of as dispatch.Trials. A plugin that was removed serves the clients that
// still name it until they are closed.
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
