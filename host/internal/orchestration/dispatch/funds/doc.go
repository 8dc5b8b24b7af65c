// Package funds pays for the calls of one node.
//
// Main types: Payer sets aside the worst-case cost of a call in every scope of
// the budget before it is made, as a Reservation, and replaces it by what the
// call has cost. Request and Records are what it needs from the node. If the
// estimate of the input size decides whether a call is possible, the candidate
// counts its input before the reservation is made.
//
// Concurrency: a Payer is used by one goroutine at a time, and each check and
// vote has its own.
//
// Errors: a call that the budget does not cover fails with budget/exceeded, and
// one whose cost cannot be written down with budget/unavailable.
package funds
