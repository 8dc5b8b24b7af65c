// Package effects defines the built-in effect tools and the scopes that limit their
// calls.
//
// [Scope] limits one effect of a call; [ParseScope] reads it from plans and from the
// wire, [Fields] lists its fields. [Tool] is an effect tool; [Tool.Permit] decides from
// input and scope alone whether a call is allowed. The host uses it before it sends a
// call. The plugin that executes the call checks it again and works with the result of
// [Tool.Place], [Tool.Program], [Tool.Target] or [Tool.Work].
//
// A plugin that uses effects through the host does not need this package.
//
// # Concurrency and failure
//
// The package does no input or output, starts no goroutines and reads no clock. Values
// are safe for concurrent use while they are not modified. Foreign input never causes a
// panic: [ParseScope] returns every problem, the others return a [contract.Error] of type
// effects/invalid-input or effects/scope-denied with a :reason.
package effects
