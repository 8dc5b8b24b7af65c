// Package corpus holds the positions that the chess capabilities are measured
// on: mates in one to three with their length, and positions from random play.
// Both come from a seeded generator, so they can be made again.
package corpus
