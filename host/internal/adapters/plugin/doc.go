// Package plugin supervises plugin processes. It implements the executor that
// dispatch calls.
//
// # Main types
//
// A [Supervisor] owns the plugins of a configuration ([Settings]). A plugin has
// one current edition: a program with a configuration and its processes
// ([Instances]), which are either working or standby. Each process slot is one
// instance. It runs a state machine over the [State] values; every change is a
// [Transition] with a cause and is passed to the [Sink]. A [Client] routes
// capabilities to plugins and makes the calls. A [Describer] asks programs for
// their description and caches the answers. [HostCalls] is what the host must
// implement to answer the calls of plugins.
//
// # Restarts
//
// Three signals are kept apart. Alive: the process exists. Responsive: it
// answers a probe within a deadline. Ready: it reports that it may be called.
// An exit or missed probes lead to a restart with exponential backoff. Too many
// of them within a window, or a failure that a retry cannot fix, lead to
// quarantine. A plugin that is not ready is only excluded from dispatch until
// it is ready. A failed call does not restart the process.
//
// # Changes without failed calls
//
// A [Change] has two phases: [Supervisor.Prepare] starts the new processes
// beside the running ones, [Prepared.Commit] switches one pointer per plugin,
// [Prepared.Rollback] stops the new processes. [Supervisor.Swap] does so for
// one plugin whose program changed. Calls in flight end in their process,
// waiting calls move to the new edition. With [SwapShadow] or [SwapCanary] the
// new edition first passes a trial, judged by the gates of the calls; the
// client receives the verdicts as dispatch.Trials. A removed plugin serves the
// clients that still name it until they are closed or its drain timeout is
// over.
//
// # Concurrency
//
// All exported methods are safe for concurrent use. One goroutine owns one
// instance and makes its decisions; starts, probes, stops and streams run in
// other goroutines and report to it. Every process has its own objects, made
// for its start and discarded with it, so that events of an old process cannot
// affect the new one.
//
// # Failure
//
// Errors of calls are *[contract.Error]. All calls that the exit of a process
// cuts get the same error, which includes their number; the transition carries
// the last lines of the process. Every wait for go-plugin has a limit, because
// its start, ping and kill can block forever or panic.
package plugin
