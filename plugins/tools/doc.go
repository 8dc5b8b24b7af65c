// Command tools is the plugin of the effect tools: it reads, lists and writes
// files, runs programs and makes HTTP requests.
//
// Each tool is one capability under the id used in plans. A call carries the
// scope that the host computed for it and runs in its own process, which the
// kernel confines to exactly that scope; a call without a scope is rejected.
// The plugin process itself accesses neither files, programs nor the network
// for a call.
package main
