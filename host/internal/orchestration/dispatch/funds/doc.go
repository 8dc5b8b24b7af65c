// Package funds reserves and settles the cost of the calls of one node.
//
// Main types: Payer reserves the worst-case cost of a call in every scope of the
// budget before the call is made, as a Reservation, and replaces it by the actual
// cost afterwards. The node implements Request and Records for it. If the estimate
// of the input size decides whether a call is possible, the candidate counts its
// input before the reservation is made.
//
// Concurrency: a Payer is used by one goroutine at a time, and each check and
// vote has its own.
//
// Errors: a call that the budget does not cover fails with budget/exceeded, and
// one whose reservation or cost cannot be recorded with budget/unavailable.
package funds
