// Package legacy computes the ids of the earlier design of the context engine,
// to verify ids that were written down then. Nothing that is stored uses them.
//
// The earlier ids are BLAKE3 over texts without lengths and contain absolute
// paths, so two inputs can have the same id, and a folder that moves gets
// others. All functions are pure.
package legacy
