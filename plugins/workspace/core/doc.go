// Package core is the engine of a workspace: it scans a directory and commits
// what changed to its store.
//
// [Open] opens the store of a directory, or creates one. [Workspace.Scan] is one
// transaction: a scan that fails, is canceled or killed leaves the tree as it
// was, and a scan that finds no change commits nothing. Everything else is read
// and written through [Workspace.Store].
//
// A Workspace is safe for concurrent use; its scans run one after the other. It
// shares nothing with other workspaces. Errors are of type *contract.Error: those
// of the packages scan and store.
package core
