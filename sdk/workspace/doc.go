// Package workspace reads and writes the context of files and directories from
// Go: from a plugin, or from anything else that can invoke intents.
//
// An [Adapter] calls the intents context/get-node, context/put-frame,
// context/synthesize and context/generate. Whichever capability the host routes
// them to answers; the package knows no store and no model. Inside a plugin the
// zero Invoker is the host of the call:
//
//	func review(ctx context.Context, in question) (string, error) {
//		w := workspace.Adapter{Workspace: in.Dir, Agent: "writer"}
//		known, err := w.ReadContext(ctx, "src/a.go", workspace.View{MaxFrames: 5})
//		...
//	}
//
// The capability that does so must declare the effects db/read and, to write,
// db/write, because a call cannot have effects that its caller does not have.
//
// An Adapter is a value without state; it is safe for concurrent use. Errors are
// those of sdk.Host.Invoke, with those of the intents unchanged; input/invalid for
// metadata that cannot be encoded; and runtime/protocol for an answer without the
// expected form.
package workspace
