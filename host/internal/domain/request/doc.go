// Package request defines the request of a caller: [Translate] converts older and abbreviated
// spellings to the form of the contract, [Parse] validates a request and returns a [Request], and
// [Budget] is the set of limits of a request, a policy or a slice (the part of a budget that a
// nested plan gets).
//
// Values are safe for concurrent use while they are not modified. A function
// that rejects its input returns a *contract.Error with the reason, the path and
// the expected value.
package request
