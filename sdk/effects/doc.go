// Package effects defines the effect tools that every host knows and the scopes that
// limit their calls.
//
// [Scope] limits one effect of a call; [ParseScope] reads it from plans and from the
// wire, [Fields] lists its fields. [Tool] is an effect tool; [Tool.Permit] decides from
// input and scope alone whether a call is allowed. The host asks before it sends a call,
// the plugin that executes it asks again and goes on with what [Tool.Place],
// [Tool.Program], [Tool.Target] or [Tool.Work] returns.
//
// A plugin that uses effects through the host needs nothing of this package.
//
// # Concurrency and failure
//
// The package does no input or output, starts no goroutines and reads no clock. Values
// are safe for concurrent use while they are not modified. Foreign input never causes a
// panic: [ParseScope] returns every problem, the others return a [contract.Error] of type
// effects/invalid-input or effects/scope-denied with a :reason.
package effects
