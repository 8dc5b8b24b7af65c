// Command tools is the plugin of the effect tools: it reads, lists and writes
// files, runs programs and makes HTTP requests.
//
// Each tool is one capability under the id that plans name. A call carries the
// scope that the host worked out for it, and is carried out by a process of its
// own that the kernel holds to exactly that scope; a call without a scope is
// refused. The plugin itself touches nothing.
package main
