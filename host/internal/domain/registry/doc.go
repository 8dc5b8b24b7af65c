// Package registry is the answer to "what exists": the capabilities that
// plugins serve, the intents that callers may ask for, the checks that judge
// answers, and the schemas that all of them name.
//
// A Registry is built once for a generation of the configuration by New and
// never changes afterwards, so it is safe for concurrent use without locks and
// a run may hold on to the one it started with. It knows nothing of processes:
// whether a capability is ready is a question for the supervisor.
//
// New fails only for contradictions that no later reader could resolve (two
// capabilities with one id, a second content under one schema name); references
// that lead nowhere are the business of the configuration loader, which can
// point at them.
package registry
