// Command workspace is the plugin of the context engine: a Merkle tree of a directory, texts about
// its files and directories, and the rules that derive some of these texts from others.
//
// The engine is package core. This package is the server around it: one capability per intent
// (table.go), their schemas (schemas.edn), the settings (settings.go), the open workspaces
// (hub.go), and the way of a request (request.go): validate the input, find the agent and check
// what it may do, open the workspace, run the intent, add :seq and :root to the output.
//
// A process serves many workspaces. Each is opened when a request first names it and closed when no
// request used it for a while, or at the end of the process; both seal the store. A workspace
// answers at most 64 requests at a time.
//
// Models and custom functions are reached through the host only (callback.go): the host chooses the
// capability that serves the intent, within the budget, deadline and effects of the request.
//
// All errors are of type *contract.Error and reach the caller unchanged.
package main
