// Package registry holds everything that a plan can name: the capabilities that
// plugins serve, the intents that callers may request, the checks that judge
// answers, and their schemas.
//
// New builds a Registry once per generation of the configuration. It never changes
// afterwards, so it is safe for concurrent use without locks, and a run may keep the one it
// started with. It does not track processes: the supervisor decides whether a capability is
// ready.
//
// New fails only for contradictions that no later reader could resolve, such as two
// capabilities with one id. Dangling references are reported by the configuration loader,
// which has their positions in the files.
package registry
