// Package pricing says what an answer took: tokens with a mark that tells how
// well they are known, and their price in exact decimals.
//
// Usage of a provider is believed unless it contradicts itself or what was
// counted here. What is unknown is never 0. Where nobody states anything tokens are
// counted: by the server, by the table of the model, or by the length of the
// text (Way). The package is pure, except for
// Ratio, which learns how this provider's tokens compare with the estimate and
// is safe for concurrent use.
package pricing
