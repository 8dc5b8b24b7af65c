// Command mlx is the plugin for a local model server: it starts the server
// (mlx_lm.server unless the configuration names another one), calls it like
// plugin llm calls a provider, and supervises its process.
//
// Each serve block of the configuration is one capability. One server serves
// all calls, or each session has its own. A server that crashes is restarted, and
// the interrupted call is repeated if no piece of its answer was emitted; after
// repeated crashes the plugin pauses. Where the server cannot run at all, no
// process is started and calls are rejected at once, so that the next candidate
// answers. README.md describes the configuration, the states and errors, and
// the commands for operators.
package main
