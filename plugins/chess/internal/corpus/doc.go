// Package corpus holds the positions that measure the chess capabilities: mates
// in one to three with their length, and positions from random play. Both come
// from a seeded generator and are reproducible.
package corpus
