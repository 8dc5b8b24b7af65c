// Package pricing computes the usage of an answer: tokens with a mark for their
// reliability, and their price in exact decimals.
//
// Usage stated by a provider is used unless it contradicts itself or the local
// count. Unknown figures are never 0. Tokens that are not stated are counted:
// by the server, by the table of the model, or by the length of the text (Way).
// The package is pure, except for Ratio, which learns the ratio of this
// provider's tokens to the estimate and is safe for concurrent use.
package pricing
