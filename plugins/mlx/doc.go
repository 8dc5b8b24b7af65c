// Command mlx is the plugin of a model server of one's own: it starts the server
// (mlx_lm.server unless the configuration names another one), asks it as plugin
// llm asks a provider, and looks after its process.
//
// Each serve block of the configuration is one capability. One server serves all
// calls, or each session has one of its own. A server that dies is started
// again, and the call that it took with it is repeated if nobody has seen a
// piece of its answer; one that keeps dying is left alone for a while. Where the
// server cannot run at all nothing is started, and calls are refused at once, so
// that the next candidate answers. README.md says how it is configured, which
// states and errors there are, and what operators can do.
package main
